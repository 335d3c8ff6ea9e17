"""Which graphs so many requests at once can use: held against every batch, each through `resolve`."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cgplan import CUDAGraphMode, Deployment, InputError, gpu, load_model, plan, resolve
from cgplan.memory.request import MemoryRequest
from cgplan.report.concurrency_view import effect, notes, page, stopped, told
from cgplan.resolve.graphs import Batch
from cgplan.workload.choices.concurrency import Ceiling, Used, ceiling_of

FULL, PIECEWISE = CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE


def deployment(**fields: Any) -> Deployment:
    fields.setdefault("max_num_seqs", 256)
    return Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"), **fields)


def of(most: int, **fields: Any) -> Ceiling:
    return ceiling_of(deployment(**fields), MemoryRequest(), most)


def used(found: Ceiling, mode: CUDAGraphMode) -> Used:
    (one,) = (one for one in found.used if one.mode is mode)
    return one


@pytest.mark.parametrize("most", [1, 5, 8, 30, 256])
@pytest.mark.parametrize("mode", ["FULL_AND_PIECEWISE", "FULL", "FULL_DECODE_ONLY", "PIECEWISE"])
def test_a_graph_is_used_where_a_batch_runs_in_it(mode: str, most: int) -> None:
    found = of(most, compilation_config={"cudagraph_mode": mode})
    r = found.resolution
    decode = [r.dispatch_batch(Batch(n, n, 1)) for n in range(1, most + 1)]
    prefills = [r.dispatch_batch(Batch(n, 1, n + 1, has_prefill=True)) for n in range(1, 600)]
    for one in found.used:
        ran, mixed = ({d.num_tokens for d in batches if d.mode is one.mode} for batches in (decode, prefills))
        assert set(one.by_decode) == ran
        assert set(one.by_prefill) == mixed - ran
        captured = {graph.num_tokens for graph in r.captures[one.mode]}
        assert set(one.by_none) == captured - ran - mixed
    assert found.without_graph == ()


def test_eight_requests_of_a_server_for_256() -> None:
    found = of(8)
    assert used(found, FULL).by_decode == (1, 2, 4, 8)
    assert len(used(found, FULL).by_none) == 31
    assert used(found, PIECEWISE).by_none == ()
    lines = " ".join(told(found))
    assert "Of 86 graphs, with at most 8 requests at once:" in lines
    assert "31 FULL sizes are never used: 16, 24, 32 to 256." in lines
    by_name = {one.name: one for one in found.launches}
    kept = by_name["without what is never used"]
    assert kept.point.graphs == 86 - 31
    assert kept.without_graph == 512
    assert "prefill" not in effect(found, kept)
    each = by_name["a size for each number"]
    assert each.point.sizes == tuple(range(1, 9))
    assert each.point.waste == 0
    assert "steps with a prefill above 8 tokens then run without a graph" in effect(found, each)


def test_each_launch_is_what_vllm_and_the_plan_make_of_its_flags() -> None:
    asked = deployment()
    for one in of(8).launches:
        words = one.flags.split()
        update: dict[str, Any] = {}
        for at, word in enumerate(words):
            if word == "--cudagraph-capture-sizes":
                update["cudagraph_capture_sizes"] = tuple(map(int, words[at + 1 :]))
            elif word.startswith("--"):
                update[word.lstrip("-").replace("-", "_")] = int(words[at + 1])
        other = deployment(**{"max_num_seqs": asked.max_num_seqs, **update})
        made = plan(other)
        assert resolve(other).graph_count() == one.point.graphs
        assert made.best.plan is not None
        assert made.best.plan.tokens == one.point.kv_tokens
        assert made.graphs is not None
        assert made.graphs.total.best == one.point.graph_bytes


def test_a_server_that_lets_in_no_more_has_nothing_to_drop() -> None:
    found = of(256)
    assert used(found, FULL).by_none == ()
    assert {one.name for one in found.launches} <= {"today", "the sizes that decode steps use"}
    more = of(400)
    assert more.requests == 256
    assert told(more)[0] == "max_num_seqs lets in 256 at once, so that 400 are never reached."


def test_decode_steps_without_a_graph_are_told() -> None:
    found = of(12, cudagraph_capture_sizes=[1, 2, 4, 8])
    assert found.without_graph == (9, 10, 11, 12)
    assert "- decode steps of 9, 10, 11, 12 requests run without a graph." in told(found)


def test_drafts_are_whole_requests() -> None:
    model = load_model("meta-llama/Llama-3.1-8B-Instruct")
    found = of(
        4, vllm="0.24.0", speculative_config={"method": "eagle", "model": model, "num_speculative_tokens": 2},
    )  # fmt: skip
    assert all(size % 3 == 0 for size in used(found, FULL).by_decode)
    assert next(one for one in found.launches if one.name == "a size for each number").point.sizes == (3, 6, 9, 12)


@pytest.mark.parametrize(("fields", "most", "code"), [({}, 0, "CG903"), ({"enforce_eager": True}, 8, "CG720")])
def test_nothing_to_say(fields: dict[str, Any], most: int, code: str) -> None:
    with pytest.raises(InputError) as caught:
        of(most, **fields)
    assert caught.value.code == code


SIZES = [1, 2, 4, 8, 16, 32, 64]
SECONDS = re.compile(r"([0-9.-]+) s (less|more) of capture \(([0-9.-]+) to ([0-9.-]+)\)")


class TestWhatALaunchSaves:
    def test_the_bounds_hold_the_best_value(self) -> None:
        seen = set()
        for found in (of(16, max_num_seqs=64, cudagraph_capture_sizes=SIZES), of(8)):
            for one in found.launches[1:]:
                for best, word, low, high in SECONDS.findall(effect(found, one)):
                    assert float(low) <= float(best) <= float(high)
                    seen.add(word)
        assert seen == {"less", "more"}

    def test_what_is_more_is_not_told_as_less_than_nothing(self) -> None:
        found = of(16, max_num_seqs=64, cudagraph_capture_sizes=SIZES)
        text = effect(found, next(one for one in found.launches if one.name == "a size for each number"))
        assert re.search(r"18 graphs more, \d+ MiB more, [0-9.]+ s more of capture", text)
        assert " -" not in text

    def test_the_same_graphs_are_no_saving_but_the_tokens_are_told(self) -> None:
        found = of(8, compilation_config={"cudagraph_mode": "PIECEWISE"})
        assert "without what is never used" not in {one.name for one in found.launches}
        one = next(one for one in found.launches if one.name == "no more are let in, largest size kept")
        assert re.fullmatch(rf"{one.name}: as many graphs, [\d,]+ KV tokens more", effect(found, one))
        assert any(note.startswith("KV tokens: --max-num-seqs") for note in notes(found, ()))
        assert not any(note.startswith("KV tokens") for note in notes(of(256), ()))

    def test_drafts_drop_sizes_that_are_used(self) -> None:
        drafted = Deployment(
            model=load_model("Qwen/Qwen3.6-27B"), gpu=gpu("h100"),
            speculative_config={"method": "mtp", "num_speculative_tokens": 2},
        )  # fmt: skip
        found = ceiling_of(drafted, MemoryRequest(), 5)
        today, kept = found.launches[:2]
        assert kept.point.waste > today.point.waste
        assert kept.name == "no more are let in, largest size kept"


class TestADeploymentThatDoesNotStart:
    def test_it_is_told_with_the_fix(self) -> None:
        found = ceiling_of(Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("t4")), MemoryRequest(), 8)
        assert [one.code for one in found.stops] == ["CG597"]
        first, why = stopped(found)
        assert first == "It does not start as it is, by the best estimate:"
        assert "the weights alone take" in why
        assert "fix: --tensor-parallel-size 2" in why
        assert "It does not start as it is" in page(found, "")

    def test_one_that_starts_has_no_such_words(self) -> None:
        found = of(8)
        assert (found.stops, stopped(found)) == ((), [])
        assert "does not start" not in page(found, "")
