"""What an operator should know of a choice: traffic that is not of this deployment, batches above all sizes."""

from __future__ import annotations

from dataclasses import replace

from ...deployment import Deployment
from ...errors import CgplanError
from ...resolve import resolve
from ...resolve.padding import round_up
from ...resolve.resolution import Resolution
from ...trace import Finding
from ..mixture import Traffic
from ..replay.replay import replay
from ..replay.replay_findings import settings_differ
from ..rules import BEYOND_LIMITS, OTHER_SIZES, SEEN_OTHERWISE
from ..sizes.frame import Frame
from ..sizes.others import TrafficSteps
from ..tune_rules import ABOVE_ALL_SIZES, NOT_KEPT

OF_THE_TRAFFIC = frozenset((SEEN_OTHERWISE.code, OTHER_SIZES.code, BEYOND_LIMITS.code))
"""Findings that say of the traffic what a replay says of it."""
WORTH_SAYING = 0.001
"""A smaller share of the steps is not told of."""
WHERE = "--cudagraph-capture-sizes"


def findings_of(deployment: Deployment, given: TrafficSteps, frame: Frame, dropped: int) -> tuple[Finding, ...]:
    """The findings of a choice; `dropped`: lists that vLLM would not keep."""
    found = [one for part in given.traffic for one in _contradictions(part, given)]
    if (above := _above(deployment, given, frame)) is not None:
        found.append(above)
    if dropped:
        what = "1 list is left out: vLLM would not keep it as it was" if dropped == 1 else (
            f"{dropped} lists are left out: vLLM would not keep them as they were"
        )  # fmt: skip
        found.append(Finding(NOT_KEPT.code, "info", f"{what} chosen", None, WHERE))
    return tuple(dict.fromkeys(found))


def _contradictions(part: Traffic, given: TrafficSteps) -> list[Finding]:
    """Where a part is not of the deployment: then today's list is one that its server did not have."""
    if not part.is_measured:
        return []
    found = [settings_differ(settings, given.resolution) for settings in part.settings]
    found += [one for one in replay(part.workload, given.resolution).findings if one.code in OF_THE_TRAFFIC]
    named = f"{part.name}: " if len(given.traffic) > 1 else ""
    return [replace(one, message=named + one.message) for one in found if one is not None]


def _above(deployment: Deployment, given: TrafficSteps, frame: Frame) -> Finding | None:
    """Decode batches that the deployment lets in, above the largest size."""
    limit = given.resolution.max_num_seqs
    wide = [
        step
        for step in given.every
        if step.kind == "decode" and step.batch.num_tokens > frame.largest and step.batch.num_reqs <= limit
    ]
    share = sum(step.weight for step in wide) / given.weight
    if share < WORTH_SAYING:
        return None
    widest = max(step.batch.num_tokens for step in wide)
    above = f"above {frame.largest} tokens, the largest size"
    fix = _larger(deployment, given.resolution, widest)
    if not _are_decode(given, frame.largest):
        message = (
            f"{share:.1%} of the steps are batches {above}; the source does not say whether they are decode batches or"
            " have a prefill"
        )
        return Finding(ABOVE_ALL_SIZES.code, "info", message, f"{fix}, if they are decode batches", WHERE)
    message = f"{share:.1%} of the steps are decode batches {above}"
    return Finding(ABOVE_ALL_SIZES.code, "warning", message, fix, WHERE)


def _are_decode(given: TrafficSteps, largest: int) -> bool:
    """Whether the source says of a batch above `largest` that it is of decode; one of an unknown kind is taken so."""
    return any(
        item.kind == "decode" and (item.tokens.high is None or item.tokens.high > largest)
        for part in given.traffic
        for item in part.workload.batches
    )


def _larger(deployment: Deployment, resolution: Resolution, widest: int) -> str:
    """How to ask for a grid that has the widest batch; each is tried."""
    options = deployment.compilation_config
    if deployment.cudagraph_capture_sizes is not None or options.cudagraph_capture_sizes is not None:
        in_options = options.cudagraph_capture_sizes is not None
        place = "cudagraph_capture_sizes of --compilation-config" if in_options else WHERE
        said = deployment.max_cudagraph_capture_size or options.max_cudagraph_capture_size
        return f"ask again with {widest} in {place}{'' if said is None else ', and without the largest size'}"
    for size in (widest, round_up(widest, 8), round_up(widest, 16), round_up(widest, 8) + 16, 2 * widest):
        if _reaches(deployment, size, widest):
            instead = ", in the place of that of --compilation-config" if options.max_cudagraph_capture_size else ""
            return f"ask again with --max-cudagraph-capture-size {size}{instead}"
    return f"raise --max-num-batched-tokens, {resolution.max_num_batched_tokens}, and --max-cudagraph-capture-size"


def _reaches(deployment: Deployment, size: int, widest: int) -> bool:
    options = deployment.compilation_config.model_copy(update={"max_cudagraph_capture_size": None})
    update = {"max_cudagraph_capture_size": size, "compilation_config": options}
    try:
        found = resolve(deployment.model_copy(update=update))
    except CgplanError:
        return False
    return any(graph.num_tokens >= widest for graphs in found.captures.values() for graph in graphs)
