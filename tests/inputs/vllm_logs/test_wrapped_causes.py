"""Causes that pydantic wraps, the step of a traceback, and values whose owner cannot be told."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cgplan.startup.known import step_of
from cgplan.startup.record import StartupLog

from . import written
from .written import GIB
from .written import line as printed

Read = Callable[[list[str]], StartupLog]

WRAPPED = "pydantic_core._pydantic_core.ValidationError: 1 validation error for {}"
TAIL = " [type={}, input_value=ArgsKwargs((), {{'api_key': 'sk-1'}}), input_type=ArgsKwargs]"
HELP = "    For further information visit https://errors.pydantic.dev/2.12/v/value_error"


def line(message: str, process: str = "", pid: int = 4) -> str:
    """As vLLM prints it, by no process where none is named."""
    return printed(message, process or "X", pid).removeprefix("" if process else f"(X pid={pid}) ")


def api(text: str) -> str:
    return f"(APIServer pid=1) {text}"


def logged(text: str) -> str:
    return f"(APIServer pid=1) ERROR 11-29 10:00:00 [core.py:1] {text}"


BEGIN = printed("vLLM server version 0.33.0, serving model org/M", "APIServer", 1)


class TestPydantic:
    @pytest.mark.parametrize(
        ("of", "said", "kind", "message"),
        [
            (
                "ModelConfig",
                "  Value error, User-specified max_model_len (200000) is greater than the derived max_model_len"
                " (max_position_embeddings=131072 or model_max_length=None in model's config.json). To allow"
                + TAIL.format("value_error"),
                "derived_len", "ValueError: User-specified",
            ),
            (
                "ParallelConfig",
                "  Value error, World size (8) is larger than the number of available GPUs (4) in this node. If this",
                "world_size", "ValueError: World size (8)",
            ),
            (
                "SchedulerConfig", "  Assertion failed, no steps" + TAIL.format("assertion_error"),
                "unknown", "AssertionError: no steps",
            ),
            (
                "CacheConfig", "  Input should be greater than 0" + TAIL.format("greater_than"),
                "unknown", "ValidationError: Input should be greater than 0",
            ),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("wrap", [api, logged])
    def test_what_a_validator_said_is_the_cause(
        self, read: Read, of: str, said: str, kind: str, message: str, wrap: Callable[[str], str]
    ) -> None:
        log = read([BEGIN, *map(wrap, (WRAPPED.format(of), said, HELP))])
        crash = log.starts[0].crash
        assert crash is not None
        assert crash.kind == kind
        assert crash.message.startswith(message)
        assert "sk-1" not in crash.message

    def test_alone_it_is_told_as_it_is(self, read: Read) -> None:
        log = read([BEGIN, api(WRAPPED.format("ModelConfig")), api(HELP)])
        crash = log.starts[0].crash
        assert crash is not None
        assert crash.message == WRAPPED.format("ModelConfig")

    def test_an_indented_line_below_another_exception_is_none(self, read: Read) -> None:
        log = read([BEGIN, api("ValueError: no"), api("  Value error, x")])
        crash = log.starts[0].crash
        assert crash is not None
        assert crash.chain == ("ValueError: no",)


OUT = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def frames(*names: str) -> list[str]:
    head = "(EngineCore pid=9) ERROR 11-29 10:00:00 [core.py:1]"
    traced = [f'{head}   File "/usr/lib/vllm/v1/worker/gpu_worker.py", line 7, in {name}' for name in names]
    return [
        f"{head} EngineCore failed to start.",
        f"{head} Traceback (most recent call last):",
        *traced,
        f"{head} {OUT}",
    ]


@pytest.mark.parametrize(
    ("names", "step"),
    [
        (("_initialize_kv_caches", "initialize_from_config", "initialize_kv_cache", "allocate_kv_cache"), "cache"),
        (("initialize_from_config", "initialize_kv_cache", "_allocate_kv_cache_tensors"), "cache"),
        (("determine_available_memory", "profile_run", "_dummy_sampler_run"), "profiling"),
        (("determine_available_memory", "profile_cudagraph_memory", "initialize_kv_cache"), "profiling"),
        (("initialize_from_config", "compile_or_warm_up_model", "capture_model"), "capture"),
        (("compile_or_warm_up_model", "_dummy_sampler_run"), "warm-up"),
        (("load_model", "__init__"), "loading"),
        (("run_engine_core", "helper"), "capture"),
    ],
)
def test_the_step_is_that_of_the_traceback(read: Read, names: tuple[str, ...], step: str) -> None:
    kv = line("GPU KV cache size: 158,160 tokens", "EngineCore", 9)
    (start,) = read([line("Available KV cache memory: 48.0 GiB", "Worker_TP0", 4), kv, *frames(*names)]).starts
    assert step_of(start) == step


class TestWhoseValue:
    def test_without_a_name_among_several_ranks_it_is_no_ones(self, read: Read) -> None:
        lines = [line(f"Available KV cache memory: {at}.0 GiB", f"Worker_TP{at}", 4 + at) for at in (1, 2)]
        log = read([*lines, line("Model loading took 17.11 GiB memory and 31.0 seconds")])
        assert [rank.name for rank in log.starts[0].ranks] == ["TP1", "TP2"]
        assert log.not_recognised == 1
        assert "17.11" in log.examples[0].text

    def test_without_a_name_beside_one_rank_it_stays(self, read: Read) -> None:
        log = read(
            [line("Available KV cache memory: 1.0 GiB"), line("Model loading took 17.11 GiB memory and 31.0 seconds")]
        )
        assert log.not_recognised == 0
        assert log.starts[0].ranks[0].kv_bytes == GIB

    @pytest.mark.parametrize(("size", "kept"), [(2, False), (1, True)])
    def test_names_that_were_cut_off_all_ranks(self, read: Read, size: int, kept: bool) -> None:
        given = line(f"non-default args: {{'model_tag': 'org/M', 'tensor_parallel_size': {size}}}", "APIServer", 1)
        log = read([given, *(line(f"Available KV cache memory: {at}.0 GiB") for at in (1, 2))])
        assert bool(log.starts[0].ranks) == kept
        assert log.not_recognised == (0 if kept else 2)


@pytest.mark.parametrize(("rest", "length"), [("192", None), ("(EngineCore pid=1) more", 8), ("", 8)])
def test_a_number_that_goes_on_in_the_next_line_is_not_read(read: Read, rest: str, length: int | None) -> None:
    log = read(
        [
            line("Resolved architecture: LlamaForCausalLM"),
            line("Using max model len 8"),
            rest,
            line("Using V2 Model Runner"),
        ]
    )
    assert log.starts[0].max_model_len == length
    assert log.not_recognised == (length is None)


def test_lines_that_are_written_twice_are_of_one_start(read: Read) -> None:
    lines = [
        *written.banner("0.33.0"),
        line("non-default args: {'model_tag': 'org/M'}", "APIServer", 1),
        written.engine("0.33.0"),
        line("Available KV cache memory: 2.0 GiB", "EngineCore", 242),
    ]
    (start,) = read([text for text in lines for _ in range(2)]).starts
    assert start.ranks[0].kv_bytes == 2 * GIB
    later = [text.replace("12:00:00", "12:05:00") for text in lines]
    assert len(read([*lines, *later]).starts) == 2
