"""What a profile would need, and whether a GPU has it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan import Deployment, gpu, load_model, resolve
from cgplan.memory.estimates import GIB
from cgplan.memory.profile.descriptors import descriptors_of, with_only
from cgplan.memory.profile.needs import Needs, needs
from cgplan.memory.profile.room import driver_costs
from cgplan.memory.profile.sampling import chosen


def deployment(name: str = "meta-llama/Llama-3.1-8B-Instruct", on: str = "h200", **fields: Any) -> Deployment:
    return Deployment(model=load_model(name), gpu=gpu(on), vllm="0.25.1", **fields)


def needs_of(asked: Deployment, engine: str = "synthetic", sample: Any = "auto") -> Needs:
    resolution = resolve(asked)
    every = descriptors_of(resolution)
    return needs(asked, resolution, every, chosen(every, sample), engine)


@pytest.mark.parametrize("fields", [{}, {"enable_lora": True, "max_loras": 2}, {"max_num_seqs": 8}])
def test_all_descriptors_are_the_whole_resolution(fields: dict[str, Any]) -> None:
    resolution = resolve(deployment(**fields))
    every = descriptors_of(resolution)
    assert with_only(resolution, every).captures == resolution.captures
    few = chosen(every, "auto")
    assert set(descriptors_of(with_only(resolution, few))) == set(few)
    assert with_only(resolution, ()).graph_count() == 0


def test_every_graph_captured_is_the_whole_prediction() -> None:
    found = needs_of(deployment(), sample="all")
    assert found.few == found.graphs
    few = needs_of(deployment(), sample="two")
    assert few.few is not None
    assert few.graphs == found.graphs
    assert few.few.best < few.graphs.best  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("on", "fits", "severity"), [("h200", "yes", None), ("h100", "no", "error"), ("b200", "yes", None)]
)
def test_a_model_of_70_billion_fits_where_there_is_room(on: str, fits: str, severity: str | None) -> None:
    found = needs_of(deployment("meta-llama/Llama-3.1-70B-Instruct", on))
    assert found.fits == fits
    assert (found.problem.severity if found.problem is not None else None) == severity


def test_the_way_out_names_what_helps() -> None:
    problem = needs_of(deployment("meta-llama/Llama-3.1-70B-Instruct", "h100")).problem
    assert problem is not None
    assert problem.fix is not None
    ways = [way.split(" (")[0] for way in problem.fix.split(", or ")]
    assert ways == ["-tp 2", "--gpu h200"]
    assert needs_of(deployment("meta-llama/Llama-3.1-70B-Instruct", "h100", tensor_parallel_size=2)).fits == "yes"
    assert needs_of(deployment("meta-llama/Llama-3.1-70B-Instruct", "h200")).fits == "yes"


def test_ranks_that_do_not_divide_the_heads_are_no_way_out() -> None:
    """14 heads: two ranks alone."""
    small = gpu("h200").model_copy(update={"memory_bytes": 5 * GIB // 4})
    found = needs_of(deployment("Qwen/Qwen2.5-0.5B-Instruct").model_copy(update={"gpu": small}))
    assert found.problem is not None
    assert "-tp 4" not in (found.problem.fix or "")
    assert "-tp 8" not in (found.problem.fix or "")


@given(st.integers(1, 200))
def test_more_memory_never_fits_worse(gib: int) -> None:
    order = ["no", "unsure", "yes"]
    with_less, with_more = (
        needs_of(ASKED.model_copy(update={"gpu": ASKED.gpu.model_copy(update={"memory_bytes": size * GIB})})).fits
        for size in (gib, gib + 1)
    )
    assert order.index(str(with_less)) <= order.index(str(with_more))


ASKED = deployment(max_num_seqs=8)


def test_the_least_is_what_a_measurement_is_refused_by() -> None:
    from cgplan.memory.profile.synthetic.shape import shape_of

    found = needs_of(deployment())
    shape, _ = shape_of(deployment(), max(one.num_tokens for one in found.captures))
    parts = (found.weights_bytes, found.kv_bytes, found.step_bytes, found.outside_bytes)
    assert found.least_bytes == sum(part or 0 for part in parts)
    assert found.weights_bytes == shape.weights_bytes


class TestVllm:
    def test_the_cache_fills_what_was_asked_for(self) -> None:
        """Whatever the model, a start takes the share of the GPU, and the graphs on top where nothing is deducted."""
        small, large = (
            needs_of(deployment(name, max_model_len=8192), "vllm").total_bytes
            for name in ("Qwen/Qwen2.5-0.5B-Instruct", "meta-llama/Llama-3.1-8B-Instruct")
        )
        assert small is not None
        assert large is not None
        assert abs(small - large) < 3 * GIB

    def test_weights_that_do_not_fit_are_told_with_the_engine_that_splits_them(self) -> None:
        found = needs_of(deployment("meta-llama/Llama-3.1-70B-Instruct", "l4"), "vllm")
        assert found.fits == "no"
        assert found.problem is not None
        assert "--engine synthetic" in (found.problem.fix or "")
        assert found.total_bytes is not None
        assert found.total_bytes > found.gpu_bytes

    def test_a_gpu_that_is_named_starts_it(self) -> None:
        found = needs_of(deployment(on="l4"), "vllm")
        assert found.problem is not None
        named = (found.problem.fix or "").split("--gpu ")[1].split()[0]
        assert needs_of(deployment(on=named), "vllm").fits == "yes"


def test_the_driver_keeps_something_for_each_graph_of_a_callable() -> None:
    none, per_node = driver_costs(deployment(), 0)
    ten, same = driver_costs(deployment(), 10)
    assert none == 0
    assert (ten, per_node) == (1_060_000, same)
    assert driver_costs(deployment(on="l4"), 1)[1] > same, "before Hopper a node takes more"
