"""Charts as inline SVG, drawn by pygal. Colours, fonts and lines are those of the page: style.css has them.

What pygal writes is taken without its scripts, styles and comments, so that nothing is loaded, nothing runs, and the
same numbers give the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any
from xml.etree import ElementTree

from ...errors import InputError
from .blocks import COLOURS, Chart, Curves, Grouped, Piece, Stacked
from .framing import frame
from .rules import NEEDS_EXTRA

WIDE, NARROW = 900, 340
"""Widths of the two pictures of a chart, for a desk and for a phone: about as many CSS pixels as they get there."""
FONT = 12
FEW = 8
"""Bars up to which they are thick."""
LETTER = 6.4
"""Width of a letter of that font, about."""
_SVG = "{http://www.w3.org/2000/svg}"
_KEPT = {"svg", "g", "rect", "path", "text", "circle", "title", "line"}


def check_library() -> None:
    """See that charts can be drawn, before anything is worked out.

    Raises:
        InputError: CG730, pygal is not installed.
    """
    try:
        import pygal  # noqa: F401
    except ImportError:
        raise InputError(
            "the HTML report draws its charts with pygal, which is not installed",
            code=NEEDS_EXTRA.code,
            where="--output",
            fix="pip install 'cgplan[report]'; --markdown needs no more than cgplan",
        ) from None


def svg(chart: Chart, name: str, summary: str, width: int) -> str:
    """The chart as an SVG element that may stand in HTML; `name` and `summary` are what a screen reader says."""
    if isinstance(chart, Stacked):
        drawn, pieces = _stacked(chart, width)
    elif isinstance(chart, Grouped):
        drawn, pieces = _grouped(chart, width)
    else:
        drawn, pieces = _curves(chart, width)
    tree = ElementTree.fromstring(drawn.render(is_unicode=True))
    _strip(tree)
    _tell(tree, pieces)
    if isinstance(chart, Stacked):
        _name_inside(tree, pieces)
    if isinstance(chart, Curves):
        _paint_lines(tree, [colour for colour, _ in (*chart.lines, *chart.marked)])
    body = "".join(_written(child) for child in tree)
    label = escape(f"{name}. {summary}", quote=True)
    return f'<svg role="img" aria-label="{label}" viewBox="{tree.get("viewBox")}">{body}</svg>'


def _config(width: int, height: int, **more: Any) -> dict[str, Any]:
    from pygal.style import Style

    style = Style(label_font_size=FONT, major_label_font_size=FONT, legend_font_size=FONT, font_family="sans-serif")
    return {
        "width": width, "height": height, "show_legend": False, "js": (), "css": (), "margin": 4, "style": style,
        "disable_xml_declaration": True, "title": None, "x_label_rotation": 0, "truncate_label": -1, **more,
    }  # fmt: skip


def _value(value: Any, pieces: list[Piece], piece: Piece) -> dict[str, Any]:
    """A value for pygal; its label is the number of its piece."""
    pieces.append(piece)
    return {"value": value, "label": str(len(pieces) - 1)}


def _stacked(chart: Stacked, width: int) -> tuple[Any, list[Piece]]:
    import pygal

    rows = list(reversed(chart.rows))
    longest = max((sum(piece.size for piece in pieces) for _, pieces in rows), default=0) or 1
    room = max(3, width // 52)
    drawn = pygal.HorizontalStackedBar(
        **_config(
            width, 46 + (38 if len(rows) <= FEW else 22) * len(rows),
            x_labels=[name for name, _ in rows], spacing=0, range=(0, longest),
            y_labels=[{"label": text, "value": place} for place, text in _sparse(chart.ticks, longest / room)],
        )
    )  # fmt: skip
    found: list[Piece] = []
    for at in range(max((len(pieces) for _, pieces in rows), default=0)):
        values = [_value(pieces[at].size, found, pieces[at]) if at < len(pieces) else None for _, pieces in rows]
        drawn.add(str(at), values)
    return drawn, found


def _grouped(chart: Grouped, width: int) -> tuple[Any, list[Piece]]:
    import pygal

    drawn = pygal.Bar(**_config(width, 240, x_labels=list(chart.names), y_title=None, spacing=8, range=(0, None)))
    largest = max((value[0] for _, values in chart.series for value in values if value), default=1) or 1
    drawn.range = (0, largest)
    drawn.y_labels = _up(largest, chart.axis)
    found: list[Piece] = []
    for colour, values in chart.series:
        drawn.add(
            colour,
            [None if one is None else _value(one[0], found, Piece(colour, one[0], "", one[1])) for one in values],
        )
    return drawn, found


def _curves(chart: Curves, width: int) -> tuple[Any, list[Piece]]:
    import pygal

    part = frame(chart)
    every = [*(point for points in part.lines for point in points), *(point for _, point in chart.marked)]
    first, last = min(point.x for point in every), max(point.x for point in every)
    places = [place for place in _round_ticks(last) if place >= first]
    ticks = tuple((place, f"{place:g}{f' {chart.across}' if place == places[0] else ''}") for place in places)
    drawn = pygal.XY(
        **_config(
            width, 260, dots_size=2, range=(part.low, part.high), xrange=(first, max(last, first + 1)),
            x_labels=[{"label": text, "value": place} for place, text in _sparse(ticks, (last - first) / (width / 52))],
            y_labels=_scale(part.ticks, chart.up),
        )
    )  # fmt: skip
    found: list[Piece] = []
    for (colour, _), points in zip(chart.lines, part.lines, strict=True):
        drawn.add(colour, [_value((p.x, p.y), found, Piece(colour, 0, "", p.told)) for p in points])
    for colour, point in chart.marked:
        drawn.add(colour, [_value((point.x, point.y), found, Piece(colour, 0, "", point.told))], dots_size=6)
    return drawn, found


def _up(largest: float, unit: str) -> list[dict[str, Any]]:
    return _scale(_round_ticks(largest), unit)


def _scale(places: Sequence[float], unit: str) -> list[dict[str, Any]]:
    """The scale on the left; its uppermost number has the unit."""
    return [{"label": f"{place:.12g}{f' {unit}' if place == places[-1] else ''}", "value": place} for place in places]


def _sparse(ticks: tuple[tuple[float, str], ...], gap: float) -> list[tuple[float, str]]:
    """The ticks that do not stand in each other's way; the first and the last are kept."""
    if len(ticks) < 3:
        return list(ticks)
    found, last = [ticks[0]], ticks[-1]
    for place, text in ticks[1:-1]:
        if place - found[-1][0] >= gap and last[0] - place >= gap:
            found.append((place, text))
    return [*found, last]


def _round_ticks(largest: float) -> list[float]:
    """About five round numbers from 0."""
    from math import floor, log10

    power = 10.0 ** floor(log10(largest / 4)) if largest > 0 else 1.0
    step = next((power * by for by in (1, 2, 5, 10) if largest / (power * by) <= 5), power * 10)
    return [round(step * at, 12) for at in range(int(largest / step + 1e-9) + 1)]


def _strip(tree: ElementTree.Element) -> None:
    """Take out scripts, styles, tool tips and what else pygal keeps for its own JavaScript; see `_tell` for labels."""
    for parent in list(tree.iter()):
        for child in list(parent):
            name = child.tag.removeprefix(_SVG) if isinstance(child.tag, str) else ""
            classes = (child.get("class") or "").split()
            is_label = name == "desc" and "label" in classes
            empty = "tooltip-overlay" in classes or "text-overlay" in classes or "titles" in classes
            plot_background = name == "rect" and "background" in classes
            own_title = name == "title"
            if (name not in _KEPT and not is_label) or empty or plot_background or own_title:
                parent.remove(child)


def _tell(tree: ElementTree.Element, pieces: list[Piece]) -> None:
    """Put what a bar or a dot stands for into its title, in the place of the number that pygal was given."""
    for parent in tree.iter():
        label = next((child for child in parent if child.tag == f"{_SVG}desc"), None)
        if label is None:
            continue
        piece = pieces[int(label.text or 0)]
        parent.set("data-piece", label.text or "0")
        parent.set("style", _paint(piece.colour))
        title = ElementTree.Element(f"{_SVG}title")
        title.text = piece.told
        parent.remove(label)
        parent.insert(0, title)


def _paint(colour: str) -> str:
    return f"color:var(--{colour if colour in COLOURS else 'unknown'})"


def _paint_lines(tree: ElementTree.Element, colours: list[str]) -> None:
    """Lines in the colour of their series, whose number pygal gives as a class."""
    for group in tree.iter(f"{_SVG}g"):
        number = next((word[6:] for word in (group.get("class") or "").split() if word.startswith("serie-")), None)
        if number is not None:
            group.set("style", _paint(colours[int(number)]))


def _name_inside(tree: ElementTree.Element, pieces: list[Piece]) -> None:
    """Names in the pieces that have room for them."""
    for parent in tree.iter():
        at = parent.get("data-piece")
        rect = parent.find(f"{_SVG}rect")
        if at is None or rect is None:
            continue
        piece = pieces[int(at)]
        x, y, width, height = (float(rect.get(key, "0")) for key in ("x", "y", "width", "height"))
        if piece.name and width >= LETTER * (len(piece.name) + 2):
            text = ElementTree.SubElement(parent, f"{_SVG}text")
            text.set("x", str(x + width / 2))
            text.set("y", str(y + height / 2 + FONT / 3))
            text.set("class", "inside")
            text.text = piece.name


_ATTRIBUTES = ("class", "x", "y", "width", "height", "cx", "cy", "r", "d", "transform", "style")


def _written(element: ElementTree.Element) -> str:
    """The element as HTML takes it: without namespaces, with short numbers, empty groups left out."""
    name = element.tag.removeprefix(_SVG)
    inner = "".join(_written(child) for child in element)
    if name == "g" and not inner:
        return ""
    given = [(key, _short(value)) for key in _ATTRIBUTES if (value := element.get(key))]
    attributes = "".join(f' {key}="{escape(value, quote=True)}"' for key, value in given)
    return f"<{name}{attributes}>{escape(element.text or '')}{inner}</{name}>"


def _short(value: str) -> str:
    """Numbers with one digit behind the point."""
    import re

    return re.sub(r"\d+\.\d{2,}", lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), value)
