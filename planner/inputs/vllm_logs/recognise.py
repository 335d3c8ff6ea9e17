"""Which line is it. A known line in a form that is not known is told, and gives no value."""

from __future__ import annotations

import re

from . import shapes_memory, shapes_start
from .shapes import Read, Shape, Unfit, Value

_ALL = (*shapes_memory.SHAPES, *shapes_start.SHAPES)
_GROUP_FORM = r"[A-Z]+=[0-9]{1,9} \(largest=[0-9]{1,9}\)"
_PROFILED = re.compile(rf"Profiling CUDA graph memory: (?P<groups>{_GROUP_FORM}(?:, {_GROUP_FORM}){{0,3}})")
_GROUP = re.compile(r"(?P<kind>FULL|PIECEWISE|ENCODER)=(?P<graphs>[0-9]{1,9}) \(largest=(?P<largest>[0-9]{1,9})\)")

_BY_WORD: dict[str, list[Shape]] = {}
_ODD: list[Shape] = []
for _shape in _ALL:
    _word = _shape.form.split(" ", 1)[0]
    if "{" in _word or "[" in _word:
        _ODD.append(_shape)
    else:
        _BY_WORD.setdefault(_word, []).append(_shape)

WORDS = (
    # Words that only stand in lines with values. A line of vLLM that has them and is not read is told.
    "Initial free memory",
    "Requested memory",
    "worker requested memory",
    "worker init memory snapshot",
    "Free memory after profiling",
    "Memory profiling takes",
    "Total non KV cache memory",
    "Available KV cache memory",
    "Profiling CUDA graph memory",
    "CUDA graph memory:",
    "CUDA graph memory profiling is",
    "CUDA graph pool memory",
    "Graph capturing finished",
    "Model loading took",
    "Free memory on device (",
    "KV cache size",
    "Maximum concurrency for",
    "Auto-fit max_model_len",
    "Overriding num_gpu_blocks",
    "num_gpu_blocks is",
    "kv cache block size to",
    "attention block size to",
    "Capturing CUDA graphs (",
    "init engine (",
    "torch.compile took",
    "non-default args:",
    "LLM engine (v",
    "Resolved architecture:",
    "Using max model len",
    "attention backend out of potential backends",
    "Defaulting max_num",
    "Chunked prefill is enabled with",
)
_KNOWN_WORDS = re.compile("|".join(re.escape(words) for words in WORDS))

_UVICORN = re.compile(r"^INFO: {1,8}")
"""The server below the API has a head of its own: `INFO:     Application startup complete.`"""

WITHOUT_VALUES = (
    "Cleaned up profiling KV cache and CUDA graphs",
    "Initialized minimal KV cache for CUDA graph profiling",
    "[XPU]Setting attention block size to",
    "Multiplying the GPU KV cache size",
    "Dumping input data",
)
"""Lines that have such words but no value that is kept."""


def recognise(message: str) -> Read | Unfit | None:
    """What a message of vLLM says; None where it is no line that carries values."""
    word = message.split(" ", 1)[0]
    if word == "Profiling" and (read := _profiled(message)) is not None:
        return read
    for shape in (*_BY_WORD.get(word, ()), *_ODD):
        if (values := shape.read(message)) is not None:
            return _checked(shape.id, values, message)
    return _unfit(message)


def downgrade(message: str) -> str | None:
    """The mode that a worker falls back to, where the message says so."""
    for shape in shapes_start.DOWNGRADES:
        values = shape.read(message)
        if values is not None:
            mode = str(values["mode"]).removeprefix("CUDAGraphMode.").rstrip(".")
            return mode if mode in shapes_start.MODES else None
    return None


def find(text: str) -> Read | Unfit | None:
    """The same for a line without vLLM's own head: the words are looked for, and the line has to end as they do."""
    found = _KNOWN_WORDS.search(text, 0, 400)
    if found is None:
        return recognise(_UVICORN.sub("", text, count=1).strip()) if text[:1] not in " \t" else None
    if (whole := recognise(text.strip())) is not None and isinstance(whole, Read):
        return whole
    for at in range(found.start(), max(found.start() - 40, -1), -1):
        if (at == 0 or not text[at - 1].isalnum()) and isinstance(read := recognise(text[at:].rstrip()), Read):
            return read
    return Unfit(found[0])


def _unfit(message: str) -> Unfit | None:
    found = _KNOWN_WORDS.search(message)
    if found is None or message.startswith(WITHOUT_VALUES):
        return None
    return Unfit(found[0])


def _profiled(message: str) -> Read | None:
    match = _PROFILED.fullmatch(message)
    groups = list(_GROUP.finditer(match["groups"])) if match else []
    if match is None or len(groups) != match["groups"].count("=") // 2:
        return None
    values: dict[str, Value] = {}
    for group in groups:
        if group["kind"] in values:
            return None
        values[group["kind"]] = int(group["graphs"])
        values[f"{group['kind']}_largest"] = int(group["largest"])
    return Read("L6", values)


def _checked(shape: str, values: dict[str, Value], message: str) -> Read | Unfit:
    """Numbers that contradict each other within a line are of another form, whatever the words say."""
    total, free = values.get("total"), values.get("free")
    if isinstance(total, int) and isinstance(free, int) and free > total:
        return Unfit(shape)
    for name in ("suggested", "suggested_full"):
        exact, rounded = values.get(name), values.get(f"{name}_gib")
        if isinstance(exact, int) and isinstance(rounded, int) and abs(exact - rounded) > 2**30 // 64:
            return Unfit(shape)
    if shape == "L11" and not _differs(values):
        return Unfit(shape)
    return Read(shape, values)


def _differs(values: dict[str, Value]) -> bool:
    """Whether the difference in L11 is that of the two figures before it; each is rounded to 0.01 GiB."""
    actual, estimate, difference = (float(values[name]) for name in ("graph_actual", "graph_estimate", "difference"))
    return abs(abs(actual - estimate) - difference) <= 0.021 * 2**30
