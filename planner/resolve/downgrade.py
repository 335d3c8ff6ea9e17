"""The mode once the attention backend is known: what its support level allows.

Source: CompilationConfig.resolve_cudagraph_mode_and_sizes, vllm/config/compilation.py:1376-1565 @ 0.33.0.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import StartupError
from ..light_dataclass import dataclass
from ..trace import Rule, Trace
from ..vocabulary import AttentionCGSupport, CUDAGraphMode, Runner
from .padding import round_up

STAGE = "resolve_cudagraph_mode_and_sizes"

MIXED_FULL = Rule(
    "CG330",
    title="FULL graphs for mixed batches need a backend that supports ALWAYS.",
    why="A mixed batch has requests of different lengths, and only such a backend's kernels read them at run time.",
    example="FULL with FlashAttention 2 (UNIFORM_BATCH): FULL_AND_PIECEWISE.",
    instead="Use FULL_AND_PIECEWISE, the default, or a backend that supports ALWAYS.",
    source="vllm/config/compilation.py:1395-1427",
)
MIXED_FULL_NEVER = Rule(
    "CG331",
    title="FULL on a backend that supports NEVER does not start.",
    why="There is no FULL graph to fall back to.",
    example="FULL with chunked local attention does not start.",
    instead="Use PIECEWISE, with the compilation mode left at VLLM_COMPILE.",
    source="vllm/config/compilation.py:1404-1413",
)
DECODE_NEVER = Rule(
    "CG332",
    title="A backend that supports NEVER loses FULL decode graphs: PIECEWISE where attention is cut out, else NONE.",
    why="Its metadata cannot be captured even for the simplest decode batch.",
    example="The default mode with chunked local attention: PIECEWISE. The finding quotes what that cost others.",
    instead="Choose a backend with a higher level, where the model allows one.",
    source="vllm/config/compilation.py:1429-1458",
)
SPEC_DECODE = Rule(
    "CG333",
    title="With speculative decoding, FULL decode graphs need a backend that supports UNIFORM_BATCH.",
    why="Each request of a decode batch then has several tokens.",
    example="3 draft tokens on a backend that supports single-token decode only: PIECEWISE. The finding quotes what"
    " that cost others.",
    instead="Choose a backend that supports UNIFORM_BATCH or ALWAYS.",
    source="vllm/config/compilation.py:1460-1482",
)
NO_CAPTURE = Rule(
    "CG334",
    title="Runner V2 drops PIECEWISE graphs of a model that has nothing to cut.",
    why="It captures pieces of a compiled submodule or of a model with breakable graphs, and this one has neither.",
    example="A model without torch.compile support, default mode: FULL_DECODE_ONLY.",
    instead="Nothing to do; FULL decode graphs stay.",
    source="vllm/config/compilation.py:1484-1498",
    since="0.30.0",
)
FULL_NEVER = Rule(
    "CG335",
    title="After every downgrade no FULL graph may be left on a backend that supports NEVER.",
    why="A last check of the rules before it.",
    example="It follows the other rules and finds nothing in practice.",
    instead="Use PIECEWISE.",
    source="vllm/config/compilation.py:1500-1512",
)
ROUND_SIZES = Rule(
    "CG401",
    title="Runner V1 rounds all capture sizes up to multiples of the decode query length.",
    why="Its decode graphs hold whole requests, and it has one list for decode and mixed batches.",
    example="1 draft token and sizes 1, 2, 4, 8: 2, 4, 8. PIECEWISE sizes are rounded too.",
    instead="Use runner V2, which rounds each decode graph and leaves PIECEWISE sizes alone.",
    source="vllm/config/compilation.py:1514-1565",
)
NO_SIZE_AFTER_ROUNDING = Rule(
    "CG402",
    title="Rounding to the decode query length must leave a capture size.",
    why="A FULL decode graph of less than one request is none.",
    example="--cudagraph-capture-sizes 2 with 2 draft tokens does not start on runner V1.",
    instead="Raise the largest capture size to the decode query length.",
    source="vllm/config/compilation.py:1551-1560",
)
MAMBA_BLOCKS = Rule(
    "CG501",
    title="FULL graphs of a model with Mamba layers need a cache block for each of max_num_seqs sequences.",
    why="Every running sequence holds its state in one block, and capture runs the fullest batch.",
    example="--max-num-seqs 64 with 40 blocks does not start.",
    instead="Lower --max-num-seqs, or raise --gpu-memory-utilization; a shorter --max-model-len brings no more blocks."
    " With --enable-lora a lower --max-loras or --max-lora-rank does. -cc.cudagraph_mode=PIECEWISE, or NONE, needs no"
    " block for each request, and costs decode speed.",
    source="vllm/config/compilation.py:1514-1535",
    since="0.20.2",
    history="until 0.19.1 the sizes are cut to the blocks instead, and it starts (CG510)",
)
MAMBA_SIZES = Rule(
    "CG510",
    title="FULL graphs of a model with Mamba layers are cut to the cache blocks.",
    why="Every sequence of a decode batch holds its state in one block.",
    example="40 blocks: sizes above 40 are dropped, PIECEWISE ones too.",
    instead="Lower --max-num-seqs, or raise --gpu-memory-utilization.",
    source="vllm/config/compilation.py, adjust_cudagraph_sizes_for_mamba_cache",
    release="0.19.1",
    until="0.19.1",
    history="since 0.20.2 too few blocks are refused instead (CG501)",
)


@dataclass(frozen=True)
class DowngradeInput:
    """What the downgrade depends on besides the mode.

    `attention_split`: every attention op is a splitting op. `compiled`: the compilation mode is VLLM_COMPILE.
    `rounds_sizes`: capture sizes become multiples of `multiple_of`, or of the query length.
    `lowers`: the mode is lowered at all. `rounds_shared_graphs`: sizes are rounded in mode FULL as well.
    `cuts_to_blocks`: FULL sizes are cut to the Mamba cache blocks, rather than too few blocks refused.
    `num_blocks`: KV cache blocks where known. `blocks_are_set`: by --num-gpu-blocks-override.
    `has_lora`: LoRA's buffers are allocated. `is_profiling`: the call during memory profiling.
    """

    support: AttentionCGSupport
    backend: str
    query_len: int
    attention_split: bool
    compiled: bool
    inductor_partition: bool
    runner: Runner
    rounds_sizes: bool = True
    lowers: bool = True
    rounds_shared_graphs: bool = True
    cuts_to_blocks: bool = False
    multiple_of: int | None = None
    piecewise_available: bool = True
    has_mamba: bool = False
    num_blocks: int | None = None
    blocks_are_set: bool = False
    has_lora: bool = False
    max_num_seqs: int = 0
    is_profiling: bool = False


def resolve_mode(mode: CUDAGraphMode, given: DowngradeInput, trace: Trace) -> CUDAGraphMode:
    """Steps 6.0 to 6.5: the final mode.

    Raises:
        StartupError: CG331 or CG335.
    """
    if mode is CUDAGraphMode.NONE:
        return mode
    mode = _mixed_full(mode, given, trace)
    if mode.decode_mode is CUDAGraphMode.FULL and given.support is AttentionCGSupport.NEVER:
        pieces = given.compiled and (given.attention_split or given.inductor_partition)
        mode = _lower(DECODE_NEVER, mode, _piecewise_if(pieces), given, trace)
    if (
        mode.decode_mode is CUDAGraphMode.FULL
        and given.query_len > 1
        and given.support < AttentionCGSupport.UNIFORM_BATCH
    ):
        mode = _lower(SPEC_DECODE, mode, _piecewise_if(given.attention_split), given, trace)
    if not given.piecewise_available and mode.has_piecewise:
        mode = _lower(NO_CAPTURE, mode, mode.without_piecewise, given, trace)
    if mode.has_full and given.support is AttentionCGSupport.NEVER:
        raise _refusal(FULL_NEVER, mode, given)
    return mode


def round_sizes(mode: CUDAGraphMode, sizes: Sequence[int], given: DowngradeInput, trace: Trace) -> list[int]:
    """Step 6.6: the sizes that runner V1 captures. Runner V2 keeps them.

    Raises:
        StartupError: CG402.
    """
    if not given.rounds_sizes or mode.decode_mode is not CUDAGraphMode.FULL or given.query_len <= 1:
        return list(sizes)
    if not (given.rounds_shared_graphs or mode.separate_routine):
        return list(sizes)
    return round_to(given.multiple_of or given.query_len, sizes, trace)


def round_to(multiple: int, sizes: Sequence[int], trace: Trace, stage: str = STAGE) -> list[int]:
    """`sizes`, ascending, rounded up to multiples of `multiple` that do not exceed the largest.

    Raises:
        StartupError: CG402.
    """
    if multiple <= 1 or not sizes:
        return list(sizes)
    largest = sizes[-1]
    rounded = sorted({up for up in (round_up(size, multiple) for size in sizes) if up <= largest})
    if not rounded and multiple <= largest:
        rounded = [multiple]
    if not rounded:
        raise StartupError(
            f"no capture size up to {largest} is a multiple of the decode query length {multiple}",
            code=NO_SIZE_AFTER_ROUNDING.code,
            stage=stage,
            raised_as="ValueError",
            raised_in="CompilationConfig",
            where="--cudagraph-capture-sizes",
            fix=f"capture a size of {multiple} or more, or lower num_speculative_tokens",
        )
    if rounded != list(sizes):
        trace.decide(ROUND_SIZES, "cudagraph_capture_sizes", list(sizes), rounded)
    return rounded


def cut_to_mamba_blocks(mode: CUDAGraphMode, sizes: list[int], given: DowngradeInput, trace: Trace) -> list[int]:
    """What 0.19 did about too few Mamba cache blocks: larger sizes are dropped, PIECEWISE ones too."""
    blocks = given.num_blocks
    if not (given.cuts_to_blocks and given.has_mamba and mode.has_full and blocks):
        return sizes
    kept = [size for size in sizes if size <= blocks]
    if len(kept) < len(sizes):
        trace.decide(MAMBA_SIZES, "cudagraph_capture_sizes", sizes, kept)
    return kept


def check_mamba_blocks(mode: CUDAGraphMode, given: DowngradeInput) -> None:
    """Step 6.7.

    Raises:
        StartupError: CG501.
    """
    blocks = given.num_blocks
    if (
        not given.lowers
        or given.cuts_to_blocks
        or blocks is None
        or given.is_profiling
        or not given.has_mamba
        or not mode.has_full
    ):
        return
    if given.max_num_seqs > blocks:
        raise StartupError(
            f"max_num_seqs {given.max_num_seqs} exceeds the {blocks} Mamba cache blocks",
            code=MAMBA_BLOCKS.code,
            stage=STAGE,
            raised_as="ValueError",
            raised_in="CompilationConfig",
            where="--max-num-seqs",
            fix=f"set {mamba_fix(blocks, given.blocks_are_set, given.has_lora)}",
        )


def mamba_fix(blocks: int, are_set: bool, lora: bool = False) -> str:
    """What to change where full graphs have fewer blocks than requests. A round value first: the number of blocks
    changes a little from start to start.

    Args:
        are_set: by --num-gpu-blocks-override, so more memory brings no more of them.
        lora: buffers of adapters take memory that would be blocks.
    """
    fewer = 1 << (max(blocks, 1).bit_length() - 1)
    most = f" ({blocks} at most)" if blocks > fewer else ""
    more = "a larger --num-gpu-blocks-override" if are_set else "a higher --gpu-memory-utilization"
    if lora and not are_set:
        more += ", or a lower --max-loras or --max-lora-rank, whose buffers take memory of the blocks"
    requests = f"--max-num-seqs {fewer}{most}, or " if blocks else ""
    return f"{requests}{more}; or -cc.cudagraph_mode=PIECEWISE, which needs no block for each of them"


def _mixed_full(mode: CUDAGraphMode, given: DowngradeInput, trace: Trace) -> CUDAGraphMode:
    if mode.mixed_mode is not CUDAGraphMode.FULL or given.support is AttentionCGSupport.ALWAYS:
        return mode
    if given.support is AttentionCGSupport.NEVER:
        raise _refusal(MIXED_FULL_NEVER, mode, given)
    after = CUDAGraphMode.FULL_AND_PIECEWISE if given.attention_split else CUDAGraphMode.FULL_DECODE_ONLY
    return _lower(MIXED_FULL, mode, after, given, trace)


def _piecewise_if(pieces: bool) -> CUDAGraphMode:
    return CUDAGraphMode.PIECEWISE if pieces else CUDAGraphMode.NONE


def _lower(rule: Rule, mode: CUDAGraphMode, after: CUDAGraphMode, given: DowngradeInput, trace: Trace) -> CUDAGraphMode:
    why = rule.title if rule is NO_CAPTURE else f"{given.backend} supports {given.support}. {rule.title}"
    trace.decide(rule, "cudagraph_mode", mode.value, after.value, why)
    return after


def _refusal(rule: Rule, mode: CUDAGraphMode, given: DowngradeInput) -> StartupError:
    return StartupError(
        f"cudagraph_mode {mode} does not work with {given.backend}, which supports {given.support}",
        code=rule.code,
        stage=STAGE,
        raised_as="ValueError",
        raised_in="CompilationConfig",
        where="-cc.cudagraph_mode",
        fix="set -cc.cudagraph_mode=PIECEWISE and leave -cc.mode unset",
    )
