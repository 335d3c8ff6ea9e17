"""Every option of `vllm serve`, by release: data made from the real parsers by tools/build_flags.py.

The file releases/flags.json.gz holds each distinct row once, as text, and by release the rows it has; only the rows
of a release that is asked for are read.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from .. import releases

UNSET = "==SUPPRESS=="
"""Default of an option that leaves no trace unless it is given."""


class Flag(NamedTuple):
    """One option of the parser: what argparse calls an action.

    Attributes:
        dest: name of the setting, "max_num_seqs".
        options: every spelling accepted, dash form.
        shown: those that the help and the errors name.
        negative: spellings that set False.
        kind: type of a value: int, human_int, human_int_or_auto, float, str, bool, store_true, choice, json,
            json_object_or_str, config_json, list, help, version, or func:NAME.
        element: the kind of a list's elements.
        choice_type: the kind in which a choice is compared.
        choices: values accepted, or ().
        none_values: texts that mean None.
        nargs: argparse's: "?", "+", "*", "A..." or None.
        const: value of an option with "?" and no value.
        config_class: class of a config_json.
        default: value where it is not given; {"<class>": C} is a fresh C.
        action: argparse class of the action where it is no plain one.
        deprecated: deprecated in the parser.
        advice: the help's sentence about deprecation, or "".
    """

    dest: str
    options: tuple[str, ...]
    shown: tuple[str, ...]
    negative: frozenset[str]
    kind: str
    element: str
    choice_type: str
    choices: tuple[Any, ...]
    none_values: tuple[str, ...]
    nargs: str | None
    const: Any
    config_class: str
    default: Any
    action: str
    deprecated: bool
    advice: str

    @property
    def name(self) -> str:
        """How argparse names it in an error."""
        return "/".join(self.shown) or self.dest

    @property
    def long(self) -> str:
        """The first long spelling."""
        return next((option for option in self.options if option.startswith("--")), self.name)

    @property
    def takes_value(self) -> bool:
        return self.kind not in ("bool", "store_true", "help", "version")


class FlagTable(NamedTuple):
    """The options of one release.

    Attributes:
        flags: in the order of the parser.
        by_option: every accepted spelling to its flag, in the parser's order.
        by_dest: by name of the setting.
        subcommands: what may stand in the place of `serve`.
        only_serve: spellings that the module form lacks.
        words: words that validators look up, by topic.
        classes: names of the classes behind JSON options, to their index in the file.
    """

    release: str
    flags: tuple[Flag, ...]
    by_option: Mapping[str, Flag]
    by_dest: Mapping[str, Flag]
    subcommands: tuple[str, ...]
    only_serve: frozenset[str]
    words: Mapping[str, list[str]]
    classes: Mapping[str, int]


class ConfigClass(NamedTuple):
    """A class behind a JSON option.

    Attributes:
        schema: what it accepts, in pydantic-core's words.
        defaults: by class name, itself and those inside it, the default of each field.
    """

    schema: dict[str, Any]
    defaults: dict[str, dict[str, Any]]


@cache
def flag_table(release: str) -> FlagTable:
    """The options of a supported release."""
    data = _data()
    entry = data["releases"][release]
    flags = tuple(_flag(json.loads(data["rows"][index])) for index in entry["rows"])
    by_option = {option: flag for flag in flags for option in flag.options}
    return FlagTable(
        release=release,
        flags=flags,
        by_option=by_option,
        by_dest={flag.dest: flag for flag in flags},
        subcommands=tuple(entry["subcommands"]),
        only_serve=frozenset(entry["only_serve"]),
        words=entry["words"],
        classes=entry["classes"],
    )


@cache
def config_class(release: str, name: str) -> ConfigClass:
    """What the class of a JSON option accepts at a release."""
    data = _data()
    found = json.loads(data["classes"][data["releases"][release]["classes"][name]])
    return ConfigClass(found["schema"], found["defaults"])


def releases_with(option: str) -> Iterator[tuple[str, Flag]]:
    """The releases that accept the spelling `option`, oldest first, each with its flag."""
    data = _data()
    quoted = json.dumps(option)
    holding = {index for index, row in enumerate(data["rows"]) if quoted in row}
    for release, entry in data["releases"].items():
        for index in entry["rows"]:
            if index in holding:
                flag = _flag(json.loads(data["rows"][index]))
                if option in flag.options:
                    yield release, flag


def _flag(row: dict[str, Any]) -> Flag:
    options = tuple(row["options"])
    hidden = row.get("hidden", ())
    return Flag(
        dest=row["dest"],
        options=options,
        shown=tuple(option for option in options if option not in hidden),
        negative=frozenset(row.get("negative", ())),
        kind=row["kind"],
        element=row.get("element", ""),
        choice_type=row.get("choice_type", ""),
        choices=tuple(row.get("choices", ())),
        none_values=tuple(row.get("none_values", ())),
        nargs=row.get("nargs"),
        const=row.get("const"),
        config_class=row.get("class", ""),
        default=row.get("default"),
        action=row.get("action", ""),
        deprecated=row.get("deprecated", False),
        advice=row.get("advice", ""),
    )


@cache
def _data() -> dict[str, Any]:
    packed = (files(releases) / "flags.json.gz").read_bytes()
    data: dict[str, Any] = json.loads(gzip.decompress(packed))
    return data
