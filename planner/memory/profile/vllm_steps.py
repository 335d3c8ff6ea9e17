"""Single steps of vLLM's runners in a mode of our choice.

Runner V1 takes the mode as an argument of `_dummy_run` (vllm/v1/worker/gpu_model_runner.py, 0.23.0 to 0.33.0). Runner
V2 takes what its graph manager's `dispatch` answers (vllm/v1/worker/gpu/model_runner.py, gpu/cudagraph_utils.py, same
releases), so that this answers for one step with the descriptor that is wanted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ...vocabulary import CUDAGraphMode


def can_step(runner: Any) -> bool:
    """The runner can be given single steps."""
    return _is_first(runner) or hasattr(getattr(runner, "cudagraph_manager", None), "dispatch")


def run_step(runner: Any, num_tokens: int, mode: CUDAGraphMode) -> None:
    """Launch one step of `num_tokens`: of decoding requests, for PIECEWISE of a mixed batch.

    Raises:
        RuntimeError: runner V2 has captured no such graph.
    """
    if _is_first(runner):
        from vllm.config import CUDAGraphMode as Theirs

        runner._dummy_run(
            num_tokens,
            cudagraph_runtime_mode=getattr(Theirs, str(mode)),
            force_attention=True,
            uniform_decode=mode is not CUDAGraphMode.PIECEWISE,
            skip_eplb=True,
        )
        return
    whole = num_tokens % int(getattr(runner, "decode_query_len", 1) or 1) == 0
    with _dispatched_to(runner.cudagraph_manager, num_tokens, mode):
        runner._dummy_run(num_tokens, uniform_decode=whole and mode is not CUDAGraphMode.PIECEWISE, skip_eplb=True)


def _is_first(runner: Any) -> bool:
    return hasattr(runner, "_warmup_and_capture")


@contextmanager
def _dispatched_to(manager: Any, num_tokens: int, mode: CUDAGraphMode) -> Iterator[None]:
    """For one step the manager answers with `mode`."""
    own = manager.dispatch  # a bound method: what is set below hides it until it is deleted

    def answer(num_reqs: int, *args: Any, **named: Any) -> Any:
        if mode is not CUDAGraphMode.NONE:
            return captured(manager, num_tokens, mode)
        from vllm.config import CUDAGraphMode as Theirs

        found = own(num_reqs, *args, **named)
        return replace(found, cg_mode=Theirs.NONE, num_tokens=num_tokens, num_reqs=num_reqs, uniform_token_count=None)

    manager.dispatch = answer
    try:
        yield
    finally:
        del manager.dispatch


def captured(manager: Any, num_tokens: int, mode: CUDAGraphMode) -> Any:
    """The manager's own descriptor of a graph without adapters.

    Raises:
        RuntimeError: it has none.
    """
    for theirs, descs in manager._capture_descs.items():
        if theirs.name != str(mode):
            continue
        for desc in descs:
            if desc.num_tokens == num_tokens and not getattr(desc, "num_active_loras", 0):
                return desc
    raise RuntimeError(f"runner V2 has no {mode} graph of {num_tokens} tokens")
