"""What the public logs lack: runner V2, data parallelism, several starts, processes that write over each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cgplan.startup.record import Start, StartupLog

from . import written
from .written import GIB, bar, engine, line

Read = Callable[..., StartupLog]


def only(log: StartupLog) -> Start:
    assert log.not_recognised == 0, log.examples
    (start,) = log.starts
    return start


def test_runner_v2_with_its_one_line_of_the_cache(read: Read) -> None:
    start = only(read(written.v2_start()))
    assert (start.vllm_version, start.model, start.runner, start.ready) == ("0.33.0", "org/Model", "V2", True)
    assert (start.kv_tokens, start.max_concurrency, start.concurrency_length) == (413696, 6.31, 65536)
    assert (start.max_model_len, start.derived_max_model_len) == (65536, 131072)
    assert start.graphs == {"PIECEWISE": 4, "FULL": 3, "DRAFTER_FULL": 2}
    assert start.capture_sizes == (1, 2, 4, 8)
    assert start.ranks[0].graph_actual_bytes == round(0.91 * GIB)
    assert start.ranks[0].graph_estimate_bytes == round(0.84 * GIB)
    assert {phase.name: phase.seconds for phase in start.phases} == {
        "load": 3.5,
        "compile": 10.84,
        "capture": 5,
        "init engine": 30.23,
    }
    assert start.crash is None


def test_since_0_27_1_activation_holds_the_estimate(read: Read) -> None:
    said = written.usage_since_0_27(
        int(175.81 * GIB), int(178.35 * GIB), int(164.08 * GIB), int(58.44 * GIB), int(62.33 * GIB), int(63.99 * GIB),
        int(43.31 * GIB),
    )  # fmt: skip
    rank = only(read([engine("0.29.0"), line(said)])).ranks[0]
    assert (rank.consumed_bytes, rank.activation_bytes) == (round(58.44 * GIB), round(62.33 * GIB))
    assert rank.activation_includes_estimate is True
    assert rank.weights_bytes is None
    assert rank.suggested_kv_bytes is not None
    assert round(rank.suggested_kv_bytes / GIB, 2) == -20.83


def test_without_the_estimate_activation_does_not_hold_it(read: Read) -> None:
    off = (
        "CUDA graph memory profiling is disabled (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0). Without it, CUDA graph "
        "memory is not accounted for during KV cache allocation, which may require lowering --gpu-memory-utilization "
        "to avoid OOM. Consider re-enabling it (the default as of v0.21.0) and increasing --gpu-memory-utilization "
        "from 0.9000 to 0.9100."
    )
    said = written.usage_since_0_27(70 * GIB, 80 * GIB, 64 * GIB, 20 * GIB, 2 * GIB, GIB, 42 * GIB)
    start = only(read([line(off, level="WARNING"), line(said)]))
    assert start.ranks[0].activation_includes_estimate is False
    assert start.environment == {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "0"}
    assert [message.level for message in start.messages] == ["WARNING"]


def test_data_parallel_engines_stand_apart(read: Read) -> None:
    log = read(
        [
            *written.banner("0.25.1"),
            engine("0.25.1", "EngineCore_DP0", 10, data_parallel_size=2),
            engine("0.25.1", "EngineCore_DP1", 11, data_parallel_size=2),
            line("Available KV cache memory: 50.5 GiB", "EngineCore_DP1", 11),
            line("Available KV cache memory: 49.25 GiB", "EngineCore_DP0", 10),
            line("GPU KV cache size: 413,696 tokens", "EngineCore_DP1", 11),
            line("GPU KV cache size: 403,456 tokens", "EngineCore_DP0", 10),
            line("Maximum concurrency for 8,192 tokens per request: 49.25x", "EngineCore_DP0", 10),
            line("Maximum concurrency for 8,192 tokens per request: 50.50x", "EngineCore_DP1", 11),
        ]
    )
    start = only(log)
    assert [(rank.name, rank.rank, rank.kv_bytes) for rank in start.ranks] == [
        ("DP0", 0, round(49.25 * GIB)),
        ("DP1", 1, round(50.5 * GIB)),
    ]
    assert start.kv_printed == (("DP1", 413696, 50.5), ("DP0", 403456, 49.25))


def test_two_ranks_with_different_values_keep_both(read: Read) -> None:
    log = read(
        [
            engine("0.25.1", tensor_parallel_size=2),
            line("Estimated CUDA graph memory: 0.84 GiB total", "Worker_TP1", 12),
            line("Estimated CUDA graph memory: 1.84 GiB total", "Worker_TP0", 11),
        ]
    )
    estimates = [(rank.name, rank.graph_estimate_bytes) for rank in only(log).ranks]
    assert estimates == [("TP0", round(1.84 * GIB)), ("TP1", round(0.84 * GIB))]


def test_numbers_of_ranks_go_over_all_processes(read: Read) -> None:
    sizes = {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}
    names = ("Worker_PP1_TP1_EP3", "Worker_PP0_TP1_EP1", "Worker_PP1_TP0_EP2")
    told = [line("Available KV cache memory: 1.0 GiB", name, pid) for pid, name in enumerate(names)]
    ranks = only(read([engine("0.25.1", pid=99, **sizes), *told])).ranks
    assert [(rank.name, rank.rank) for rank in ranks] == [("PP0_TP1_EP1", 1), ("PP1_TP0_EP2", 2), ("PP1_TP1_EP3", 3)]


@pytest.mark.parametrize("pid", [242, 777])
def test_a_container_that_starts_again_is_a_second_start(read: Read, pid: int) -> None:
    log = read([*written.v2_start("0.32.0"), *written.v2_start("0.33.0", pid)])
    assert [start.vllm_version for start in log.starts] == ["0.32.0", "0.33.0"]
    assert [(start.first_line, start.last_line) for start in log.starts] == [(3, 24), (25, 44)]
    assert all(len(start.ranks) == 1 for start in log.starts)


def test_engine_lines_alone_tell_two_starts_apart(read: Read) -> None:
    told = [engine("0.25.1"), line("Available KV cache memory: 1.0 GiB")]
    again = [engine("0.25.1", pid=300), line("Available KV cache memory: 2.0 GiB", pid=300)]
    log = read([*told, *again])
    assert [start.ranks[0].kv_bytes for start in log.starts] == [GIB, 2 * GIB]


def test_a_line_that_two_handlers_write_is_no_second_start(read: Read) -> None:
    assert len(read([engine("0.25.1"), engine("0.25.1")]).starts) == 1


def test_a_log_without_its_head_has_no_release(read: Read) -> None:
    start = only(read(written.v2_start()[10:]))
    assert start.vllm_version is None
    assert start.kv_tokens == 413696


def test_a_bar_drawn_over_itself_counts_once(read: Read) -> None:
    states = "\r".join(bar("CUDA graphs (decode, FULL)", done, 35) for done in range(36))
    start = only(read(f"(EngineCore pid=2) \r{states}\n".encode()))
    assert [(item.kind, item.graphs, item.total) for item in start.ranks[0].captured] == [("FULL", 35, 35)]


def test_a_bar_that_stopped_says_how_far_it_got(read: Read) -> None:
    states = "\r".join(bar("CUDA graphs (mixed prefill-decode, PIECEWISE)", done, 51) for done in range(46))
    start = only(read([engine("0.25.1"), states]))
    assert [(item.graphs, item.total) for item in start.captured] == [(45, 51)]


def test_a_line_written_behind_a_bar_is_read(read: Read) -> None:
    glued = f"(Worker_TP0 pid=4) {bar('CUDA graphs (FULL)', 1, 3)}" + line(
        "Graph capturing finished in 5 secs, took 0.91 GiB", "Worker_TP1", 5
    )
    start = only(read([glued]))
    assert {rank.name: rank.graph_actual_bytes for rank in start.ranks} == {"TP0": None, "TP1": round(0.91 * GIB)}


def test_two_messages_on_one_line(read: Read) -> None:
    glued = line("Available KV cache memory: 1.0 GiB", "Worker_TP0", 4) + line(
        "Available KV cache memory: 2.0 GiB", "Worker_TP1", 5
    )
    assert [rank.kv_bytes for rank in only(read([glued])).ranks] == [GIB, 2 * GIB]


def test_a_line_with_two_workers_is_no_ones(read: Read) -> None:
    said = line("Available KV cache memory: 2.0 GiB", "Worker_TP1", 5)
    log = read([f"(Worker_TP0 pid=4) {said}"])
    assert (log.not_recognised, log.starts) == (1, ())
    assert [rank.name for rank in only(read([f"(EngineCore pid=4) {said}"])).ranks] == ["TP1"]


def test_ray_names_actor_and_machine(read: Read) -> None:
    said = "INFO 09-30 12:00:00 [gpu_worker.py:1] Available KV cache memory: {} GiB"
    log = read(
        [
            f"\x1b[36m(RayWorkerWrapper pid=77, ip=10.0.0.2)\x1b[0m {said.format('1.0')}",
            f"(RayWorkerWrapper pid=77, ip=10.0.0.3) {said.format('2.0')} [repeated 3x across cluster]",
            f"(RayWorkerWrapper pid=78, ip=10.0.0.3) (Worker_TP3 pid=78) {said.format('3.0')}",
        ]
    )
    assert [(rank.name, rank.kv_bytes) for rank in only(log).ranks] == [
        ("TP3", 3 * GIB),
        ("RayWorkerWrapper 10.0.0.2/77", GIB),
        ("RayWorkerWrapper 10.0.0.3/77", 2 * GIB),
    ]


@pytest.mark.parametrize(
    "prefix",
    [
        "(VllmWorker rank=0 pid=77) INFO 09-30 12:00:00 [gpu_worker.py:1] ",
        "INFO 09-30 12:00:00 gpu_worker.py:1] ",
        "INFO 09-30 12:00:00 [v1/worker/gpu_worker.py:560] ",
        "(EngineCore pid=7) [blue] INFO 09-30 12:00:00 [gpu_worker.py:560] ",
        "[blue] (MainProcess pid=7) INFO 09-30 12:00:00 [gpu_worker.py:560] ",
        "2026-09-30 12:00:00,123 - vllm.v1.worker.gpu_worker - INFO - ",
        "",
    ],
)
def test_prefixes(read: Read, prefix: str) -> None:
    assert only(read([f"{prefix}Available KV cache memory: 1.0 GiB"])).ranks[0].kv_bytes == GIB


def test_the_mode_that_a_worker_falls_back_to(read: Read) -> None:
    said = (
        "CUDAGraphMode.FULL_AND_PIECEWISE is not supported with spec-decode for attention backend FlashInferBackend "
        "(support: AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE); setting cudagraph_mode=PIECEWISE"
    )
    start = only(read([engine("0.25.1"), line(said, level="WARNING")]))
    assert start.cudagraph_mode == "PIECEWISE"
    assert start.engine["compilation_config"]["cudagraph_mode"] == "FULL_AND_PIECEWISE"
    assert [message.text for message in start.messages] == [said]


def test_memory_that_was_given_is_no_measurement(read: Read) -> None:
    said = (
        "Initial free memory 78.68 GiB, reserved 40.0 GiB memory for KV Cache as specified by kv_cache_memory_bytes "
        "config and skipped memory profiling. This does not respect the gpu_memory_utilization config. Only use "
        "kv_cache_memory_bytes config when you want manual control of KV cache memory size. If OOM'ed, check the "
        "difference of initial free memory between the current run and the previous run where kv_cache_memory_bytes is "
        "suggested and update it correspondingly."
    )
    rank = only(read([line(said)])).ranks[0]
    assert (rank.kv_bytes, rank.kv_is_given, rank.free_bytes) == (40 * GIB, True, round(78.68 * GIB))


def test_blocks_of_the_estimate_are_not_those_of_the_server(read: Read) -> None:
    override = "Overriding num_gpu_blocks={} with num_gpu_blocks_override={}"
    start = only(read([line(override.format(0, 512)), line(override.format(29751, 100))]))
    assert start.num_gpu_blocks == 100


def test_secrets_of_the_arguments_are_not_kept(read: Read) -> None:
    start = only(read([line("non-default args: {'model': 'm', 'api_key': ['secret-one']}", "APIServer", 1)]))
    assert start.arguments == {"model": "m", "api_key": "(hidden)"}
    assert "secret-one" not in repr(start)
