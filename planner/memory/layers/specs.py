"""The spec of one layer, as its class makes it and its backend adjusts it.

Sources: get_kv_cache_spec of vllm/model_executor/layers/attention/{attention,mla_attention,chunked_local_attention}.py,
vllm/models/deepseek_v4/*.py and vllm/model_executor/layers/mamba/*.py; vllm/v1/worker/utils.py:476-486.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...cache_layers import CacheLayers
from ...deployment import Deployment
from ...errors import StartupError
from ...light_dataclass import dataclass
from ...releases import canonical, facts
from ...resolve import Resolution
from ..kv_dtypes import DEEPSEEK_V4_BYTES, DS_MLA_BYTES, is_turboquant, quant_mode, torch_dtype
from ..kv_specs import (
    AttentionSpec,
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MambaSpec,
    MLAAttentionSpec,
    MultipleOf,
    SlidingWindowMLASpec,
    SlidingWindowSpec,
    TQFullAttentionSpec,
)
from .backends import LayerBackend, kernel_blocks, smallest
from .cache_settings import CacheSettings
from .load_rules import NOT_DIVISIBLE, load_error
from .mamba_states import MAMBA_TYPES, state_dtypes, state_shapes
from .packing import Packing, packing, packing_by_class
from .state_export import gdn_exports, kda_exports

V4_PACKED_ALIGNMENT, V4_PLAIN_ALIGNMENT = 576, 512
"""Bytes that a DeepSeek V4 page is rounded up to: packed for FlashMLA, plain rows for FlashInfer."""


@dataclass(frozen=True)
class BuiltLayer:
    """A group of layers with what their construction settled.

    Attributes:
        layers: as the model has them.
        kv_dtype: of their cache: "auto", or a quantised or opaque layout.
        chosen: their backend; None: layers with a state.
        tp: tensor parallel size that divides them.
        is_draft: a drafter's.
    """

    layers: CacheLayers
    kv_dtype: str
    chosen: LayerBackend | None
    tp: int
    is_draft: bool = False

    @property
    def backend_name(self) -> str:
        """get_name() of the attention backend, or vLLM's name of the kind of state."""
        return self.chosen.name if self.chosen is not None else MAMBA_TYPES[self.layers.kind]


class SpecMaker:
    """Makes the specs of one release.

    Args:
        facts: releases/kv_cache.toml at the release.
        dtype: activation dtype, a torch name.
        drafts: speculative tokens.
        sm10: the GPU is of compute capability 10.x.
        exports_state: the GDN or KDA prefill kernel can export a state in the middle of a prompt.
        channels_first: VLLM_SSM_CONV_STATE_LAYOUT is DS.
    """

    def __init__(
        self,
        facts: Mapping[str, Any],
        *,
        dtype: str,
        drafts: int,
        sm10: bool,
        exports_state: Mapping[str, bool],
        channels_first: bool,
    ) -> None:
        self.facts = facts
        self.dtype = dtype
        self.drafts = drafts
        self.sm10 = sm10
        self.exports_state = exports_state
        self.channels_first = channels_first

    @classmethod
    def of(cls, deployment: Deployment, resolution: Resolution, settings: CacheSettings) -> SpecMaker:
        """The maker for `deployment`. `settings` are those of a loaded model."""
        return cls(
            facts("kv_cache", canonical(deployment.vllm)),
            dtype=resolution.config["dtype"],
            drafts=resolution.config["num_speculative_tokens"] or 0,
            sm10=deployment.gpu.platform == "cuda" and deployment.gpu.major == 10,
            exports_state={
                "gdn": settings.mamba_cache_mode == "align" and gdn_exports(deployment),
                "kda": kda_exports(deployment, resolution.config["dtype"], settings.mamba_ssm_cache_dtype),
            },
            channels_first=deployment.env.get("VLLM_SSM_CONV_STATE_LAYOUT", "").upper() == "DS",
        )

    def spec(self, built: BuiltLayer, settings: CacheSettings) -> KVCacheSpec:
        """The spec of a layer of `built` under the final `settings`."""
        made = self._plain(built, settings)
        if isinstance(made, AttentionSpec) and built.chosen is not None:
            made = self._adjusted(made, built.chosen)
        marked = built.is_draft and self.facts["specs"]["has_draft_mark"]
        return replace(made, is_draft=True) if marked else made

    def _plain(self, built: BuiltLayer, settings: CacheSettings) -> KVCacheSpec:
        kind = built.layers.kind
        if kind in MAMBA_TYPES:
            return self.state(built, settings)
        if kind == "mla":
            return self._mla(built, settings)
        if kind in ("indexer", "sparse", "sparse_window", "compressor"):
            return self._sparse_part(built, settings)
        return self._attention(built, settings)

    def packing(self, layers: CacheLayers, kv_dtype: str, backend: str, num_kv_heads: int) -> Packing:
        """How a page of attention `layers` is packed."""
        values = layers.head_size if layers.head_size_v is None else layers.head_size_v
        if self.facts["specs"]["packed_by_backend"]:
            return packing(kv_dtype, layers.head_size, values, num_kv_heads, backend)
        sliding = layers.sliding_window is not None
        full = not sliding and layers.attention_chunk_size is None
        return packing_by_class(kv_dtype, layers.head_size, values, sliding=sliding, full=full)

    def _attention(self, built: BuiltLayer, settings: CacheSettings) -> AttentionSpec:
        layers, kv_dtype, chosen = built.layers, built.kv_dtype, built.chosen
        assert chosen is not None
        heads = kv_heads(layers, built.tp)
        slots, content = self.packing(layers, kv_dtype, chosen.name, heads)
        common: dict[str, Any] = {
            "block_size": settings.block_size,
            "num_kv_heads": heads,
            "head_size": layers.head_size,
            "head_size_v": layers.head_size_v,
            "dtype": torch_dtype(kv_dtype, self.dtype),
            "kv_quant_mode": quant_mode(kv_dtype),
            "num_head_slots": slots,
            "state_content_bytes": content,
        }
        if layers.attention_chunk_size is not None:
            return ChunkedLocalAttentionSpec(attention_chunk_size=layers.attention_chunk_size, **common)
        if layers.sliding_window is None:
            if is_turboquant(kv_dtype) and self.facts["specs"]["turboquant_class"]:
                return TQFullAttentionSpec(**common)
            return FullAttentionSpec(**common)
        window = layers.sliding_window
        if layers.window_without_self and self.facts["specs"]["counts_own_token"]:
            window += 1
        spec = SlidingWindowSpec(sliding_window=window, page_size_padded=settings.skip_page_size_padded, **common)
        return replace(spec, block_size=self._sliding_block(spec, chosen, settings))

    def _sliding_block(self, spec: SlidingWindowSpec, chosen: LayerBackend, settings: CacheSettings) -> int:
        """attention.py:72-110 and 640-660: the largest kernel block whose page fits the budget."""
        rule = self.facts["block_size"]["sliding"]
        if rule == "same":
            return settings.block_size
        token = replace(spec, block_size=1, page_size_padded=None).page_size_bytes
        budget = settings.skip_page_size_padded or (token * settings.block_size if rule == "budget" else None)
        blocks = kernel_blocks(chosen)
        fixed = [size for size in blocks if isinstance(size, int)]
        multiples = [size.base for size in blocks if isinstance(size, MultipleOf)]
        if rule == "budget":
            assert budget is not None
            most = budget // token
            sizes = [*fixed, *(max(base, most // base * base) for base in multiples)]
        else:
            sizes = fixed or multiples
        if not sizes:
            return settings.block_size
        fitting = [] if budget is None else [size for size in sizes if size * token <= budget]
        return max(fitting, default=min(sizes))

    def _mla(self, built: BuiltLayer, settings: CacheSettings) -> MLAAttentionSpec:
        layers, kv_dtype = built.layers, built.kv_dtype
        content = DS_MLA_BYTES.get(kv_dtype)
        if content is None and kv_dtype.endswith("_per_token_head"):
            content = self.packing(layers.model_copy(update={"head_size_v": 0}), kv_dtype, "MLA", 1).content_bytes
        return MLAAttentionSpec(
            block_size=settings.block_size,
            num_kv_heads=1,
            max_tp_shards=1,
            head_size=layers.head_size,
            dtype=torch_dtype(kv_dtype, self.dtype),
            cache_dtype_str=kv_dtype,
            kv_quant_mode=quant_mode(kv_dtype),
            state_content_bytes=content,
            topk_buffer_width=layers.index_topk if self.facts["specs"]["has_topk_width"] else None,
            is_index_group_leader=layers.leads_index_group and self.facts["specs"]["has_index_groups"],
        )

    def _sparse_part(self, built: BuiltLayer, settings: CacheSettings) -> AttentionSpec:
        """An indexer's keys, and the parts of a DeepSeek V4 layer."""
        layers, kv_dtype = built.layers, built.kv_dtype
        packed = settings.cache_dtype == "fp8_ds_mla"
        alignment = V4_PACKED_ALIGNMENT if packed else V4_PLAIN_ALIGNMENT
        common: dict[str, Any] = {"num_kv_heads": 1, "max_tp_shards": 1, "head_size": layers.head_size}
        if layers.kind == "indexer":
            role = {"cache_role": "INDEXER"} if layers.compress_ratio == 1 else {"alignment": alignment}
            return MLAAttentionSpec(
                block_size=settings.block_size,
                dtype="uint8",
                tokens_per_state=layers.compress_ratio,
                **common,
                **role,
            )
        assert layers.kind in ("compressor", "sparse", "sparse_window")
        if layers.kind == "compressor":
            assert layers.sliding_window is not None
            return SlidingWindowMLASpec(
                block_size=4 if layers.compress_ratio == 4 else 8,
                dtype="float32",
                sliding_window=layers.sliding_window,
                alignment=alignment,
                **common,
            )
        rows: dict[str, Any] = {
            "dtype": "uint8" if packed else "float8_e4m3fn" if kv_dtype.startswith("fp8") else "bfloat16",
            "cache_dtype_str": kv_dtype,
            "kv_quant_mode": quant_mode(kv_dtype),
            "state_content_bytes": DEEPSEEK_V4_BYTES if packed else None,
            "alignment": alignment,
            "model_version": "deepseek_v4",
        }
        if layers.kind == "sparse":
            return MLAAttentionSpec(
                block_size=settings.block_size, tokens_per_state=layers.compress_ratio, **common, **rows
            )
        assert layers.sliding_window is not None
        return SlidingWindowMLASpec(block_size=64, sliding_window=layers.sliding_window, **common, **rows)

    def state(self, built: BuiltLayer, settings: CacheSettings) -> MambaSpec:
        """A state of fixed size; also what a state takes without padding, for the alignment."""
        layers = built.layers
        facts = self.facts["mamba"]
        reaches = layers.kind != "kda" or facts["kda_takes_ssm_dtype"]
        ssm_dtype = settings.mamba_ssm_cache_dtype if reaches else "auto"
        checkpoint = layers.kind in facts["checkpoint_kinds"] and self.exports_state.get(layers.kind, True)
        assert settings.mamba_block_size is not None
        return MambaSpec(
            block_size=settings.mamba_block_size,
            shapes=state_shapes(layers, built.tp, self.drafts, channels_first=self.channels_first),
            dtypes=state_dtypes(layers, self.dtype, settings.mamba_cache_dtype, ssm_dtype),
            page_size_padded=settings.mamba_page_size_padded,
            mamba_type=MAMBA_TYPES[layers.kind],
            mamba_cache_mode=settings.mamba_cache_mode,
            num_speculative_blocks=self.drafts,
            num_prefill_checkpoint_blocks=int(checkpoint),
            prefill_checkpoint_alignment=_checkpoint_alignment(layers.kind, settings) if checkpoint else None,
        )

    def _adjusted(self, spec: AttentionSpec, chosen: LayerBackend) -> AttentionSpec:
        """Blocks that are split into kernel blocks must keep those whole, vllm/v1/worker/utils.py:476-486."""
        if self.facts["specs"]["says_stride_indexing"]:
            sparse = chosen.backend is None or "sparse" in chosen.backend.traits
            return replace(spec, indexes_kv_by_block_stride=not sparse)
        rule = self.facts["specs"]["stride_alignment"]
        if not rule:
            return spec
        alignment = self._row_alignment(spec, chosen)
        if alignment is None and rule == "backend":
            blocks = kernel_blocks(chosen)
            fixed = [size for size in blocks if isinstance(size, int)]
            alignment = MultipleOf(max(fixed)) if fixed and len(fixed) == len(blocks) else None
        if rule == "rows" and not isinstance(alignment, int):
            alignment = None
        return replace(spec, block_stride_alignment=alignment)

    def _row_alignment(self, spec: AttentionSpec, chosen: LayerBackend) -> int | MultipleOf | None:
        """Sparse kernels read the cache as flat rows, vllm/v1/attention/backends/mla/sparse_utils.py:44-47."""
        row = spec.state_size_bytes
        enum = chosen.backend.enum if chosen.backend is not None else ""
        if enum == "FLASHMLA_SPARSE":
            return MultipleOf(64) if spec.kv_quant_mode != "NONE" and not self.sm10 else row
        if enum in ("FLASH_ATTN_MLA_SPARSE", "FLASHINFER_MLA_SPARSE_SM90"):
            return row
        if enum in _PAGED_ROWS:
            return smallest(kernel_blocks(chosen)) * row
        return None


_PAGED_ROWS = ("FLASHINFER_MLA_SPARSE", "FLASHINFER_MLA_SPARSE_SM120", "FLASH_ATTN_MLA_SPARSE_FA4")
"""Backends that read the rows as pages of their kernel block size."""


def _checkpoint_alignment(kind: str, settings: CacheSettings) -> int | None:
    if kind == "mamba2":
        return 1
    return 16 if kind == "kda" else settings.mamba_block_size


def kv_heads(layers: CacheLayers, tp: int) -> int:
    """Key and value heads on one rank.

    Raises:
        StartupError: CG540 they neither divide by `tp` nor it by them.
    """
    total = layers.num_kv_heads
    if total and (total % tp if total >= tp else tp % total):
        raise _not_divisible(total, tp)
    return max(1, total // tp)


def _not_divisible(heads: int, tp: int) -> StartupError:
    return load_error(
        NOT_DIVISIBLE,
        f"{heads} key and value heads and tensor parallel size {tp}: neither divides the other",
        where="--tensor-parallel-size",
        raised_as="AssertionError",
        raised_in="the model's attention",
    )
