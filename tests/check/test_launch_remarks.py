"""Remarks of the readers as diagnostics, of a launch and of a source."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from cgplan.check import Context, check, check_launch
from cgplan.check.launch_remarks import KINDS, of_source
from cgplan.inputs.launches import Remark, Source, Span, launch_of
from cgplan.inputs.launches.asked import ask
from cgplan.releases.gpus import gpu


def test_every_kind_of_remark_has_its_rule() -> None:
    kinds = (Remark.__doc__ or "").partition("kind:")[2].partition("message, fix")[0]
    assert set(re.findall(r"`(\w+)`", kinds)) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_remarks_of_a_launch(kind: str) -> None:
    rule, severity = KINDS[kind]
    launch = launch_of(["vllm", "serve", "Qwen/Qwen3-8B"])
    assert rule.code not in [one.code for one in check_launch(ask(launch)).diagnostics]
    remark = Remark(kind, "something", Span(0, 4, 1, 1), "mend it")
    found = check_launch(ask(replace(launch, remarks=(remark,)))).diagnostics
    [one] = [one for one in found if one.code == rule.code]
    assert (one.severity, one.message, one.fix) == (severity, "something", "mend it")
    assert one.at is not None
    assert one.at.span == Span(0, 4, 1, 1)


def test_remarks_of_a_source() -> None:
    source = Source("a.yaml", "kind: Service\n")
    [one] = of_source(source, [Remark("no_launch", "no server is started here")])
    assert (one.code, one.severity, one.at) == ("CG946", "info", None)


def test_a_stray_blank_is_told_once() -> None:
    """The blank behind the backslash is an argument of its own: CG943 says so, and CG905 need not; and what vLLM's
    own limits leave uncovered says nothing of a line that is cut off.
    """
    found = check("vllm serve Qwen/Qwen3-8B \\ \n  --max-num-seqs 8\n", Context(gpu=gpu("h100"))).diagnostics
    assert {one.code for one in found} == {"CG943"}
