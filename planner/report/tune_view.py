"""The words and rows of `cgplan tune`, for the screen and for Markdown alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..memory.estimates import MIB
from ..workload.mixture import Traffic
from ..workload.replay.words import number
from ..workload.sizes.densities import Density
from ..workload.sizes.effect import Point
from ..workload.sizes.frame import MOST_SIZES
from ..workload.sizes.neighbours import FRAGILE
from ..workload.sizes.robust import Interval
from ..workload.tune.tune import Tuning
from .words import counted

HEAD = ("", "today", "chosen", "difference")
PARTS_HEAD = ("traffic", "steps", "padding", "chosen", "saved", "alone", "without")
PARTS_WORDS = (
    "alone: what as many sizes save that are chosen for this part alone; without: what a list saves here that is "
    "chosen for the other parts"
)
SHIFTS_HEAD = ("requests", "padding", "chosen", "saved")
MOST_BARS = 14
NOTHING = "–"


class Bar(NamedTuple):
    """One row of the curve. `value` is what is drawn."""

    name: str
    value: float
    text: str
    mark: str
    is_chosen: bool = False
    is_today: bool = False


def title(tuning: Tuning) -> str:
    return " + ".join(f"{part.name}{_steps(part) if part.is_measured else ''}" for part in tuning.traffic)


def _steps(part: Traffic) -> str:
    told = number(part.workload.steps)
    weight = "" if part.weight is None else f", weight {part.weight:g}"
    return f" ({told} {'step' if told == '1' else 'steps'}{weight})"


def percent(share: float) -> str:
    return f"{100 * share:.1f}%" if abs(share) >= 0.01 or not share else f"{100 * share:.2f}%"


def cost(tuning: Tuning, value: float) -> str:
    return f"{1000 * value:.3f} ms" if tuning.prices.times else f"{value:.1f} tokens"


def verdict(tuning: Tuning) -> list[str]:
    """What to do, in whole sentences."""
    today, chosen = tuning.today, tuning.chosen
    named = "the list of today" if tuning.resolution.sizes_are_named else "vLLM's default"
    ours = counted(len(today.sizes), "size")
    what = "a step takes" if tuning.prices.times else "a step computes"
    less, more = ("less time", "more time") if tuning.prices.times else ("fewer tokens", "more tokens")
    if tuning.verdict == "best already":
        found = [f"Today's list is the best: of lists within the limits none costs less than {named}, {ours}."]
    elif tuning.verdict == "fewer graphs":
        found = [
            f"{counted(len(chosen.sizes), 'size')} do as well as {named}, {ours}: about the same cost, "
            f"{counted(today.graphs - chosen.graphs, 'graph')} fewer."
        ]
    elif tuning.verdict == "within limits":
        costs = f"{what} {percent(-tuning.gain)} {more} than" if tuning.gain < 0 else "they cost no more than"
        found = [
            f"Within the limits {counted(len(chosen.sizes), 'size')} are the best: {costs} with {named}, {ours}, which "
            "the limits do not allow."
        ]
    else:
        found = [
            f"With {counted(len(chosen.sizes), 'size')} {what} {percent(tuning.gain)} {less} than with {named}, {ours}."
        ]
    return [*found, *_against_number(tuning)]


def _against_number(tuning: Tuning) -> list[str]:
    """For which numbers of sizes today's list is the better one."""
    least = len(tuning.points[0].sizes) if tuning.points else 0
    if tuning.beats_from is None:
        most = len(tuning.points[-1].sizes) if tuning.points else 0
        longer = f", and longer ones than {MOST_SIZES} are not looked at" if most >= MOST_SIZES else ""
        return [f"No list of up to {counted(most, 'size')} costs as little as today's{longer}."] if most else []
    if tuning.beats_from == least:
        return []
    last = tuning.beats_from - 1
    fewer = "1 size" if last == 1 else f"{last} sizes or fewer"
    return [f"With {fewer} today's list costs less; from {tuning.beats_from} on it does not."]


def sureness(tuning: Tuning) -> list[str]:
    """What is to be known of the gain, in whole sentences."""
    found = []
    if tuning.chance is not None:
        found.append(f"By chance in the counts the saving lies {_span(tuning.chance)} (95%).")
        if tuning.chance.low <= 0 < tuning.gain:
            found.append("So it may be chance alone; more steps would tell.")
    if tuning.held_out is not None:
        does = f"save {percent(tuning.held_out)}" if tuning.held_out >= 0 else f"cost {percent(-tuning.held_out)} more"
        found.append(f"Chosen for one half of the steps, as many sizes {does} on the other.")
    if tuning.buckets is not None:
        found.append(
            f"The source knows sizes by bucket only: the saving is {_span(tuning.buckets)}; "
            "the list takes the sizes of a bucket as alike."
        )
    if tuning.eager_anyway >= 0.0005:
        found.append(
            f"{percent(tuning.eager_anyway)} of the steps run without a graph whatever the sizes; they are in no "
            "figure here."
        )
    if tuning.near.why and tuning.chosen is not tuning.today:
        found.append(_near(tuning))
    if tuning.spread:
        found.append(
            f"The list is chosen for the traffic and {percent(tuning.spread)} of steps of any size; figures are of the "
            "traffic alone."
        )
    if tuning.prices.times:
        found.append(f"Times: {tuning.prices.source}.")
    else:
        found.append("Tokens are not time: small steps take about the same. --profile makes the cost seconds.")
    return found


def _near(tuning: Tuning) -> str:
    """What the list has beside what was seen, or may do to traffic that was not."""
    near = tuning.near
    about = (
        "half to twice as many requests" if near.reach >= 2 or not near.sizes else "a quarter more or fewer requests"
    )
    sizes = f"the sizes in which {about} run today"
    if near.why == FRAGILE:
        return f"The list has {sizes}: {near.why}." if near.sizes else f"The limits leave no room for {sizes}."
    lacks = f"How far the traffic spreads is not known, {near.why}"
    if not near.sizes:
        return f"{lacks}; the limits leave no room for sizes near, so one request more may be padded much further."
    each = f"each number of requests up to {near.filled} and " if near.filled else ""
    return f"{lacks}: the list also has {each}{sizes}."


def _span(found: Interval) -> str:
    return f"between {percent(found.low)} and {percent(found.high)}"


def rows(tuning: Tuning) -> list[tuple[str, ...]]:
    """Today's list beside the chosen one."""
    a, b = tuning.today, tuning.chosen
    found: list[tuple[str, ...]] = [
        ("Sizes", str(len(a.sizes)), str(len(b.sizes)), f"{len(b.sizes) - len(a.sizes):+d}"),
        ("Graphs", str(a.graphs), str(b.graphs), f"{b.graphs - a.graphs:+d}"),
        ("Padding", percent(a.waste), percent(b.waste), f"{100 * (b.waste - a.waste):+.1f} points"),
        ("Tokens of a step", f"{a.tokens:.1f}", f"{b.tokens:.1f}", f"{b.tokens - a.tokens:+.1f}"),
    ]
    if tuning.prices.times:
        found.append(
            ("Time of a step", cost(tuning, a.cost), cost(tuning, b.cost), f"{1e3 * (b.cost - a.cost):+.3f} ms")
        )
    if a.eager or b.eager:
        found.append(
            ("Steps without a graph", percent(a.eager), percent(b.eager), f"{100 * (b.eager - a.eager):+.1f} points")
        )
    if a.graph_bytes is not None and b.graph_bytes is not None:
        found.append(("Graph memory", mib(a), mib(b), f"{(b.graph_bytes - a.graph_bytes) / MIB:+,.0f} MiB"))
    if a.kv_tokens is not None and b.kv_tokens is not None:
        found.append(("KV tokens", f"{a.kv_tokens:,}", f"{b.kv_tokens:,}", f"{b.kv_tokens - a.kv_tokens:+,}"))
    seconds = f"{b.capture.best - a.capture.best:+.1f} s"
    found.append(("Capture", f"{a.capture.best:.1f} s", f"{b.capture.best:.1f} s", seconds))
    return found


def mib(point: Point) -> str:
    return NOTHING if point.graph_bytes is None else f"{point.graph_bytes / MIB:,.0f} MiB"


def bars(tuning: Tuning) -> list[Bar]:
    """The curve: some of its points, and today's list, by rising number of sizes."""
    found = [_bar(tuning, point, _mark(tuning, point)) for point in _shown(tuning)]
    today = _bar(tuning, tuning.today, "today")._replace(is_today=True)
    if tuning.chosen is tuning.today:
        today = today._replace(mark="today, chosen", is_chosen=True)
    place = next((at for at, bar in enumerate(found) if int(bar.name) > len(tuning.today.sizes)), len(found))
    return [*found[:place], today, *found[place:]]


def _shown(tuning: Tuning) -> list[Point]:
    points = tuning.points
    if not points:
        return []
    wanted = {0, len(points) - 1}
    steps = MOST_BARS - 5
    wanted |= {round((len(points)) ** (at / steps)) - 1 for at in range(steps + 1)}
    for at, point in enumerate(points):
        if point is tuning.chosen or point is tuning.knee or len(point.sizes) == tuning.beats_from:
            wanted.add(at)
    return [points[at] for at in sorted(wanted) if at < len(points)]


def _mark(tuning: Tuning, point: Point) -> str:
    marks = [
        ("chosen", point is tuning.chosen),
        ("knee", point is tuning.knee),
        ("as good as today", len(point.sizes) == tuning.beats_from),
    ]
    return ", ".join(name for name, there in marks if there)


def _bar(tuning: Tuning, point: Point, mark: str) -> Bar:
    value = point.cost if tuning.prices.times else point.waste
    shown = cost(tuning, point.cost) if tuning.prices.times else percent(point.waste)
    tokens = "" if point.kv_tokens is None else f"  {point.kv_tokens:,}"
    text = f"{shown}  {mib(point) if point.graph_bytes is not None else ''}{tokens}".rstrip()
    return Bar(str(len(point.sizes)), value, text, mark, is_chosen=point is tuning.chosen)


def curve_title(tuning: Tuning) -> str:
    what = "Time of a step" if tuning.prices.times else "Padding"
    more = ", graph memory, tokens of KV cache" if tuning.today.graph_bytes is not None else ""
    return f"{what} by number of sizes{more}"


def part_rows(tuning: Tuning) -> list[tuple[str, ...]]:
    return [
        (
            one.name[-30:], percent(one.share), percent(one.waste_today), percent(one.waste_chosen), percent(one.gain),
            percent(one.own_gain), NOTHING if one.gain_without is None else percent(one.gain_without),
        )
        for one in tuning.parts
    ]  # fmt: skip


def shift_rows(tuning: Tuning) -> list[tuple[str, ...]]:
    return [
        (f"{one.factor:g} times", percent(one.waste_today), percent(one.waste_chosen), percent(one.gain))
        for one in tuning.shifts
    ]


DENSITIES_TITLE = "Lists by how dense they are"
DENSITIES_WORDS = (
    "every 64: powers of two up to it, then its multiples. Each list has the largest size and the fullest decode "
    "batch. *: none of the others has no more graphs and pads no more. Denser lists take memory of the KV cache and "
    "seconds of the start for less padding"
)


def densities_head(tuning: Tuning) -> tuple[str, ...]:
    what = "ms of a step" if tuning.prices.times else "padding"
    return ("list", "sizes", "graphs", what, "MiB", "KV tokens", "capture, s")


def density_rows(tuning: Tuning) -> list[tuple[str, ...]]:
    """Lists by number of graphs; those that none beats are marked."""
    return [_density(tuning, one) for one in tuning.densities]


def _density(tuning: Tuning, one: Density) -> tuple[str, ...]:
    point = one.point
    return (
        one.name if one.is_beaten else f"{one.name} *",
        str(len(point.sizes)),
        str(point.graphs),
        f"{1000 * point.cost:.3f}" if tuning.prices.times else percent(point.waste),
        NOTHING if point.graph_bytes is None else f"{point.graph_bytes / MIB:,.0f}",
        NOTHING if point.kv_tokens is None else f"{point.kv_tokens:,}",
        f"{point.capture.best:.1f}",
    )


def printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def all_notes(tuning: Tuning, assumptions: Iterable[str]) -> list[str]:
    return [printable(text) for text in (*assumptions, *tuning.notes)]
