"""A YAML file of settings for `vllm serve --config FILE`."""

from __future__ import annotations

from collections.abc import Sequence

from ...releases import SUPPORTED
from ..serve_args_flags import flag_table
from ..serve_args_history import BEFORE_ALL
from .launch import ConfigText, Launch, LaunchToken, Reading, Source
from .yaml_nodes import Mapping, Node

SUFFIXES = (".yaml", ".yml")
"""Ends of the names that vLLM takes."""
UNNAMED = "config.yaml"
"""Name of a text that has none of its own."""


def fits(documents: Sequence[Node]) -> bool:
    """Whether it is one mapping, most of whose keys are options of `vllm serve`, one of them of two words or more.

    Options of one word, such as `model` or `port`, are those of many a program.
    """
    if len(documents) != 1 or not isinstance(documents[0], Mapping):
        return False
    keys = {key.text for key, _ in documents[0].items}
    options = [key for key in keys if _is_option(key)]
    return 2 * len(options) > len(keys) and any("-" in key or "_" in key for key in options)


def launches(documents: Sequence[Node], source: Source) -> Reading:
    """The server that is started with this file alone; its tokens are `vllm serve --config FILE`."""
    if not documents:
        return Reading()
    name = source.name if source.name.endswith(SUFFIXES) else UNNAMED
    start = documents[0].span._replace(end=documents[0].start)
    tokens = tuple(LaunchToken(text, start, "made", False) for text in ("vllm", "serve", "--config", name))
    lines = tuple(range(1, source.text.count("\n") + source.text.count("\r") + 2))
    return Reading((Launch(source, "config", "", tokens, files={name: ConfigText(source.text, lines, source)}),))


def _is_option(key: str) -> bool:
    """Whether any release has, or long ago had, an option of this name."""
    option = f"--{key.partition('.')[0].replace('_', '-')}"
    tables = (flag_table(release).by_option for release in (SUPPORTED[-1], SUPPORTED[0]))
    return option in BEFORE_ALL or any(option in table for table in tables)
