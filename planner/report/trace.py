"""The trace on the screen: every rule that changed something."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ..resolve.resolution import Resolution

LONGEST_VALUE = 60


def show(out: Console, resolution: Resolution) -> None:
    """Print the decisions in the order in which vLLM makes them, and the backends that were passed over."""
    out.print(Text("What changed, in vLLM's order", style="key"))
    for decision in resolution.decisions:
        line = Text()
        line.append(decision.code, style="code")
        line.append(f"  {decision.field}  ")
        line.append(f"{shown(decision.before)} → ", style="faint")
        line.append(shown(decision.after), style="head")
        out.print(line)
        out.print(Padding(Text(decision.why), (0, 0, 0, 7)))
        out.print(Padding(Text(decision.source, style="faint"), (0, 0, 0, 7)))
    for name, reasons in resolution.backend.rejected:
        line = Text()
        line.append("passed over ", style="faint")
        line.append(name, style="head")
        line.append(f"  {'; '.join(reasons)}")
        out.print(line)


def shown(value: Any) -> str:
    """A value before or after a decision, on one line and not long."""
    if value is None:
        return "unset"
    if isinstance(value, list):
        value = f"[{', '.join(str(item) for item in value)}]"
    text = str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
