"""Tensors of a checkpoint by name, and what of their bytes lies on one rank.

Source: what vllm/model_executor/models/ @ 0.33.0 load under which names, and how their layers are cut:
model_executor/layers/linear.py, vocab_parallel_embedding.py, fused_moe/layer.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...deployment import Deployment
from ...errors import InputError
from ...releases import canonical, facts
from ...weight_shape import Tensor
from ..estimates import GIB, Interval, exactly
from ..layers.pipeline_stages import stage_ranges
from . import offload
from .encoder import has_tower
from .weights import ITEM_BYTES, StageWeights, Weights, estimate_weights

_ROWS = re.compile(
    r"(^|\.)(q_proj|q_b_proj|kv_b_proj|qkv_proj|gate_proj|up_proj|gate_up_proj|w1|w3|c_fc|fc1|in_proj\w*|query_key_value|"
    r"dense_h_to_4h|wq_b|wo_a|g_proj|conv1d|A_log|D|dt_bias|dt_proj|sinks|Wqkv)(\.|$)"
)
_KV = re.compile(r"(^|\.)(k_proj|v_proj)(\.|$)")
_COLUMNS = re.compile(r"(^|\.)(o_proj|down_proj|w2|out_proj|fc2|dense_4h_to_h|dense|x_proj|wo_b|c_proj)(\.|$)")
_VOCAB = re.compile(r"(^|\.)(embed_tokens|lm_head|word_embeddings|wte|embed_out|embeddings|head|embed)\.weight$")
_EXPERT = re.compile(r"(^|\.)experts\.")
_LAYER = re.compile(r"(^|\.)(layers|h|blocks)\.(\d+)\.")
_VISION = re.compile(
    r"(^|\.)(vision\w*|visual|vit|multi_modal_projector|mm_projector|audio\w*|embed_vision|embed_audio)\."
)
_SKIPPED = re.compile(r"(^|\.)(rotary_emb\.inv_freq|masked_bias|mtp\..*)$")
_WHOLE = ("norm.weight", "gate.weight", "a_proj.weight", "mqa.weight", "router.weight")
_FLOATS = {"F32": 4, "F16": 2, "BF16": 2, "F64": 8}
FAR = 5
"""Files and shape that differ by more are not of one model; 16 and 4 bits differ by less."""
_LITTLE = 1 << 20
"""Bytes of tensors that no rule knows and that every rank may as well hold."""


def weights_of(deployment: Deployment, tensors: Iterable[Tensor], source: str) -> Weights:
    """The bytes that one rank of each pipeline stage holds of a checkpoint.

    Exact where every large tensor is cut in a known way; a tensor whose name no rule knows widens the bounds from a
    share of it to all of it.

    Args:
        source: where the tensors are from, in words.

    Raises:
        StartupError: CG542, the pipeline partition does not fit the layers.
    """
    stages = deployment.pipeline_parallel_size
    partition = deployment.env.get("VLLM_PP_LAYER_PARTITION")
    ranges = stage_ranges(deployment.model.num_hidden_layers, stages, partition)
    sizes = [[0, 0] for _ in ranges]  # at least, and at most
    counter = _Share(deployment)
    layers: set[int] = set()
    pieces: list[list[offload.Piece]] = [[] for _ in ranges]
    moves = offload.backend(deployment) is not None
    for tensor in tensors:
        layer = None if _VISION.search(tensor.name) else _LAYER.search(tensor.name)
        if layer is not None:
            layers.add(int(layer[3]))
        if _SKIPPED.search(tensor.name) or (counter.tied and tensor.name.endswith("lm_head.weight")):
            continue
        if not _is_loaded(deployment, tensor.name):
            continue
        share, is_known = counter.of(tensor)
        least = share if is_known or tensor.size <= _LITTLE else -(-share // counter.ranks)
        for number in _stages_of(tensor.name, ranges, counter.tied):
            sizes[number][0] += least
            sizes[number][1] += share
            if moves and (layer is not None or _VISION.search(tensor.name)):
                name = tensor.name if layer is None else tensor.name[layer.end() :]
                pieces[number].append(offload.Piece(name, int(layer[3]) if layer else None, share))
    made = []
    for (low, high), own, stage in zip(sizes, pieces, ranges, strict=True):
        total = exactly(high, source) if low == high else Interval(low, high, high, source)
        if moves:
            total = offload.left_on_gpu(deployment, total, own, stage)
        made.append(StageWeights(total, {"files": high}))
    return Weights(tuple(made), _doubt(deployment, layers, sum(high for _, high in sizes)))


def _is_loaded(deployment: Deployment, name: str) -> bool:
    """Whether vLLM builds the part that a tensor belongs to."""
    is_vision = _VISION.search(name) is not None
    if deployment.mm_encoder_only:
        return is_vision
    return not is_vision or has_tower(deployment) or not deployment.model.is_multimodal_model


def _doubt(deployment: Deployment, layers: set[int], found: int) -> str:
    """Why these are hardly the model's tensors; "" where they may be."""
    wanted = deployment.model.num_hidden_layers
    missing = [number for number in range(wanted) if number not in layers]
    # Names that no rule knows are no sign of missing layers.
    if layers and missing:
        return f"{len(missing)} of {wanted} layers of the model have no tensor in the files, the first is {missing[0]}"
    try:
        stages = estimate_weights(deployment).stages
    except InputError:
        return ""
    low, high = sum(own.total.low for own in stages), sum(own.total.high for own in stages)
    if low / FAR <= found <= high * FAR:
        return ""
    best = sum(own.total.best for own in stages)
    return f"the files hold {found / GIB:.2f} GiB of weights, and the model's shape says {best / GIB:.2f}"


def _stages_of(name: str, ranges: tuple[range, ...], tied: bool) -> list[int]:
    """The pipeline stages that hold a tensor; layers past the last are draft modules, which are not loaded."""
    last = len(ranges) - 1
    if _VISION.search(name):
        return [0]
    layer = _LAYER.search(name)
    if layer is not None:
        number = int(layer[3])
        return [i for i, own in enumerate(ranges) if number in own]
    if _VOCAB.search(name) and not re.search(r"(lm_head|embed_out|(^|\.)head)\.weight$", name):
        return [0, last] if tied and last else [0]
    return [last]


class _Share:
    """What of a tensor one rank holds."""

    def __init__(self, deployment: Deployment) -> None:
        model = deployment.model
        self.tied = model.weights.tied if model.weights is not None else False
        self.ranks = deployment.tensor_parallel_size
        self.kv_heads = max(1, model.num_kv_heads)
        self.expert_ranks = (
            self.ranks * deployment.data_parallel_size if deployment.enable_expert_parallel else self.ranks
        )
        self.multiple: int = facts("budget", canonical(deployment.vllm))["weights"]["vocab_multiple"]
        dtype = model.dtype if deployment.dtype == "auto" else deployment.dtype
        self.itemsize = ITEM_BYTES.get(dtype, 2)
        self.is_quantised = model.quantization is not None

    def of(self, tensor: Tensor) -> tuple[int, bool]:
        """Bytes on one rank, and whether a rule says so."""
        name, size = tensor.name, self._loaded(tensor)
        if self.ranks == 1 and self.expert_ranks == 1:
            return (self._padded(tensor, size) if _VOCAB.search(name) else size), True
        if _EXPERT.search(name):
            return -(-size // self.expert_ranks), True
        if _VISION.search(name):
            return size, False
        if _VOCAB.search(name):
            return -(-self._padded(tensor, size) // self.ranks), True
        if _KV.search(name):
            return -(-size // min(self.ranks, self.kv_heads)), True
        if _ROWS.search(name):
            return (size if self._is_scalar(tensor) else -(-size // self.ranks)), True
        if _COLUMNS.search(name):
            whole = self._is_scalar(tensor) or name.endswith(".bias") or self._is_channel_scale(tensor)
            return (size if whole else -(-size // self.ranks)), True
        return size, tensor.size <= _LITTLE or name.endswith(
            ("norm.weight", "gate.weight", "a_proj.weight", "mqa.weight")
        )

    def _loaded(self, tensor: Tensor) -> int:
        """Bytes in the model's dtype: floats are converted, scales are not."""
        stored = _FLOATS.get(tensor.dtype)
        if stored is None or "scale" in tensor.name or (self.is_quantised and tensor.dtype == "F32"):
            return tensor.size
        return tensor.size // stored * self.itemsize

    def _padded(self, tensor: Tensor, size: int) -> int:
        rows = tensor.shape[0] if tensor.shape else 0
        return size // rows * (-(-rows // self.multiple) * self.multiple) if rows else size

    def _is_scalar(self, tensor: Tensor) -> bool:
        return all(n == 1 for n in tensor.shape)

    def _is_channel_scale(self, tensor: Tensor) -> bool:
        return "scale" in tensor.name and (len(tensor.shape) == 1 or tensor.shape[-1] == 1)
