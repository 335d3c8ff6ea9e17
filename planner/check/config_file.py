"""The file of --config: settings that stand deeper than vLLM looks."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import shorten
from ..inputs.serve_args_tokens import Place
from ..trace import Rule
from .diagnostic import Hit
from .lost_buckets import PARSER
from .occurrences import config_settings
from .registry import check
from .subject import Subject

NESTED = Rule(
    "CG957",
    title="Settings in the file of --config stand below a key that takes none.",
    why="The file is flat: a mapping below a key becomes the JSON text of that option. What is meant as settings of "
    "the server is then the name of something, or nothing.",
    example="serve: with max-num-seqs: 8 below it becomes --served-model-name '{\"max-num-seqs\": 8}'.",
    instead="Write each setting at the left margin: max-num-seqs: 8.",
    source=f"{PARSER}:653-675",
)

TEXTS = ("str", "int", "float", "human_int", "human_int_or_auto", "choice", "bool", "store_true", "list")
"""Kinds of options that no mapping can be meant for."""
WITH_JSON = ("lora_modules", "middleware")


def is_nested(subject: Subject, line: int) -> bool:
    """Whether a mapping stands below the key at that line, and the key takes none."""
    setting = config_settings(subject).get(line)
    if setting is None or not isinstance(setting[1], dict):
        return False
    flag = subject.flags.by_option.get(f"--{setting[0]}".replace("_", "-"))
    return flag is None or (flag.kind in TEXTS and flag.dest not in WITH_JSON)


@check(NESTED, "error")
def find_nested(subject: Subject) -> Iterator[Hit]:
    for line, (key, value) in config_settings(subject).items():
        if is_nested(subject, line) and "." not in key:
            inner = next(iter(value), None)
            below = f"`{shorten(str(inner), 40)}` and what else stands below it are" if len(value) > 1 else (
                f"`{shorten(str(inner), 40)}` below it is"
            )  # fmt: skip
            yield Hit(
                f"`{shorten(key, 60)}:` takes no settings; {below} not read as an option",
                f"write `{shorten(str(inner), 40)}:` at the left margin, without `{shorten(key, 40)}:`",
                subject.asked.located(Place(-1, line)),
            )
