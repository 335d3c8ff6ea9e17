"""The decoder that is built: widths of one tensor-parallel rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ....deployment import Deployment
from ....errors import InputError
from ....model_shape import ModelShape

BLOCK = 16
"""Tokens of a block of the KV cache."""

CONTEXT = 128
"""Tokens that each request of a step looks back at."""

CACHE_BLOCKS = 512
"""Blocks of each layer; requests share them, as only their addresses matter."""

_STATES = ("MAMBA1", "MAMBA2", "GDN_ATTN", "LINEAR", "SHORT_CONV", "KDA")
ITEMSIZE = {"bfloat16": 2, "float16": 2, "float32": 4}


@dataclass(frozen=True)
class DecoderShape:
    """One rank's decoder. Widths are elements.

    Attributes:
        heads, kv_heads: of this rank.
        mlp: intermediate width of the dense MLP on this rank; 0: the layers have experts alone.
        experts, expert_mlp, experts_per_token, shared_mlp: of the mixture; 0: there is none.
        dense_layers: leading layers with a dense MLP where the others have experts.
        max_tokens: the largest step.
        ranks: tensor-parallel ranks.
        bias: the QKV projection has one.
        head: the step ends in the output head, each rank for its part of the vocabulary.
        tied: the head's weight is the embedding's.
    """

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    vocab: int
    mlp: int
    dtype: str = "bfloat16"
    experts: int = 0
    expert_mlp: int = 0
    experts_per_token: int = 0
    shared_mlp: int = 0
    dense_layers: int = 0
    gated: bool = True
    max_tokens: int = 512
    ranks: int = 1
    bias: bool = False
    head: bool = False
    tied: bool = False

    @property
    def qkv(self) -> int:
        return (self.heads + 2 * self.kv_heads) * self.head_size

    @property
    def itemsize(self) -> int:
        return ITEMSIZE[self.dtype]

    def is_dense(self, layer: int) -> bool:
        return not self.experts or layer < self.dense_layers

    @property
    def parameters(self) -> int:
        """Elements of the weights on this rank."""
        up = 2 if self.gated else 1
        attention = self.hidden * self.qkv + self.heads * self.head_size * self.hidden
        dense = (up + 1) * self.hidden * self.mlp
        mixture = self.experts * (up + 1) * self.hidden * self.expert_mlp + self.experts * self.hidden
        mixture += (up + 1) * self.hidden * self.shared_mlp
        layers = sum(attention + 2 * self.hidden + (dense if self.is_dense(n) else mixture) for n in range(self.layers))
        vocabularies = 2 if self.head and not self.tied else 1
        return layers + vocabularies * self.vocab * self.hidden + self.hidden

    @property
    def weights_bytes(self) -> int:
        return self.parameters * self.itemsize

    @property
    def kv_bytes(self) -> int:
        return self.layers * 2 * CACHE_BLOCKS * BLOCK * self.kv_heads * self.head_size * self.itemsize

    @property
    def step_bytes(self) -> int:
        """A bound for the buffers of the largest step: a few of each width are alive at once."""
        widest = 2 * self.mlp * (2 if self.gated else 1)
        if self.experts:
            mixture = 3 * self.experts_per_token * 2 * self.expert_mlp + 2 * self.experts
            widest = max(widest, mixture + 2 * self.shared_mlp * (2 if self.gated else 1))
        logits = self.vocab if self.head else 0
        return self.max_tokens * self.itemsize * (6 * self.hidden + 2 * self.qkv + widest + logits)


def shape_of(deployment: Deployment, max_tokens: int, head: bool = False) -> tuple[DecoderShape, tuple[str, ...]]:
    """The decoder of a deployment, and what it leaves out, in words.

    Args:
        max_tokens: the largest step.
        head: with the output head, which vLLM runs outside its graphs.

    Raises:
        InputError: CG993, no such decoder can be built of the model, or the ranks do not divide it.
    """
    model, ranks = deployment.model, deployment.tensor_parallel_size
    dtype = model.dtype if deployment.dtype == "auto" else deployment.dtype
    _refuse(model, dtype)
    if deployment.pipeline_parallel_size > 1:
        raise _cannot("pipeline parallelism", "leave -pp out, or spread the model with -tp")
    if model.num_attention_heads % ranks:
        raise _cannot(
            f"{model.num_attention_heads} heads over {ranks} ranks", "choose -tp so that it divides the heads"
        )
    notes = [
        "the output head is in the graphs, and its logits stay on their rank; vLLM runs it outside"
        if head
        else "the output head is left out, as it is outside vLLM's graphs"
    ]
    if deployment.enable_lora:
        notes.append("adapters are left out")
    if deployment.kv_cache_dtype not in ("auto", dtype):
        notes.append(f"the KV cache is {dtype}, not {deployment.kv_cache_dtype}")
    stored = _stored(deployment)
    if stored:
        notes.append(f"weights are {dtype}, not {stored}: their kernels differ")
    if model.is_multimodal_model:
        notes.append("the vision or audio part is left out")
    if model.sliding_window is not None or model.attention_chunk_size is not None:
        notes.append("every layer has full attention")
    shape = _built(model, dtype, ranks, max_tokens, head)
    whole = shape if ranks == 1 else _built(model, dtype, 1, max_tokens, head)
    return shape, (*notes, *_of_drafter(deployment), *_other_size(model, whole))


def _built(model: ModelShape, dtype: str, ranks: int, max_tokens: int, head: bool) -> DecoderShape:
    """One of so many ranks."""
    shape = DecoderShape(
        hidden=model.hidden_size,
        layers=model.num_hidden_layers,
        heads=model.num_attention_heads // ranks,
        kv_heads=max(1, model.num_kv_heads // ranks),
        head_size=_head_sizes(model)[0],
        vocab=-(-model.vocab_size // ranks),
        mlp=(model.intermediate_size or 0) // ranks,
        dtype=dtype,
        max_tokens=max_tokens,
        ranks=ranks,
        bias=model.model_type.startswith("qwen2"),
        head=head,
        tied=model.weights.tied if model.weights is not None else False,
        gated=model.weights.gated_mlp if model.weights is not None else True,
    )
    return _with_experts(shape, model)


def _head_sizes(model: ModelShape) -> list[int]:
    """Of the query heads: that of most layers first, and any other."""
    layers: dict[int, int] = {}
    for matrix in model.weights.matrices if model.weights is not None else ():
        if matrix.part == "attention" and matrix.name.endswith("q_proj"):
            size = matrix.rows // model.num_attention_heads
            layers[size] = layers.get(size, 0) + len(matrix.layers)
    return sorted(layers, key=lambda size: -layers[size]) if len(layers) > 1 else [model.head_size]


LIKE = 0.03
"""Shares of the model's parameters by which the decoder's may differ without a word."""

_NOT_BUILT = ("vision", "draft")


def _other_size(model: ModelShape, whole: DecoderShape) -> Iterator[str]:
    """Where layers are not all alike, the decoder has other parameters than the model: how many of how many."""
    if model.weights is None:
        return
    first, *others = _head_sizes(model)
    if others:
        yield f"every layer has heads of {first}, as most have, those with {', '.join(map(str, others))} too"
    left_out = _NOT_BUILT if whole.head else (*_NOT_BUILT, "head")
    own = sum(matrix.elements for matrix in model.weights.matrices if matrix.part not in left_out)
    if own and abs(whole.parameters / own - 1) > LIKE:
        yield (
            f"it has {whole.parameters / 1e9:.1f} billion parameters, the same part of the model {own / 1e9:.1f}: "
            "every layer is built like the first, and only the embedding of the tokens is"
        )


def _of_drafter(deployment: Deployment) -> Iterator[str]:
    options = deployment.speculative_config
    if options is not None and options.method not in ("ngram", "ngram_gpu", "suffix"):
        yield f"the drafter ({options.method or 'draft_model'}) and its graphs are left out"


def _stored(deployment: Deployment) -> str:
    """How the weights are quantised: as asked for, as the config says, or as the name does; "": they are not."""
    model = deployment.model
    named = deployment.quantization or model.quantization
    if named is not None or model.weights is None:
        return named or ""
    return ", ".join(dict.fromkeys(scheme.name for scheme in model.weights.schemes))


def _with_experts(shape: DecoderShape, model: ModelShape) -> DecoderShape:
    """The mixture's widths from the model's matrices."""
    weights = model.weights
    if weights is None or not model.is_moe:
        if not shape.mlp:
            raise _cannot(f"a model without the width of its MLP ({model.architecture})", "give its config.json")
        return shape
    experts = [m for m in weights.matrices if m.part == "experts"]
    # Both projections of a mixture may have as many rows as the model is wide: a name that says it goes first.
    down = [m for m in experts if "down" in m.name] or [m for m in experts if m.rows == model.hidden_size]
    if not experts or not down or not weights.experts_per_token:
        raise _cannot("a mixture whose experts are not described", "give its config.json")
    shared = [m for m in weights.matrices if m.part == "shared_expert" and m.rows == model.hidden_size]
    with_mlp = {n for m in weights.matrices if m.part == "mlp" for n in m.layers}
    mixed = {n for m in experts for n in m.layers}
    dense, ranks = with_mlp - mixed, shape.ranks
    # A dense MLP beside the experts of the same layer is run as a shared expert is.
    beside = shape.mlp if with_mlp & mixed else 0
    return replace(
        shape,
        experts=down[0].count,
        expert_mlp=down[0].columns // ranks,
        experts_per_token=weights.experts_per_token,
        shared_mlp=(shared[0].columns // ranks if shared else 0) + beside,
        dense_layers=len(dense),
        gated=weights.gated_mlp,
        mlp=shape.mlp if dense else 0,
    )


def _refuse(model: ModelShape, dtype: str) -> None:
    other = "use --engine vllm, which runs the model itself"
    if model.use_mla:
        raise _cannot("latent attention (MLA)", other)
    if model.is_attention_free or any(kind in _STATES for kind in model.mamba_backends):
        raise _cannot("state-space or linear attention layers", other)
    if model.is_encoder_decoder or model.is_encoder_only or not model.num_attention_heads:
        raise _cannot(f"{model.architecture}, which is no decoder", other)
    if dtype not in ITEMSIZE:
        raise _cannot(f"dtype {dtype}", "pass --dtype bfloat16")


def _cannot(what: str, fix: str) -> InputError:
    return InputError(f"the synthetic engine does not build {what}", code="CG993", where="--engine synthetic", fix=fix)
