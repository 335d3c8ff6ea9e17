"""Laws that hold for every deployment, looked for by hypothesis."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from resolve_helpers import A100_80, B200, GB10, H100, JAMBA, L4, MAMBA, MLA, MOE, SPARSE_MLA, T4

from cgplan import (
    AttentionCGSupport,
    Batch,
    CUDAGraphMode,
    Deployment,
    Gpu,
    Graph,
    ModelShape,
    Resolution,
    Runner,
    SpeculativeOptions,
    StartupError,
    resolve,
)
from cgplan.resolve.document import as_document
from cgplan.resolve.document_schema import from_document
from cgplan.resolve.dynamic_sd import tokens_at
from cgplan.resolve.padding import padded

FULL, PIECEWISE, NONE = CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE, CUDAGraphMode.NONE
GPUS = [H100, A100_80, L4, T4, B200, GB10]
MODELS = [ModelShape(), MOE, MLA, SPARSE_MLA, JAMBA, MAMBA]
LEVELS = list(AttentionCGSupport)
WITH_FULL = [CUDAGraphMode.FULL, CUDAGraphMode.FULL_DECODE_ONLY, CUDAGraphMode.FULL_AND_PIECEWISE]


@st.composite
def schedules(draw: st.DrawFn, tokens: int) -> list[list[int]]:
    cuts = sorted(draw(st.sets(st.integers(2, 60), max_size=3)))
    return [
        [first, after - 1, draw(st.integers(0, tokens))] for first, after in zip([1, *cuts], [*cuts, 200], strict=True)
    ]


@st.composite
def speculations(draw: st.DrawFn) -> SpeculativeOptions:
    method = draw(st.sampled_from(["ngram", "eagle", "dflash"]))
    tokens = draw(st.integers(1, 6))
    options: dict[str, Any] = {"method": method, "num_speculative_tokens": tokens}
    if method != "ngram":
        options["model"] = ModelShape(num_hidden_layers=1)
    if draw(st.booleans()):
        options["num_speculative_tokens_per_batch_size"] = draw(schedules(tokens))
    return SpeculativeOptions(**options)


@st.composite
def deployments(draw: st.DrawFn, max_seqs: int = 300) -> Deployment:
    """Deployments of every kind that the resolver distinguishes; a few do not start."""
    fields: dict[str, Any] = {
        "gpu": draw(st.sampled_from(GPUS)),
        "model": draw(st.sampled_from(MODELS)),
        "max_num_seqs": draw(st.integers(1, max_seqs)),
        "attention_support": draw(st.sampled_from([*LEVELS, *LEVELS[2:], *LEVELS[2:]])),
        "env": draw(st.sampled_from([{}, *({"VLLM_USE_V2_MODEL_RUNNER": n} for n in "01")])),
        "performance_mode": draw(st.sampled_from([None, "interactivity", "throughput"])),
        "optimization_level": draw(st.sampled_from([None, None, None, 2, 1, 0])),
        "data_parallel_size": draw(st.sampled_from([1, 1, 2])),
    }
    fields["max_num_batched_tokens"] = fields["max_num_seqs"] * draw(st.integers(1, 7)) + draw(st.integers(0, 900))
    if draw(st.booleans()):
        fields["speculative_config"] = draw(speculations())
    if draw(st.booleans()):
        fields["enable_lora"] = True
        fields["max_loras"] = draw(st.integers(1, 6))
        fields["specialize_active_lora"] = draw(st.booleans())
    if draw(st.integers(0, 3)) == 0:
        fields["cudagraph_capture_sizes"] = draw(st.lists(st.integers(1, 700), min_size=1, max_size=12))
    elif draw(st.integers(0, 3)) == 0:
        fields["max_cudagraph_capture_size"] = draw(st.integers(1, 1200))
    fields["compilation_config"] = {
        "cudagraph_mode": draw(st.sampled_from([None, *CUDAGraphMode, *WITH_FULL, *WITH_FULL])),
        "mode": draw(st.sampled_from([None, None, None, None, "NONE", "DYNAMO_TRACE_ONCE"])),
        "cudagraph_specialize_lora": draw(st.booleans()),
        "splitting_ops": draw(st.sampled_from([None, None, None, [], ["<attention_ops>"]])),
    }
    return Deployment(**fields)


@st.composite
def batches(draw: st.DrawFn, found: Resolution) -> Batch:
    """Any batch that the scheduler could build."""
    reqs = draw(st.integers(1, found.max_num_seqs))
    prefill = draw(st.booleans())
    loras = draw(st.integers(0, found.lora.max_loras)) if found.lora else 0
    if draw(st.booleans()):
        longest = draw(st.integers(1, found.uniform_decode_query_len))
        tokens = longest * reqs
    else:
        tokens = draw(st.integers(reqs, max(reqs, found.max_num_batched_tokens)))
        longest = draw(st.integers(-(-tokens // reqs), tokens - reqs + 1))
    assume(tokens <= found.max_num_batched_tokens)
    return Batch(tokens, reqs, longest, loras, prefill)


def started(deployment: Deployment) -> Resolution:
    """The resolution; deployments that vLLM refuses are no examples."""
    try:
        return resolve(deployment)
    except StartupError:
        assume(False)
        raise


def all_graphs(found: Resolution) -> set[tuple[CUDAGraphMode, Graph]]:
    return {(mode, graph) for mode, graphs in found.captures.items() for graph in graphs}


@given(deployments())
def test_sizes_ascend_within_their_bounds(deployment: Deployment) -> None:
    found = started(deployment)
    sizes = list(found.capture_sizes)
    assert sizes == sorted(set(sizes))
    assert all(size >= 1 for size in sizes)
    if sizes and found.runner is Runner.V2:
        assert sizes[-1] <= found.max_num_batched_tokens
    asked = deployment.cudagraph_capture_sizes
    if asked is None and deployment.max_cudagraph_capture_size is None and sizes:
        cap = 1024 if deployment.gpu.major == 10 else 512
        assert sizes[-1] <= min(cap, 2 * found.max_num_seqs * found.uniform_decode_query_len)
    if asked is not None and found.runner is Runner.V2:
        assert set(sizes) <= set(asked)


@given(deployments())
def test_rounded_sizes_never_exceed_the_budget_by_a_request(deployment: Deployment) -> None:
    found = started(deployment)
    assert found.max_capture_size == (found.capture_sizes[-1] if found.capture_sizes else 0)
    assert found.max_capture_size <= found.max_num_batched_tokens


@given(deployments(), st.integers(0, 2000), st.integers(0, 2000))
def test_padding_is_idempotent_monotone_and_never_below(deployment: Deployment, one: int, other: int) -> None:
    found = started(deployment)
    small, large = sorted((one, other))
    low, high = found.padded(small), found.padded(large)
    if low is not None:
        assert low >= small
        assert found.padded(low) == low
    if high is not None:
        assert low is not None
        assert low <= high


@given(st.lists(st.integers(1, 4000), unique=True), st.integers(1, 5000))
def test_padding_is_the_smallest_size_that_fits(sizes: list[int], tokens: int) -> None:
    fitting = [size for size in sizes if size >= tokens]
    assert padded(tokens, sorted(sizes)) == (min(fitting) if fitting else None)


@given(st.data(), deployments())
def test_dispatch_returns_captured_graphs_that_hold_the_batch(data: st.DataObject, deployment: Deployment) -> None:
    found = started(deployment)
    captured = all_graphs(found)
    for _ in range(5):
        batch = data.draw(batches(found))
        answer = found.dispatch_batch(batch)
        if answer.graph is None:
            assert (answer.mode, answer.num_tokens) == (NONE, batch.num_tokens)
            continue
        graph = answer.graph
        assert (answer.mode, graph) in captured
        assert answer.num_tokens == graph.num_tokens >= batch.num_tokens
        assert graph.num_reqs is None or graph.num_reqs >= min(batch.num_reqs, graph.num_tokens)
        if found.runner is Runner.V2:
            assert graph.num_reqs is None or graph.num_reqs >= batch.num_reqs
        if graph.uniform_query_len is not None:
            assert batch.num_tokens == batch.num_reqs * graph.uniform_query_len
        assert (graph.num_active_loras > 0) is (batch.num_active_loras > 0)
        assert graph.num_active_loras >= batch.num_active_loras
        assert answer.mode is not FULL or found.cudagraph_mode.has_full
        assert answer.mode is not PIECEWISE or found.cudagraph_mode.has_piecewise


@given(st.data(), deployments())
def test_dispatch_is_monotone_in_the_padded_size(data: st.DataObject, deployment: Deployment) -> None:
    """A mixed batch never pads to less than a smaller one."""
    found = started(deployment)
    small, large = sorted(data.draw(st.tuples(st.integers(1, 1500), st.integers(1, 1500))))
    low = found.dispatch(small, has_prefill=True)
    high = found.dispatch(large, has_prefill=True)
    if high.graph is not None:
        assert low.graph is not None
    assert low.num_tokens <= high.num_tokens


@given(st.data(), deployments())
def test_ranks_agree_on_one_shape(data: st.DataObject, deployment: Deployment) -> None:
    found = started(deployment)
    assume(found.data_parallel_ranks > 1)
    given_batches = [data.draw(batches(found)) for _ in range(2)]
    if found.runner is Runner.V1:
        # V1 asserts where ranks with the same mode find no common key; that is vLLM's, not ours, to solve.
        assume(len({b.num_active_loras > 0 for b in given_batches}) == 1)
    answers = found.dispatch_ranks(given_batches)
    captured = all_graphs(found)
    if any(found.dispatch_batch(batch).graph is None for batch in given_batches):
        assert {answer.mode for answer in answers} == {NONE}
    for answer, batch in zip(answers, given_batches, strict=True):
        assert answer.num_tokens >= batch.num_tokens
        if answer.graph is not None:
            assert (answer.mode, answer.graph) in captured


ORDER = {NONE: 0, PIECEWISE: 1, FULL: 2}


def parts(mode: CUDAGraphMode) -> tuple[int, int]:
    """How much of decode and of mixed batches runs in a graph."""
    return ORDER[mode.decode_mode], ORDER[mode.mixed_mode]


def mode_or_code(deployment: Deployment, level: AttentionCGSupport) -> CUDAGraphMode | str:
    """The final mode at `level`, or the code of the refusal."""
    try:
        return resolve(deployment.model_copy(update={"attention_support": level})).cudagraph_mode
    except StartupError as error:
        return error.code


@given(deployments())
def test_a_higher_level_never_lowers_a_part_of_the_mode(deployment: Deployment) -> None:
    """Decode never loses; mixed batches lose only what a decode-only mode never had."""
    answers = [mode_or_code(deployment, level) for level in LEVELS]
    # FULL is refused on NEVER alone. A refusal of another rule may come with a higher level: only FULL decode
    # graphs make V1 round its sizes.
    assert not {"CG331", "CG335"} & set(answers[1:])
    reached = [answer for answer in answers if isinstance(answer, CUDAGraphMode)]
    for lower, higher in pairwise(reached):
        assert parts(higher)[0] >= parts(lower)[0]
        if higher is not CUDAGraphMode.FULL_DECODE_ONLY:
            assert parts(higher)[1] >= parts(lower)[1]


def every_batch(found: Resolution) -> list[Batch]:
    """All uniform batches, and one mixed batch of every number of tokens, with every number of adapters."""
    most = found.max_num_batched_tokens
    counts = range(found.lora.max_loras + 1) if found.lora else (0,)
    lengths = range(1, found.uniform_decode_query_len + 1)
    shapes = [
        (reqs * length, reqs, length, False)
        for length in lengths
        for reqs in range(1, found.max_num_seqs + 1)
        if reqs * length <= most
    ]
    shapes += [(tokens, 1, tokens + 1, True) for tokens in range(1, min(most, found.max_capture_size + 1) + 1)]
    return [Batch(tokens, reqs, length, count, prefill) for tokens, reqs, length, prefill in shapes for count in counts]


@given(deployments(max_seqs=40))
def test_every_graph_is_reached_or_named_unreachable(deployment: Deployment) -> None:
    found = started(deployment)
    used = set()
    for batch in every_batch(found):
        answer = found.dispatch_batch(batch)
        if answer.graph is not None:
            used.add((answer.mode, answer.graph))
    twins = {(mode, graph) for mode, graph in all_graphs(found) if graph.num_ubatches > 1}
    named = set(found.unreachable)
    assert all_graphs(found) - twins <= used | named
    assert named <= all_graphs(found)
    if found.schedule is None:
        assert named & used == set()


@given(deployments(max_seqs=60))
def test_coverage_is_one_dispatch_a_batch(deployment: Deployment) -> None:
    found = started(deployment)
    for count in {0, found.lora.max_loras if found.lora else 0}:
        decode = {}
        for item in found.uniform_decode_coverage(count).ranges:
            for reqs in range(item.first, item.last + 1):
                decode[reqs] = (item.query_len, item.mode, item.padded)
        expected = {}
        for reqs in range(1, found.max_num_seqs + 1):
            steps = found.schedule
            length = 1 + tokens_at(steps, reqs) if steps else found.uniform_decode_query_len
            if reqs * length <= found.max_num_batched_tokens:
                answer = found.dispatch_batch(Batch(reqs * length, reqs, length, count))
                expected[reqs] = (length, answer.mode, answer.num_tokens if answer.graph else None)
        assert decode == expected
        last = 0
        for item in found.mixed_coverage(count).ranges:
            assert item.first == last + 1
            last = item.last
            for tokens in {item.first, (item.first + item.last) // 2, item.last}:
                answer = found.dispatch_batch(Batch(tokens, 1, tokens + 1, count, has_prefill=True))
                assert (item.mode, item.padded) == (answer.mode, answer.num_tokens if answer.graph else None)
        assert last == found.max_num_batched_tokens


@given(deployments())
def test_captures_are_distinct_and_in_capture_order(deployment: Deployment) -> None:
    found = started(deployment)
    assert [mode for mode in (PIECEWISE, FULL) if mode in found.captures] == list(found.captures)
    for graphs in found.captures.values():
        assert len(set(graphs)) == len(graphs) > 0
        tokens = [graph.num_tokens for graph in graphs]
        assert tokens == sorted(tokens, reverse=True)


@given(deployments())
def test_full_graphs_hold_batches_that_can_occur(deployment: Deployment) -> None:
    found = started(deployment)
    for graph in found.captures.get(FULL, ()):
        assert graph.num_reqs is not None
        assert 1 <= graph.num_reqs <= found.max_num_seqs
        if graph.uniform_query_len is not None:
            assert graph.num_tokens == graph.num_reqs * graph.uniform_query_len


@given(deployments())
@example(Deployment(speculative_config=SpeculativeOptions(method="ngram", num_speculative_tokens=3)))
def test_a_deployment_survives_json(deployment: Deployment) -> None:
    assert Deployment.from_json(deployment.model_dump_json()) == deployment


@given(deployments())
def test_resolving_twice_gives_the_same_and_survives_json(deployment: Deployment) -> None:
    found = started(deployment)
    document = as_document(found)
    assert document == as_document(resolve(deployment))
    assert from_document(json.loads(json.dumps(document))) == found


@given(st.integers(1, 2**31 - 1), st.integers(1, 2**31 - 1), st.sampled_from(GPUS))
def test_absurd_limits_are_answered_or_refused(seqs: int, tokens: int, gpu: Gpu) -> None:
    deployment = Deployment(
        max_num_seqs=seqs, max_num_batched_tokens=tokens, gpu=gpu, attention_support=AttentionCGSupport.ALWAYS
    )
    if tokens < seqs:
        with pytest.raises(StartupError, match="below max_num_seqs"):
            resolve(deployment)
    else:
        assert len(resolve(deployment).capture_sizes) <= 100
