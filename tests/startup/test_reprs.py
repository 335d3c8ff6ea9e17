from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan.startup.reprs import parse_dict, parse_settings

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=5))
def test_what_python_prints_is_read_back(value: dict[str, Any]) -> None:
    assert parse_dict(repr(value)) == value


@given(st.text(alphabet="{}[]()<>'\"\\,:= a1.", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert parse_dict(text) is None or isinstance(parse_dict(text), dict)
    parse_settings(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'m': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>}", {"m": "FULL_AND_PIECEWISE"}),
        ("{'a': <object at 0x7f>, 'b': 2}", {"a": "<object at 0x7f>", "b": 2}),
        (
            "{'c': CompilationConfig(mode=3, sizes=[1, 2]), 'd': 1}",
            {"c": "CompilationConfig(mode=3, sizes=[1, 2])", "d": 1},
        ),
        ("{'p': PosixPath('/a, b'), 'n': 1e-05}", {"p": "PosixPath('/a, b')", "n": 1e-05}),
        ("{'a': 1, [...] 'b': [2], [...]}", {"a": 1, "b": [2]}),
        ("{'s': {'x', 'y'}}", {"s": {"x": True, "y": True}}),
        ("{'a': 1", None),
        ("{'a' 1}", None),
        ("[1, 2]", None),
        ("{'a': 1} and more", None),
        ("__import__('os').system('true')", None),
    ],
)
def test_objects_are_text_and_cuts_are_passed_over(text: str, value: dict[str, Any] | None) -> None:
    assert parse_dict(text) == value


def test_settings_of_the_engine() -> None:
    text = (
        "model='a, b', speculative_config=SpeculativeConfig(method='eagle', model='x, y', num_spec_tokens=3), "
        "revision=None, dtype=torch.bfloat16, download_dir=None, load_format=auto, served_model_name=My Model, seed=0, "
        "compilation_config={'cudagraph_capture_sizes': [1, 2], 'mode': <CompilationMode.VLLM_COMPILE: 3>}"
    )
    assert parse_settings(text) == {
        "model": "a, b",
        "speculative_config": "SpeculativeConfig(method='eagle', model='x, y', num_spec_tokens=3)",
        "revision": None,
        "dtype": "torch.bfloat16",
        "download_dir": None,
        "load_format": "auto",
        "served_model_name": "My Model",
        "seed": 0,
        "compilation_config": {"cudagraph_capture_sizes": [1, 2], "mode": "VLLM_COMPILE"},
    }


@pytest.mark.parametrize(
    "text", ["{'a': " * 50_000, "[" * 300_000, "{'a': <" * 40_000, "{" + "'a': x y, " * 60_000, "'" * 300_000]
)
def test_hostile_values_are_refused_quickly(text: str) -> None:
    begun = time.process_time()
    parse_dict(text)
    parse_settings(f"a={text}")
    assert time.process_time() - begun < 3
