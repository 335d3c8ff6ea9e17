"""What can let a server start beside lengths, requests and shares: fewer adapters, fewer kinds of media, more GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..errors import CgplanError
from .budget.encoder import encoder_run
from .estimates import GIB
from .reach import largest
from .setting import Change, Setting

LENGTH_WITH_MORE_GPUS = 4096
"""Nobody pays for more GPUs to serve shorter requests."""
MOST_GPUS = 64
NODE = 8
"""GPUs of a node of those that are rented out for it."""
RANKS = (320, 256, 128, 64, 32, 16, 8)
"""Ranks that --max-lora-rank takes and adapters have, vllm/config/lora.py:27 @ 0.33.0; 512 is the largest."""
IMAGE_TOKENS = 1280
"""Of the largest image, where its size is limited at all: about a megapixel."""
_WORTH = GIB // 2
"""Less off the peak of the profile run is not the encoder's fault."""


def adapters(setting: Setting) -> Iterator[Setting]:
    """Fewer adapters at once, then adapters of lower ranks as well; the one that asks for least first."""
    made = setting.deployment
    if not made.enable_lora:
        return
    one = setting
    if made.max_loras > 1:
        found = largest(lambda number: _with_adapters(setting, number).starts, made.max_loras - 1)
        one = _with_adapters(setting, found or 1)
        yield one
    for rank in RANKS:
        if rank < made.max_lora_rank:
            text = f"--max-lora-rank {rank}"
            yield one.to(Change("--max-lora-rank", text, {"max_lora_rank": rank}))


def _with_adapters(setting: Setting, number: int) -> Setting:
    return setting.to(Change("--max-loras", f"--max-loras {number}", {"max_loras": number}))


def less_media(setting: Setting) -> Iterator[Setting]:
    """No videos, then smaller images, then text alone, where the profile run's peak is the encoder's."""
    made = setting.deployment
    if not made.model.is_multimodal_model or setting.request.known.activation is not None:
        return
    if setting.request.kv_bytes is not None:
        return
    run = encoder_run(made, setting.resolution, True)
    if run is None:
        return
    peak = _peak(setting)
    text_alone = setting.to(Change("--language-model-only", "--language-model-only", {"language_model_only": True}))
    if peak - _peak(text_alone) < _WORTH:
        return
    rest = setting
    if run.modality == "video":
        limits = {**(made.limit_mm_per_prompt or {}), "video": 0}
        text = f"--limit-mm-per-prompt '{_as_json(limits)}'"
        rest = setting.to(Change("--limit-mm-per-prompt", text, {"limit_mm_per_prompt": limits}))
        yield rest
    smaller = _smaller_images(rest)
    if smaller is not None:
        yield smaller
    yield text_alone


def _smaller_images(setting: Setting) -> Setting | None:
    """None: the processor's limit of pixels is not known to count, or it is set."""
    made, weights = setting.deployment, setting.deployment.model.weights
    vision = weights.vision if weights is not None else None
    if vision is None or made.mm_processor_kwargs or "video" not in vision.modalities:
        return None
    if vision.tokens_per_item is None or vision.tokens_per_item <= IMAGE_TOKENS:
        return None
    given = {"max_pixels": IMAGE_TOKENS * vision.token_side**2}
    text = f"--mm-processor-kwargs '{_as_json(given)}'"
    return setting.to(Change("--mm-processor-kwargs", text, {"mm_processor_kwargs": given}))


def _as_json(value: Mapping[str, Any]) -> str:
    import json  # few starts need it, and it takes a few milliseconds

    return json.dumps(value, separators=(",", ":"))


def _peak(setting: Setting) -> int:
    try:
        return max(stage.activation.best for stage in setting.budget.stages)
    except CgplanError:
        return 0


_OF_THE_MODEL = ("--max-loras", "--max-lora-rank", "--limit-mm-per-prompt", "--mm-processor-kwargs")


def is_used(setting: Setting) -> bool:
    """Whether it has fewer adapters or less media than were asked for."""
    return any(change.name in (*_OF_THE_MODEL, "--language-model-only") for change in setting.changes)


def layouts(setting: Setting, loads: Callable[[Setting], bool]) -> Iterator[Setting]:
    """More GPUs, fewest first: tensor parallel ranks by powers of two within a node, then pipeline stages of as many
    ranks as the model can be cut to.

    Args:
        loads: whether nothing but memory keeps a setting from starting.

    Nothing where the weights were measured or counted: they are those of the ranks that there are.
    """
    request, now = setting.request, setting.deployment
    if request.known.weights is not None or request.weights is not None or request.kv_bytes is not None:
        return
    replicas = setting.gpus // (now.tensor_parallel_size * now.pipeline_parallel_size)
    ranks, stages = now.tensor_parallel_size, now.pipeline_parallel_size
    more = ranks * 2
    while more <= NODE and more * stages * replicas <= MOST_GPUS:
        wider = _with_layout(setting, more, stages)
        yield wider
        if loads(wider):
            ranks = more
        more *= 2
    stages += 1
    while ranks * stages * replicas <= MOST_GPUS:
        yield _with_layout(setting, ranks, stages)
        stages += 1


def _with_layout(setting: Setting, ranks: int, stages: int) -> Setting:
    now = setting.deployment
    update: dict[str, Any] = {"tensor_parallel_size": ranks, "pipeline_parallel_size": stages}
    update["gpus_per_node"] = max(now.gpus_per_node, min(NODE, ranks * stages))
    update["nnodes"] = max(now.nnodes, -(-ranks * stages // update["gpus_per_node"]))
    named = {"--tensor-parallel-size": "tensor_parallel_size", "--pipeline-parallel-size": "pipeline_parallel_size"}
    named["--nnodes"] = "nnodes"
    texts = [f"{flag} {update[name]}" for flag, name in named.items() if update[name] != getattr(now, name)]
    return setting.to(Change("layout", " with ".join(texts), update))
