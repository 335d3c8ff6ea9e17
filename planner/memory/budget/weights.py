"""The bytes of a model's weights on one rank of each pipeline stage, from the model's shape.

Source: vllm/model_executor/layers/linear.py, vocab_parallel_embedding.py and fused_moe/layer.py @ 0.33.0 for what
parallelism cuts; quantization/ for how a matrix is stored. Weights that were counted from files or measured come in
by `measured`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from ...deployment import Deployment
from ...errors import InputError
from ...light_dataclass import dataclass
from ...model_shape import ModelShape
from ...releases import canonical, facts
from ...resolve import Resolution
from ...weight_shape import NOT_SAID, Matrix, QuantScheme, WeightShape
from ..estimates import Interval, between, exactly
from ..layers.pipeline_stages import stage_ranges
from . import offload
from .encoder import stage_has_tower

ITEM_BYTES = {"float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2}

_MERGED = {"q_proj": "qkv_proj", "k_proj": "qkv_proj"}

# Modules that are named otherwise in the model than here.
_MODULE = {"experts.gate_up_proj": "mlp.experts.w13_weight", "experts.down_proj": "mlp.experts.w2_weight"}

# Schemes that vLLM applies to a checkpoint of full precision while it loads.
ONLINE = {
    "fp8": QuantScheme(name="fp8, made while loading", bits=8, group_rows=0),
    "fp8_per_tensor": QuantScheme(name="fp8, made while loading", bits=8, group_rows=0),
    "fp8_per_channel": QuantScheme(name="fp8 per channel, made while loading", bits=8),
    "fp8_per_block": QuantScheme(name="fp8 in blocks, made while loading", bits=8, group_rows=128, group_columns=128),
    "mxfp8": QuantScheme(name="mxfp8, made while loading", bits=8, group_columns=32, scale_bytes=1),
    "int8_per_channel_weight_only": QuantScheme(name="int8, made while loading", bits=8),
    "nvfp4_per_token": QuantScheme(name="nvfp4, made while loading", bits=4, group_columns=16, scale_bytes=1),
    "bitsandbytes": QuantScheme(name="nf4, made while loading", bits=4, group_columns=64),
    "experts_int8": QuantScheme(name="int8 experts, made while loading", bits=8),
}


@dataclass(frozen=True)
class StageWeights:
    """Weights of one rank of a pipeline stage.

    Attributes:
        total: bytes.
        parts: best bytes by part: embedding, head, attention, mixer, mlp, experts, ...
    """

    total: Interval
    parts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Weights:
    """Weights of every pipeline stage, first to last.

    Attributes:
        doubt: why tensors that were counted may not be the model's, in words; or "".
    """

    stages: tuple[StageWeights, ...]
    doubt: str = ""

    @property
    def heaviest(self) -> Interval:
        return max((stage.total for stage in self.stages), key=lambda total: total.best)


def measured(stage_bytes: Sequence[int], source: str) -> Weights:
    """Weights whose bytes are known: of one rank, by pipeline stage, or one number for all."""
    return Weights(tuple(StageWeights(exactly(number, source)) for number in stage_bytes))


def estimate_weights(deployment: Deployment, resolution: Resolution | None = None) -> Weights:
    """Weights of `deployment`'s model, adapters and draft, as far as its GPUs hold them.

    Args:
        resolution: of the same deployment; None: runner V1.

    Raises:
        InputError: CG916, what the model's layers are is not known.
        StartupError: CG542, the pipeline partition does not fit the layers; CG903, impossible groups of --offload-*.
    """
    offload.check(deployment)
    shape = _known(deployment.model)
    stages = deployment.pipeline_parallel_size
    partition = deployment.env.get("VLLM_PP_LAYER_PARTITION")
    ranges = stage_ranges(deployment.model.num_hidden_layers, stages, partition)
    counter = _Counter(deployment, deployment.model, shape)
    found = []
    for number, layers in enumerate(ranges):
        own = _on_stage(shape, layers, number == 0, number == stages - 1)
        own = _loaded(deployment, resolution, own, shape, number == 0)
        parts = counter.by_part(own)
        if not deployment.mm_encoder_only:
            parts["rope"] = shape.rope_elements * counter.itemsize
        if deployment.enable_lora:
            parts["lora"] = _lora(deployment, counter, own)
        if number == stages - 1:
            parts["draft"] = _draft(deployment, counter)
        parts = {name: size for name, size in parts.items() if size}
        best = sum(parts.values())
        spread = _spread(shape)
        low = best * (1 - spread)
        total = between(low, best, best * (1 + spread), _source(shape))
        if offload.backend(deployment) is not None:
            total = offload.left_on_gpu(deployment, total, _pieces(counter, own), layers)
        found.append(StageWeights(total, parts))
    return Weights(tuple(found))


def _loaded(
    deployment: Deployment, resolution: Resolution | None, own: list[Matrix], shape: WeightShape, first: bool
) -> list[Matrix]:
    """Without the encoder or the language model, where one of them is not built; see `encoder.has_tower`."""
    others = [matrix for matrix in own if matrix.part != "vision"]
    tower = [matrix for matrix in shape.matrices if matrix.part == "vision"]
    if deployment.mm_encoder_only and tower:
        others = []
    return [*others, *tower] if tower and stage_has_tower(deployment, resolution, first) else others


def _pieces(counter: _Counter, own: Iterable[Matrix]) -> Iterable[offload.Piece]:
    """The parameters that may be moved to the CPU, as vLLM names its modules."""
    for matrix in own:
        if matrix.part == "vision":
            yield offload.Piece(matrix.name, None, counter.each(matrix), parts=100)
        for layer in matrix.layers:
            yield offload.Piece(_MODULE.get(matrix.name, matrix.name), layer, counter.each(matrix), parts=matrix.count)


def _known(model: ModelShape) -> WeightShape:
    if model.weights is None:
        name = model.name or model.architecture or "the model"
        raise InputError(
            f"the weights of {name} cannot be worked out from its config.json",
            code="CG916",
            where="--model",
            fix="give --weights-bytes, or the folder that holds its safetensors files",
        )
    return model.weights


def _source(shape: WeightShape) -> str:
    return "the model's shape" + (f"; {shape.unsure}" if shape.unsure else "")


def _spread(shape: WeightShape) -> float:
    known = facts("budget", "0.33.0")["weights"]
    if "every layer" in shape.unsure:
        return float(known["spread_layers"])
    if NOT_SAID in shape.unsure:
        return float(known["spread_named"])
    return float(known["spread_scheme"] if shape.unsure else known["spread"])


def _on_stage(shape: WeightShape, layers: range, first: bool, last: bool) -> list[Matrix]:
    """The matrices that a pipeline stage holds, with its own layers only."""
    found = []
    for matrix in shape.matrices:
        if not matrix.layers:
            wanted = {"embedding": first or (last and shape.tied), "vision": first}.get(matrix.part, last)
            if wanted:
                found.append(matrix)
            continue
        own = tuple(layer for layer in matrix.layers if layer in layers)
        if own:
            found.append(matrix.model_copy(update={"layers": own}) if len(own) != len(matrix.layers) else matrix)
    return found


class _Counter:
    """Bytes of a matrix on one rank."""

    def __init__(self, deployment: Deployment, model: ModelShape, shape: WeightShape) -> None:
        release = canonical(deployment.vllm)
        self.facts = facts("budget", release)["weights"]
        self.shape = shape
        self.hidden_size = model.hidden_size
        dtype = model.dtype if deployment.dtype == "auto" else deployment.dtype
        self.itemsize = ITEM_BYTES.get(dtype, 2)
        self.ranks = deployment.tensor_parallel_size
        self.expert_ranks = self.ranks * deployment.data_parallel_size if deployment.enable_expert_parallel else 1
        self.online = None if model.quantization else ONLINE.get(deployment.quantization or "")

    def by_part(self, matrices: Iterable[Matrix]) -> dict[str, int]:
        """Bytes of each part on one rank. The projections that vLLM merges are one tensor."""
        tensors: dict[tuple[str, str, tuple[int, ...]], int] = {}
        for matrix in matrices:
            name = _MERGED.get(matrix.name.rpartition(".")[2], matrix.name)
            key = (matrix.part, name, matrix.layers)
            tensors[key] = tensors.get(key, 0) + self.each(matrix)
        parts: dict[str, int] = {}
        for (part, _, layers), size in tensors.items():
            parts[part] = parts.get(part, 0) + self._in_blocks(size) * max(1, len(layers))
        return parts

    def each(self, matrix: Matrix) -> int:
        """Bytes of a matrix, of one layer, on one rank."""
        count, rows, columns = self.cut(matrix)
        scheme = self._scheme(matrix)
        if scheme is None:
            return count * rows * columns * (matrix.itemsize or self.itemsize)
        # mla_attention.py:1270-1349: the decompression of quantised MLA is kept in the model's dtype, too.
        copy = rows * columns * self.itemsize if matrix.name.endswith("kv_b_proj") else 0
        rows, columns = self._padded(matrix, scheme, rows, columns)
        return count * _stored_bytes(scheme, rows, columns) + copy

    def cut(self, matrix: Matrix) -> tuple[int, int, int]:
        """Experts, rows and columns of a matrix that one rank holds."""
        count, rows, columns, ranks = matrix.count, matrix.rows, matrix.columns, self.ranks
        if matrix.count > 1 and self.expert_ranks > 1:
            return -(-count // self.expert_ranks), rows, columns
        if matrix.split == "rows":
            rows = -(-rows // ranks)
        elif matrix.split == "columns":
            columns = -(-columns // ranks)
        elif matrix.split == "kv_heads":
            rows = rows // max(1, matrix.heads) * max(1, matrix.heads // ranks)
        elif matrix.split == "vocab":
            multiple: int = self.facts["vocab_multiple"]
            rows = -(-rows // multiple) * multiple // ranks
        return count, rows, columns

    def _scheme(self, matrix: Matrix) -> QuantScheme | None:
        if matrix.scheme is not None and matrix.scheme < len(self.shape.schemes):
            return self.shape.schemes[matrix.scheme]
        if self.online is None or not matrix.linear or not matrix.layers:
            return None
        return self.online if "experts" not in self.online.name or matrix.part == "experts" else None

    def _padded(self, matrix: Matrix, scheme: QuantScheme, rows: int, columns: int) -> tuple[int, int]:
        """mxfp4 experts are padded for their kernels; two projections of a gated MLP each for itself."""
        if matrix.part != "experts" or scheme.name != "mxfp4":
            return rows, columns
        inner, hidden = self.facts["mxfp4_intermediate_multiple"], self.facts["mxfp4_hidden_multiple"]
        if matrix.name.endswith("down_proj"):
            return -(-rows // hidden) * hidden, -(-columns // inner) * inner
        twice = 2 if self.shape.gated_mlp else 1
        return twice * (-(-(rows // twice) // inner) * inner), -(-columns // hidden) * hidden

    def _in_blocks(self, size: int) -> int:
        """What torch's allocator counts: the rest of a tensor's last block, where it is not split off."""
        block: int = self.facts["block_bytes"]
        whole = -(-size // block) * block
        if size < self.facts["own_block_bytes"]:
            return size
        if self.facts["whole_blocks"] and size > self.facts["large_bytes"]:
            return whole
        return whole if whole - size <= self.facts["rest_bytes"] else size


def _stored_bytes(scheme: QuantScheme, rows: int, columns: int) -> int:
    """Weights, scales and zero points of one matrix."""
    groups = -(-rows // (scheme.group_rows or rows)) * -(-columns // (scheme.group_columns or columns))
    return -(-rows * columns * scheme.bits // 8) + groups * scheme.scale_bytes + groups * scheme.zero_bits // 8


def _lora(deployment: Deployment, counter: _Counter, matrices: Iterable[Matrix]) -> int:
    """The stacked A and B matrices of all adapter slots, lora/layers/: A of every projection, B of its outputs."""
    rank, slots = deployment.max_lora_rank, deployment.max_loras
    elements = 0
    for matrix in matrices:
        if matrix.part == "embedding" and not matrix.layers:
            elements += matrix.rows + matrix.columns
            if counter.shape.tied:
                elements += matrix.rows + matrix.columns
        elif matrix.part == "head":
            elements += matrix.rows + matrix.columns
        elif matrix.linear and matrix.layers:
            _, rows, columns = counter.cut(matrix)
            # A projection that is several in one has an A for each.
            merged = 2 if matrix.name.endswith(("gate_up_proj", "k_proj")) else 1
            elements += (rows + merged * columns) * matrix.count * len(matrix.layers)
    return elements * rank * slots * counter.itemsize


def _draft(deployment: Deployment, counter: _Counter) -> int:
    """The model that drafts: the module of the checkpoint, or a model of its own."""
    options = deployment.speculative_config
    if options is None:
        return 0
    if options.model is None or options.model.weights is None:
        if options.method in ("ngram", "ngram_gpu", "suffix", None):
            return 0
        return sum(counter.by_part(counter.shape.draft).values())
    shape = options.model.weights
    ranks = options.draft_tensor_parallel_size or deployment.tensor_parallel_size
    inner = _Counter(deployment.model_copy(update={"tensor_parallel_size": ranks}), options.model, shape)
    # EAGLE drafts share the target's embedding, and mostly its head.
    shared = options.method in ("eagle", "eagle3", "mtp", "dflash")
    kept = [m for m in shape.matrices if not (shared and m.part in ("embedding", "vision"))]
    return sum(inner.by_part(kept).values())
