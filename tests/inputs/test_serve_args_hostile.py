"""Values and lines that mean harm: one short error, soon."""

from __future__ import annotations

import time

import pytest

from cgplan.errors import CgplanError, InputError
from cgplan.inputs.serve_args import parse_serve


@pytest.mark.parametrize(
    "value",
    [
        "[" * 100_000,
        '{"a":' * 20_000,
        "9" * 100_000,
        "9" * 400 + "k",
        '"' * 131_000,
        '"\\' * 65_000,
        "\ud800",
        "{} " * 43_000,
    ],
    ids=range(8),
)
@pytest.mark.parametrize("option", ["-cc", "-sc", "--hf-overrides", "--lora-modules", "--max-model-len", "-cc.mode"])
def test_values_that_mean_harm(option: str, value: str) -> None:
    started = time.process_time()
    try:
        parse_serve(["vllm", "serve", "m", option, value], "0.33.0")
    except CgplanError as error:
        assert len(error.message) < 400  # noqa: PT017
    assert time.process_time() - started < 2


def test_more_than_a_system_passes_on() -> None:
    for tokens in (["x" * 200_000], ["--port"] * 6_000, ["-cc" + ".a" * 60_000 + "=1"] * 30):
        with pytest.raises(InputError):
            parse_serve(["vllm", "serve", *tokens], "0.33.0")
    with pytest.raises(CgplanError, match="too deeply"):
        parse_serve(["vllm", "serve", "m", "-cc" + "." * 100_000 + "=1"], "0.33.0")
