"""/metrics: buckets stay ranges, engines stay apart, two moments give what came in between."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from workload_helpers import METRICS

from cgplan import InputError
from cgplan.workload.gathered import Gathered
from cgplan.workload.histogram import Range
from cgplan.workload.sources.metrics import Snapshot, gathered, snapshot


def moment(name: str) -> Snapshot:
    return snapshot((METRICS / name).read_text().split("\n"), name)


def steps(found: Gathered, part: int = 0) -> dict[tuple[int, int | None], float]:
    return {(b.tokens.low, b.tokens.high): b.count for b in found.parts[part].workload.batches}


def text(counts: list[int], bounds: list[str], labels: str = 'engine="0"') -> str:
    lines = ["# TYPE vllm:iteration_tokens_total histogram"]
    total = 0
    for count, bound in zip(counts, bounds, strict=True):
        total += count
        lines.append(f'vllm:iteration_tokens_total_bucket{{{labels},le="{bound}"}} {float(total)}')
    return "\n".join(lines)


def test_buckets_are_ranges() -> None:
    found = gathered(moment("moment-1.txt"))
    assert [part.name for part in found.parts] == ["engine 0", "engine 1"]
    assert steps(found) == {(1, 1): 3, (2, 8): 10, (9, 16): 40, (17, 32): 6, (513, 1024): 2, (16385, None): 1}
    assert not found.parts[0].workload.exact
    assert found.parts[0].facts["running"] == 17
    assert found.parts[0].facts["tokens"] == 21933
    assert "engine 0: at most 5 of 62 steps ended a prefill" in found.remarks


def test_two_moments_give_the_difference() -> None:
    found = gathered(moment("moment-2.txt"), moment("moment-1.txt"))
    assert steps(found) == {(1, 1): 6, (2, 8): 20, (9, 16): 80, (17, 32): 12, (513, 1024): 4, (16385, None): 2}
    assert found.parts[0].facts["running"] == 17  # a gauge is no counter
    assert found.parts[0].facts["prefills"] == 10


def test_the_wrong_order_is_refused() -> None:
    with pytest.raises(InputError, match="a count fell") as caught:
        gathered(moment("moment-1.txt"), moment("moment-2.txt"))
    assert caught.value.code == "CG718"
    assert caught.value.fix is not None
    assert "earlier" in caught.value.fix


def test_nothing_in_between_is_refused() -> None:
    with pytest.raises(InputError, match="no step was counted in between"):
        gathered(moment("moment-1.txt"), moment("moment-1.txt"))


def test_drafts_make_requests_and_tokens_a_range() -> None:
    batches = gathered(moment("drafting.txt")).parts[0].workload.batches
    nine = next(b for b in batches if b.tokens.low == 9)
    # 9 to 16 tokens given out with 3 drafts each: 3 to 16 requests, and up to 64 tokens computed.
    assert nine.tokens == Range(9, 64)
    assert nine.requests == Range(3, 16)


def test_through_ray() -> None:
    found = gathered(moment("through-ray.txt"))
    assert [part.name for part in found.parts] == ["engine 0 of r7", "engine 1 of r7"]
    assert steps(found)[(9, 16)] == 40


def test_models_are_named_where_there_are_several() -> None:
    labels = [f'engine="0",model_name="{name}"' for name in ("a", "b")]
    both = "\n".join(text([1, 2], ["8.0", "+Inf"], label) for label in labels)
    found = gathered(snapshot(both.split("\n"), "here"))
    assert [part.name for part in found.parts] == ["engine 0 of a", "engine 0 of b"]


def test_own_buckets_escapes_and_timestamps() -> None:
    odd = r'engine="0",model_name="a \"quoted\" {name}, le=\"5\""'
    lines = [line + " 1764478800000" for line in text([3, 4], ["12.5", "+Inf"], odd).split("\n")]
    assert steps(gathered(snapshot(lines, "here"))) == {(1, 12): 3, (13, None): 4}


def test_others_metrics_are_not_read() -> None:
    noise = "process_cpu_seconds_total what is this\nvllm:prefix_cache_hits_total{broken 1\n"
    assert steps(gathered(snapshot((noise + text([3], ["+Inf"])).split("\n"), "here"))) == {(1, None): 3}


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ('vllm:iteration_tokens_total_bucket{engine="0",le="8.0"', "labels that cannot be read"),
        ('vllm:iteration_tokens_total_bucket{engine="0",le="8.0"} ', "no number"),
        ('vllm:iteration_tokens_total_bucket{engine="0",le="8.0"} many', "no number"),
        ('vllm:iteration_tokens_total_bucket{engine="0",le="8.0"} 1_0', "no number"),
        ('vllm:iteration_tokens_total_bucket{engine="0",le="8.0"} NaN', "no number"),
        ('vllm:iteration_tokens_total_bucket{engine="0",le="8.0"} 1.5', "no count"),
        ('vllm:iteration_tokens_total_bucket{engine="0",le="8.0"} -1', "no count"),
        ('vllm:iteration_tokens_total_bucket{engine="0",le="all"} 1', "bound"),
        ('vllm:iteration_tokens_total_bucket{engine="0"} 1', "bound"),
        ('vllm:iteration_tokens_total_bucket{engine="0",le="-1"} 1', "bound"),
        ('vllm:iteration_tokens_total_bucket{engine="0",le="8.0"} 1e30', "no count"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(broken: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        snapshot(["# one", "# two", broken], "m.txt")
    assert caught.value.where == "m.txt:3"
    assert caught.value.code == "CG718"


def test_a_cut_histogram_is_refused() -> None:
    with pytest.raises(InputError, match=r"\+Inf is missing"):
        snapshot(text([3, 4], ["1.0", "8.0"]).split("\n"), "here")


def test_falling_buckets_are_refused() -> None:
    lines = [
        f'vllm:iteration_tokens_total_bucket{{le="{bound}"}} {count}' for bound, count in (("1.0", 9), ("+Inf", 8))
    ]
    with pytest.raises(InputError, match="cumulative"):
        snapshot(lines, "here")


def test_other_text_is_refused() -> None:
    with pytest.raises(InputError, match="no vllm:iteration_tokens_total"):
        snapshot(["<html>", "hello"], "page")


def test_other_buckets_have_no_difference() -> None:
    first = snapshot(text([1, 1], ["8.0", "+Inf"]).split("\n"), "a")
    second = snapshot(text([1, 1], ["9.0", "+Inf"]).split("\n"), "b")
    with pytest.raises(InputError, match="other buckets"):
        gathered(second, first)


COUNTS = st.lists(st.integers(0, 1000), min_size=4, max_size=4)


@given(COUNTS, COUNTS)
def test_the_difference_is_what_was_added(first: list[int], more: list[int]) -> None:
    bounds = ["1.0", "8.0", "64.0", "+Inf"]
    if not sum(more):
        return
    both = [a + b for a, b in zip(first, more, strict=True)]
    a, b = (snapshot(text(counts, bounds).split("\n"), "x") for counts in (first, both))
    expected = {key: count for key, count in zip([(1, 1), (2, 8), (9, 64), (65, None)], more, strict=True) if count}
    assert steps(gathered(b, a)) == expected
    if sum(first):
        assert gathered(b).parts[0].workload.steps == sum(both)
