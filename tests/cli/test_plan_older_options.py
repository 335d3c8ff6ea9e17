"""Options that a release before all known ones had, on a line that is planned with --assume-release."""

from __future__ import annotations

import pytest
from plan_cases import Run

OLD = ("--vllm", "0.10.2", "--assume-release", "0.19")
LINE = ("vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "8192")


@pytest.mark.parametrize("given", [("--swap-space", "0"), ("--swap-space=4",), ("--use-v2-block-manager",)])
def test_what_nothing_took_the_place_of_is_passed_over_and_said(cgplan: Run, given: tuple[str, ...]) -> None:
    status, out, err = cgplan("plan", "--gpu", "h100", *OLD, "--", *LINE, *given, "--max-num-seqs", "64")
    assert (status, err) == (0, "")
    assert f"{' '.join(given)} of the line is passed over: 0.10.2" in " ".join(out.split())
    plain = cgplan("plan", "--gpu", "h100", *OLD, "--json", "--", *LINE, "--max-num-seqs", "64")[1]
    with_it = cgplan("plan", "--gpu", "h100", *OLD, "--json", "--", *LINE, *given, "--max-num-seqs", "64")[1]
    assert plain.partition('"assumptions"')[0] == with_it.partition('"assumptions"')[0]


@pytest.mark.parametrize(
    ("options", "given"),
    [(("--vllm", "0.19"), "--swap-space=0"), (OLD, "--task=generate"), (OLD, "--swapspace=0")],
)
def test_others_are_refused_as_before(cgplan: Run, options: tuple[str, ...], given: str) -> None:
    status, _, err = cgplan("plan", "--gpu", "h100", *options, "--", *LINE, given)
    assert status == 2
    assert "CG905" in err
