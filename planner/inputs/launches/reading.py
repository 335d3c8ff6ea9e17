"""Which kind of file a text is, and its reader."""

from __future__ import annotations

import re
from importlib import import_module

from ...errors import InputError
from .config_beside import with_files
from .launch import Reading, Remark, Source
from .python_program import fix_of

MAX_CHARS = 16 * 2**20
"""Longest text that is read."""
MAX_LINES = 1_000_000
"""Most lines of it; what is kept of each is larger than an empty line."""
MAX_SERVERS = 200
"""Most servers of a text that are looked at."""
MAX_TOKENS = 20_000
"""Most words of all these servers."""
MAX_REMARKS = 100

_YAML_READERS = (
    "kubernetes.manifests", "compose.services", "recipes", "kubernetes.helm_values", "tasks", "serve_config",
    "yaml_scripts",
)  # fmt: skip
"""Readers of YAML and JSON in the order in which they are asked."""

_BY_SUFFIX = {
    ".service": "systemd", ".dockerfile": "dockerfile", ".containerfile": "dockerfile", ".md": "markdown",
    ".markdown": "markdown", ".yaml": "yaml", ".yml": "yaml", ".json": "yaml", ".sh": "script", ".bash": "script",
    ".zsh": "script", ".ksh": "script", ".slurm": "script", ".sbatch": "script", ".job": "script", ".pbs": "script",
    ".lsf": "script",
    ".py": "a Python program", ".ipynb": "a notebook", ".html": "HTML", ".htm": "HTML", ".toml": "TOML",
    ".rst": "reStructuredText",
}  # fmt: skip
_DOCKERFILE = re.compile(r"(?:.*\.)?(?:dockerfile|containerfile)(?:[._-].*)?", re.IGNORECASE)
_TEMPLATE = re.compile(r"^[ \t]*\{\{|^[ \t]*(?:- )?[\w.\"'-]+:[ \t]*\{\{|^[ \t]*\{%", re.MULTILINE)
_FIRST_LINE = re.compile(r"^\ufeff?(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ \t]*([^\n]*)")
_SHEBANG = re.compile(r"\ufeff?#!([^\n]*)")
_PYTHON = re.compile(r"^(?:from [\w.]+ import \w|import \w+$|def \w+\(.*\):)", re.MULTILINE)
_HTML = re.compile(r"\ufeff?\s*<(?:!doctype|html|\?xml)", re.IGNORECASE)
_SYSTEMD = re.compile(r"\[(?:Unit|Service|Install)\]\s*$")
_FENCE = re.compile(r"^(?:```|~~~)", re.MULTILINE)
_INDENTED_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_IS_YAML = re.compile(r"---|%YAML|[\w./-]+:(?:[ \t\r]|$)|[\"'][^\"'\n]*[\"']:[ \t]|-[ \t]+[\w./-]+:(?:[ \t\r]|$)|[{\[]")
_IS_DOCKERFILE = re.compile(r"(?:FROM|ARG)[ \t]+\S", re.IGNORECASE)


def read(source: Source) -> Reading:
    """The servers that a text starts. A text that starts none has a remark that says so.

    Of other files only those of --config are read, where a script or a unit names one that is here.

    Raises:
        InputError: CG906 a quote is not closed, CG911 it cannot be read, CG914 it is too large.
    """
    if len(source.text) > MAX_CHARS:
        raise InputError(
            f"the text is longer than {MAX_CHARS // 2**20} MiB",
            code="CG914",
            where=source.name or None,
            fix="name the manifest or script alone",
        )
    if source.text.count("\n") > MAX_LINES:
        raise InputError(
            f"the text has more than {MAX_LINES:,} lines",
            code="CG914",
            where=source.name or None,
            fix="name the manifest or script alone",
        )
    kind = kind_of(source)
    reading = _first(_read_as(source, kind))
    if reading.launches or reading.remarks:
        return reading._replace(launches=tuple(with_files(launch) for launch in reading.launches))
    return _none("no vLLM server is started here")


def kind_of(source: Source) -> str:
    """The name of a reader, or in words what the text is that has none."""
    text = source.text
    if not text.strip("\ufeff \t\r\n\v\f"):
        return "empty"
    if "\0" in text[:4096]:
        return "a binary file"
    base = re.split(r"[\\/]", source.name)[-1].lower()
    if base.endswith((".j2", ".tpl", ".tmpl", ".gotmpl")):
        base = base.rpartition(".")[0]
    if _DOCKERFILE.fullmatch(base) and not base.endswith((".md", ".sh", ".yaml", ".yml", ".py")):
        return "dockerfile"
    suffix = base[base.rfind(".") :] if "." in base else ""
    return _BY_SUFFIX.get(suffix) or _by_content(text)


def read_yaml(source: Source) -> Reading:
    """The servers of YAML or JSON documents.

    Raises:
        InputError: CG911 it is no YAML, CG914 it is too large.
    """
    from .yaml_nodes import documents

    try:
        nodes, remarks = documents(source)
    except InputError:
        if _TEMPLATE.search(source.text):
            return _template(source)
        raise
    for name in _YAML_READERS:
        reader = import_module(f".{name}", __package__)
        if reader.fits(nodes):
            reading: Reading = reader.launches(nodes, source)
            if not reading.launches and not reading.remarks:
                continue
            return reading._replace(remarks=(*remarks, *reading.remarks))
    if not remarks and _TEMPLATE.search(source.text):
        return _template(source)
    return Reading((), tuple(remarks))


def _by_content(text: str) -> str:
    head = text[: 64 * 1024]
    shebang = _SHEBANG.match(head)
    if shebang is not None:
        return "a Python program" if "python" in shebang[1] else "script"
    found = _FIRST_LINE.match(head)
    first = found[1] if found else ""
    if _HTML.match(head):
        return "HTML"
    if _SYSTEMD.match(first):
        return "systemd"
    if _FENCE.search(head):
        return "markdown"
    if _IS_DOCKERFILE.match(first) and re.search(r"^\s*FROM\s+\S", head, re.IGNORECASE | re.MULTILINE):
        return "dockerfile"
    if _IS_YAML.match(first):
        return "yaml"
    if _INDENTED_FENCE.search(head):
        return "markdown"
    return "a Python program" if _PYTHON.search(head) else "script"


def _read_as(source: Source, kind: str) -> Reading:
    if kind == "yaml":
        return read_yaml(source)
    if kind in ("script", "dockerfile", "systemd", "markdown"):
        if "vllm" not in source.text.lower():
            return Reading()
        reader = import_module(f".{kind}", __package__)
        reading: Reading = reader.launches(source)
        return reading
    if kind == "empty":
        return _none("the text is empty")
    fix = fix_of(source.text) if kind == "a Python program" else None
    return _none(f"this is {kind}; scripts, manifests, compose files, units and Dockerfiles are read", fix)


def _first(reading: Reading) -> Reading:
    """The first servers and remarks of a reading, and where the rest begins."""
    if len(reading.remarks) > MAX_REMARKS:
        more = Remark("not_read", f"and {len(reading.remarks) - MAX_REMARKS:,} more remarks")
        reading = reading._replace(remarks=(*reading.remarks[:MAX_REMARKS], more))
    left = MAX_TOKENS
    for index, launch in enumerate(reading.launches):
        left -= len(launch.tokens)
        if (left < 0 and index) or index == MAX_SERVERS:
            span = next((token.span for token in launch.tokens if token.style != "made"), None)
            message = f"this has more servers than the {index} that are looked at"
            more = Remark("not_read", message, span, "pass them in several files")
            return Reading(reading.launches[:index], (*reading.remarks, more))
    return reading


def _none(message: str, fix: str | None = None) -> Reading:
    return Reading((), (Remark("no_launch", message, None, fix),))


def _template(source: Source) -> Reading:
    if "vllm" not in source.text.lower():
        return Reading()
    found = _TEMPLATE.search(source.text)
    start = found.start() if found else 0
    end = source.text.find("\n", start)
    span = source.span(start, len(source.text) if end < 0 else end)
    message = "this is a template; it becomes YAML when it is rendered"
    return Reading((), (Remark("template", message, span, "helm template CHART | cgplan check -"),))
