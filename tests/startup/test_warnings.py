"""vLLM's warnings and the rules behind them."""

from __future__ import annotations

import pytest
from startup_helpers import start, warning

from cgplan.rules import all_rules
from cgplan.startup.warnings import FRAGMENTS, LESS_GRAPHS, code_of, explained

SPEC = (
    "CUDAGraphMode.FULL_AND_PIECEWISE is not supported with spec-decode for attention backend"
    " FlashInferBackend (support:"
    " AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE); setting cudagraph_mode=PIECEWISE"
)


def test_every_code_is_that_of_a_rule() -> None:
    assert {code for _, code in FRAGMENTS} <= set(all_rules())
    assert set(LESS_GRAPHS) <= {code for _, code in FRAGMENTS}


def test_every_fragment_can_be_found() -> None:
    for at, (fragment, code) in enumerate(FRAGMENTS):
        assert code_of(fragment) == code, FRAGMENTS[at]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (SPEC, "CG333"),
        ("Truncating max_cudagraph_capture_size to 40", "CG116"),
        (
            "Enforce eager set, disabling torch.compile and CUDAGraphs. This is equivalent to setting -cc.mode=none",
            "CG203",
        ),
        ("Add 2 padding layers, may waste at most 20.00% KV cache memory", "CG575"),
        ("Pooling models do not support full cudagraphs. Overriding cudagraph_mode to PIECEWISE.", "CG207"),
    ],
)
def test_a_warning_is_explained(text: str, code: str) -> None:
    (finding,) = explained(start(messages=(warning(text),)))
    assert finding.code == code
    assert finding.where == "line 5"
    assert text[:40] in finding.message


def test_other_warnings_are_left() -> None:
    one = start(messages=(warning("PYTHONHASHSEED is not set."), warning(SPEC)))
    assert [finding.code for finding in explained(one)] == ["CG333"]


def test_lost_graphs_weigh_more_than_notes() -> None:
    one = start(messages=(warning(SPEC), warning("Add 2 padding layers, may waste at most 20.00% KV cache memory")))
    assert [finding.severity for finding in explained(one)] == ["warning", "info"]
