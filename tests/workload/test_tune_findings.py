"""What a choice says of traffic that is not of the deployment, and of batches above all sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from workload_helpers import FULL, METRICS, NONE, decode, mixed, ran

from cgplan import Deployment, InputError, gpu, load_model, tune
from cgplan.report import tune_view
from cgplan.workload.gathered import Settings
from cgplan.workload.histogram import workload_of
from cgplan.workload.mixture import Traffic
from cgplan.workload.replay.replay import replay
from cgplan.workload.sizes.limits import Limits
from cgplan.workload.sources.given import read_traffic


def deployment(**fields: Any) -> Deployment:
    fields.setdefault("max_num_seqs", 256)
    return Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"), **fields)


def codes(found: Any) -> list[str]:
    return [one.code for one in found.findings]


def test_a_log_of_another_server_is_told_as_a_replay_tells_it() -> None:
    traffic = read_traffic([str(METRICS / "tables-two-engines.log")])
    asked = deployment(max_num_seqs=20)
    found = tune(asked, traffic)
    assert {"CG713", "CG712", "CG714"} <= set(codes(found))
    said = {one.message for one in replay(traffic[0].workload, found.resolution).findings}
    assert {one.message for one in found.findings if one.code in ("CG712", "CG714")} <= said


def test_settings_of_the_deployment_are_no_finding() -> None:
    sizes = tune(deployment(), workload_of([decode(8)])).resolution.capture_sizes
    ours = Settings("FULL_AND_PIECEWISE", sizes)
    part = Traffic("a", workload_of([decode(8, 50)]), settings=(ours,))
    assert codes(tune(deployment(), [part])) == []
    assert codes(tune(deployment(), [replace(part, settings=(Settings("PIECEWISE", sizes),))])) == ["CG713"]


def test_batches_that_are_not_let_in() -> None:
    found = tune(deployment(), workload_of([decode(8, 90), decode(300, 10)]))
    assert codes(found) == ["CG714"]
    assert codes(tune(deployment(max_num_seqs=300), workload_of([decode(8, 90), decode(300, 10)]))) == []


def test_each_part_of_a_mixture_is_named() -> None:
    parts = [Traffic("day", workload_of([ran(8, FULL, 16, 9)])), Traffic("night", workload_of([decode(8, 9)]))]
    (finding,) = tune(deployment(), parts).findings
    assert (finding.code, finding.message[:5]) == ("CG712", "day: ")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"max_cudagraph_capture_size": 64}, "--max-cudagraph-capture-size 208"),
        ({"compilation_config": {"max_cudagraph_capture_size": 64}}, "in the place of that of --compilation-config"),
        ({"cudagraph_capture_sizes": [1, 8, 64]}, "203 in --cudagraph-capture-sizes"),
        (
            {"compilation_config": {"cudagraph_capture_sizes": [8, 64]}},
            "cudagraph_capture_sizes of --compilation-config",
        ),
        ({"cudagraph_capture_sizes": [8, 64], "max_cudagraph_capture_size": 64}, ", and without the largest size"),
        ({"max_cudagraph_capture_size": 64, "max_num_batched_tokens": 256}, "--max-cudagraph-capture-size 208"),
    ],
)
def test_a_larger_size_is_one_that_reaches_the_batches(fields: dict[str, Any], said: str) -> None:
    traffic = workload_of([decode(203, 50), decode(8, 100)])
    found = tune(deployment(**fields), traffic)
    assert codes(found) == ["CG724"]
    assert said in str(found.findings[0].fix)
    for named in (64, 200):
        assert codes(tune(deployment(max_cudagraph_capture_size=named), traffic)) == ["CG724"]
    assert codes(tune(deployment(max_cudagraph_capture_size=208), traffic)) == []
    assert codes(tune(deployment(cudagraph_capture_sizes=[1, 8, 64, 203]), traffic)) == []


def test_batches_of_an_unknown_kind_are_not_called_decode() -> None:
    """E06: a table of --cudagraph-metrics has a step of 600 tokens that ran without a graph, and not of which kind."""
    asked = deployment(max_num_seqs=1024)
    (found,) = tune(asked, workload_of([decode(8, 100), ran(600, NONE, 600, 2)])).findings
    assert (found.code, found.severity) == ("CG724", "info")
    assert "of the steps are batches above 512 tokens" in found.message
    assert "decode batches above" not in found.message
    assert str(found.fix).endswith(", if they are decode batches")
    (sure,) = tune(asked, workload_of([decode(8, 100), decode(600, 2)])).findings
    assert (sure.code, sure.severity) == ("CG724", "warning")
    assert "are decode batches above 512 tokens" in sure.message


def test_a_size_of_must_is_not_above_the_largest_of_today() -> None:
    with pytest.raises(InputError, match="above the largest of today"):
        tune(deployment(), workload_of([decode(8)]), must=[700])
    found = tune(deployment(max_cudagraph_capture_size=704), workload_of([decode(8)]), must=[700], spread=0.0)
    assert found.fixed == (256, 700, 704)


@pytest.mark.parametrize(
    ("limits", "option", "others"),
    [
        (Limits(graph_bytes=100 << 20), "--max-graph-memory", ("--max-graphs", "--max-startup")),
        (Limits(capture_seconds=0.01), "--max-startup", ("--max-graphs", "--max-graph-memory")),
        (Limits(graphs=2), "--max-graphs", ("--max-graph-memory", "--max-startup")),
    ],
)
def test_the_limit_that_failed_is_named(limits: Limits, option: str, others: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="no list keeps to the limits") as caught:
        tune(deployment(), workload_of([decode(5), mixed(30)]), limits=limits)
    assert caught.value.where == option
    assert option in str(caught.value.fix)
    assert not any(other in str(caught.value.fix) for other in others)


class TestWords:
    def test_a_loss_is_not_called_a_saving(self) -> None:
        found = tune(deployment(), workload_of([decode(33, 900), decode(40, 90)]))
        lines = " ".join(tune_view.sureness(replace(found, held_out=-0.194)))
        assert "as many sizes cost 19.4% more on the other" in lines
        assert "as many sizes save 19.4% on the other" in " ".join(tune_view.sureness(replace(found, held_out=0.194)))

    def test_one_size_is_one(self) -> None:
        found = tune(deployment(cudagraph_capture_sizes=[8, 256]), workload_of([decode(8, 50), decode(9, 1)]))
        assert "With 1 size today's" in " ".join(
            tune_view.verdict(replace(found, beats_from=2, points=found.points[:0]))
        )

    def test_that_longer_lists_are_not_looked_at(self) -> None:
        named = tune(
            deployment(max_num_seqs=512, cudagraph_capture_sizes=list(range(1, 513))),
            workload_of([decode(n, 5) for n in range(1, 513)]),
        )
        assert len(named.points[-1].sizes) == 256
        assert "longer ones than 256 are not looked at" in " ".join(tune_view.verdict(named))
