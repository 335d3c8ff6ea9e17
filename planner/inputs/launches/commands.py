"""From a command, as words or as the text of a script, to the vLLM servers that it starts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...errors import InputError
from ..serve_args import MAIN_MODULE, SERVER_MODULE
from .image import entrypoint_of, is_official, is_vllm_image, release_of
from .launch import EnvVariable, Hints, LaunchToken, Remark, Span
from .shell_docker import ContainerRun, container_run, gpu_count
from .shell_lexer import MAX_SCRIPT, Item, Lexer, ShellWord
from .shell_remarks import MAX_REMARKS, of_conditions, of_cut, of_unexported, of_word
from .shell_syntax import put_in
from .shell_unknown import settle
from .shell_values import Field, Run
from .shell_walk import Simple, Walk
from .shell_word import Found, SpanOf, Word

__all__ = ["Found", "SpanOf", "Word", "entrypoint_before", "in_script", "in_words", "starts_server"]

MAX_DEPTH = 4
"""Scripts within scripts."""
MAX_FOUND = 200
"""Servers of one text."""

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=", re.ASCII)
_SHELLS = ("sh", "bash", "dash", "zsh", "ash", "ksh")
_CARRIERS = (
    "ssh",
    "tmux",
    "su",
    "eval",
    "watch",
    "screen",
    "script",
    "runuser",
    "pdsh",
    "xargs",
    "parallel",
    "timeout",
)
"""Programs that get a command as one word."""
_NOT_RUNNING = frozenset((
    "echo", "printf", "grep", "egrep", "fgrep", "rg", "pgrep", "pkill", "killall", "kill", "ps", "which",
    "type", "command", "whereis", "man", "cat", "less", "more", "ls", "cp", "rm", "mv", "mkdir", "pip", "pip3",
    "pipx", "conda", "mamba", "apt", "apt-get", "yum", "dnf", "brew", "curl", "wget", "sed", "awk", "tee",
    "touch", "test", "[", "[[", ":", "alias", "cd", "head", "tail", "logger", "git", "make", "helm", "kubectx",
    "log", "info", "warn", "error", "die", "usage",
))  # fmt: skip


def in_words(words: Sequence[Word], env: Mapping[str, str | None], syntax: str = "plain") -> list[Found]:
    """The servers that a command given as words starts.

    Args:
        words: program and arguments.
        env: variables that are set for it; None: set, but the file does not say to what.
        syntax: what is put in before the program gets the words: "kubernetes" $(NAME), "compose" ${NAME:-default},
            "plain" nothing.

    Raises:
        InputError: CG906 a quote in a script is not closed, CG914 a script is too long.
    """
    return _Search(env).words([put_in(word, env, syntax) for word in words], 0)


def in_script(
    text: str, span_of: SpanOf, env: Mapping[str, str | None], style: str = "word", inner: str = ""
) -> list[Found]:
    """The servers that a shell script starts, in the order of the text.

    Args:
        text: the script.
        span_of: place of a stretch of it.
        env: variables that are set for it.
        style, inner: of the tokens, as of LaunchToken.

    Raises:
        InputError: CG906 a quote is not closed, CG914 the script is too long.
    """
    return _Search(env).script(_Script(text, span_of, style, inner), 0)


class _Script(NamedTuple):
    text: str
    span_of: SpanOf
    style: str = "word"
    inner: str = ""
    literal: bool = True
    arguments: tuple[Word, ...] | None = None
    changed: tuple[tuple[int, int], ...] = ()

    def is_literal(self, start: int, end: int) -> bool:
        """Whether the stretch stands in the file just so, at a place of its own."""
        if not self.literal or any(start < last and first < end for first, last in self.changed):
            return False
        span = self.span_of(start, end)  # where no place is known, every stretch has the same one
        if start:
            return self.span_of(start - 1, end) != span
        return end >= len(self.text) or self.span_of(start, end + 1) != span


class _Search:
    """Looks for servers; scripts lie within words and words within scripts."""

    def __init__(self, env: Mapping[str, str | None]) -> None:
        self.env = env

    def script(self, script: _Script, depth: int) -> list[Found]:
        if "vllm" not in script.text.lower() and not script.arguments:
            return []
        if len(script.text) > MAX_SCRIPT:
            raise InputError(
                f"a script longer than {MAX_SCRIPT // 1024} KiB", code="CG914", fix="check the command alone"
            )
        lexer = Lexer(script.text)
        items = lexer.read()
        arguments = None
        if script.arguments is not None:
            arguments = [_as_field(word) for word in script.arguments]
        walk = Walk(items, self.env, arguments)
        found: list[Found] = []
        for simple in walk.commands():
            found.extend(self._simple(simple, walk, items, script, depth))
            if len(found) >= MAX_FOUND:
                break
        found.sort(key=_place)
        if lexer.fault is not None:
            span = script.span_of(lexer.fault.at, lexer.fault.at + 1)
            place = f"line {span.line}, column {span.column}"
            message, fix = f"{place}: {lexer.fault.quote} is not closed", "close it; JSON stands best in single quotes"
            if not found:
                raise InputError(message, code="CG906", where=place, fix=fix)
            found[-1] = found[-1]._replace(remarks=(*found[-1].remarks, Remark("not_read", message, span, fix)))
        return found

    def _simple(self, simple: Simple, walk: Walk, items: Sequence[Item], script: _Script, depth: int) -> list[Found]:
        """The servers of one command of a script."""
        found = self._documents(simple, items, script, depth)
        if not any("vllm" in field.text.lower() for field in simple.fields):
            return found
        by_start = {word.start: word for word in simple.item.words}
        words = [_as_word(field, by_start.get(field.start), script) for field in simple.fields]
        is_eval = words[0].text == "eval"
        for one in _Search({**self.env, **_known(walk, all_of_them=is_eval)}).words(words, depth):
            remarks = [*one.remarks, *of_cut(script.text, script.span_of, items, simple.position)]
            remarks.extend(of_conditions(simple.maybe, script.span_of))
            env = one.env
            if not one.apart:
                front = {item.name for item in simple.front}
                env = (*_exported(walk, script), *_assigned(simple, script), *env)
                remarks.extend(of_unexported(walk, front, script.span_of))
            hints = one.hints if one.apart else _joined_hints(one.hints, _hints_of_env(env))
            found.append(one._replace(env=env, remarks=tuple(remarks[:MAX_REMARKS]), hints=hints))
        return found

    def _documents(self, simple: Simple, items: Sequence[Item], script: _Script, depth: int) -> list[Found]:
        """Servers of a here-document that a shell reads."""
        head = simple.fields[0].text.rpartition("/")[2] if simple.fields else ""
        if not simple.item.documents or depth >= MAX_DEPTH:
            return []
        after = items[simple.position + 1 : simple.position + 2]
        piped = simple.item.ends == "|" and bool(after) and bool(after[0].words)
        if head not in (*_SHELLS, "ssh", "sbatch", "srun") and not (piped and after[0].words[0].plain in _SHELLS):
            return []
        found = []
        for document in simple.item.documents:
            first = document.start
            inner = script._replace(
                text=script.text[first : document.end],
                span_of=lambda start, end, first=first: script.span_of(start + first, end + first),  # type: ignore[misc]
                arguments=None,
                changed=tuple((start - first, end - first) for start, end in script.changed),
            )
            found.extend(self.script(inner, depth + 1))
        return found

    def words(self, words: list[Word], depth: int) -> list[Found]:
        """The servers that a command starts; wrappers such as `nohup` and `srun` may stand before them."""
        head = next((word.text for word in words if not _ASSIGNMENT.match(word.text)), "")
        if head.rpartition("/")[2] in _NOT_RUNNING or depth > MAX_DEPTH:
            return []
        texts = [word.text for word in words]
        carries = head.rpartition("/")[2] in _CARRIERS
        for index, text in enumerate(texts):
            program = text.rpartition("/")[2]
            if starts_server(texts, index):
                return [self._server(words, index)]
            run = container_run(texts, index)
            if run is not None:
                return self._container(words, run, depth)
            script = _script_of_shell(words, index) if program in _SHELLS else None
            if script is None and carries and index and "vllm" in text and re.search(r"\s", text):
                script = _inner_script(words[index], None)
            if script is not None:
                pairs = _pairs(words[:index])
                inner = self.script(script, depth + 1)
                return [one._replace(env=(*pairs, *one.env)) for one in inner]
        return []

    def _server(self, words: list[Word], index: int) -> Found:
        tokens, remarks = settle(words[index:])
        for word in words[index:]:
            if word.written is not None and word.literal:
                remarks.extend(of_word(word.written, word.text, word.span))
        launch_tokens = tuple(
            LaunchToken(one.text, one.span, one.style, one.literal and not one.changed, one.inner) for one in tokens
        )
        env = _pairs(words[:index])
        return Found(launch_tokens, env, tuple(remarks[:MAX_REMARKS]), _hints_of_env(env))

    def _container(self, words: list[Word], run: ContainerRun, depth: int) -> list[Found]:
        image, behind = words[run.image], words[run.image + 1 :]
        env = tuple(one for place in run.env if (one := _container_variable(words, *place)) is not None)
        release = release_of(image.text)
        if run.entrypoint is not None:
            word, skip = words[run.entrypoint[0]], run.entrypoint[1]
            text = word.text[skip:]
            front = [word._replace(text=text, literal=word.literal and not skip, written=None)] if text else []
        else:
            front = [Word(text, image.span, "made", False) for text in entrypoint_before(image.text, release, behind)]
        known = image.text if is_vllm_image(image.text) else None
        gpus = gpu_count(run.gpus)
        hints = Hints(known, release, None, gpus, image.span if release else None)
        found = self.words([*front, *behind], depth + 1)
        return [one._replace(env=(*env, *one.env), hints=_joined_hints(hints, one.hints), apart=True) for one in found]


def entrypoint_before(image: str, release: str | None, words: Sequence[Word]) -> tuple[str, ...]:
    """The words that the image puts before these.

    Who writes `vllm serve` again behind an image that is not vLLM's own means one without an entrypoint.
    """
    again = bool(words) and starts_server([word.text for word in words], 0)
    return () if again and not is_official(image) else entrypoint_of(image, release)


def starts_server(texts: Sequence[str], index: int) -> bool:
    """Whether the word at `index` is the program of a vLLM server."""
    program = texts[index].rpartition("/")[2]
    if program == "vllm":
        return index + 1 < len(texts) and texts[index + 1] == "serve"
    if not re.fullmatch(r"python[0-9.]*", program):
        return False
    for at in range(index + 1, min(index + 6, len(texts) - 1)):
        if texts[at] == "-m":
            module = texts[at + 1]
            return module == SERVER_MODULE or (module == MAIN_MODULE and texts[at + 2 : at + 3] == ["serve"])
    return False


def _place(found: Found) -> int:
    return next((token.span.start for token in found.tokens), 0)


def _script_of_shell(words: list[Word], index: int) -> _Script | None:
    """The script of `bash -lc SCRIPT name arguments`."""
    for at in range(index + 1, min(index + 8, len(words) - 1)):
        text = words[at].text
        if not text.startswith(("-", "+")):
            return None
        if not text.startswith("--") and "c" in text:
            while at + 2 < len(words) and words[at + 1].text.startswith("-"):
                at += 1
            if words[at].text == "-o" or at + 1 >= len(words):
                return None
            return _inner_script(words[at + 1], tuple(words[at + 3 :]))
    return None


def _inner_script(word: Word, arguments: tuple[Word, ...] | None) -> _Script:
    in_file = word.style in ("item", "flow")
    inner = word.inner or ("double" if word.style == "flow" else "")
    return _Script(word.text, word.stretch, "word", inner, in_file and word.literal, arguments, word.changed)


def _as_word(field: Field, written: ShellWord | None, script: _Script) -> Word:
    """A word of a script, with its place in the file."""
    if isinstance(field.outer, Word):
        return field.outer
    if field.start < 0:
        span = script.span_of(0, len(script.text))
        return Word(field.text, span, script.style, False, script.inner, None, field.unknown, field.several)
    span = script.span_of(field.start, field.end)
    literal = field.literal and script.is_literal(field.start, field.end)
    word = Word(field.text, span, script.style, literal, script.inner, None, field.unknown, field.several, written)

    def stretch(start: int, end: int) -> Span:
        first, last = _offset(field.runs, start), _offset(field.runs, end - 1)
        if first is None or last is None or end <= start:
            return span
        return script.span_of(first, last + 1)

    return word._replace(span_of=stretch)


def _as_field(word: Word) -> Field:
    return Field(word.text, literal=word.literal, unknown=word.unknown, outer=word)


def _offset(runs: tuple[Run, ...], at: int) -> int | None:
    for run in runs:
        if run.at <= at < run.at + run.length:
            return run.start + at - run.at
    return None


def _exported(walk: Walk, script: _Script) -> list[EnvVariable]:
    found = []
    for name, one in walk.exported.items():
        value = walk.scope.variables.get(name)
        field = value.fields[0] if value is not None and value.known and value.fields else None
        text = field.text if field is not None and not field.unknown else None
        found.append(EnvVariable(name, text, script.span_of(one.start, one.end)))
    return found


def _known(walk: Walk, *, all_of_them: bool) -> dict[str, str | None]:
    """Variables that a script within this one sees: those exported, of `eval` all."""
    names = walk.scope.variables if all_of_them else walk.exported
    known = {}
    for name in names:
        value = walk.scope.variables.get(name)
        if value is not None and not value.array and not any(field.unknown for field in value.fields):
            known[name] = value.text
    return known


def _assigned(simple: Simple, script: _Script) -> list[EnvVariable]:
    found = []
    for one in simple.front:
        unknown = not one.value.known or any(field.unknown for field in one.value.fields)
        span = script.span_of(one.start, one.end)
        found.append(EnvVariable(one.name, None if unknown else one.value.text, span))
    return found


def _pairs(words: Sequence[Word]) -> tuple[EnvVariable, ...]:
    """NAME=VALUE among words: in front of a program, or behind `env`."""
    found = []
    for word in words:
        name = _ASSIGNMENT.match(word.text)
        if name is not None:
            value = None if word.unknown else word.text[name.end() :]
            found.append(EnvVariable(name[1], value, word.span))
    return tuple(found)


def _container_variable(words: Sequence[Word], index: int, skip: int) -> EnvVariable | None:
    word = words[index]
    name, equals, value = word.text[skip:].partition("=")
    if not name.isidentifier():
        return None
    return EnvVariable(name, value if equals and not word.unknown else None, word.span)


def _hints_of_env(env: Sequence[EnvVariable]) -> Hints:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves visible."""
    for one in reversed(env):
        if one.name == "CUDA_VISIBLE_DEVICES" and one.value and re.fullmatch(r"\d+(,\d+)*", one.value):
            return Hints(gpus=one.value.count(",") + 1, gpus_span=one.span)
    return Hints()


def _joined_hints(outer: Hints, inner: Hints) -> Hints:
    if inner.gpus is None:
        return outer
    return outer._replace(gpus=inner.gpus, gpus_span=inner.gpus_span)
