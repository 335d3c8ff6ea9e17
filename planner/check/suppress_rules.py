"""What is said of the comments themselves that silence findings."""

from __future__ import annotations

from ..trace import Rule

UNUSED = Rule(
    "CG975",
    title="A comment that silences a finding silences none.",
    why="What it was for has been mended, or stands elsewhere; left in place it would hide the next such finding.",
    example="# cgplan: ignore CG901 beside a line that has no such finding.",
    instead="Drop the comment, or the codes that the message names.",
    source="cgplan",
)
MISREAD = Rule(
    "CG976",
    title="A comment for cgplan cannot be read as it was meant.",
    why="A misspelt code or word silences nothing, and says nothing.",
    example="# cgplan: ignore CG9999, or # cgplan: ignore-file in the middle of a file.",
    instead="Write `# cgplan: ignore CODE, CODE` beside or above the line, `# cgplan: ignore-file` at the top.",
    source="cgplan",
)
