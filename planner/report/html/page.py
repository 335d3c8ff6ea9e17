"""A page as one file of HTML: nothing is loaded, nothing runs, and every text is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.resources import files

from ...errors import as_fix
from ...trace import Finding
from ..words import as_option, sentence
from . import charts
from .blocks import COLOURS, Block, Curves, Figure, Findings, Heading, Items, Line, Page, Pairs, Section, Table
from .framing import frame

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""What a browser may load: nothing."""
MOST_PRINTED = 20
"""Rows of a folded table that is printed although nobody opened it."""
SIGNS = {"error": "Error", "warning": "Warning", "info": "Info"}


def html(page: Page) -> str:
    """The file.

    Raises:
        InputError: CG730, the library of the charts is not installed.
    """
    charts.check_library()
    shown = [section for section in page.sections if section.blocks]
    links = "".join(f'<li><a href="#{_id(one)}">{escape(one.title)}</a></li>' for one in shown)
    key = "".join(f"<div><dt>{escape(name)}</dt><dd>{_text(text)}</dd></div>" for name, text in page.key)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<link rel="icon" href="data:,">
<title>{escape(page.title)}: {escape(page.about)}</title>
<style>
{_style()}</style>
</head>
<body>
<header>
<h1>{escape(page.title)}</h1>
<p class="about">{escape(page.about)}</p>
<p class="verdict {page.tone}">{escape(page.verdict)}</p>
<dl class="key">{key}</dl>
<nav aria-label="Contents"><ul>{links}</ul></nav>
</header>
<main>
{"".join(_section(section) for section in shown)}</main>
<footer><p>{escape(page.made_by)}</p></footer>
</body>
</html>
"""


@cache
def _style() -> str:
    return files(__package__).joinpath("style.css").read_text(encoding="utf-8")


def _text(text: str) -> str:
    """Escaped, with flags and what stands in backticks as code; long names may go on in the next line."""
    written, at = [], 0
    for found in _CODE.finditer(text):
        written.append(_broken(text[at : found.start()]))
        written.append(f"<code>{_broken(found[1] or found[0])}</code>")
        at = found.end()
    return "".join((*written, _broken(text[at:])))


def _broken(text: str) -> str:
    return _JOINTS.sub(r"\1<wbr>", escape(text))


_CODE = re.compile(r"`([^`]{1,8000})`|(?<![\w-])--?[a-z][\w.-]*\w(?:=[^\s,;()]+)?")
_JOINTS = re.compile(r"(?<=\w{3})([_=/])(?=\w{3})")


def _id(section: Section) -> str:
    return escape(section.anchor, quote=True)


def _section(section: Section) -> str:
    blocks = "\n".join(_block(block) for block in section.blocks)
    return (
        f'<section id="{_id(section)}" aria-labelledby="{_id(section)}-title">\n'
        f'<h2 id="{_id(section)}-title">{escape(section.title)}</h2>\n{blocks}\n</section>\n'
    )


def _block(block: Block) -> str:
    if isinstance(block, Line):
        classes = " ".join(word for word in (block.tone, "faint" if block.faint else "") if word)
        return f'<p class="{classes}">{_text(block.text)}</p>' if classes else f"<p>{_text(block.text)}</p>"
    if isinstance(block, Heading):
        return f"<h3>{escape(block.text)}</h3>"
    if isinstance(block, Pairs):
        pairs = "".join(f"<dt>{escape(name)}</dt><dd>{_text(text)}</dd>" for name, text in block.pairs)
        return f'<dl class="pairs">{pairs}</dl>'
    if isinstance(block, Items):
        return f'<ul class="items">{"".join(f"<li>{_text(sentence(text))}</li>" for text in block.texts)}</ul>'
    if isinstance(block, Findings):
        return f'<ul class="findings">{"".join(_finding(one) for one in block.findings)}</ul>'
    if isinstance(block, Table):
        return _folded(block, block.name) if block.folded else _table(block)
    return _figure(block)


def _finding(finding: Finding) -> str:
    sign = SIGNS.get(finding.severity, finding.severity)
    fix = f"<br>Fix: {_text(as_option(as_fix(finding.fix)))}" if finding.fix else ""
    colour = finding.severity if finding.severity in ("error", "warning") else "faint"
    return (
        f'<li class="{colour}-mark"><b class="{colour}">{escape(sign)} {escape(finding.code)}</b>'
        f"{_text(sentence(finding.message))}{fix}</li>"
    )


def _table(table: Table) -> str:
    head = _row(table.head, table.right, "th")
    rows = "\n".join(f"<tr>{_row(row, table.right, 'td')}</tr>" for row in table.rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.name, quote=True)}">'
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _row(cells: Iterable[str], right: tuple[int, ...], tag: str) -> str:
    written = []
    for at, text in enumerate(cells):
        kind = ' class="number"' if at in right else ""
        scope = ' scope="col"' if tag == "th" else ""
        # A heading without text names nothing, so it is a plain cell.
        name = "td" if tag == "th" and not text else tag
        written.append(f"<{name}{kind}{scope if name == 'th' else ''}>{_text(text)}</{name}>")
    return "".join(written)


def _folded(table: Table, summary: str) -> str:
    printed = ' class="printed"' if len(table.rows) <= MOST_PRINTED else ""
    return f"<details{printed}><summary>{escape(summary)}</summary>{_table(table)}</details>"


def _figure(figure: Figure) -> str:
    note = frame(figure.chart).note if isinstance(figure.chart, Curves) else ""
    summary = f"{figure.summary} {note}".rstrip()
    wide, narrow = (charts.svg(figure.chart, figure.name, summary, width) for width in (charts.WIDE, charts.NARROW))
    named = "".join(_entry(colour, name) for colour, name in figure.legend)
    legend = f'<ul class="legend">{named}</ul>' if named else ""
    numbers = _folded(figure.table, f"{figure.name} as a table") if figure.table is not None else ""
    return (
        f"<figure><figcaption><h3>{escape(figure.name)}</h3><p>{escape(summary)}</p></figcaption>{legend}"
        f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div>'
        f"{numbers}</figure>"
    )


def _entry(colour: str, name: str) -> str:
    paint = colour if colour in COLOURS else "unknown"
    return f'<li><i style="color:var(--{paint})"></i>{escape(name)}</li>'
