"""One name for one thing: the keys of all JSON documents, and the columns of a sweep."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cgplan.cli.app import run
from cgplan.cli.schema import DOCUMENTS
from cgplan.sweep.evaluate import FACTS

SYNONYMS = {
    "max_cudagraph_capture_size": ("max_capture_size", "largest_size", "largest_capture_size"),
    "capture_sizes": ("cudagraph_capture_sizes",),
    "num_gpu_blocks": ("num_blocks", "gpu_blocks"),
    "kv_tokens": ("kv_cache_tokens", "kv_cache_size_tokens", "cache_tokens"),
    "kv_bytes": ("kv_cache_bytes", "available_kv_bytes", "cache_bytes"),
    "more_kv_bytes": ("kv_bytes_more",),
    "more_kv_tokens": ("kv_tokens_more",),
    "graph_bytes": ("graph_actual_bytes", "graphs_bytes", "graph_memory_bytes", "actual_bytes"),
    "graph_estimate_bytes": ("vllm_graph_estimate", "vllm_graph_estimate_bytes", "estimate_bytes", "estimated_bytes"),
    "deducted_bytes": ("graph_bytes_deducted", "graph_deducted_bytes"),
    "activation_bytes": ("step_bytes", "activations_bytes", "peak_activation_bytes"),
    "non_torch_bytes": ("outside_bytes", "outside_torch_bytes"),
    "weights_bytes": ("weight_bytes", "model_bytes"),
    "total_bytes": ("gpu_bytes", "gpu_memory_bytes"),
    "printed_bytes": ("printed",),
    "right_bytes": ("right",),
    "waste": ("padding_share", "padding_waste"),
    "mean_waste": ("mean_padding", "padding_mean"),
    "capture_seconds": ("capture_time", "capture_time_seconds"),
    "gpu_memory_utilization": ("utilization",),
    "vllm_version": ("vllm", "version", "release"),
    "flags": ("options",),
    "runner": ("model_runner_version",),
}
"""Names that stand for the same thing: the one in use, and others that were or might be."""

NOT_THE_SAME = {("release", "diff")}
"""Another thing by its place: of `diff`, one of the releases on the way, not that of the deployment."""

TOO_LARGE = 1 << 24
"""No number of tokens, sizes or graphs of these deployments is as large: an integer above it counts bytes."""

LONG = ("--model", "Qwen/Qwen3-8B", "--gpu", "h100", "--max-num-seqs", "64")
COMMANDS = (
    ("resolve", *LONG),
    ("plan", *LONG, "--what-if", "max-num-seqs=8,64"),
    ("plan", *LONG, "--vllm", "0.25.1"),
    ("tune", *LONG, "--shape", "steady"),
    ("profile", "--dry-run", *LONG),
    ("profile", "--dry-run", "--engine", "vllm", *LONG),
)


def properties(schema: Any) -> Iterator[tuple[str, Any]]:
    """Every key of a JSON Schema with its own schema."""
    if isinstance(schema, dict):
        for name, own in schema.items():
            if name == "properties":
                yield from own.items()
            yield from properties(own)
    elif isinstance(schema, list):
        for own in schema:
            yield from properties(own)


@pytest.fixture(scope="module")
def keys() -> dict[str, set[str]]:
    """The documents that have a key, by key."""
    from contextlib import redirect_stdout
    from io import StringIO

    found: dict[str, set[str]] = {name: {"sweep"} for name in FACTS}
    for document in DOCUMENTS:
        out = StringIO()
        with redirect_stdout(out):
            assert run(["schema", document]) == 0
        for name, _ in properties(json.loads(out.getvalue())):
            found.setdefault(name, set()).add(document)
    return found


@pytest.mark.parametrize(("name", "others"), SYNONYMS.items())
def test_a_thing_has_one_name(name: str, others: tuple[str, ...], keys: dict[str, set[str]]) -> None:
    effective = {f"effective_{one}": one for one in (name, *others)}  # of a sweep, beside the option of that name
    used = {effective.get(key, key): where for key, where in keys.items()}
    wrong = {other: [where for where in used.get(other, ()) if (other, where) not in NOT_THE_SAME] for other in others}
    assert {other: sorted(where) for other, where in wrong.items() if where} == {}, f"say {name}"


def test_the_names_of_the_table_are_in_use(keys: dict[str, set[str]]) -> None:
    assert {name for name in SYNONYMS if name not in keys and f"effective_{name}" not in keys} == set()


def test_a_name_of_bytes_or_seconds_ends_with_its_unit(keys: dict[str, set[str]]) -> None:
    parts = {key: key.split("_") for key in keys}
    assert [key for key, words in parts.items() if "bytes" in words[:-1]] == []
    assert [key for key, words in parts.items() if "seconds" in words[:-1]] == []
    assert [key for key, words in parts.items() if words[-1] in ("gib", "mib", "ms", "us", "size_in_bytes")] == []


def large(value: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Where large integers stand that are not under a key of bytes."""
    if isinstance(value, dict):
        for key, own in value.items():
            yield from large(own, (*path, key))
    elif isinstance(value, list):
        for own in value:
            yield from large(own, path)
    elif type(value) is int and value > TOO_LARGE and not any(key.endswith("_bytes") for key in path):
        yield ".".join(path)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_integers_in_bytes_say_so(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words, "--json", *(["-"] if "--dry-run" in words else [])]) == 0
    document = json.loads(capsys.readouterr().out)
    assert sorted(set(large(document))) == []


def test_what_looks_for_bytes_finds_them() -> None:
    assert list(large({"a": {"low": 1 << 30}, "b_bytes": {"low": 1 << 30}, "c": [{"d": 1 << 30}]})) == ["a.low", "c.d"]
