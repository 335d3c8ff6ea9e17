"""compile_sizes and compile ranges: what torch.compile specialises for. Token counts.

Source: vllm/config/vllm.py:2658-2733, vllm/config/compilation.py:1136-1160 @ 0.33.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import StartupError
from ..trace import Rule
from . import sequence_parallel
from .levels import MIB
from .padding import padded as smallest_size

if TYPE_CHECKING:
    from .engine import Engine

COMPILE_SIZES = Rule(
    "CG126",
    title='compile_sizes holds numbers and the word "cudagraph_capture_sizes", which stands for the capture sizes.',
    why="It saves repeating the list.",
    example="-cc.compile_sizes='[\"cudagraph_capture_sizes\"]' compiles for every capture size.",
    instead="Use numbers, or that word.",
    source="vllm/config/compilation.py:1136-1160",
)
RANGES = Rule(
    "CG127",
    title="Compile ranges end at max_num_batched_tokens, at the all-reduce fusion's limit, and where the user says.",
    why="One compiled kernel serves a range of sizes; fused collectives work up to a message size.",
    example="--tensor-parallel-size 2 on an H100: a range ends where a step's activations reach 64 MiB.",
    instead="Set -cc.compile_ranges_endpoints; each must be at least 1.",
    source="vllm/config/vllm.py:2658-2733",
)
COMPILE_SIZE_PADDED = Rule(
    "CG133",
    title="On runner V1 every compile size up to the largest graph must be a capture size.",
    why="Padding would turn it into another size before the compiled code sees it.",
    example="-cc.compile_sizes='[3]' with the default grid does not start: 3 pads to 4.",
    instead="Use capture sizes, or cudagraph_capture_sizes.",
    source="vllm/v1/cudagraph_dispatcher.py:90-108",
)

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


def expand_compile_sizes(engine: Engine) -> None:
    """Fill in compile_sizes once the capture sizes stand."""
    asked = engine.deployment.compilation_config.compile_sizes
    sizes: list[int] = []
    for item in dict.fromkeys(asked or ()):
        if isinstance(item, str):
            if item != "cudagraph_capture_sizes":
                raise StartupError(
                    f"compile_sizes holds {item[:40]!r}",
                    code=COMPILE_SIZES.code,
                    where="compilation_config.compile_sizes",
                    fix=COMPILE_SIZES.instead,
                )
            sizes.extend(engine.cudagraph_capture_sizes or ())
        else:
            sizes.append(item)
    engine.compile_sizes = sizes


def set_ranges(engine: Engine) -> None:
    """Step 3.23."""
    most = engine.max_num_batched_tokens
    ends = [most]
    limit = _allreduce_limit(engine) if engine.passes.get("fuse_allreduce_rms") else None
    if limit is not None and limit < most:
        ends.append(limit)
    begins = sequence_parallel.range_end(engine)
    if begins is not None:
        ends.append(begins)
    given = engine.deployment.compilation_config.pass_config
    for name in ("fuse_rope_kvcache", "fuse_qk_norm_rope_kvcache"):
        tokens = given.rope_kvcache_fusion_max_token_num or 256
        if engine.passes.get(name) and tokens < most:
            ends.append(tokens)
    for end in engine.deployment.compilation_config.compile_ranges_endpoints or ():
        if end <= 0:
            raise StartupError(
                f"compile range end {end} is not positive",
                code=RANGES.code,
                where="compilation_config.compile_ranges_endpoints",
                fix=RANGES.instead,
            )
        if 1 < end < most:
            ends.append(end)
    engine.compile_ranges_endpoints = sorted(ends)


def check_padding(engine: Engine, sizes: list[int]) -> None:
    """The V1 dispatcher's check of compile sizes against its padding table, which it indexes with them."""
    if not sizes:
        return
    for size in engine.compile_sizes:
        row = size + sizes[-1] + 1 if size < 0 else size
        padded = smallest_size(row, sizes)
        if padded is not None and padded != size:
            raise StartupError(
                f"compile size {size} would be padded to {padded}",
                code=COMPILE_SIZE_PADDED.code,
                stage="v1_initialize_cudagraph_keys",
                raised_as="ValueError",
                raised_in="CudagraphDispatcher",
                where="compilation_config.compile_sizes",
                fix=f"use {padded}" + (f", or add {size} to --cudagraph-capture-sizes" if size > 0 else ""),
            )


def _allreduce_limit(engine: Engine) -> int | None:
    """Largest step, tokens, whose all-reduce FlashInfer still fuses; None: it fuses none or all."""
    facts = engine.facts["allreduce_fusion"]
    d = engine.deployment
    if d.tensor_parallel_size not in facts["world_sizes"]:
        return None
    mib = d.compilation_config.pass_config.fi_allreduce_fusion_max_size_mb
    if mib is None:
        capability = f"{d.gpu.capability[0]}{d.gpu.capability[1]}"
        mib = facts["max_mib"].get(capability, {}).get(str(d.tensor_parallel_size))
    if mib is None:
        return None
    return int(mib * MIB) // (d.model.hidden_size * DTYPE_BYTES[engine.dtype])
