"""The decoder layers of one rank as a captured step sees them: widths of its buffers, pieces, and nodes.

Widths are elements a token on one rank. A layer's mixer is its attention or state-space part; the compiler cuts the
model at its op, so the pieces of a model are its mixers and one more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ...deployment import Deployment
from ...light_dataclass import dataclass
from ...model_shape import ModelShape
from ...weight_shape import Matrix, Part, WeightShape
from ..layers.pipeline_stages import stage_ranges

_STATES = ("mamba1", "mamba2", "gdn", "kda", "linear", "short_conv")
_GATED_STATES = ("gdn", "kda")
_FOUR_BITS = 4


class LayerWidths(NamedTuple):
    """Buffers of one decoder layer.

    Attributes:
        has_mixer: an attention or state-space op; False: the layer is an MLP alone (Nemotron-H).
        projected: what the mixer's input projection gives: queries, keys and values.
        key: the rotated keys.
        output: what the mixer's op gives, before the output projection.
        up, act: the dense MLP before and after its activation; 0: there is none.
        routed: experts of a kernel that keeps its two buffers in the pool (weights of 4 bits); (0, 0): none.
        shared_up, shared_act: shared experts beside routed ones; 0: none.
        has_experts: the MLP has routed experts.
        copies_query: queries are normalised into a buffer of their own.
        keeps_projection: the projection's gate is needed after the op.
    """

    has_mixer: bool = True
    projected: int = 0
    key: int = 0
    output: int = 0
    up: int = 0
    act: int = 0
    routed: tuple[int, int] = (0, 0)
    shared_up: int = 0
    shared_act: int = 0
    has_experts: bool = False
    copies_query: bool = False
    keeps_projection: bool = False


@dataclass(frozen=True)
class Layers:
    """The layers of one rank.

    Attributes:
        hidden: width of the residual stream.
        float32_norm: norms of the layers' outputs in float32 need a buffer of twice the hidden size.
        shown: widths of the first layers, enough of them to see each kind; what the pool is worked out from.
        mixers: layers with a mixer, which the compiler cuts the model at.
        piece_nodes, op_nodes: nodes of one step in the pieces, and in the mixers' ops.
        forks: layers that use a second stream.
        is_sure: False where the model's matrices are not known.
    """

    hidden: int
    float32_norm: bool
    shown: tuple[LayerWidths, ...]
    mixers: int
    piece_nodes: float
    op_nodes: float
    forks: int
    is_sure: bool = True

    @property
    def pieces(self) -> int:
        return self.mixers + 1


class _Asked(NamedTuple):
    """What the layers of a rank depend on."""

    model: ModelShape
    known: Mapping[str, Any]
    ranks: int
    stages: int
    partition: str | None
    expert_ranks: int
    lora: bool

    def is_like(self, other: _Asked) -> bool:
        return self.model is other.model and self.known is other.known and self[2:] == other[2:]


_last: list[tuple[_Asked, Layers]] = []
"""The layers asked for last, of a target and of a draft model: variants of one deployment share them."""


def layers_of(deployment: Deployment, model: ModelShape, known: Mapping[str, Any], lora: bool) -> Layers:
    """The layers of the rank with most of them.

    Args:
        model: the target's shape, or a draft model's.
        known: facts of the topic `graph_memory`.
        lora: adapters are on.

    Raises:
        StartupError: CG542, the pipeline partition does not fit the layers.
    """
    asked = _Asked(
        model, known, deployment.tensor_parallel_size, deployment.pipeline_parallel_size,
        deployment.env.get("VLLM_PP_LAYER_PARTITION"), _expert_ranks(deployment), lora,
    )  # fmt: skip
    for before, layers in _last:
        if asked.is_like(before):
            return layers
    layers = _layers_of(*asked)
    _last[:] = [(asked, layers), *_last[:1]]
    return layers


def _layers_of(
    model: ModelShape,
    known: Mapping[str, Any],
    ranks: int,
    stages: int,
    partition: str | None,
    expert_ranks: int,
    lora: bool,
) -> Layers:
    stage = max(stage_ranges(model.num_hidden_layers, stages, partition), key=len)
    norms = model.architecture in known["pool"]["query_norm"]
    weights = model.weights
    if weights is None or not any(matrix.layers for matrix in weights.matrices):
        widths = [_plain(model, ranks, norms)] * len(stage)
    else:
        reader = _Reader(model, weights, ranks, norms, expert_ranks)
        widths = [reader.layer(number) for number in stage]
    counter = _Counter(model, known["nodes"], ranks, lora)
    return Layers(
        hidden=model.hidden_size,
        float32_norm=model.architecture in known["pool"]["float32_norm"],
        shown=_shown(widths),
        mixers=sum(layer.has_mixer for layer in widths),
        piece_nodes=sum(map(counter.pieces, widths)),
        op_nodes=sum(map(counter.op, widths)),
        forks=sum(layer.shared_up > 0 for layer in widths),
        is_sure=weights is not None,
    )


def _expert_ranks(deployment: Deployment) -> int:
    """Ranks that cut an expert's matrices: none of them do where experts are shared out whole."""
    return 1 if deployment.enable_expert_parallel else deployment.tensor_parallel_size


def _plain(model: ModelShape, ranks: int, norms: bool) -> LayerWidths:
    """A dense layer from the model's own numbers."""
    heads = -(-model.num_attention_heads // ranks)
    kv_heads = max(1, model.num_kv_heads // ranks)
    inner = (model.intermediate_size or 4 * model.hidden_size) // ranks
    return LayerWidths(
        projected=(heads + 2 * kv_heads) * model.head_size,
        key=kv_heads * model.head_size,
        output=heads * model.head_size,
        up=2 * inner,
        act=inner,
        has_experts=model.is_moe,
        copies_query=norms,
    )


def _shown(widths: list[LayerWidths]) -> tuple[LayerWidths, ...]:
    """The first layers up to the last new kind, and two more, so that the pool sees each kind repeated."""
    seen: set[LayerWidths] = set()
    last = 0
    for number, layer in enumerate(widths):
        if layer not in seen:
            seen.add(layer)
            last = number
    return tuple(widths[: min(last + 3, 12)])


class _Reader:
    """Widths by layer, from the matrices of a model."""

    def __init__(self, model: ModelShape, weights: WeightShape, ranks: int, norms: bool, expert_ranks: int) -> None:
        self._model = model
        self._weights = weights
        self._ranks = ranks
        self._norms = norms
        self._expert_ranks = expert_ranks
        self._by_layer: dict[int, list[Matrix]] = {}
        for matrix in weights.matrices:
            for layer in matrix.layers:
                self._by_layer.setdefault(layer, []).append(matrix)
        self._gated = _layers_of_kind(model, _GATED_STATES)
        self._states = _layers_of_kind(model, _STATES)
        self._known: dict[tuple[int, ...], LayerWidths] = {}

    def layer(self, number: int) -> LayerWidths:
        matrices = self._by_layer.get(number, [])
        key = (*map(id, matrices), number in self._gated, number in self._states)
        if key not in self._known:
            self._known[key] = self._widths(number, matrices)
        return self._known[key]

    def _widths(self, number: int, matrices: list[Matrix]) -> LayerWidths:
        projected, key, output = self._mixer(number, matrices)
        experts = _of(matrices, "experts")
        shared = _of(matrices, "shared_expert")
        dense = _of(matrices, "mlp")
        attention = bool(_of(matrices, "attention")) and number not in self._states
        return LayerWidths(
            has_mixer=output > 0,
            projected=projected,
            key=key,
            output=output,
            up=self._up(dense),
            act=self._act(dense),
            routed=self._routed(experts),
            shared_up=self._up(shared),
            shared_act=self._act(shared),
            has_experts=bool(experts),
            copies_query=attention and (self._norms or self._has_gate(matrices)),
            keeps_projection=number in self._gated,
        )

    def _mixer(self, number: int, matrices: list[Matrix]) -> tuple[int, int, int]:
        """What the input projections give, the keys of it, and what the op gives."""
        projected = key = output = 0
        for matrix in matrices:
            if matrix.part not in ("attention", "mixer") or matrix.columns == 1:
                continue
            if matrix.split == "columns":
                output = max(output, matrix.columns // self._ranks)
            elif matrix.name.endswith(("kv_b_proj", "q_b_proj")) or matrix.name.endswith("in_proj_ba"):
                continue
            elif matrix.split == "kv_heads":
                heads = max(1, self._model.num_kv_heads // self._ranks)
                rows = matrix.rows * heads // max(1, self._model.num_kv_heads)
                projected, key = projected + rows, rows // 2
            else:
                projected += matrix.rows // (self._ranks if matrix.split == "rows" else 1)
        return projected, key, output

    def _has_gate(self, matrices: list[Matrix]) -> bool:
        """Queries come with a gate as wide (Qwen3-Next)."""
        queries = [m.rows for m in matrices if m.name.endswith("q_proj")]
        outputs = [m.columns for m in matrices if m.part == "attention" and m.split == "columns"]
        return bool(queries and outputs) and queries[0] == 2 * outputs[0]

    def _up(self, matrices: list[Matrix]) -> int:
        return max((m.rows // self._ranks for m in matrices if m.split == "rows"), default=0)

    def _act(self, matrices: list[Matrix]) -> int:
        return max((m.columns // self._ranks for m in matrices if m.split == "columns"), default=0)

    def _routed(self, matrices: list[Matrix]) -> tuple[int, int]:
        """Marlin's buffers for the routed rows; other kernels take them from vLLM's own workspace."""
        schemes = [self._weights.schemes[m.scheme] for m in matrices if m.scheme is not None]
        if not schemes or schemes[0].bits != _FOUR_BITS:
            return 0, 0
        inner = max((m.columns for m in matrices if m.split == "columns"), default=0) // self._expert_ranks
        times = self._weights.experts_per_token
        return times * self._model.hidden_size, times * inner


class _Counter:
    """Nodes of a layer's kernels."""

    def __init__(self, model: ModelShape, nodes: Mapping[str, float], ranks: int, lora: bool) -> None:
        self._nodes = nodes
        self._always = 2 * nodes["all_reduce"] * (ranks > 1) + nodes["lora"] * lora
        self._always += nodes["quantised"] * (model.quantization is not None)
        self._mla = nodes["mla"] if model.use_mla else 0.0

    def pieces(self, layer: LayerWidths) -> float:
        found = self._always
        if layer.has_mixer:
            found += self._nodes["mixer"] + self._mla
            found += self._nodes["linear_mixer"] * layer.keeps_projection
        if layer.has_experts:
            found += self._nodes["experts"] + self._nodes["shared"] * (layer.shared_up > 0)
        elif layer.up:
            found += self._nodes["mlp"]
        return found

    def op(self, layer: LayerWidths) -> float:
        return self._nodes["op"] * layer.has_mixer


def _of(matrices: Iterable[Matrix], part: Part) -> list[Matrix]:
    return [matrix for matrix in matrices if matrix.part == part]


def _layers_of_kind(model: ModelShape, kinds: tuple[str, ...]) -> frozenset[int]:
    if model.cache is None:
        return frozenset()
    return frozenset(number for group in model.cache.layers if group.kind in kinds for number in group.layers)
