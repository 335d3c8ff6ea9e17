"""Numbers that the parser takes and the configuration refuses."""

from __future__ import annotations

import shlex

import pytest

from cgplan.check import Context, check
from cgplan.errors import StartupError
from cgplan.inputs.serve_args import parse_serve
from cgplan.inputs.serve_args_deployment import to_deployment
from cgplan.inputs.serve_args_flags import flag_table
from cgplan.inputs.serve_args_ranges import out_of_range
from cgplan.releases import SUPPORTED, facts

SERVE = "vllm serve Qwen/Qwen3-8B"


def refused(line: str, release: str = "0.33.0") -> list[str]:
    return [error.message for error in out_of_range(parse_serve(shlex.split(f"{SERVE} {line}"), release))]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--gpu-memory-utilization 1.5", "--gpu-memory-utilization: 1.5 is above 1"),
        ("--gpu-memory-utilization 0", "--gpu-memory-utilization: 0 is not above 0"),
        ("--gpu-memory-utilization 95", "--gpu-memory-utilization: 95 is above 1"),
        ("--stream-interval 0", "--stream-interval: 0 is below 1"),
        ("--watermark 1", "--watermark: 1 is not below 1"),
        ("--shutdown-timeout -1", "--shutdown-timeout: -1 is below 0"),
        ("--enable-lora --max-loras 0", "--max-loras: 0 is below 1"),
    ],
)
def test_a_number_out_of_its_range_is_refused(line: str, message: str) -> None:
    assert refused(line) == [message]


@pytest.mark.parametrize(
    "line",
    [
        "--gpu-memory-utilization 1", "--gpu-memory-utilization 0.01", "--stream-interval 1", "--watermark 0.99",
        "--shutdown-timeout 0", "--max-loras 0", "--max-model-len auto", "--gpu-memory-utilization nan",
    ],
)  # fmt: skip
def test_a_number_at_the_edge_is_taken(line: str) -> None:
    """--max-loras counts with --enable-lora alone; pydantic takes NaN."""
    assert refused(line) == []


def test_a_range_holds_from_the_release_that_has_it() -> None:
    assert refused("--tensor-parallel-size 0", "0.22.1") == []
    assert refused("--tensor-parallel-size 0", "0.23.0") == ["--tensor-parallel-size: 0 is below 1"]


@pytest.mark.parametrize("release", SUPPORTED)
def test_every_range_is_of_an_option(release: str) -> None:
    rows = facts("field_ranges", release)["range"]
    assert {row["option"] for row in rows} <= set(flag_table(release).by_dest)
    assert len({row["option"] for row in rows}) == len(rows)


def test_the_deployment_is_refused_as_vllm_refuses_it() -> None:
    args = parse_serve([*SERVE.split(), "--gpu-memory-utilization", "95"], "0.33.0")
    with pytest.raises(StartupError) as caught:
        to_deployment(args)
    assert caught.value.stage == "create_engine_config"
    assert (caught.value.raised_in, caught.value.code) == ("CacheConfig", "CG903")
    assert caught.value.fix == "write --gpu-memory-utilization 0.95"


def test_check_points_at_each_of_them() -> None:
    report = check(f"{SERVE} --gpu-memory-utilization 1.5 --stream-interval 0", Context(release="0.33.0"))
    assert report.resolution is None
    places = [(one.code, one.at.span.column) for one in report.diagnostics if one.at is not None]
    assert places == [("CG903", 26), ("CG903", 55)]
