"""A few lines that were quoted in part, or in the words of an older release: their values, and that they are a part."""

from __future__ import annotations

import io

import pytest

from cgplan.inputs.vllm_logs import read_log
from cgplan.inputs.vllm_logs.quoted import MOST_LINES, REMARK, REMARK_OF_PARTS
from cgplan.startup.record import Rank, Start, StartupLog

GIB = 1 << 30
HEAD = "(EngineCore pid=7) INFO 05-05 10:00:00 [gpu_worker.py:480] "


def read(text: str) -> StartupLog:
    return read_log(io.StringIO(text))


def only(text: str) -> tuple[Start, Rank]:
    (start,) = read(text).starts
    (rank,) = start.ranks
    return start, rank


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("Available KV cache memory: -0.25 GiB", "kv_bytes", round(-0.25 * GIB)),
        ("estimated CUDA graph memory 1.50 GiB", "graph_estimate_bytes", round(1.5 * GIB)),
        ("Graph capturing finished in 12 secs, took 0.75 GiB", "graph_actual_bytes", round(0.75 * GIB)),
        ("graph capturing finished in 12 s, took 0.75 GiB", "capture_seconds", 12.0),
        ("increase --gpu-memory-utilization to 0.9412", "raised_utilization", 0.9412),
        ("raise --gpu-memory-utilization from 0.9 to 0.9412", "utilization", 0.9),
        ("is equivalent to --gpu-memory-utilization=0.7890 without", "equivalent_utilization", 0.789),
        ("--gpu-memory-utilization=0.8000 is equivalent to", "utilization", 0.8),
        ("and 3.25 GiB for CUDAGraph memory", "graph_actual_bytes", round(3.25 * GIB)),
        ("1.25 GiB (actual), 0.50 GiB (estimated)", "graph_estimate_bytes", GIB // 2),
        ("`--kv-cache-memory=7000000000` (6.52 GiB) to fit into requested memory", "suggested_kv_bytes", 7000000000),
        ("Current kv cache memory in use is 11423138508 bytes.", "kv_bytes", 11423138508),
        ("PyTorch activation peak memory takes 2.50GiB; the rest", "activation_bytes", round(2.5 * GIB)),
    ],
)  # fmt: skip
def test_a_part_of_a_line_gives_its_value(text: str, name: str, value: float) -> None:
    start, rank = only(text)
    assert getattr(rank, name) == value
    assert start.is_part


def test_half_of_the_line_of_an_older_release() -> None:
    text = (
        "Free memory on device (40.10/44.42 GiB) on startup. Desired GPU memory utilization is (0.85, 37.76 GiB)."
        " Actual usage is 20.5 GiB for weight, 1.4 GiB for peak activation, 0.21 GiB for non-torch memory, and"
        " 3.45 GiB for"
    )
    _, rank = only(text)
    assert (rank.total_bytes, rank.requested_bytes) == (round(44.42 * GIB), round(37.76 * GIB))
    assert (rank.weights_bytes, rank.activation_bytes) == (round(20.5 * GIB), round(1.4 * GIB))
    assert rank.graph_actual_bytes is None
    assert rank.utilization == 0.85
    assert read(text).not_recognised == 0


def test_the_whole_line_of_an_older_release_with_its_head() -> None:
    text = (
        f"{HEAD}Free memory on device (40.10/44.42 GiB) on startup. Desired GPU memory utilization is (0.85, 37.76"
        " GiB). Actual usage is 20.5 GiB for weight, 1.4 GiB for peak activation, 0.21 GiB for non-torch memory, and"
        " 3.45 GiB for CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=12700000000` to"
        " fit into requested memory, or `--kv-cache-memory=15400000000` to fully utilize gpu memory. Current kv cache"
        " memory in use is 16700000000 bytes.\n"
    )
    _, rank = only(text)
    assert rank.graph_actual_bytes == round(3.45 * GIB)
    assert (rank.suggested_kv_bytes, rank.suggested_kv_bytes_full) == (12700000000, 15400000000)
    assert rank.kv_bytes == 16700000000


def test_weights_with_four_decimals() -> None:
    _, rank = only(f"{HEAD}Model loading took 14.9889 GiB and 5.234 seconds\n")
    assert rank.weights_bytes == round(14.9889 * GIB)


def test_a_terminal_wrapped_it() -> None:
    _, rank = only("Graph capturing finished in\n12 secs, took 0.75 GiB\n")
    assert rank.graph_actual_bytes == round(0.75 * GIB)


@pytest.mark.parametrize(
    "text",
    [
        "Available KV cache memory: 1,5 GiB",
        "Available KV cache memory: much",
        "increase --gpu-memory-utilization to 7.5",
        "3.25 GB for CUDAGraph memory",
    ],
)
def test_another_form_gives_no_value(text: str) -> None:
    assert not [rank for start in read(text).starts for rank in start.ranks]


def test_a_line_with_vllms_own_head_is_read_strictly() -> None:
    log = read(f"{HEAD}Available KV cache memory: 3.00 GiB of something new\n")
    assert not [rank for start in log.starts for rank in start.ranks]
    assert log.not_recognised == 1


def test_a_longer_text_is_no_quotation() -> None:
    fill = "nothing of interest\n" * MOST_LINES
    assert not read(f"{fill}increase --gpu-memory-utilization to 0.95\n").starts


def test_what_a_start_says_first_makes_it_no_part() -> None:
    banner = "INFO 05-05 10:00:00 [utils.py:299] vLLM server version 0.23.0, serving model org/Model\n"
    (start,) = read(f"{banner}{HEAD}Available KV cache memory: 3.00 GiB\n").starts
    assert not start.is_part
    (alone,) = read(f"{HEAD}Available KV cache memory: 3.00 GiB\n").starts
    assert alone.is_part


class TestWarnings:
    LOWERED = (
        "CUDAGraphMode.FULL_AND_PIECEWISE is not supported with spec-decode for attention backend FlashInferBackend"
        " (support: AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE); setting cudagraph_mode=PIECEWISE"
    )

    def test_of_a_lowered_mode_is_no_error(self) -> None:
        log = read(self.LOWERED)
        (start,) = log.starts
        assert start.crash is None
        assert start.cudagraph_mode == "PIECEWISE"
        assert [message.level for message in start.messages] == ["WARNING"]
        assert REMARK_OF_PARTS in log.remarks

    def test_the_error_of_the_same_words_is_one(self) -> None:
        log = read("CUDAGraphMode.FULL is not supported with SomeBackend backend (support: AttentionCGSupport.NEVER)")
        (start,) = log.starts
        assert start.crash is not None
        assert start.crash.kind == "mode"
        assert REMARK in log.remarks


def test_an_error_is_no_longer_told_as_not_recognised() -> None:
    text = "Free memory on device (20.1/22.36 GiB) on startup is less than desired GPU memory utilization"
    log = read(f"{text} (0.98, 21.91 GiB)")
    assert log.starts[0].crash is not None
    assert log.not_recognised == 0
    assert not log.examples


def test_flash_attention_names_its_version() -> None:
    text = "INFO 05-05 10:00:00 [flash_attn.py:596] Using FlashAttention version 2\n"
    (start,) = read(f"{text}{HEAD}Available KV cache memory: 3.00 GiB\n").starts
    assert start.flash_version == 2


class TestKernelWarmUp:
    SIZED = "(EngineCore pid=7) INFO 05-05 10:00:{:02} [gpu_worker.py:480] Available KV cache memory: 3.00 GiB\n"
    DONE = "(EngineCore pid=7) INFO 05-05 10:01:00 [x.py:1] Graph capturing finished in 10 secs, took 0.50 GiB\n"

    @pytest.mark.parametrize(("second", "expected"), [(0, [50.0]), (30, [20.0]), (49, []), (50, [])])
    def test_is_what_lies_between_the_cache_and_capture(self, second: int, expected: list[float]) -> None:
        (start,) = read(self.SIZED.format(second) + self.DONE).starts
        assert [phase.seconds for phase in start.phases if phase.name == "kernel warm-up"] == expected

    def test_of_another_process_it_is_not(self) -> None:
        other = self.SIZED.format(0).replace("pid=7", "pid=8")
        (start,) = read(other + self.DONE).starts
        assert not [phase for phase in start.phases if phase.name == "kernel warm-up"]
