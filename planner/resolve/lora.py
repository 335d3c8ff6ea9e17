"""LoRA: for which numbers of active adapters a graph of its own is captured.

Source: vllm/v1/cudagraph_dispatcher.py:110-128, vllm/v1/worker/gpu/lora_utils.py, vllm/lora/utils.py:55-69 @ 0.33.0.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..light_dataclass import dataclass
from ..trace import Rule
from ..vocabulary import Runner

LORA_CASES = Rule(
    "CG413",
    title="Every size is captured once without LoRA and once per captured number of active adapters.",
    why="LoRA kernels change with the adapters in the batch, so a graph without them cannot serve a batch with them.",
    example="--enable-lora --max-loras 4 doubles the graphs: cases 0 and 5. With --specialize-active-lora: 0, 1, 2, "
    "4 and 5.",
    instead="Leave --specialize-active-lora off, or set cudagraph_specialize_lora=false for one case only.",
    source="vllm/v1/cudagraph_dispatcher.py:110-128",
)

NO_GRAPH_WITHOUT_LORA = Rule(
    "CG414",
    title="Runner V1 with cudagraph_specialize_lora=false has no graph for batches without an adapter.",
    why="Only the case of max_loras + 1 adapters is captured, and a batch without LoRA looks for case 0.",
    example="--enable-lora -cc.cudagraph_specialize_lora=false on runner V1: base-model requests run eager.",
    instead="Keep cudagraph_specialize_lora at its default, true.",
    source="vllm/v1/cudagraph_dispatcher.py:121-128",
)


@dataclass(frozen=True)
class LoraPlan:
    """How LoRA multiplies the graphs: `cases` are the captured numbers of active adapters."""

    max_loras: int
    specialize_active_lora: bool
    cases: tuple[int, ...]

    def most_active(self, max_num_seqs: int) -> int:
        """Most adapters of a batch: a request brings at most one."""
        return min(self.max_loras, max_num_seqs)

    def idle_cases(self, max_num_seqs: int) -> list[int]:
        """Cases that no batch is served as. A batch is served as the next case at or above its own number."""
        used = {
            min(above)
            for count in range(self.most_active(max_num_seqs) + 1)
            if (above := [case for case in self.cases if case >= count])
        }
        return sorted(set(self.cases) - used)

    def in_words(self, cases: Sequence[int]) -> str:
        """ "2, 4 and 5 active adapters (5 is max_loras + 1)"."""
        texts = [str(case) for case in cases]
        listed = texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
        one_more = self.max_loras + 1
        return f"{listed} active adapters" + (f" ({one_more} is max_loras + 1)" if one_more in cases else "")


def lora_cases(
    max_loras: int | None, specialize_active_lora: bool, cudagraph_specialize_lora: bool, runner: Runner
) -> tuple[int, ...]:
    """Captured adapter counts, ascending; (0,) where LoRA is off (`max_loras` None)."""
    if max_loras is None:
        return (0,)
    every = max_loras + 1
    if not cudagraph_specialize_lora:
        return (every,) if runner is Runner.V1 else (0, every)
    if not specialize_active_lora:
        return (0, every)
    powers = [1 << bit for bit in range(every.bit_length()) if 1 << bit <= every]
    return (0, *sorted({*powers, every}))
