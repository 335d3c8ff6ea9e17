"""The fuzzer and its client against a stand-in for vLLM's process."""

from __future__ import annotations

import importlib
import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

client: Any = importlib.import_module("oracle.client")
environment: Any = importlib.import_module("oracle.environment")
fuzz: Any = importlib.import_module("oracle.fuzz")
sampling: Any = importlib.import_module("oracle.sampling")
Record = dict[str, Any]


class FakeHost:
    """Answers every record with its own id, and hangs up at the record called `deadly`."""

    def __init__(self, deadly: str | None = None) -> None:
        self.deadly = deadly

    def connect(self) -> socket.socket:
        mine, theirs = socket.socketpair()
        threading.Thread(target=self._serve, args=(theirs,), daemon=True).start()
        return mine

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("r", encoding="utf-8") as lines:
            assert "." in lines.readline()
            connection.sendall(b'{"ready": {}}\n')
            for line in lines:
                record = json.loads(line)
                if record["id"] == self.deadly:
                    return
                answer = {**record, "vllm_version": "0.33.0", "output": {"config": {}}}
                connection.sendall(f"{json.dumps(answer)}\n".encode())

    def last_words(self) -> str:
        return "killed"

    def __enter__(self) -> FakeHost:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to end."""


def test_answers_come_in_order() -> None:
    asked = sampling.sample("0.33.0", 1, 100)
    with client.Client(FakeHost(), "9.0") as found:
        answers = list(found.answers(asked))
    assert [r["id"] for r in answers] == [r["id"] for r in asked]
    assert all(set(r) == {"id", "vllm_version", "input", "output"} for r in answers)


def test_a_process_that_ends_is_told() -> None:
    with client.Client(FakeHost(deadly="x"), "9.0") as found, pytest.raises(client.VLLMError, match="killed"):
        found.ask({"id": "x", "input": {}})


def run(monkeypatch: pytest.MonkeyPatch, host: FakeHost, difference: Any, number: int = 60) -> Any:
    monkeypatch.setattr(fuzz, "Host", lambda environment: host)
    monkeypatch.setattr(fuzz.compare, "difference", difference)
    fuzzer = fuzz.Fuzzer(environment.locate("0.33.0", Path("/nowhere")))
    return fuzzer.run(sampling.sample("0.33.0", 1, number), 2)


def test_agreement_is_reported_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run(monkeypatch, FakeHost(), lambda record: None)
    assert outcome.inputs == 60
    assert not outcome.kinds
    assert not outcome.lost
    assert "60 inputs (0 refused by vLLM), 0 disagreements of 0 kinds" in outcome.report()


def test_disagreements_are_counted_by_kind_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    def difference(record: Record) -> str | None:
        seqs = record["input"]["args"].get("max_num_seqs", 0)
        return f"config.max_num_seqs: {seqs}, vLLM 20" if seqs > 20 else None

    outcome = run(monkeypatch, FakeHost(), difference, 200)
    assert list(outcome.kinds) == ["config.max_num_seqs: #, vLLM #"]
    assert outcome.kinds.total() > fuzz.SHRUNK_PER_KIND == len(outcome.shrunk)
    for found in outcome.shrunk:
        assert found.record["input"]["args"] == {"max_num_seqs": 21}
    assert "config.max_num_seqs: 21, vLLM 20" in outcome.report()


def test_a_lost_record_is_named_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    deadly = sampling.sample("0.33.0", 1, 60)[30]["id"]
    outcome = run(monkeypatch, FakeHost(deadly), lambda record: None)
    assert outcome.inputs == 59
    assert len(outcome.lost) == 1
    assert "killed" in outcome.report()


def test_an_environment_that_is_not_there_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(environment.SetupError, match=r"python tools/oracle setup 0\.33\.0"):
        environment.locate("0.33.0", tmp_path).check()


def test_the_root_can_be_given_or_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CGPLAN_ORACLE_ROOT", str(tmp_path / "a"))
    assert environment.locate("0.33.0", None).sources == tmp_path / "a" / "sources" / "vllm-0.33.0"
    assert environment.locate("0.33.0", tmp_path / "b").workdir == tmp_path / "b" / "work"
