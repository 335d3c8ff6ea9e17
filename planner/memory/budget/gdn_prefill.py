"""What the prefill of a gated delta layer takes beyond the profile run, which returns before its kernels.

Read off vLLM's source, not measured. All that a layer allocates is free again when it returns, so of all layers the
memory of one counts. The kernels are those of Triton; FlashInfer's are not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...cache_layers import StateSizes
from ...deployment import Deployment
from ...releases import canonical, holds
from ...resolve import Resolution
from ...trace import Finding
from ..estimates import GIB, MIB, Interval
from .budget import Budget, StageBudget
from .estimate_rules import GDN_PREFILL

CHUNK = 64
"""Tokens, FLA_CHUNK_SIZE."""
_FLOAT = 4
FLASHINFER_HEAD = 128
FLASHINFER_SM100 = "0.22.1"
FLASHINFER_SM120 = "0.30.0"


def gdn_prefill_findings(deployment: Deployment, resolution: Resolution, made: Budget) -> Iterator[Finding]:
    """What a prefill of all batched tokens takes more than the profile run saw, held against what stays free."""
    state = _widest(deployment)
    if state is None or deployment.gpu.platform != "cuda":
        return
    tokens = resolution.max_num_batched_tokens
    if uses_flashinfer(deployment, state):
        text = (
            f"what FlashInfer's gated delta prefill of {tokens} tokens takes is not in the plan, as vLLM does not"
            " profile it"
        )
        yield Finding(GDN_PREFILL.code, "info", text, None, "--max-num-batched-tokens")
        return
    stage = made.tightest
    more = beyond_profile(deployment, resolution, state, stage)
    a_prompt = _of_prompt(deployment, state)
    text = (
        f"a prefill of {tokens} tokens takes {more.low / GIB:.2f} to {more.high / GIB:.2f} GiB more than vLLM profiles,"
        f" and {a_prompt / MIB:.0f} MiB for each prompt after the first, in a gated delta layer (from reading, not"
        f" measured); {max(stage.unused.low, 0) / GIB:.2f} GiB surely stay free"
    )
    missing = more.high - max(stage.unused.low, 0)
    if missing <= 0:
        yield Finding(GDN_PREFILL.code, "info", text, None, "--max-num-batched-tokens")
        return
    share = -(-missing * 100 // made.total.best) / 100
    other = "--kv-cache-memory-bytes" if made.is_manual else f"--gpu-memory-utilization by {share:.2f}"
    fix = f"a lower --max-num-batched-tokens, or lower {other}"
    yield Finding(GDN_PREFILL.code, "warning", text, fix, "--max-num-batched-tokens")


def most_of_prefill(deployment: Deployment, resolution: Resolution, stage: StageBudget) -> int | None:
    """What a prefill of all batched tokens takes at most beyond the profile run, bytes of a rank; None: not known."""
    state = _widest(deployment)
    if state is None or deployment.gpu.platform != "cuda" or uses_flashinfer(deployment, state):
        return None
    return beyond_profile(deployment, resolution, state, stage).high


def uses_flashinfer(deployment: Deployment, state: StateSizes) -> bool:
    """Whether vLLM takes FlashInfer's prefill where nothing else is asked for: _resolve_gdn_prefill_backend."""
    release, (major, minor) = canonical(deployment.vllm), deployment.gpu.capability
    if (major, minor) == (9, 0):
        return True
    first = {10: FLASHINFER_SM100, 12: FLASHINFER_SM120}.get(major)
    return first is not None and state.key_head_size == FLASHINFER_HEAD and holds(release, first)


def beyond_profile(deployment: Deployment, resolution: Resolution, state: StateSizes, stage: StageBudget) -> Interval:
    """Bytes of a rank above the profiled peak: at most all that the layer allocates, as the profile run holds what
    stands around it; less where another part of the model made a higher peak."""
    tokens, item = resolution.max_num_batched_tokens, _itemsize(resolution)
    whole = layer_bytes(deployment, state, tokens, item) + _of_prompt(deployment, state)
    keys, values = _widths(deployment, state)
    # Its input projection with the gate, the output that it fills, and the residual stand meanwhile.
    around = tokens * item * (2 * keys + 3 * values + deployment.model.hidden_size)
    low = max(0, whole + around - stage.activation.high)
    best = max(low, min(whole, whole + around - stage.activation.best))
    return Interval(min(low, whole), best, whole, "from reading, not measured")


def layer_bytes(deployment: Deployment, state: StateSizes, tokens: int, item: int = 2) -> int:
    """What one layer allocates for a prefill of `tokens` at the moment of chunk_fwd_o, bytes of a rank."""
    keys, values = _widths(deployment, state)
    heads = values // state.head_size
    mixed = 2 * keys + values
    # The convolution's output; q, k, v; w and u; the new v; the output.
    wide = 2 * mixed + heads * (state.key_head_size + state.head_size) + 2 * values
    chunks = -(-tokens // CHUNK)
    states = chunks * heads * state.key_head_size * state.head_size * item
    # The inverse of each chunk's matrix; the gates, their sums, and beta.
    small = tokens * heads * (CHUNK * item + 3 * _FLOAT)
    return tokens * wide * item + states + small


def _of_prompt(deployment: Deployment, state: StateSizes) -> int:
    """The state that a prompt starts from and the one that it ends with, both in float32 at most, bytes of a rank."""
    _, values = _widths(deployment, state)
    return 2 * values * state.key_head_size * _FLOAT


def _widths(deployment: Deployment, state: StateSizes) -> tuple[int, int]:
    """Elements of all keys and of all values of a rank."""
    ranks = deployment.tensor_parallel_size
    keys, values = max(1, state.num_key_heads // ranks), max(1, state.num_heads // ranks)
    return keys * state.key_head_size, values * state.head_size


def _widest(deployment: Deployment) -> StateSizes | None:
    """The gated delta layers with the widest values; None: the model has none."""
    cache = deployment.model.cache
    found = [layers.state for layers in cache.layers if layers.kind == "gdn"] if cache is not None else []
    known = [state for state in found if state is not None and state.num_heads and state.key_head_size]
    return max(known, key=lambda state: state.num_heads * state.head_size, default=None)


def _itemsize(resolution: Resolution) -> int:
    return _FLOAT if resolution.config.get("dtype") == "float32" else 2
