"""Claims of a public write-up about vLLM's CUDA graphs, row by row: what holds at 0.33.0, and the true value where not.

Rows about the capture grid, padding and modes stand in test_grid, test_padding, test_mode and their neighbours. Not
tests: D2, D3, D5, D7 and D10 (what the capture run measures and logs), E (arithmetic on somebody's benchmark), F8 to
F10 (no rule, numerics, a remark on older releases).
"""

from __future__ import annotations

import pytest
from resolve_helpers import B200, MLA, V1, V2, drafting, outcome

from cgplan import CUDAGraphMode, Deployment, Runner, resolve
from cgplan.resolve.backends.facts import catalogue
from cgplan.resolve.memory_deduction import graph_memory_deducted

FULL, PIECEWISE, NONE = CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE, CUDAGraphMode.NONE
BOTH = pytest.mark.parametrize("env", [V1, V2], ids=["V1", "V2"])


@BOTH
def test_d1_piecewise_before_full_and_larger_first(env: dict[str, str]) -> None:
    found = outcome(env=env, max_num_seqs=64)
    assert list(found.captures) == [PIECEWISE, FULL]
    for graphs in found.captures.values():
        sizes = [graph.num_tokens for graph in graphs]
        assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("release", "runner", "env", "deducted"),
    [
        ("0.33.0", Runner.V1, {}, True),
        ("0.33.0", Runner.V2, {}, True),
        ("0.33.0", Runner.V2, {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "0"}, False),
        ("0.28.0", Runner.V2, {}, False),
    ],
)
def test_d4_the_estimate_is_taken_off_by_default(
    release: str, runner: Runner, env: dict[str, str], deducted: bool
) -> None:
    assert graph_memory_deducted(Deployment(vllm=release, env=env), release, runner).deducted is deducted


def test_d6_one_warmup_by_default() -> None:
    assert outcome(env=V1).config["cudagraph_num_of_warmups"] == 1


def test_d8_what_a_graph_is_known_by() -> None:
    """V1: tokens, requests, uniform or not, adapters. V2: tokens, requests, query length, longest query, adapters."""
    fields = {"max_num_seqs": 16, "enable_lora": True}
    for graph in outcome(env=V1, **fields).captures[FULL]:
        assert (graph.num_reqs, graph.uniform_query_len, graph.max_query_len) == (graph.num_tokens, 1, None)
    for graph in outcome(env=V2, **fields).captures[FULL]:
        assert (graph.num_reqs, graph.uniform_query_len, graph.max_query_len) == (graph.num_tokens, 1, None)
    loras = {graph.num_active_loras for graph in outcome(env=V2, **fields).captures[FULL]}
    assert loras == {0, 2}


@BOTH
def test_d9_full_then_piecewise_then_none(env: dict[str, str]) -> None:
    found = outcome(env=env, max_num_seqs=64, max_num_batched_tokens=2048)
    assert found.dispatch(16).mode is FULL
    assert found.dispatch(16, num_reqs=2, max_query_len=12, has_prefill=True).mode is PIECEWISE
    assert found.dispatch(1024, num_reqs=2, max_query_len=600, has_prefill=True).mode is NONE


@pytest.mark.parametrize(
    ("backend", "level"),
    [
        ("TRITON_ATTN", "ALWAYS"),
        ("FLEX_ATTENTION", "ALWAYS"),
        ("FLASHINFER_MLA", "ALWAYS"),
        ("ROCM_AITER_MLA", "UNIFORM_BATCH"),
        ("FLASHMLA", "UNIFORM_BATCH"),
    ],
)
def test_f1_levels_of_the_table(backend: str, level: str) -> None:
    """The write-up has FlashInferMLA at UNIFORM_BATCH and AITER MLA at single-token decode; both are higher."""
    assert catalogue("0.33.0").backends[backend].level == level


def test_f1_unlisted_is_not_never() -> None:
    """The write-up calls every backend that it does not list NEVER; most of them are higher."""
    listed = {"FLASH_ATTN", "FLASHINFER", "FLASHINFER_MLA", "FLASHMLA", "TRITON_ATTN", "ROCM_AITER_FA", "CUTLASS_MLA"}
    unlisted = {n: b.level for n, b in catalogue("0.33.0").backends.items() if n not in listed}
    assert sum(level != "NEVER" for level in unlisted.values()) > len(unlisted) / 2


def test_f1_sparse_mla_of_flashinfer_by_release() -> None:
    model = MLA.model_copy(update={"index_topk": 2048, "model_type": "deepseek_v32"})
    for release, level in (("0.33.0", "UNIFORM_BATCH"), ("0.30.0", "ALWAYS")):
        found = resolve(Deployment(vllm=release, gpu=B200, model=model, attention_backend="FLASHINFER_MLA_SPARSE"))
        assert found.backend.groups[0].support.name == level


@pytest.mark.parametrize(("release", "ops"), [("0.33.0", 17), ("0.22.1", 14)])
def test_f4_default_splitting_ops(release: str, ops: int) -> None:
    """The attention ops of the release, and both KV cache updates."""
    found = outcome(vllm=release).config["splitting_ops"]
    updates = [op for op in found if op.endswith("kv_cache_update")]
    assert (len(found) - len(updates), len(updates)) == (ops, 2)


def test_f12_uniform_decode_length() -> None:
    assert outcome(speculative_config=drafting("ngram", 3)).uniform_decode_query_len == 4
