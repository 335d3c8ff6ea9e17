"""Facts that the caller knows better than the rules: for what-if questions and for replaying records."""

from __future__ import annotations

from ..light_dataclass import dataclass
from ..vocabulary import AttentionCGSupport


@dataclass(frozen=True)
class Overrides:
    """Each field left at None follows the rules.

    Attributes:
        support: support level of the weakest attention backend; no backend is chosen then.
        piecewise_available: the loaded model can be captured in pieces (runner V2).
        varlen_decode: decode graphs take any mix of query lengths (runner V2).
        adaptive_mode: adaptive verification replaces the mode, as the running engine does.
        is_profiling: resolve as in the memory profiling run, without the check of Mamba blocks.
        target_groups_only: look at the target's attention and Mamba groups alone, not at the indexer's, the
            encoder's or the draft's.
        imported_before_env: vLLM's modules were imported before the environment variables were set, so that what
            they decide at import (FlashAttention's level) does not see VLLM_BATCH_INVARIANT.
        drafter_always_has_graphs: a standalone draft model has graphs on V1 in every release.
        unavailable_backends: attention backends that the installed vLLM cannot import.
        runs_kernels: False: nothing is run on the GPU, so that missing kernels end nothing, as in recorded answers of
            vLLM's configuration alone.
    """

    support: AttentionCGSupport | None = None
    piecewise_available: bool | None = None
    varlen_decode: bool | None = None
    adaptive_mode: bool | None = None
    is_profiling: bool = False
    target_groups_only: bool = False
    imported_before_env: bool = False
    drafter_always_has_graphs: bool = False
    unavailable_backends: tuple[str, ...] = ()
    runs_kernels: bool = True


NONE = Overrides()
