"""From a command, as words or as the text of a script, to the vLLM servers that it starts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ....errors import InputError
from ..image import is_vllm_image, release_of
from ..launch import Hints, LaunchToken, Remark
from .container_run import ContainerRun, container_run, gpu_count
from .environment import ASSIGNMENT, assigned, container_variable, exported, known_within, pairs, visible_gpus
from .grammar import Item
from .lexer import MAX_SCRIPT, Lexer
from .programs import CARRIERS, CARRYING_OPTION, NOT_RUNNING, SHELLS, entrypoint_before, starts_server
from .remarks import MAX_REMARKS, of_conditions, of_cut, of_unexported, of_word
from .script_text import Script, as_field, as_word, behind_option, inner_script, script_of_shell
from .unknown import settle
from .walk import MAX_STEPS, Simple, Walk
from .word import Found, SpanOf, Word, made

__all__ = ["Found", "SpanOf", "Word", "in_script", "in_words"]

MAX_DEPTH = 4
"""Scripts within scripts."""
MAX_TOKENS = 20_000
"""Words of all its servers; a function that is called often has many."""
MAX_FOUND = 250
"""Servers of one text that are read; fewer are looked at, as reading.py says."""


def in_words(words: Sequence[Word], env: Mapping[str, str | None]) -> list[Found]:
    """The servers that a command given as words starts.

    Args:
        words: program and arguments, as the program gets them.
        env: variables that are set for it; None: set, but the file does not say to what.

    Raises:
        InputError: CG906 a quote in a script is not closed, CG914 a script is too long.
    """
    return _Search(env).words(list(words), 0)


def in_script(text: str, span_of: SpanOf, env: Mapping[str, str | None], inner: str = "") -> list[Found]:
    """The servers that a shell script starts, in the order of the text.

    Args:
        text: the script.
        span_of: place of a stretch of it.
        env: variables that are set for it.
        inner: of the tokens, as of LaunchToken.

    Raises:
        InputError: CG906 a quote is not closed, CG914 the script is too long.
    """
    return _Search(env).script(Script(text, span_of, inner), 0)


class _Search:
    """Looks for servers; scripts lie within words and words within scripts."""

    def __init__(self, env: Mapping[str, str | None]) -> None:
        self.env = env

    def script(self, script: Script, depth: int) -> list[Found]:
        if "vllm" not in script.text.lower() and not script.arguments:
            return []
        if len(script.text) > MAX_SCRIPT:
            raise InputError(
                f"the script is longer than {MAX_SCRIPT // 1024} KiB",
                code="CG914",
                where="the script",
                fix="check the command alone",
            )
        lexer = Lexer(script.text)
        items = lexer.read()
        arguments = None
        if script.arguments is not None:
            arguments = [as_field(word) for word in script.arguments]
        walk = Walk(items, self.env, arguments)
        found: list[Found] = []
        left = MAX_TOKENS
        for simple in walk.commands():
            of_simple = self._simple(simple, walk, items, script, depth)
            found.extend(of_simple)
            left -= sum(len(one.tokens) for one in of_simple)
            if len(found) >= MAX_FOUND or left < 0:
                break
        found.sort(key=_place)
        if walk.steps >= MAX_STEPS:
            message = f"the script runs more than {MAX_STEPS:,} commands; what comes after them is not read"
            if not found:
                raise InputError(message, code="CG914", where="the script", fix="check the command alone")
            found[-1] = found[-1]._replace(remarks=(*found[-1].remarks, Remark("not_read", message)))
        if lexer.fault is not None:
            span = script.span_of(lexer.fault.at, lexer.fault.at + 1)
            place = f"line {span.line}, column {span.column}"
            message, fix = f"{place}: {lexer.fault.quote} is not closed", "close it; JSON stands best in single quotes"
            if not found:
                raise InputError(message, code="CG906", where=place, fix=fix)
            found[-1] = found[-1]._replace(remarks=(*found[-1].remarks, Remark("not_read", message, span, fix)))
        return found

    def _simple(self, simple: Simple, walk: Walk, items: Sequence[Item], script: Script, depth: int) -> list[Found]:
        """The servers of one command of a script."""
        found = self._documents(simple, items, script, depth)
        if not any("vllm" in field.text.lower() for field in simple.fields):
            return found
        by_start = {word.start: word for word in simple.item.words}
        words = [as_word(field, by_start.get(field.start), script) for field in simple.fields]
        is_eval = words[0].text == "eval"
        for one in _Search({**self.env, **known_within(walk, all_of_them=is_eval)}).words(words, depth):
            remarks = [*one.remarks, *of_cut(script.text, script.span_of, items, simple.position)]
            remarks.extend(of_conditions(simple.maybe, script.span_of))
            env = one.env
            if not one.apart:
                front = {item.name for item in simple.front}
                env = (*exported(walk, script), *assigned(simple, script), *env)
                remarks.extend(of_unexported(walk, front, script.span_of))
            hints = one.hints if one.apart else one.hints.with_gpus_of(visible_gpus(env))
            found.append(one._replace(env=env, remarks=tuple(remarks[:MAX_REMARKS]), hints=hints))
        return found

    def _documents(self, simple: Simple, items: Sequence[Item], script: Script, depth: int) -> list[Found]:
        """Servers of a here-document that a shell reads."""
        head = simple.fields[0].text.rpartition("/")[2] if simple.fields else ""
        if not simple.item.documents or depth >= MAX_DEPTH:
            return []
        after = items[simple.position + 1 : simple.position + 2]
        piped = simple.item.ends == "|" and bool(after) and bool(after[0].words)
        if head not in (*SHELLS, "ssh", "sbatch", "srun") and not (piped and after[0].words[0].plain in SHELLS):
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
        head = next((word.text for word in words if not ASSIGNMENT.match(word.text)), "")
        if head.rpartition("/")[2] in NOT_RUNNING or depth > MAX_DEPTH:
            return []
        texts = [word.text for word in words]
        carries = head.rpartition("/")[2] in CARRIERS
        for index, text in enumerate(texts):
            program = text.rpartition("/")[2]
            if starts_server(texts, index):
                return [self._server(words, index)]
            run = container_run(texts, index)
            if run is not None:
                return self._container(words, run, depth)
            script = script_of_shell(words, index) if program in SHELLS else None
            if script is None and carries and index and "vllm" in text and re.search(r"\s", text):
                script = inner_script(behind_option(words[index], CARRYING_OPTION), None)
            if script is not None:
                env = pairs(words[:index])
                return [one._replace(env=(*env, *one.env)) for one in self.script(script, depth + 1)]
        return []

    def _server(self, words: list[Word], index: int) -> Found:
        tokens, remarks = settle(words[index:])
        for word in words[index:]:
            if word.written is not None and word.literal:
                remarks.extend(of_word(word.written, word.text, word.span))
        launch_tokens = tuple(
            LaunchToken(one.text, one.span, one.style, one.literal and not one.changed, one.inner) for one in tokens
        )
        env = pairs(words[:index])
        return Found(launch_tokens, env, tuple(remarks[:MAX_REMARKS]), visible_gpus(env))

    def _container(self, words: list[Word], run: ContainerRun, depth: int) -> list[Found]:
        image, behind = words[run.image], words[run.image + 1 :]
        env = tuple(one for place in run.env if (one := container_variable(words, *place)) is not None)
        release = release_of(image.text)
        if run.entrypoint is not None:
            word, skip = words[run.entrypoint[0]], run.entrypoint[1]
            text = word.text[skip:]
            front = [word._replace(text=text, literal=word.literal and not skip, written=None)] if text else []
        else:
            front = [made(text, image.span) for text in entrypoint_before(image.text, release, behind)]
        known = image.text if is_vllm_image(image.text) else None
        gpus = gpu_count(run.gpus)
        hints = Hints(known, release, None, gpus, image.span if release else None)
        found = self.words([*front, *behind], depth + 1)
        return [one._replace(env=(*env, *one.env), hints=hints.with_gpus_of(one.hints), apart=True) for one in found]


def _place(found: Found) -> int:
    return next((token.span.start for token in found.tokens), 0)
