"""Replay: against the dispatcher batch by batch, and the laws of shares."""

from __future__ import annotations

from math import isclose

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workload_helpers import FULL, NONE, PIECEWISE, decode, either, mixed, point, ran, resolved

from cgplan import CUDAGraphMode, Resolution, SpeculativeOptions
from cgplan.workload.gathered import Settings
from cgplan.workload.histogram import KINDS, Batches, Range, Seen, workload_of
from cgplan.workload.replay.replay import Replay, replay, seen_tally, settled
from cgplan.workload.replay.replay_findings import settings_differ
from cgplan.workload.replay.tally import MODES, Bounds

V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
SMALL = resolved([1, 2, 4, 8, 16, 24], max_num_seqs=20, max_num_batched_tokens=64, max_model_len=64)
DRAFTS = resolved(
    [4, 8, 16, 24],
    max_num_seqs=6,
    max_num_batched_tokens=64,
    max_model_len=64,
    env=V1,
    speculative_config=SpeculativeOptions(method="ngram", num_speculative_tokens=3),
)
DECODE_ONLY = resolved([2, 5, 9], mode="FULL_DECODE_ONLY", max_num_seqs=9, max_num_batched_tokens=64, max_model_len=64)
ALL = [SMALL, DRAFTS, DECODE_ONLY, resolved([], mode="NONE", max_num_batched_tokens=64, max_model_len=64)]


def held(resolution: Resolution, *batches: Batches) -> Replay:
    return replay(workload_of(batches), resolution)


def codes(made: Replay) -> set[str]:
    return {finding.code for finding in made.findings}


def test_decode_runs_full_prefill_runs_piecewise() -> None:
    made = held(SMALL, decode(9, 30), mixed(9, 10), mixed(30, 5))
    assert {mode: made.total.modes[mode].low for mode in MODES} == {FULL: 30, PIECEWISE: 10, NONE: 5}
    assert made.total.padding == Bounds(280, 280)
    assert made.total.tokens == Bounds(510, 510)
    assert isclose(made.total.waste.low, 280 / 790)
    assert made.exact
    assert made.by_kind["decode"].waste.low == 7 / 16


def test_what_missed_and_why() -> None:
    made = held(SMALL, mixed(30, 5), mixed(40, 2), decode(8, 100))
    assert [(one.kind, one.mode, one.reason.code, one.steps) for one in made.missed] == [
        ("mixed", NONE, "CG701", Bounds(7, 7))
    ]
    assert [tuple(one) for one in made.missed[0].batches] == [(Range(30, 30), 5), (Range(40, 40), 2)]


def test_of_either_kind_and_missed_for_the_same_reason() -> None:
    missed = held(resolved([1, 2, 4], max_num_seqs=20), either(9, 9, 5)).missed
    assert [(one.kind, one.reason.code, one.steps) for one in missed] == [("any", "CG701", Bounds(5, 5))]


def test_nothing_missed() -> None:
    made = held(SMALL, decode(8, 100), mixed(24, 3))
    assert made.missed == ()
    assert made.findings == ()


def test_a_decode_batch_above_the_sizes() -> None:
    small = resolved([1, 2, 4], max_num_seqs=20)
    assert held(small, decode(9, 1)).missed[0].reason.code == "CG701"
    made = held(DRAFTS, decode(28, 1, query_len=4, requests=point(7)))
    assert made.missed[0].reason.code == "CG704"


def test_the_mode_has_no_graph_for_prefill() -> None:
    missed = held(DECODE_ONLY, mixed(4, 3), decode(4, 3)).missed
    assert [(one.kind, one.reason.code) for one in missed] == [("mixed", "CG711")]


def test_the_rule_that_lowered_the_mode_is_named() -> None:
    lowered = resolved([1, 2, 4], mode="FULL_AND_PIECEWISE", attention_support="NEVER")
    assert lowered.cudagraph_mode is PIECEWISE
    missed = held(lowered, decode(4, 3), mixed(4, 3)).missed
    assert [(one.kind, one.mode) for one in missed] == [("decode", PIECEWISE)]
    assert missed[0].reason.code in {decision.code for decision in lowered.decisions}
    asked = resolved([1, 2, 4], mode="PIECEWISE", attention_support="NEVER")
    assert held(asked, decode(4, 3), mixed(4, 3)).missed == ()


def test_another_query_length_has_no_full_graph() -> None:
    missed = held(SMALL, decode(16, 3, query_len=2)).missed
    assert [(one.mode, one.reason.code) for one in missed] == [(PIECEWISE, "CG711")]


def test_tokens_that_do_not_divide_are_no_uniform_batch() -> None:
    made = held(DRAFTS, decode(7, 3), decode(8, 3))
    assert {mode: made.total.modes[mode].low for mode in MODES} == {FULL: 3, PIECEWISE: 3, NONE: 0}


def test_the_seen_mode_tells_the_kind() -> None:
    workload = workload_of([ran(9, FULL, 16, 5), ran(9, PIECEWISE, 16, 2), ran(30, NONE, 30, 1)])
    made = replay(workload, SMALL)
    assert made.differences == ()
    assert made.exact
    assert {kind: found.steps for kind, found in made.by_kind.items()} == {"decode": 5, "mixed": 3}
    assert sorted(b.kind for b in settled(workload, SMALL).batches) == ["decode", "mixed", "mixed"]


def test_what_was_seen_otherwise() -> None:
    made = held(SMALL, ran(9, NONE, 9, 5), ran(9, FULL, 16, 15))
    assert [(one.tokens, one.count, one.is_of_mode) for one in made.differences] == [(Range(9, 9), 5, True)]
    finding = next(f for f in made.findings if f.code == "CG712")
    assert finding.severity == "warning"
    assert "25.0%" in finding.message
    assert "ran NONE as 9" in finding.message


def test_another_padded_size_is_seen() -> None:
    made = held(SMALL, ran(9, FULL, 24, 5))
    assert [one.is_of_mode for one in made.differences] == [False]
    assert "CG712" in codes(made)
    assert "CG712" not in codes(held(SMALL, ran(9, FULL, 16, 5)))


def test_the_tally_of_the_source_needs_no_resolution() -> None:
    found = seen_tally(workload_of([ran(9, FULL, 24, 5), ran(30, NONE, 30, 5)]))
    assert found is not None
    assert found.share(FULL) == Bounds(0.5, 0.5)
    assert found.padding == Bounds(75, 75)
    assert seen_tally(workload_of([ran(9, FULL, 24, 5), decode(30)])) is None


def test_batches_beyond_the_limits() -> None:
    made = held(SMALL, decode(21, 1), decode(20, 3))
    assert made.beyond == 1
    assert "CG714" in codes(made)
    assert held(SMALL, decode(20, 3)).beyond == 0
    assert held(SMALL, mixed(65, 1)).beyond == 1
    # Of two kinds that it may be, only one is let in.
    assert held(SMALL, either(21, 21)).by_kind.keys() == {"mixed"}


def test_a_bucket_above_the_budget_is_the_end_of_a_long_prompt() -> None:
    made = held(SMALL, either(65, None, 4))
    assert made.beyond == 0
    assert made.total.modes[NONE] == Bounds(0, 4)


def test_buckets_give_bounds() -> None:
    made = held(SMALL, either(9, 16, 10))
    assert made.total.modes == {FULL: Bounds(0, 10), PIECEWISE: Bounds(0, 10), NONE: Bounds(0, 0)}
    assert made.total.padding == Bounds(0, 70)
    assert made.total.waste == Bounds(0.0, 7 / 16)
    assert "CG716" in codes(made)
    assert "CG716" not in codes(held(SMALL, either(9, 9, 10)))


def test_much_padding_is_told_by_kind() -> None:
    made = held(SMALL, decode(17, 50), mixed(30, 500))
    finding = next(f for f in made.findings if f.code == "CG717")
    assert "29.2% of the tokens that decode steps compute" in finding.message
    assert "17 as 24" in finding.message
    assert "CG717" not in codes(held(SMALL, decode(24, 50), mixed(30, 500)))


def test_many_that_missed_are_told() -> None:
    assert "CG715" in codes(held(DECODE_ONLY, mixed(4, 3), decode(4, 3)))
    assert "CG715" not in codes(held(DECODE_ONLY, mixed(4, 3), decode(4, 3000)))


def test_adapters_without_a_graph() -> None:
    assert held(SMALL, decode(8, 1, loras=2)).missed[0].reason.code == "CG413"


def test_settings_of_the_tables() -> None:
    sizes = tuple(SMALL.capture_sizes)
    assert settings_differ(Settings("FULL_AND_PIECEWISE", sizes), SMALL) is None
    other = settings_differ(Settings("FULL_AND_PIECEWISE", (*sizes, 32)), SMALL)
    assert other is not None
    assert "7 sizes up to 32, resolved 6 sizes up to 24" in other.message
    mode = settings_differ(Settings("PIECEWISE", sizes), SMALL)
    assert mode is not None
    assert "mode PIECEWISE, resolved FULL_AND_PIECEWISE" in mode.message


def test_sizes_are_those_of_the_frontend_not_of_the_worker() -> None:
    frontend = tuple(DRAFTS.config["cudagraph_capture_sizes"])
    assert settings_differ(Settings(str(DRAFTS.configured_mode), frontend), DRAFTS) is None


@st.composite
def some(draw: st.DrawFn) -> Batches:
    low, count = draw(st.integers(1, 70)), draw(st.integers(1, 1000))
    kind = draw(st.sampled_from(KINDS))
    high = draw(st.sampled_from([low, low + draw(st.integers(0, 30)), None]))
    seen = None
    if kind == "any" and high == low and draw(st.booleans()):
        mode = draw(st.sampled_from(MODES))
        seen = Seen(mode, low if mode is NONE else low + draw(st.integers(0, 20)))
    return Batches(kind, Range(low, high), count, seen=seen)


BATCHES = st.lists(some(), min_size=1, max_size=8)


@settings(max_examples=150)
@given(BATCHES, st.sampled_from(ALL))
def test_shares_sum_to_one_hundred_percent(batches: list[Batches], resolution: Resolution) -> None:
    made = held(resolution, *batches)
    low = sum(made.total.share(mode).low for mode in MODES)
    high = sum(made.total.share(mode).high for mode in MODES)
    assert low <= 1 + 1e-12
    assert high >= 1 - 1e-12
    if made.exact:
        assert isclose(low, 1)
        assert isclose(high, 1)
    assert isclose(sum(found.steps for found in made.by_kind.values()), made.total.steps)
    assert 0 <= made.total.waste.low <= made.total.waste.high < 1


@settings(max_examples=150)
@given(BATCHES, st.sampled_from(ALL), st.integers(2, 50))
def test_more_of_the_same_has_the_same_shares(batches: list[Batches], resolution: Resolution, factor: int) -> None:
    once = replay(workload_of(batches), resolution)
    many = replay(workload_of(batches).scaled(factor), resolution)
    for mode in MODES:
        assert isclose(once.total.share(mode).high, many.total.share(mode).high, abs_tol=1e-9)
    assert isclose(once.total.waste.high, many.total.waste.high, abs_tol=1e-9)


def one_by_one(item: Batches, resolution: Resolution) -> set[tuple[CUDAGraphMode, int, int]]:
    """(mode, tokens, computed) of every single batch that `item` may be, by the dispatcher's own answer."""
    budget = resolution.max_num_batched_tokens
    high = item.tokens.high if item.tokens.high is not None else max(budget, item.tokens.low)
    found = set()
    for tokens in range(item.tokens.low, high + 1):
        length = resolution.uniform_decode_query_len
        if tokens > budget:
            break
        is_uniform = tokens % length == 0 and tokens // length <= resolution.max_num_seqs
        if item.kind in ("decode", "any") and is_uniform:
            answer = resolution.dispatch(tokens, tokens // length, length)
            found.add((answer.mode, tokens, answer.num_tokens))
        if item.kind in ("mixed", "any"):
            answer = resolution.dispatch(tokens, 1, tokens + 1, has_prefill=True)
            found.add((answer.mode, tokens, answer.num_tokens))
    return found


@settings(max_examples=300)
@given(some().filter(lambda item: item.seen is None), st.sampled_from(ALL))
def test_bounds_are_those_of_all_single_batches(item: Batches, resolution: Resolution) -> None:
    ways = one_by_one(item, resolution)
    if not ways or item.tokens.low > resolution.max_num_batched_tokens:
        return
    found = held(resolution, item).total
    paddings = [computed - tokens for _, tokens, computed in ways]
    assert found.padding == Bounds(min(paddings) * item.count, max(paddings) * item.count)
    for mode in MODES:
        present = [one[0] is mode for one in ways]
        assert found.modes[mode] == Bounds(item.count * all(present), item.count * any(present))
    shares = [(computed - tokens) / computed for _, tokens, computed in ways]
    assert isclose(found.waste.low, min(shares), abs_tol=1e-9)
    assert isclose(found.waste.high, max(shares), abs_tol=1e-9)


def test_the_share_of_padding_is_of_all_steps_together() -> None:
    # 9 to 16 tokens as 16, and 1 token as 1: the largest share is 7 of 17, not the mean of 7/16 and 0.
    made = held(SMALL, either(9, 16, 1), decode(1, 1))
    assert isclose(made.total.waste.high, 7 / 17)


@pytest.mark.parametrize("resolution", ALL, ids=["small", "drafts", "decode only", "none"])
def test_a_replay_of_nothing_unknown_is_exact(resolution: Resolution) -> None:
    assert held(resolution, decode(4, 2, query_len=4), mixed(9, 1)).exact


def test_each_reason_has_its_own_fix_and_that_of_decode_batches_comes_first() -> None:
    small = resolved([1, 2, 4], max_num_seqs=20, max_num_batched_tokens=64, max_model_len=64)
    (found,) = (one for one in held(small, mixed(30, 90), decode(9, 5), decode(2, 100)).findings if one.code == "CG715")
    fix = found.fix or ""
    assert found.severity == "warning"
    assert fix.startswith("for decode batches (CG701): ")
    assert "; for those with a prefill (CG701): leave it" in fix
    (alone,) = (one for one in held(small, mixed(30, 90), decode(2, 100)).findings if one.code == "CG715")
    assert (alone.fix or "").startswith("leave it")
    (alone,) = (one for one in held(small, decode(9, 5), decode(2, 100)).findings if one.code == "CG715")
    assert alone.fix
    assert "leave it" not in alone.fix
    assert not alone.fix.startswith("for ")
