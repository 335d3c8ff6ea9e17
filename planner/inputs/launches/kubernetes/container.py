"""One container: what it runs, with which variables, and the vLLM servers that this starts."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ....errors import InputError, shorten
from ..config_files import with_config
from ..launch import EnvVariable, Hints, Launch, LaunchToken, Remark, Source, label_with_line
from ..options_alone import of_options_alone
from ..shell.commands import Found, Word, in_words
from ..yaml_commands import in_scalar
from ..yaml_nodes import Scalar
from .config_maps import is_script
from .container_words import expanded_word

_RENDER = "render it first: helm template CHART | cgplan check -"
_UNEXPANDED = ("--served-model-name", "--served_model_name")
"""Options whose value changes nothing, so that a template in it does not matter."""
_OTHER_PROGRAMS = {
    "dynamo.vllm": "a worker of NVIDIA Dynamo, which takes options of vLLM but is no `vllm serve`",
    "huggingfaceserver": "KServe's Hugging Face server, which takes options of vLLM but is no `vllm serve`",
    "lmcache_server": "a cache server of LMCache",
}
_SHELLS = ("sh", "bash", "dash", "zsh", "source", ".")


@dataclass
class Container:
    """A container as it will run.

    Attributes:
        source, kind, label: as in Launch.
        words: the command and its arguments; () where only the image knows.
        env: in the order in which they are set.
        hints: about the image and the GPUs.
        remarks: what was noticed so far.
        files: that it sees, by path.
    """

    source: Source
    kind: str
    label: str
    words: list[Word] = field(default_factory=list)
    env: list[EnvVariable] = field(default_factory=list)
    hints: Hints = field(default_factory=Hints)
    remarks: list[Remark] = field(default_factory=list)
    files: Mapping[str, Scalar] = field(default_factory=dict)


def launches_of(container: Container, started: set[int] | None = None) -> tuple[list[Launch], list[Remark]]:
    """The servers of a container; remarks are those of a container without any.

    Args:
        container: what runs.
        started: takes up the id of each file that is run.
    """
    try:
        found = _found(container, started if started is not None else set())
    except InputError as error:
        span = container.words[0].span if container.words else None
        return [], [Remark("not_read", f"{container.label}: {error.message}", span, error.fix)]
    launches = [_launch(container, one, len(found) > 1) for one in found]
    return launches, [] if launches else [*_notes(container), *_unread(container)]


def _found(container: Container, started: set[int]) -> list[Found]:
    env = {variable.name: variable.value for variable in container.env}
    found = in_words([expanded_word(word, env) for word in container.words], env) if container.words else []
    if not found:
        for script in _scripts(container):
            found += in_scalar(script, env)
            started.add(id(script))
    return found


def _notes(container: Container) -> list[Remark]:
    """Remarks of a container without a server that are worth a word: those on what a custom resource starts."""
    return [] if container.words else container.remarks


def _launch(container: Container, found: Found, several: bool) -> Launch:
    written = (one._replace(inner="") if one.style in ("item", "flow") else one for one in found.tokens)
    tokens, remarks = _without_templates(tuple(written))
    tokens, files, notes = with_config(tokens, container.files)
    label = label_with_line(container.label, tokens) if several else container.label
    return Launch(
        source=container.source,
        kind=container.kind,
        label=label,
        tokens=tokens,
        env=(*container.env, *found.env),
        files=files,
        hints=_hints(container.hints, found.hints),
        remarks=(*container.remarks, *found.remarks, *remarks, *notes),
    )


def _hints(of_container: Hints, of_command: Hints) -> Hints:
    """CUDA_VISIBLE_DEVICES of the command counts where the manifest names no number."""
    return of_container if of_container.gpus is not None else of_container.with_gpus_of(of_command)


def _scripts(container: Container) -> Iterator[Scalar]:
    """Scripts of ConfigMaps that the command names."""
    for index, word in enumerate(container.words):
        content = container.files.get(posixpath.normpath(word.text)) if word.text.startswith("/") else None
        before = container.words[index - 1].text.rpartition("/")[2] if index else ""
        if content is not None and (index == 0 or before in _SHELLS or is_script(word.text, content)):
            yield content
        elif " " in word.text:
            for path in re.findall(r"/[\w./-]+", word.text[:10_000]):
                content = container.files.get(posixpath.normpath(path))
                if content is not None and is_script(path, content):
                    yield content


def _without_templates(tokens: tuple[LaunchToken, ...]) -> tuple[tuple[LaunchToken, ...], list[Remark]]:
    """Leave out options whose value is still to be rendered."""
    if not any("{{" in token.text for token in tokens):
        return tokens, []
    kept: list[LaunchToken] = []
    remarks = []
    for token in tokens:
        before = kept[-1].text if kept else ""
        name = token.text.partition("=")[0]
        if "{{" not in token.text or name in _UNEXPANDED or before in _UNEXPANDED:
            kept.append(token)
            continue
        if token.text.startswith("-"):
            left_out = name
        elif before.startswith("-") and "=" not in before:
            left_out = kept.pop().text
        else:
            kept.append(token._replace(literal=False))  # the model: unknown, but there is one
            continue
        message = f"{shorten(left_out, 60)} is left out: its value is a template"
        remarks.append(Remark("template", message, token.span, _RENDER))
    return tuple(kept), remarks


def _unread(container: Container) -> Iterator[Remark]:
    """Why a container that looks like a server of vLLM gave none."""
    text = " ".join(word.text[:2000] for word in container.words[:50])
    for program, what in _OTHER_PROGRAMS.items():
        if program in text:
            yield Remark("not_read", f"{container.label} starts {what}", container.words[0].span)
            return
    if not container.words:
        return
    first = container.words[0]
    if re.match(r"(vllm|python3?) ", first.text) and "vllm" in first.text:
        message = f"{container.label}: the command is one word; no shell splits it, so that it does not start"
        yield Remark("not_read", message, first.span, 'write one item a word, or command: ["sh", "-c", "..."]')
        return
    image = container.hints.image
    fix = 'name it: command: ["vllm", "serve"]' if image else "for a patch: kubectl kustomize DIR | cgplan check -"
    remark = of_options_alone(container.label, container.words, image, fix)
    if remark is not None and "-sim" not in (image or ""):
        yield remark
