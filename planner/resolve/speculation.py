"""The validated speculative configuration, and what it means for query lengths and KV slots.

Source: vllm/config/speculative.py, vllm/config/vllm.py:611-713 @ 0.33.0. The rules that make and change it stand in
`spec_decode.py`.
"""

from __future__ import annotations

from ..light_dataclass import dataclass
from ..model_shape import ModelShape
from ..sections import SpeculativeOptions
from .dynamic_sd import Steps

NO_DRAFT_MODEL = ("ngram", "ngram_gpu", "suffix", "custom_class", "extract_hidden_states")


@dataclass(frozen=True)
class Speculation:
    """The validated speculative configuration.

    `uses_target_hidden_states` is vLLM's use_eagle(). `multi_module_mtp_exists`: the release has that speculator.
    `schedule` holds the rows as given while dynamic speculative decoding is on; `steps` is the same as steps once
    max_num_seqs is known, or None where the rows are invalid.
    """

    method: str
    num_speculative_tokens: int
    draft: ModelShape | None
    schedule: tuple[tuple[int, ...], ...] | None
    options: SpeculativeOptions
    steps: Steps | None = None
    uses_target_hidden_states: bool = False
    multi_module_mtp_exists: bool = True

    @property
    def is_dynamic(self) -> bool:
        return self.schedule is not None

    @property
    def lookahead_tokens(self) -> int:
        """KV slots reserved for each request past the target's (vllm/config/vllm.py:626-652)."""
        if self.method == "dflash":
            return self.num_speculative_tokens + 1
        if self.uses_target_hidden_states or self.method == "draft_model":
            return self.num_speculative_tokens
        return 0

    @property
    def is_multi_module_mtp(self) -> bool:
        """Several MTP layers, each predicting one token (speculative.py:2188-2194)."""
        layers = (self.draft.num_nextn_predict_layers if self.draft else None) or 1
        return self.multi_module_mtp_exists and self.method == "mtp" and min(layers, self.num_speculative_tokens) > 1
