"""Words and variables of a container, as the fields `command`, `args`, `env` and `envFrom` give them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ....errors import shorten
from ..image import entrypoint_of, is_vllm_image
from ..launch import EnvVariable, Remark, Span
from ..shell.put_in import Reference, put_in
from ..shell.word import Word, made
from ..yaml_commands import word_of
from ..yaml_nodes import Mapping as Fields
from ..yaml_nodes import Node, Scalar, mappings_in
from ..yaml_nodes import Sequence as Items
from .config_maps import ConfigMaps
from .gpu_hints import Image

MAX_WORDS = 20_000
"""Words of one field; a long command has some hundreds."""

MODULE_COMMAND = ("python3", "-m", "vllm.entrypoints.openai.api_server")
"""As controllers and serving runtimes start the server."""

_QUOTED_WORD = re.compile(r"""(?:[^\s'"]+|'[^']*'|"[^"]*")+""")


def words_of(node: Node | None, key: str, remarks: list[Remark]) -> list[Word]:
    """The words of a field such as `args`; what Kubernetes would refuse in it is remarked."""
    if isinstance(node, Scalar):
        return _split(node, key, remarks)
    if not isinstance(node, Items):
        if node is not None:
            remarks.append(Remark("not_read", f"`{key}` is a mapping; Kubernetes takes a list of texts", node.span))
        return []
    words = []
    if len(node.items) > MAX_WORDS:
        remarks.append(_too_many(key, node.items[MAX_WORDS].span))
    for item in node.items[:MAX_WORDS]:
        if not isinstance(item, Scalar):
            remarks.append(_odd_item(item, key))
            continue
        if not isinstance(item.value, str):
            message = f"Kubernetes takes only texts in `{key}`, and {shorten(item.text, 40) or 'nothing'} is none"
            remarks.append(Remark("not_text", message, item.span, "put it in quotes"))
        words.append(word_of(item, node.flow))
    return words


def _too_many(key: str, span: Span) -> Remark:
    return Remark("not_read", f"`{key}` has more than {MAX_WORDS:,} words; the rest is not read", span)


def _odd_item(item: Node, key: str) -> Remark:
    if isinstance(item, Fields) and len(item.items) == 1 and not item.flow:
        name = item.items[0][0].text
        message = f"`{shorten(name, 40)}: ...` in `{key}` is a mapping; Kubernetes takes only texts there"
        return Remark("not_text", message, item.span, f'write "{shorten(name, 40)}=..." in quotes')
    kind = "a list" if isinstance(item, Items) else "a mapping"
    return Remark("not_text", f"an item of `{key}` is {kind}; Kubernetes takes only texts there", item.span)


def _split(node: Scalar, key: str, remarks: list[Remark]) -> list[Word]:
    """A field that is one text, as words. Kubernetes takes none, but some custom resources do."""
    if node.value is None:
        return []
    remarks.append(Remark("not_a_list", f"`{key}` is one text; Kubernetes takes a list of texts", node.span))
    words: list[Word] = []
    for found in _QUOTED_WORD.finditer(node.text):
        if len(words) >= MAX_WORDS:
            remarks.append(_too_many(key, node.span_of(found.start(), found.end())))
            break
        text = re.sub(r"""'([^']*)'|"([^"]*)\"""", lambda one: one[1] or one[2] or "", found[0])
        words.append(Word(text, node.span_of(found.start(), found.end()), "word", True, node.inner))
    return words


def program_of(image: Image | None, command: list[Word], args: list[Word], span: Span | None = None) -> list[Word]:
    """The words that run: the command, or that of the image, and the arguments."""
    if command or image is None:
        return [*command, *args]
    if not is_vllm_image(image.name):
        return args
    return [*(made(word, span or image.span) for word in entrypoint_of(image.name, image.release)), *args]


def environment(container: Fields, maps: ConfigMaps, remarks: list[Remark]) -> list[EnvVariable]:
    """The variables of a container: those of envFrom, then those of env, which may name earlier ones."""
    found: list[EnvVariable] = []
    for one in mappings_in(container.get("envFrom")):
        found += _from_map(one, maps, remarks)
    env = container.get("env")
    known: dict[str, str | None] = {variable.name: variable.value for variable in found}
    if isinstance(env, Fields):
        named: list[tuple[Node | None, Node | None]] = list(env.items)
    else:
        named = [(one.get("name"), one.get("value")) for one in mappings_in(env)]
    for key, value in named:
        if not isinstance(key, Scalar):
            continue
        name = key.text
        text = expanded(value.text, known) if isinstance(value, Scalar) else _unknown(value, key, env)
        known[name] = text
        found.append(EnvVariable(name, text, key.span))
    return found


def _unknown(value: Node | None, key: Scalar, env: Node | None) -> str | None:
    """Without a value a variable is empty; one with valueFrom is known to the cluster alone."""
    entry = next((one for one in mappings_in(env) if one.get("name") is key), None)
    return "" if value is None and entry is not None and entry.get("valueFrom") is None else None


def _from_map(one: Fields, maps: ConfigMaps, remarks: list[Remark]) -> Iterator[EnvVariable]:
    prefix = one.get("prefix")
    front = prefix.text if isinstance(prefix, Scalar) else ""
    name = one.at("configMapRef", "name")
    if not isinstance(name, Scalar):
        return
    data = maps.get(name.text)
    if data is None:
        message = f"variables of the ConfigMap {shorten(name.text, 60)} are not read: it is not in this file"
        remarks.append(Remark("not_read", message, name.span, "pass both files as one"))
        return
    for key, value in data.items:
        yield EnvVariable(f"{front}{key.text}", value.text if isinstance(value, Scalar) else None, key.span)


_REFERENCE = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")


def expanded(text: str, env: Mapping[str, str | None]) -> str | None:
    """`text` with $(NAME) put in as Kubernetes does; None where a name's value is unknown."""
    unknown = False

    def put(found: re.Match[str]) -> str:
        nonlocal unknown
        if found[1] is None:
            return "$"
        if found[1] not in env:
            return found[0]
        value = env[found[1]]
        unknown = unknown or value is None
        return value or ""

    if "$" not in text:
        return text
    result = _REFERENCE.sub(put, text)
    return None if unknown or len(result) > 100_000 else result


def expanded_word(word: Word, env: Mapping[str, str | None]) -> Word:
    """A word with $(NAME) put in as Kubernetes does; names whose value is not known stay."""
    if "$" not in word.text:
        return word
    found = _REFERENCE.finditer(word.text)
    return put_in(word, (Reference(*one.span(), env.get(one[1]) if one[1] else "$") for one in found))
