"""The same start in every wrapping gives the same values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import pytest

from cgplan.startup.record import StartupLog

from . import written
from .written import GIB, line

LINES = written.v2_start()
STAMP = "2026-09-30T12:00:00.123456789Z"


def journal_export(text: str) -> str:
    """As journalctl -o json: text where it is printable, else bytes as numbers."""
    said = list(text.encode()) if "█" in text or "\x1b" in text else text
    return json.dumps({"__REALTIME_TIMESTAMP": "1", "_SYSTEMD_UNIT": "vllm.service", "_PID": "7", "MESSAGE": said})


def cri_in_parts(text: str) -> str:
    """A line that the container engine cut in three."""
    third = len(text) // 3 + 1
    parts = [text[:third], text[third : 2 * third], text[2 * third :]]
    tags = "PPF"
    return "\n".join(f"{STAMP} stderr {tag} {part}" for tag, part in zip(tags, parts, strict=True))


def docker_in_parts(text: str) -> str:
    half = len(text) // 2
    return "\n".join(
        json.dumps({"log": part, "stream": "stderr", "time": STAMP}, separators=(",", ":"))
        for part in (text[:half], text[half:] + "\n")
    )


def coloured(text: str) -> str:
    return text.replace("(", "\x1b[0;36m(", 1).replace(") ", ")\x1b[0;0m ", 1).replace("INFO", "\x1b[32mINFO\x1b[0m")


WRAPPED: dict[str, Callable[[str], str]] = {
    "plain": str,
    "colours": coloured,
    "docker -t": lambda text: f"{STAMP} {text}",
    "a time with an offset": lambda text: f"2026-09-30T12:00:00.123456+02:00 {text}",
    "CRI": lambda text: f"{STAMP} stderr F {text}",
    "CRI in parts": cri_in_parts,
    "docker json-file": lambda text: json.dumps({"log": text + "\n", "stream": "stderr", "time": STAMP}),
    "docker json-file in parts": docker_in_parts,
    "docker json-file, compact": lambda text: json.dumps(
        {"log": text + "\n", "stream": "stderr", "time": STAMP}, separators=(",", ":"), ensure_ascii=False
    ),
    "compose": lambda text: f"vllm-1  | {text}",
    "compose with colours and a time": lambda text: f"\x1b[36mvllm-1  | \x1b[0m{STAMP} {text}",
    "kubectl --prefix": lambda text: f"[pod/vllm-0/server] {text}",
    "stern": lambda text: f"vllm-0 server {text}" if text else text,
    "journald": lambda text: f"Sep 30 12:00:00 host vllm[123]: {text}",
    "journald with RFC 3339": lambda text: f"2026-09-30T12:00:00+0000 host vllm[123]: {text}",
    "journald JSON": journal_export,
    "journald export": lambda text: f"MESSAGE={text}",
    "a collector's JSON": lambda text: json.dumps({"ts": STAMP, "line": text, "kubernetes": {"pod_name": "vllm-0"}}),
    "CRI around JSON": lambda text: f"{STAMP} stdout F " + json.dumps({"message": text, "level": "info"}),
    "Windows line ends": lambda text: f"{text}\r",
}


def without_source(log: StartupLog) -> list[tuple[object, ...]]:
    return [
        (
            start.vllm_version, start.model, start.runner, start.kv_tokens, start.max_concurrency, start.max_model_len,
            start.graphs, start.capture_sizes, start.arguments, start.ready, start.phases,
            [(rank.name, rank.kv_bytes, rank.weights_bytes, rank.graph_actual_bytes) for rank in start.ranks],
        )
        for start in log.starts
    ]  # fmt: skip


@pytest.mark.parametrize("how", WRAPPED)
def test_a_wrapped_start_is_the_same_start(how: str, read: Callable[[Iterable[str]], StartupLog]) -> None:
    log = read([WRAPPED[how](text) for text in LINES])
    assert log.not_recognised == 0
    assert without_source(log) == without_source(read(LINES))


def test_containers_in_one_file_have_their_own_starts(read: Callable[[Iterable[str]], StartupLog]) -> None:
    other = [text.replace("413,696", "100,000") for text in written.v2_start("0.32.0")]
    both = [
        f"{name}  | {text}" for pair in zip(LINES, other, strict=True) for name, text in zip("ab", pair, strict=True)
    ]
    log = read(both)
    assert [(start.source, start.vllm_version, start.kv_tokens) for start in log.starts] == [
        ("a", "0.33.0", 413696),
        ("b", "0.32.0", 100000),
    ]


def test_structured_lines_name_level_and_process(read: Callable[[Iterable[str]], StartupLog]) -> None:
    said = {"asctime": "2026-09-30 12:00:00,123", "name": "vllm", "process": 7}
    log = read(
        [
            json.dumps({**said, "levelname": "INFO", "processName": "Worker_TP1", "message": text})
            for text in ("Available KV cache memory: 1.5 GiB", "Estimated CUDA graph memory: 0.84 GiB total")
        ]
        + [
            json.dumps({**said, "levelname": "WARNING", "processName": "Worker_TP1", "message": "Add 2 layers"}),
            json.dumps(
                {
                    **said,
                    "levelname": "ERROR",
                    "processName": "Worker_TP1",
                    "message": "WorkerProc failed to start.",
                    "exc_info": "Traceback (most recent call last):\n  File 'x', line 1, in f\nValueError: no room",
                }
            ),
        ]
    )
    (start,) = log.starts
    assert [(rank.name, rank.kv_bytes) for rank in start.ranks] == [("TP1", GIB * 3 // 2)]
    assert [(message.level, message.rank) for message in start.messages] == [
        ("WARNING", "TP1"),
        ("ERROR", "TP1"),
        ("ERROR", "TP1"),
    ]
    assert start.crash is not None
    assert start.crash.message == "ValueError: no room"


def test_a_part_whose_end_never_comes_gives_what_it_holds_but_no_number_at_its_edge(
    read: Callable[[Iterable[str]], StartupLog],
) -> None:
    log = read(
        [f"{STAMP} stderr F {line('Resolved architecture: A')}", f"{STAMP} stderr P {line('Using max model len 81')}"]
    )
    assert (log.starts[0].max_model_len, log.not_recognised) == (None, 1)
