"""Laws of the comparison, and the upgrades that are known."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan import Deployment, InputError, ModelShape
from cgplan.compare import Change, Comparison, codes_between, compare, releases_between, snapshot
from cgplan.compare.restore import restores
from cgplan.releases import SUPPORTED
from cgplan.releases.gpus import gpu
from cgplan.trace import RULES

GPUS = ("h100", "b200", "a100-80gb", "l40s")
MOE = ModelShape(architectures=("Qwen3MoeForCausalLM",), model_type="qwen3_moe", is_moe=True)
VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"max_num_seqs": 1000},
    {"max_num_seqs": 264},
    {"model": MOE},
    {"enable_lora": True},
    {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}},
    {"tensor_parallel_size": 2},
    {"enforce_eager": True},
    {"compilation_config": {"mode": 0}},
    {"compilation_config": {"cudagraph_mode": "FULL"}},
    {"performance_mode": "interactivity"},
    {"env": {"VLLM_USE_V2_MODEL_RUNNER": "1"}},
    {"env": {"VLLM_BATCH_INVARIANT": "1"}},
)
releases = st.sampled_from(SUPPORTED)


@st.composite
def deployments(draw: st.DrawFn) -> Deployment:
    return Deployment(gpu=gpu(draw(st.sampled_from(GPUS))), **draw(st.sampled_from(VARIANTS)))


def compared(deployment: Deployment, first: str, last: str) -> Comparison | None:
    """None where no release can make anything of the deployment."""
    try:
        return compare(deployment, first, last)
    except InputError:
        return None


def by_field(comparison: Comparison) -> dict[str, Change]:
    return {change.field: change for change in comparison.changes}


@given(deployments(), releases)
def test_a_release_differs_in_nothing_from_itself(deployment: Deployment, release: str) -> None:
    found = compared(deployment, release, release)
    assert found is None or (found.changes, found.without_effect) == ((), ())


@given(deployments(), releases, releases)
def test_there_and_back_mirror_each_other(deployment: Deployment, first: str, last: str) -> None:
    there, back = compared(deployment, first, last), compared(deployment, last, first)
    if there is None or back is None:
        assert there is back
        return
    forth, reverse = by_field(there), by_field(back)
    assert forth.keys() == reverse.keys()
    for field, change in forth.items():
        mirrored = reverse[field]
        assert (change.before, change.after) == (mirrored.after, mirrored.before)
        assert set(change.releases) == set(mirrored.releases)
        assert set(change.codes) == set(mirrored.codes)


@given(deployments(), releases, releases)
def test_the_steps_explain_every_change(deployment: Deployment, first: str, last: str) -> None:
    found = compared(deployment, first, last)
    for change in found.changes if found is not None else ():
        if change.field != "startup":  # A refusal may name its release.
            assert change.steps[0].before == change.before
            assert change.steps[-1].after == change.after
            assert all(one.after == following.before for one, following in pairwise(change.steps))
        for step in change.steps:
            assert step.before != step.after
            assert step.causes
            assert all(cause.code in RULES for cause in step.causes)
            assert set(step.follows).isdisjoint({change.field})


@given(deployments(), releases, releases)
def test_the_changes_are_the_difference_of_the_ends(deployment: Deployment, first: str, last: str) -> None:
    found = compared(deployment, first, last)
    if found is None:
        return
    a, b = snapshot(deployment, first), snapshot(deployment, last)
    assert (a.values, b.values) == (found.first.values, found.last.values)
    if a.starts and b.starts:
        differing = {name for name in {*a.values, *b.values} if a.values.get(name) != b.values.get(name)}
        assert {change.field for change in found.changes} == differing


@given(releases, releases)
def test_the_path_has_every_release_between_once(first: str, last: str) -> None:
    path = releases_between(first, last)
    assert (path[0], path[-1]) == (first, last)
    assert path[::-1] == releases_between(last, first)
    assert len(set(path)) == len(path)


def test_one_resolution_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    module = sys.modules[snapshot.__module__]
    real = module.resolve  # type: ignore[attr-defined]

    def counting(deployment: Deployment) -> Any:
        nonlocal count
        count += 1
        return real(deployment)

    monkeypatch.setattr(module, "resolve", counting)
    compare(Deployment(), SUPPORTED[0], SUPPORTED[-1])
    assert count == len(SUPPORTED)


def test_b200_from_025_to_033() -> None:
    found = compare(Deployment(gpu=gpu("b200"), max_num_seqs=1000), "0.25.1", "0.33.0")
    changes = by_field(found)
    largest = changes["max_cudagraph_capture_size"]
    assert (largest.before, largest.after, largest.releases, largest.codes) == (512, 1024, ("0.28.0",), ("CG108",))
    fact = largest.steps[0].causes[0].facts[0]
    assert (fact.path, fact.before, fact.after) == ("pipeline.grid.platform_cap.sm10", 512, 1024)
    sizes = changes["capture_sizes"]
    assert (len(sizes.before), len(sizes.after)) == (51, 84)
    assert [(s.release, [c.code for c in s.causes]) for s in sizes.steps] == [
        ("0.28.0", ["CG108"]),
        ("0.31.0", ["CG111"]),
    ]
    memory = changes["graph_memory_deducted"]
    assert (memory.before, memory.after, memory.releases, memory.codes) == (False, True, ("0.29.0",), ("CG503",))
    assert ("0.29.0", "CG609") in {(note.release, note.code) for note in found.without_effect}


def test_a_mixture_of_experts_moves_to_runner_v2() -> None:
    found = compare(Deployment(model=MOE), "0.28.0", "0.29.0")
    changes = by_field(found)
    assert (changes["runner"].before, changes["runner"].after) == ("V1", "V2")
    assert changes["runner"].codes == ("CG609",)
    assert restores(found)["runner"].setting == "VLLM_USE_V2_MODEL_RUNNER=0"
    assert "graph_memory_deducted" not in changes


def test_an_uncompiled_model_keeps_its_decode_graphs_from_030() -> None:
    found = compare(Deployment(compilation_config={"mode": 0}), "0.29.0", "0.30.0")
    change = by_field(found)["cudagraph_mode"]
    assert (change.before, change.after) == ("NONE", "FULL_DECODE_ONLY")
    assert set(change.codes) == {"CG206", "CG233"}
    assert restores(found)["cudagraph_mode"].setting == "--cudagraph-mode NONE"


def test_a_refusal_appears() -> None:
    deployment = Deployment(speculative_config={"method": "medusa", "num_speculative_tokens": 3, "model": ModelShape()})
    found = compare(deployment, "0.32.0", "0.33.0")
    (change,) = found.changes
    assert (change.field, change.before) == ("startup", None)
    assert change.after["code"] == change.codes[0] == "CG416"
    assert restores(found)["startup"].setting is None
    (back,) = compare(deployment, "0.33.0", "0.32.0").changes
    assert back.after is None


def test_what_no_release_can_read_is_an_error() -> None:
    with pytest.raises(InputError):
        compare(Deployment(attention_backend="NO_SUCH"), "0.28.0", "0.33.0")


def test_a_refusal_that_stays_is_no_change() -> None:
    deployment = Deployment(model=ModelShape(architectures=("KimiK3ForConditionalGeneration",), is_moe=True))
    first, last = snapshot(deployment, "0.24.0"), snapshot(deployment, "0.25.1")
    assert not first.starts
    assert first.values != last.values
    assert compare(deployment, "0.24.0", "0.25.1").changes == ()
    (change,) = compare(deployment, "0.24.0", "0.27.1").changes
    assert change.releases == ("0.27.1",)
    assert change.steps[0].causes[0].kind == "fact"


def test_a_runner_that_learns_a_method_names_the_rule() -> None:
    deployment = Deployment(speculative_config={"method": "ngram", "num_speculative_tokens": 3})
    change = by_field(compare(deployment, "0.31.0", "0.32.0"))["runner"]
    assert change.codes == ("CG627",)


def test_rules_between_any_two_releases_of_the_way() -> None:
    """Also of a value that is the same again at the end."""
    found = compare(Deployment(gpu=gpu("h100")), "0.27.1", "0.33.0")
    assert codes_between(found, "0.28.0", "0.29.0", "graph_memory_deducted") == ("CG503",)
    assert codes_between(found, "0.29.0", "0.30.0", "graph_memory_deducted") == ()
    eager = compare(Deployment(gpu=gpu("h100"), enforce_eager=True), "0.27.1", "0.33.0")
    assert codes_between(eager, "0.28.0", "0.29.0", "graph_memory_deducted") == ()
