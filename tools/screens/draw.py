"""Terminal output as an SVG that loads nothing."""

from __future__ import annotations

import io
from html import escape

from rich.console import Console
from rich.text import Text
from run import WIDTH

FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-line {{ font-size: 15px; font-weight: bold; fill: #c5c8c6; white-space: pre; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
<rect fill="#292929" width="{width}" height="{height}" rx="8" />
<text class="{unique_id}-matrix {unique_id}-line" x="18" y="27">$ </text>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def as_svg(text: str, title: str, name: str) -> str:
    """Draw `text`, which may have colours.

    Args:
        title: the command, shown above it.
        name: keeps the classes of several pictures on one page apart.
    """
    console = Console(
        file=io.StringIO(),
        record=True,
        width=WIDTH,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    console.print(Text.from_ansi(text.rstrip("\n")))  # long lines, as a flag to copy, go on in the next
    console.print()  # letters that hang below the last line are not cut
    drawn = console.export_svg(title=title, code_format=FORMAT, unique_id=f"cgplan-{name}", font_aspect_ratio=0.61)
    first, *rest = (line.rstrip() for line in drawn.replace(">$ <", f">$ {escape(title)}<", 1).splitlines())
    return "\n".join((first, f"<title>{escape(title)}</title>", *rest)) + "\n"
