"""Which graphs a profile captures."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cgplan import Deployment, ModelShape, gpu, resolve
from cgplan.memory.profile.descriptors import Descriptor, by_mode, counts, descriptors_of
from cgplan.memory.profile.sampling import SAMPLES, chosen
from cgplan.vocabulary import CUDAGraphMode

PIECEWISE, FULL = CUDAGraphMode.PIECEWISE, CUDAGraphMode.FULL


def graphs(piecewise: list[int], full: list[int]) -> tuple[Descriptor, ...]:
    return tuple(
        [Descriptor(PIECEWISE, n, n) for n in sorted(piecewise, reverse=True)]
        + [Descriptor(FULL, n, n) for n in sorted(full, reverse=True)]
    )


def deployment(**fields: object) -> Deployment:
    return Deployment(model=ModelShape(), gpu=gpu("h200"), vllm="0.25.1", **fields)  # type: ignore[arg-type]


def test_the_graphs_are_those_of_the_resolution_largest_first() -> None:
    resolution = resolve(deployment(max_num_seqs=256))
    every = descriptors_of(resolution)
    assert counts(every) == {"PIECEWISE": 51, "FULL": 35}
    assert [one.mode for one in every] == [PIECEWISE] * 51 + [FULL] * 35
    assert [one.num_tokens for one in every if one.mode is FULL][:2] == [256, 248]
    assert len(every) == resolution.graph_count()


def test_requests_of_a_uniform_decode_with_drafts_have_several_tokens() -> None:
    given_drafts = deployment(
        max_num_seqs=8, speculative_config={"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
    )
    full = [one for one in descriptors_of(resolve(given_drafts)) if one.mode is FULL]
    assert full
    assert all(one.num_tokens == one.num_reqs * one.query_len for one in full if one.query_len > 1)


def test_two_are_vllms_two_largest_of_each_mode() -> None:
    assert chosen(graphs([1, 2, 4, 8], [1, 2]), "two") == graphs([4, 8], [1, 2])


def test_auto_takes_at_most_a_quarter_of_the_default_grid() -> None:
    every = descriptors_of(resolve(deployment(max_num_seqs=1024)))
    few = chosen(every, "auto")
    assert len(few) <= len(every) / 4
    for of_mode in by_mode(few).values():
        sizes = [one.num_tokens for one in of_mode]
        assert sizes[:2] == [512, 496]
        assert sizes[-1] == 1


def test_auto_takes_the_same_sizes_of_both_modes() -> None:
    few = by_mode(chosen(descriptors_of(resolve(deployment(max_num_seqs=256))), "auto"))
    full = {one.num_tokens for one in few[FULL]}
    assert full <= {one.num_tokens for one in few[PIECEWISE]}


sizes = st.lists(st.integers(1, 2048), unique=True, max_size=60)


@given(sizes, sizes, st.sampled_from(SAMPLES))
def test_what_is_chosen_is_there_once_with_the_largest_of_each_mode_first(
    piecewise: list[int], full: list[int], sample: str
) -> None:
    every = graphs(piecewise, full)
    few = chosen(every, sample)  # type: ignore[arg-type]
    assert len(set(few)) == len(few)
    assert set(few) <= set(every)
    for mode, of_mode in by_mode(every).items():
        own = by_mode(few)[mode]
        assert own[0] == of_mode[0]
        assert len(own) >= min(2, len(of_mode))
    if sample == "all":
        assert set(few) == set(every)


@given(sizes, sizes)
def test_all_begins_with_auto(piecewise: list[int], full: list[int]) -> None:
    every = graphs(piecewise, full)
    auto = by_mode(chosen(every, "auto"))
    for mode, of_mode in by_mode(chosen(every, "all")).items():
        assert of_mode[: len(auto[mode])] == auto[mode]
