"""Checks of what a kind of model demands."""

from __future__ import annotations

from collections.abc import Iterator

from ..trace import Rule
from .diagnostic import Hit
from .places import place_of
from .registry import check
from .subject import Subject

UNKNOWN_BLOCKS = Rule(
    "CG511",
    title="FULL graphs of a model with Mamba layers need as many cache blocks as max_num_seqs, and memory decides.",
    why="Each running sequence holds its state in one block; where there are fewer blocks vLLM does not start.",
    example="A 27B hybrid on one H100 with the default of 1024 sequences: 856 blocks, no start.",
    instead="Give --max-num-seqs, at most the number of blocks that vLLM, or `cgplan plan`, names.",
    source="vllm/config/compilation.py:1514-1535",
    since="0.20.2",
)

MANY_SEQUENCES = 256
"""From here on models of this kind were seen to have fewer blocks; a server has not as many requests by chance."""


@check(UNKNOWN_BLOCKS, "info")
def unknown_blocks(subject: Subject) -> Iterator[Hit]:
    d, found = subject.deployment, subject.resolution
    if d is None or found is None or not d.model.mamba_backends or not found.cudagraph_mode.has_full:
        return
    if d.num_gpu_blocks is not None or subject.is_given("max_num_seqs") or found.max_num_seqs < MANY_SEQUENCES:
        return
    yield Hit(
        f"vLLM does not start where the memory gives fewer than {found.max_num_seqs} Mamba cache blocks, "
        "one for each of max_num_seqs",
        "ask `cgplan plan` with --gpu how many blocks there are, and give --max-num-seqs that much at most",
        place_of(subject, "--max-num-seqs"),
    )
