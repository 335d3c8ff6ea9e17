"""The groups of layers of a deployment, each with its backend and its support level.

V1 looks at every backend class of every KV cache group (vllm/v1/worker/gpu_model_runner.py:6760-6788), V2 at
every attention group (vllm/v1/worker/gpu/attn_utils.py:314-340); both count the drafter's layers.
"""

from __future__ import annotations

from ...deployment import Deployment
from ...errors import InputError, StartupError, shorten
from ...light_dataclass import dataclass
from ...model_shape import ModelShape
from ...trace import Rule, Trace
from ...vocabulary import AttentionCGSupport
from . import batch_invariance
from .facts import Catalogue, ModelGroups
from .layer import Layer
from .platforms import choose_elsewhere
from .request import BACKEND_PER_KIND, Request, backend_name, is_batch_invariant, layer_of
from .selection import AUTOMATIC, BLOCK_SIZE, Selected, only_block_size, select
from .support import CHUNKED_LOCAL_LEVEL, Level, level, named_level

ATTENTION_OF_MODEL = Rule(
    code="CG327",
    title="The model picks its attention class itself.",
    why="Its attention has kernels of its own that the general selection does not know.",
    example="DeepSeek V4 on an H200: FLASHMLA_SPARSE_DSV4.",
    instead="Give one of the model's own backends with --attention-backend.",
    source="vllm/models/deepseek_v4/nvidia/model.py:537-566",
    since="0.20.2",
)

OTHER_PLATFORM = Rule(
    code="CG328",
    title="The attention backend belongs to another platform.",
    why="vLLM's checks compare dtypes and sizes and let it pass; its kernels do not run here.",
    example="--attention-backend CPU_ATTN on an H100: accepted, then fails in the first forward pass.",
    instead="Use a backend of the GPU's own platform.",
    source="vllm/platforms/cuda.py:432-455",
)

DRAFTS_WITHOUT_ATTENTION = frozenset(
    {"ngram", "ngram_gpu", "suffix", "medusa", "mlp_speculator", "custom_class", "extract_hidden_states"}
)
"""Speculative methods whose drafter has no attention layers of its own."""

NON_CAUSAL_DRAFTS = frozenset({"dflash", "dspark"})


@dataclass(frozen=True)
class AttentionGroup:
    """The backend of one group of layers.

    Attributes:
        name: vLLM's get_name(), for example FLASH_ATTN or MAMBA2_ATTN.
        class_name: what vLLM's log shows, for example FlashAttentionBackend.
        support: the CUDA graph support level.
        kind: attention, sliding_window, chunked_local, encoder_only, cross_attention, indexer, mamba, draft
            and the kinds of models with attention of their own (sparse, compressor).
        condition: what decided the level, one phrase with its source.
    """

    name: str
    class_name: str
    support: AttentionCGSupport
    kind: str
    condition: str


Decided = tuple[AttentionGroup, Level]
Rejected = tuple[tuple[str, tuple[str, ...]], ...]


class GroupChooser:
    """Goes through the groups of one deployment."""

    def __init__(
        self,
        deployment: Deployment,
        request: Request,
        facts: Catalogue,
        dtype: str,
        trace: Trace,
        unavailable: frozenset[str],
    ) -> None:
        self.deployment = deployment
        self.model = deployment.model
        self.request = request
        self.facts = facts
        self.dtype = dtype
        self.trace = trace
        self.unavailable = unavailable

    def groups(self, everything: bool) -> tuple[list[Decided], str, Rejected]:
        """All groups, the main backend's name, and the candidates rejected for it."""
        model = self.model
        found: list[Decided] = []
        if everything and is_batch_invariant(self.deployment):
            batch_invariance.check_request(self.facts.release, self.request.backend)
        name = "none"
        rejected: Rejected = ()
        own = self.facts.models.get(model.architecture)
        if not model.is_attention_free:
            layer, kind, spec_kind = self.main_layer(everything)
            picks = own if own is not None and own.attention and self.deployment.gpu.platform == "cuda" else None
            if picks is not None:
                selected = self._own_attention(picks)
            else:
                selected = self._select(layer, spec_kind)
                rejected = tuple((n, tuple(r.text for r in rs)) for n, rs in selected.rejected)
            name = selected.backend.enum
            found.append(self._group(selected, layer, kind, wrap=everything))
            if everything:
                if picks is None:
                    self._more_attention(found, selected, layer)
                if own is not None:
                    self._own_groups(found, own, layer)
        self._mamba(found, everything)
        if everything:
            self._draft(found)
        return found, name, rejected

    def main_layer(self, everything: bool = True) -> tuple[Layer, str, str]:
        """The main attention layers, their kind here, and vLLM's name of the kind."""
        model = self.model
        slides = model.sliding_window is not None and not (everything and model.has_full_attention_layers)
        if model.is_encoder_only:
            layer = self._layer(attn_type="encoder_only", slides=slides)
            return layer, "encoder_only", "encoder_only_attention"
        layer = self._layer(slides=slides)
        if model.use_mla:
            return layer, "attention", "sliding_window_mla" if slides else "mla_attention"
        return layer, "attention", "sliding_window" if slides else "full_attention"

    def _layer(self, *, attn_type: str = "decoder", slides: bool = False) -> Layer:
        return layer_of(
            self.deployment,
            self.model,
            self.request,
            dtype=self.dtype,
            facts=self.facts,
            attn_type=attn_type,
            sliding_window=slides,
        )

    def _select(self, layer: Layer, spec_kind: str, backend: str | None = "", note: bool = True) -> Selected:
        """The backend of `layer`; `backend` "" is what the deployment says for this kind of layer."""
        name = self.request.for_kind(spec_kind) if backend == "" else backend
        if self.deployment.gpu.platform != "cuda":
            return choose_elsewhere(self.deployment, layer, name, self.facts, self.trace)
        selected = select(layer, name, self.facts.release, self.unavailable)
        if note and name is None:
            self.trace.decide(AUTOMATIC, "attention_backend", None, selected.backend.enum, selected.why)
            if layer.block_size is not None:
                self._note_block_size(selected)
        elif note and name != self.request.backend:
            self.trace.decide(BACKEND_PER_KIND, "attention_backend", self.request.backend, name)
        if selected.backend.platform != "cuda":
            platform = selected.backend.platform
            message = f"{selected.backend.enum} is a backend of platform {platform}; vLLM does not notice here"
            self.trace.find(OTHER_PLATFORM, "error", message, where="--attention-backend")
        return selected

    def _note_block_size(self, selected: Selected) -> None:
        passed = [name for name, against in selected.rejected if only_block_size(against)]
        if passed:
            self.trace.find(
                BLOCK_SIZE,
                "warning",
                f"--block-size {self.deployment.block_size} excludes {', '.join(passed)}; "
                f"{selected.backend.enum} is used instead",
                fix="leave --block-size out",
                where="--block-size",
            )

    def _group(
        self,
        selected: Selected,
        layer: Layer,
        kind: str,
        *,
        wrap: bool = True,
        decided: Level | None = None,
    ) -> Decided:
        """The group of `selected`. `wrap`: name the class as the layer's wrapper does."""
        decided = decided or selected.level or level(selected.backend, layer)
        prefix = _WRAPPERS.get(kind, "") if wrap else ""
        if kind == "chunked_local":
            prefix = f"ChunkedLocalAttention_{self.model.attention_chunk_size}_"
        class_name = prefix + selected.class_name
        group = AttentionGroup(selected.backend.name, class_name, decided.support, kind, decided.condition)
        return group, decided

    def _more_attention(self, found: list[Decided], main: Selected, layer: Layer) -> None:
        """The groups beside the main attention: sliding, chunked, cross attention and the sparse indexer."""
        model = self.model
        if model.sliding_window is not None and model.has_full_attention_layers and not model.is_encoder_only:
            sliding = layer._replace(sliding_window=True)
            kind = "sliding_window_mla" if model.use_mla else "sliding_window"
            found.append(self._group(self._select(sliding, kind, note=False), sliding, "sliding_window"))
        if model.attention_chunk_size is not None:
            rule = CHUNKED_LOCAL_LEVEL
            never = Level(AttentionCGSupport.NEVER, f"chunked local attention ({rule.source})", rule)
            found.append(self._group(main, layer, "chunked_local", decided=never))
        if model.is_encoder_decoder:
            cross = layer._replace(attn_type="encoder_decoder")
            selected = self._select(cross, "cross_attention", note=False)
            found.append(self._group(selected, cross, "cross_attention"))
        if layer.sparse and model.architecture not in self.facts.models:
            decided = named_level("indexer", layer, "")
            found.append(self._named("DeepseekV32IndexerBackend", "DEEPSEEK_V32_INDEXER", "indexer", decided))

    @staticmethod
    def _named(class_name: str, name: str, kind: str, decided: Level) -> Decided:
        return AttentionGroup(name, class_name, decided.support, kind, decided.condition), decided

    def _own_attention(self, own: ModelGroups) -> Selected:
        """The attention class of a model that picks it itself."""
        asked = self.request.backend
        if asked in own.refused:
            raise StartupError(
                f"{asked} is no attention backend of {self.model.architecture}",
                code="CG302",
                stage="attn_backend_selection",
                raised_as="ValueError",
                raised_in="the model's attention",
                where="--attention-backend",
                fix=f"use {', '.join(dict.fromkeys(own.attention.values()))}, or leave the backend out",
            )
        name = own.aliases.get(asked or "", asked or "")
        if name not in own.attention.values():
            major = str(self.deployment.gpu.major)
            name = own.attention.get(major, own.attention["other"])
            self.trace.decide(ATTENTION_OF_MODEL, "attention_backend", asked, name, f"{own.source}")
            self.trace.assume(f"{self.model.architecture}: the build has {name} and it fits this TP size")
        return Selected(self.facts.own.get(name) or self.facts.backends[name])

    def _own_groups(self, found: list[Decided], own: ModelGroups, layer: Layer) -> None:
        for class_name, name, level_name, kind in own.extra:
            found.append(self._named(class_name, name, kind, named_level(level_name, layer, own.source)))

    def _mamba(self, found: list[Decided], everything: bool) -> None:
        model = self.model
        for kind in model.mamba_backends:
            kind = self.facts.mamba_of_model.get((model.architecture, kind), kind)
            backend = self.facts.mamba.get(kind)
            if backend is None:
                raise InputError(
                    f"unknown kind of mamba layers {shorten(kind)}",
                    code="CG305",
                    where="model.mamba_backends",
                    fix=f"give one of {', '.join(self.facts.mamba)}",
                )
            if everything and is_batch_invariant(self.deployment):
                batch_invariance.check_mamba(self.facts.release, backend.name)
            decided = named_level(backend.level, None, backend.source)
            found.append(self._named(backend.class_name, backend.name, "mamba", decided))

    def _draft(self, found: list[Decided]) -> None:
        """The drafter's own attention layers; it never inherits the target's backend, but may name one."""
        spec = self.deployment.speculative_config
        if spec is None or (spec.model is None and self.model.is_attention_free):
            return
        method = (spec.method or ("draft_model" if spec.model is not None else "ngram")).lower()
        model: ModelShape = spec.model if spec.model is not None else self.model
        own = self.facts.models.get(model.architecture)
        if method in DRAFTS_WITHOUT_ATTENTION or model.is_attention_free or (own is not None and own.attention):
            return
        if spec.model is None:
            self.trace.assume(f"the {method} drafter's attention layers have the shape of the target's")
        request = self.request
        if method in NON_CAUSAL_DRAFTS:
            request = request._replace(non_causal=True)
        layer = layer_of(
            self.deployment,
            model,
            request,
            dtype=self.dtype,
            facts=self.facts,
            sliding_window=model.sliding_window is not None and not model.has_full_attention_layers,
            tensor_parallel_size=spec.draft_tensor_parallel_size,
        )
        # The drafter sees full-length drafts, whatever the verifier trims.
        layer = layer._replace(adaptive_verification=False)
        named = spec.attention_backend if layer.since("0.21.0") else None
        backend = backend_name(named, self.facts, "speculative_config.attention_backend") if named else None
        selected = self._select(layer, "full_attention", backend=backend, note=False)
        # The level is asked with the target's configuration, so with its query heads and causality.
        heads = self.model.num_attention_heads // self.deployment.tensor_parallel_size
        asked = layer._replace(
            num_heads=heads,
            non_causal=self.request.non_causal,
            block_drafts=method == "dspark" and model.use_mla,
        )
        found.append(self._group(selected, asked, "draft"))


_WRAPPERS = {"encoder_only": "EncoderOnlyAttention_", "cross_attention": "CrossAttention_"}
"""Class name prefixes of layers that wrap a backend (vllm/model_executor/layers/attention/)."""
