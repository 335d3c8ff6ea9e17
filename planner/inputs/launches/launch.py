"""One start of a vLLM server, as some file asks for it, with the place of every token in that file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import NamedTuple

from ...light_dataclass import dataclass


class Span(NamedTuple):
    """A stretch of one text.

    Attributes:
        start, end: character offsets; the quotes of a quoted token belong to it.
        line, column: of `start`, from 1.
    """

    start: int
    end: int
    line: int
    column: int


class Source(NamedTuple):
    """A text that was read.

    Attributes:
        name: as it was given, "-" for standard input, "" for a pasted line.
        text: decoded; line ends are as in the file, a byte order mark is part of it.
    """

    name: str
    text: str

    def span(self, start: int, end: int) -> Span:
        """The span of two offsets."""
        line = self.text.count("\n", 0, start)
        return Span(start, end, line + 1, start - (self.text.rfind("\n", 0, start) + 1) + 1)


class LaunchToken(NamedTuple):
    """One token of the command.

    Attributes:
        text: as the program gets it.
        span: where it stands in the source.
        style: how it is written there, so that a fix can be written the same way: a key of STYLES.
        literal: it stands in the source just so, no variable was put in. Only then can it be rewritten.
        inner: how the text around it is itself quoted: a key of STYLES, or "" for none. A shell word within a YAML
            double-quoted string has style "word" and inner "yaml".
    """

    text: str
    span: Span
    style: str = "word"
    literal: bool = True
    inner: str = ""


STYLES = {
    "word": "a word of a shell command line",
    "item": "an item of a YAML block sequence, on a line of its own",
    "flow": "an item of a YAML flow sequence or of a JSON array",
    "unit": "a word of a systemd ExecStart line",
    "made": "not in the text; stands for what a reader knows, such as the command of an image",
}


class EnvVariable(NamedTuple):
    """An environment variable of the command. `value` is None where the file does not say it."""

    name: str
    value: str | None
    span: Span | None


class ConfigText(NamedTuple):
    """The content of a file of --config.

    Attributes:
        text: of the YAML document.
        span: where it stands in the source of the launch (`source` None), or in `source`.
        source: the file itself, where it is one of its own.
        lines: source line of each of its lines; line i of the text is at lines[i - 1].
    """

    text: str
    lines: tuple[int, ...]
    source: Source | None = None


class Hints(NamedTuple):
    """What a file says about where the server runs. None: nothing.

    Attributes:
        image: of the container, for messages.
        release: as the image's tag says it, "0.19.1"; not checked.
        gpu: name of the GPU catalogue.
        gpus: GPUs the container gets.
    """

    image: str | None = None
    release: str | None = None
    gpu: str | None = None
    gpus: int | None = None
    release_span: Span | None = None
    gpu_span: Span | None = None
    gpus_span: Span | None = None

    def with_gpus_of(self, other: Hints) -> Hints:
        """These hints with the number of GPUs of the others, where they have one."""
        return self if other.gpus is None else self._replace(gpus=other.gpus, gpus_span=other.gpus_span)


NO_HINTS = Hints()


class Remark(NamedTuple):
    """Something a reader noticed that its user should know.

    Attributes:
        kind: `unknown_value` (a variable's value is not in the file; the option was left out), `cut_off` (tokens that
            look as if they belonged to the command do not), `template` (to be rendered first), `not_in_file` (what is
            usual is assumed), `not_read` (a part that cannot be read), `no_launch`, `not_text` (an item of a list that
            has to be a text), `not_a_list` (a text that has to be a list), `not_nvidia` (runs on other accelerators),
            `ignored_key` (a key that the chart passes over), `duplicate_key` (the last one counts), `quotes_lost`,
            `braces`, `pattern`, `tilde` (a shell changes the word, or does not), `not_expanded` (no shell puts the
            variable in), `not_json` (an exec form that is none), `not_exported` (a variable that vLLM does not see),
            `condition` (only under a condition), `several_values` (one of them was taken), `stray_backslash` (compose
            joins no lines at a backslash).
        message, fix: one line each.
        span: where.
    """

    kind: str
    message: str
    span: Span | None = None
    fix: str | None = None


@dataclass(frozen=True)
class Launch:
    """A server's start.

    Attributes:
        source: the text it stands in.
        kind: `line`, `shell`, `kubernetes`, `helm`, `compose`, `dockerfile`, `systemd`, `config`, `recipe` or `task`.
        label: which one of the source, "Deployment qwen, container vllm"; "" where there is only one.
        tokens: what parse_serve takes, program included.
        env: environment variables of the command; the last of a name counts.
        files: files of --config that are known, by the name that the command uses.
        hints: what the text says about where it runs.
        remarks: what the reader noticed.
    """

    source: Source
    kind: str
    label: str
    tokens: tuple[LaunchToken, ...]
    env: tuple[EnvVariable, ...] = ()
    files: Mapping[str, ConfigText] = field(default_factory=dict)
    hints: Hints = NO_HINTS
    remarks: tuple[Remark, ...] = ()

    @property
    def texts(self) -> list[str]:
        return [token.text for token in self.tokens]

    @property
    def environment(self) -> dict[str, str]:
        return {variable.name: variable.value for variable in self.env if variable.value is not None}


def label_with_line(label: str, tokens: Iterable[LaunchToken]) -> str:
    """The label of a server that is one of several, with the line of its first token that is in the text."""
    line = first_line(tokens)
    return label if line is None else f"{label}, line {line}"


def first_line(tokens: Iterable[LaunchToken]) -> int | None:
    """The line of the first token that is in the text."""
    return next((token.span.line for token in tokens if token.style != "made"), None)


class Reading(NamedTuple):
    """What one source holds.

    Attributes:
        launches: servers it starts, in the order of the text.
        remarks: about the source as a whole.
    """

    launches: tuple[Launch, ...] = ()
    remarks: tuple[Remark, ...] = ()
