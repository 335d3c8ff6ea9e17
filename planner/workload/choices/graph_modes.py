"""The other CUDA graph modes that the deployment could run, each with its own best sizes under the same limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...deployment import Deployment
from ...errors import CgplanError
from ...resolve import resolve
from ...resolve.resolution import Resolution
from ...vocabulary import CUDAGraphMode
from ..sizes.flags import Flags, flags_of
from ..sizes.limits import SAME, keeps
from ..sizes.robust import Interval
from .candidate import (
    REAL,
    TOO_SMALL,
    Bench,
    Candidate,
    Listed,
    compared,
    first_of,
    listed,
    not_measured,
    surely,
    trials_of,
)

ORDER = (
    CUDAGraphMode.FULL_AND_PIECEWISE,
    CUDAGraphMode.FULL,
    CUDAGraphMode.FULL_DECODE_ONLY,
    CUDAGraphMode.PIECEWISE,
    CUDAGraphMode.NONE,
)


@dataclass(frozen=True)
class ModeRow:
    """One mode that can be asked for.

    Attributes:
        asked: the mode.
        mode: what vLLM makes of it; None: it does not start.
        found: with its best sizes; None: it is today's mode, it is lowered to another one, or there is no list.
        why_not: why there is none, in words; "" of today's mode.
    """

    asked: CUDAGraphMode
    mode: CUDAGraphMode | None
    found: Candidate | None
    why_not: str = ""


@dataclass(frozen=True)
class GraphModes:
    """The modes side by side.

    Attributes:
        today: the mode of today, which the first answer has.
        first: the first answer, on the steps that the rows are compared on.
        rows: of every mode that can be asked for.
        recommended: of `rows`; None: today's mode stays.
        chance: where the gain of the recommended one lies, or of the best one; None: not known.
        reason: why, in whole sentences.
        flags: of the recommended mode, sizes included.
    """

    today: CUDAGraphMode
    first: Candidate
    rows: tuple[ModeRow, ...]
    recommended: ModeRow | None
    chance: Interval | None
    reason: str
    flags: Flags | None


def graph_modes(bench: Bench) -> GraphModes:
    """Compare the modes.

    Another one is recommended where it is sure to take less time, or where every step that was seen runs in the same
    kind of graph and there are fewer of them.
    """
    made = [_listed(bench, mode) for mode in ORDER]
    trials = trials_of(bench, (found for _, found in made if found is not None))
    rows = tuple(_row(bench, asked, *one, trials) for asked, one in zip(ORDER, made, strict=True))
    recommended, chance, reason = _choose(bench, rows)
    flags = None
    if recommended is not None and recommended.found is not None:
        flags = flags_of(bench.deployment, recommended.found.resolution.capture_sizes, recommended.asked)
    return GraphModes(
        bench.resolution.cudagraph_mode, first_of(bench, trials), rows, recommended, chance, reason, flags
    )


def with_mode(deployment: Deployment, mode: CUDAGraphMode) -> Deployment:
    """The deployment with this mode in the place of what it says of the mode."""
    options = deployment.compilation_config.model_copy(update={"cudagraph_mode": mode})
    return deployment.model_copy(update={"compilation_config": options})


def _listed(bench: Bench, asked: CUDAGraphMode) -> tuple[CUDAGraphMode | None, Listed | str | None]:
    """What vLLM makes of a mode, and the best list with it, or why there is none; None: it is today's mode."""
    deployment = with_mode(bench.deployment, asked)
    try:
        resolution = resolve(deployment)
    except CgplanError as error:
        return None, f"it does not start: {error.message}"
    mode = resolution.cudagraph_mode
    if mode is not asked:
        return mode, f"vLLM lowers it to {mode}: {_why(resolution)}"
    if mode is bench.resolution.cudagraph_mode:
        return mode, None
    found = listed(bench, deployment, as_good=True)
    if not isinstance(found, str) and found.resolution.cudagraph_mode is not asked:
        return mode, f"with sizes of its own vLLM lowers it to {found.resolution.cudagraph_mode}"
    return mode, found


def _row(
    bench: Bench,
    asked: CUDAGraphMode,
    mode: CUDAGraphMode | None,
    found: Listed | str | None,
    trials: Sequence[Resolution],
) -> ModeRow:
    if found is None or isinstance(found, str):
        return ModeRow(asked, mode, None, found or "")
    return ModeRow(asked, mode, compared(bench, found, trials))


def _why(resolution: Resolution) -> str:
    """The rule that lowered the mode last."""
    found = [one for one in resolution.decisions if one.field == "cudagraph_mode" and one.before != one.after]
    return f"{found[-1].why.rstrip('.')} ({found[-1].code})" if found else "by its rules"


def _choose(bench: Bench, rows: tuple[ModeRow, ...]) -> tuple[ModeRow | None, Interval | None, str]:
    usable = [row for row in rows if row.found is not None and keeps(row.found.point, bench.limits, bench.today)]
    priced = [row for row in usable if _gain(row) is not None]
    best = max(priced, key=lambda row: _gain(row) or 0.0, default=None) if bench.prices.times else None
    chance = surely(bench, best.found) if best is not None and best.found is not None else None
    doubt = bench.doubt()
    if best is not None and chance is not None and min(chance.low, _gain(best) or 0.0) > REAL and not doubt:
        if best.found is not None and (beyond := not_measured(bench, best.found)):
            return None, chance, _stays(bench, f"{best.asked} seems to take {_gain(best):.1%} less time, but {beyond}")
        span = f"between {chance.low:.1%} and {chance.high:.1%}, with 95%"
        return best, chance, f"With {best.asked} a step takes {_gain(best):.1%} less time ({span})."
    serving = [row for row in usable if _serves_as_well(bench, row)]
    lean = [row for row in serving if _holds_as_much(bench, row)]
    if lean and not doubt:
        row = min(lean, key=lambda row: row.found.point.graphs if row.found is not None else 0)
        return row, None, _lean_words(bench, row)
    return None, chance, _stays(bench, _no_reason(bench, best, serving, doubt))


def _gain(row: ModeRow) -> float | None:
    return None if row.found is None else row.found.gain


def _serves_as_well(bench: Bench, row: ModeRow) -> bool:
    """Fewer graphs, and the same for all steps that were seen."""
    one = row.found
    if one is None or not one.same_runs or one.gain is None:
        return False
    return one.gain >= -SAME and one.point.graphs < bench.chosen.graphs


def _holds_as_much(bench: Bench, row: ModeRow) -> bool:
    """No less of the KV cache is left."""
    before = bench.chosen.kv_tokens
    tokens = None if row.found is None else row.found.point.kv_tokens
    return before is None or (tokens is not None and tokens >= before)


def _lean_words(bench: Bench, row: ModeRow) -> str:
    assert row.found is not None
    fewer = bench.chosen.graphs - row.found.point.graphs
    return (
        f"With {row.asked} every step that was seen runs in the same kind of graph, and there {_are(fewer)} fewer. "
        f"What was not seen in {bench.counted:,.0f} steps may lose its graph."
    )


def _are(graphs: int) -> str:
    return "is 1 graph" if graphs == 1 else f"are {graphs} graphs"


def _no_reason(bench: Bench, best: ModeRow | None, serving: list[ModeRow], doubt: str) -> str:
    gain = None if best is None else _gain(best)
    if best is not None and gain is not None and gain > 0:
        found = f"{best.asked} would take {gain:.1%} less time"
        if gain <= REAL:
            return f"{found}, and {TOO_SMALL}"
        return f"{found}, but {doubt or 'that may be chance alone'}"
    if serving:
        lean = [row for row in serving if _holds_as_much(bench, row)]
        why = doubt if lean else "less is left for the KV cache"
        return f"{(lean or serving)[0].asked} has fewer graphs and serves the steps that were seen as well, but {why}"
    if best is not None:
        return "no mode takes less time"
    if bench.prices.times:
        return "times of the others are not known"
    return "tokens do not say what another kind of graph, or none, takes: --profile does"


def _stays(bench: Bench, why: str) -> str:
    return f"{bench.resolution.cudagraph_mode} stays: {why}."
