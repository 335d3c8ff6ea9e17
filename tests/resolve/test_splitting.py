"""splitting_ops and what they do to the mode."""

from __future__ import annotations

from typing import Any

import pytest
from resolve_helpers import V1, V2, codes, compiling, configured, outcome, refused

from cgplan import Deployment, Software
from cgplan.resolve import splitting
from cgplan.resolve.pipeline import configure
from cgplan.trace import Trace

CACHE_UPDATES = ["vllm::unified_kv_cache_update", "vllm::unified_mla_kv_cache_update"]
ONE_OP = ["vllm::unified_attention_with_output"]


def ops(**options: Any) -> list[str]:
    found: list[str] = outcome(compilation_config=compiling(**options)).config["splitting_ops"]
    return found


def predicates(**options: Any) -> tuple[bool, bool]:
    """(contains attention, attention compiled piecewise)."""
    engine = configure(Deployment(compilation_config=compiling(**options)), Trace())
    return splitting.contains_attention(engine), splitting.is_attention_compiled_piecewise(engine)


def test_f4_the_default_list_has_17_attention_ops_and_two_cache_updates() -> None:
    """The document names one cache update; 0.33.0 also splits at the MLA one."""
    default = ops()
    assert (len(default), default[-2:]) == (19, CACHE_UPDATES)
    assert default[0] == "vllm::unified_attention_with_output"
    assert len(set(default)) == 19


def test_f4_inductor_partition_leaves_the_cache_updates_inside() -> None:
    partitioned = ops(use_inductor_graph_partition=True)
    assert (len(partitioned), set(CACHE_UPDATES) & set(partitioned)) == (17, set())


@pytest.mark.parametrize("mode", ["NONE", "DYNAMO_TRACE_ONCE"])
def test_without_vllm_compile_the_list_is_empty_and_the_mode_stays(mode: str) -> None:
    assert ops(mode=mode) == []
    options = compiling(mode=mode, cudagraph_mode="FULL", splitting_ops=[])
    assert configured(compilation_config=options).value == "FULL"
    assert ops(mode=mode, splitting_ops=ONE_OP, cudagraph_mode="FULL") == ONE_OP


@pytest.mark.parametrize(
    ("asked", "after"),
    [
        (None, "FULL"),
        ("PIECEWISE", "NONE"),
        ("FULL_AND_PIECEWISE", "FULL"),
        ("FULL_DECODE_ONLY", "FULL_DECODE_ONLY"),
        ("FULL", "FULL"),
        ("NONE", "NONE"),
    ],
)
def test_an_empty_list_leaves_no_pieces(asked: str | None, after: str) -> None:
    found = outcome(compilation_config=compiling(splitting_ops=[], cudagraph_mode=asked))
    assert found.configured_mode.value == after
    assert ("CG214" in codes(found)) is (asked in (None, "PIECEWISE", "FULL_AND_PIECEWISE"))


def test_sizes_stay_when_an_empty_list_switches_graphs_off() -> None:
    found = outcome(compilation_config=compiling(splitting_ops=[], cudagraph_mode="PIECEWISE"))
    assert found.max_capture_size == 512
    assert found.graph_count() == 0


@pytest.mark.parametrize(
    ("asked", "after"),
    [
        (None, "FULL"),
        ("PIECEWISE", "FULL"),
        ("FULL", "FULL"),
        ("FULL_DECODE_ONLY", "FULL_DECODE_ONLY"),
        ("NONE", "NONE"),
    ],
)
def test_f3_attention_quant_fusion_empties_the_list(asked: str | None, after: str) -> None:
    """The document says FULL in general; only modes with PIECEWISE are replaced."""
    options = compiling(pass_config={"fuse_attn_quant": True}, cudagraph_mode=asked)
    found = outcome(compilation_config=options)
    assert (found.configured_mode.value, found.config["splitting_ops"]) == (after, [])


def test_f3_attention_quant_fusion_with_partition_changes_nothing() -> None:
    options = compiling(pass_config={"fuse_attn_quant": True}, use_inductor_graph_partition=True)
    found = outcome(compilation_config=options)
    assert (found.configured_mode.value, len(found.config["splitting_ops"])) == ("FULL_AND_PIECEWISE", 17)


def test_f3_a_list_of_the_user_keeps_the_mode() -> None:
    """An empty list given by hand is not None, so neither it nor the mode is touched."""
    options = compiling(pass_config={"fuse_attn_quant": True}, splitting_ops=[])
    assert configured(compilation_config=options, env=V2).value == "FULL_AND_PIECEWISE"
    assert refused(compilation_config=options, env=V1).code == "CG224"


def test_attention_quant_fusion_excludes_split_attention() -> None:
    options = compiling(pass_config={"fuse_attn_quant": True}, splitting_ops=["<attention_ops>"])
    error = refused(compilation_config=options)
    assert (error.code, error.raised_in, error.raised_as) == ("CG230", "VllmConfig", "ValidationError")


def test_attention_quant_fusion_without_compilation_is_inert() -> None:
    options = compiling(pass_config={"fuse_attn_quant": True}, mode="NONE")
    assert configured(compilation_config=options).value == "FULL_DECODE_ONLY"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (True, True)),
        ({"splitting_ops": ["<attention_ops>"]}, (True, True)),
        ({"splitting_ops": ONE_OP}, (False, False)),
        ({"splitting_ops": []}, (False, False)),
        ({"mode": "NONE"}, (False, False)),
        ({"mode": "NONE", "splitting_ops": ["<attention_ops>"], "cudagraph_mode": "FULL"}, (True, False)),
        ({"use_inductor_graph_partition": True}, (True, True)),
        ({"use_inductor_graph_partition": True, "backend": "eager"}, (True, False)),
        (
            {
                "use_inductor_graph_partition": True,
                "mode": "DYNAMO_TRACE_ONCE",
                "splitting_ops": ["<attention_ops>"],
                "cudagraph_mode": "FULL",
            },
            (True, True),
        ),
    ],
)
def test_predicates(options: dict[str, Any], expected: tuple[bool, bool]) -> None:
    assert predicates(**options) == expected


@pytest.mark.parametrize(("env", "starts"), [(V1, False), (V2, True)])
def test_a_partial_list_stops_v1_only(env: dict[str, str], starts: bool) -> None:
    options = compiling(splitting_ops=ONE_OP)
    if starts:
        assert outcome(compilation_config=options, env=env).cudagraph_mode.value == "FULL_AND_PIECEWISE"
    else:
        error = refused(compilation_config=options, env=env)
        assert (error.code, error.stage, error.raised_as) == ("CG224", "v1_dispatcher_init", "AssertionError")


def test_v1_judges_the_configured_mode() -> None:
    """FULL on a weaker backend needs no pieces at configuration time, so V1 starts and lowers it later."""
    options = compiling(splitting_ops=ONE_OP, cudagraph_mode="FULL")
    found = outcome(compilation_config=options, env=V1, attention_support="UNIFORM_BATCH")
    assert found.cudagraph_mode.value == "FULL_DECODE_ONLY"


def test_partition_with_the_eager_backend_stops_v1() -> None:
    options = compiling(use_inductor_graph_partition=True, backend="eager")
    assert refused(compilation_config=options, env=V1).code == "CG224"


@pytest.mark.parametrize(
    ("torch", "starts"), [("2.13.0", True), ("2.9.0", True), ("2.8.0", False), ("2.9.0.dev1", True)]
)
def test_f5_partition_needs_torch_2_9(torch: str, starts: bool) -> None:
    """vllm/config/compilation.py:1004-1012."""
    options = compiling(use_inductor_graph_partition=True)
    software = Software(torch_version=torch)
    if starts:
        assert outcome(compilation_config=options, software=software).compilation_mode.value == "VLLM_COMPILE"
    else:
        assert refused(compilation_config=options, software=software).raised_in == "CompilationConfig"


@pytest.mark.parametrize("name", ["fuse_rope_kvcache", "fuse_qk_norm_rope_kvcache"])
def test_rotary_cache_fusions_exist_on_rocm_only(name: str) -> None:
    """vllm/config/compilation.py:282-293 switches them off on CUDA before anything reads them."""
    given: list[list[str] | None] = [None, []]
    for ops_ in given:
        options = compiling(pass_config={name: True}, cudagraph_mode="FULL", splitting_ops=ops_)
        found = outcome(compilation_config=options)
        assert found.config["pass_config"][name] is False
        assert found.config["compile_ranges_endpoints"] == [8192]
