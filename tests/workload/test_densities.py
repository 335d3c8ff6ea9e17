"""Lists by how dense they are: what a list is, and which of them another beats."""

from __future__ import annotations

import pytest

from cgplan import Deployment, gpu, load_model, resolve, tune
from cgplan.report.tune_view import density_rows
from cgplan.workload.mixture import Traffic
from cgplan.workload.shapes import shape
from cgplan.workload.sizes.effect import with_sizes
from cgplan.workload.tune.tune import Tuning


def of_shape(name: str, **fields: object) -> Tuning:
    asked = Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"), max_num_seqs=256, **fields)  # type: ignore[arg-type]
    return tune(asked, [Traffic(name, shape(name, max_num_seqs=256), is_measured=False)])


@pytest.fixture(scope="module")
def bursty() -> Tuning:
    return of_shape("bursty")


def test_the_lists_by_name(bursty: Tuning) -> None:
    found = {one.name: one.point for one in bursty.densities}
    assert found["powers of two"].sizes == (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    assert found["every 64"].sizes == (1, 2, 4, 8, 16, 32, *range(64, 513, 64))
    assert found["today's list"] is bursty.today
    assert found["the chosen list"] is bursty.chosen
    assert len(found["every 4"].sizes) > 128
    assert "every size" not in found  # 512 sizes are more than are looked at.


def test_each_list_is_what_vllm_keeps(bursty: Tuning) -> None:
    for one in bursty.densities:
        assert set(bursty.fixed) <= set(one.point.sizes)
        kept = resolve(with_sizes(bursty.deployment, one.point.sizes))
        assert (kept.capture_sizes, kept.graph_count()) == (one.point.sizes, one.point.graphs)


def test_a_list_that_is_not_beaten_is_marked(bursty: Tuning) -> None:
    graphs = [one.point.graphs for one in bursty.densities]
    assert graphs == sorted(graphs)
    for one in bursty.densities:
        beaten = any(
            other.point.graphs <= one.point.graphs
            and other.point.cost <= one.point.cost
            and (other.point.graphs, other.point.cost) != (one.point.graphs, one.point.cost)
            for other in bursty.densities
        )
        assert one.is_beaten is beaten
    marked = {row[0] for row in density_rows(bursty)}
    assert {"powers of two *", "the chosen list *", "every 8"} <= marked


def test_few_sizes_have_a_list_of_all() -> None:
    found = of_shape("low", max_cudagraph_capture_size=32)
    assert {one.name: one.point for one in found.densities}["every size"].sizes == tuple(range(1, 33))
