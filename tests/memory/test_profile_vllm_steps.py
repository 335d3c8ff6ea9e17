"""Steps of vLLM's runners in a chosen mode, on stand-ins with the shape of both."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import Any

import pytest

from cgplan.memory.profile.vllm_steps import can_step, run_step
from cgplan.vocabulary import CUDAGraphMode


class Theirs(Enum):
    NONE = 0
    PIECEWISE = 1
    FULL = 2


@dataclass(frozen=True)
class Desc:
    cg_mode: Theirs
    num_tokens: int
    num_reqs: int | None
    uniform_token_count: int | None = None
    num_active_loras: int = 0


class Manager:
    """Answers as runner V2's: a padded FULL graph."""

    def __init__(self) -> None:
        self._capture_descs = {
            Theirs.FULL: [Desc(Theirs.FULL, 8, 8, 1, 2), Desc(Theirs.FULL, 8, 8, 1)],
            Theirs.PIECEWISE: [Desc(Theirs.PIECEWISE, 8, None)],
        }

    def dispatch(self, num_reqs: int, num_tokens: int, uniform_token_count: int | None, **named: Any) -> Desc:
        return Desc(Theirs.FULL, 8, 8, uniform_token_count)


class Second:
    """Runner V2."""

    decode_query_len = 4

    def __init__(self) -> None:
        self.cudagraph_manager = Manager()
        self.ran: list[tuple[Desc, bool]] = []

    def _dummy_run(self, num_tokens: int, uniform_decode: bool = False, skip_eplb: bool = False) -> None:
        reqs = num_tokens // 4 if uniform_decode else num_tokens
        found = self.cudagraph_manager.dispatch(reqs, num_tokens, 4 if uniform_decode else None, num_active_loras=0)
        self.ran.append((found, uniform_decode))


class First:
    """Runner V1."""

    def __init__(self) -> None:
        self.ran: list[tuple[int, dict[str, Any]]] = []

    def _warmup_and_capture(self) -> None: ...

    def _dummy_run(self, num_tokens: int, **named: Any) -> None:
        self.ran.append((num_tokens, named))


@pytest.fixture(autouse=True)
def their_words(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ModuleType("vllm.config")
    config.CUDAGraphMode = Theirs  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
    monkeypatch.setitem(sys.modules, "vllm.config", config)


@pytest.mark.parametrize(
    ("mode", "expected", "uniform"),
    [
        (CUDAGraphMode.FULL, Desc(Theirs.FULL, 8, 8, 1), True),
        (CUDAGraphMode.PIECEWISE, Desc(Theirs.PIECEWISE, 8, None), False),
        (CUDAGraphMode.NONE, Desc(Theirs.NONE, 8, 2), True),
    ],
)
def test_runner_v2_runs_the_graph_that_is_asked_for(mode: CUDAGraphMode, expected: Desc, uniform: bool) -> None:
    runner = Second()
    assert can_step(runner)
    run_step(runner, 8, mode)
    assert runner.ran == [(expected, uniform)]


def test_runner_v2_dispatches_as_before_afterwards() -> None:
    runner = Second()
    run_step(runner, 8, CUDAGraphMode.NONE)
    assert runner.cudagraph_manager.dispatch(3, 3, None) == Desc(Theirs.FULL, 8, 8)


def test_a_size_that_is_no_multiple_of_the_query_length_is_run_as_a_mixed_batch() -> None:
    runner = Second()
    run_step(runner, 6, CUDAGraphMode.NONE)
    assert runner.ran == [(Desc(Theirs.NONE, 6, 6), False)]


def test_a_graph_that_runner_v2_has_not_captured_is_an_error_and_leaves_its_dispatch() -> None:
    runner = Second()
    with pytest.raises(RuntimeError, match="no FULL graph of 16 tokens"):
        run_step(runner, 16, CUDAGraphMode.FULL)
    assert runner.cudagraph_manager.dispatch(3, 3, None).cg_mode is Theirs.FULL


def test_runner_v1_takes_the_mode_itself() -> None:
    runner = First()
    assert can_step(runner)
    run_step(runner, 8, CUDAGraphMode.PIECEWISE)
    ((tokens, named),) = runner.ran
    assert (tokens, named["cudagraph_runtime_mode"], named["uniform_decode"]) == (8, Theirs.PIECEWISE, False)


def test_a_runner_without_either_cannot_be_stepped() -> None:
    assert not can_step(object())
