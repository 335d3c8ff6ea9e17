"""What the tests of workloads say often."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cgplan import CompilationOptions, CUDAGraphMode, Deployment, Resolution, resolve
from cgplan.workload.histogram import Batches, Range, Seen

METRICS = Path(__file__).parents[2] / "fixtures" / "metrics"
FULL, PIECEWISE, NONE = CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE, CUDAGraphMode.NONE
HEAD = "| Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |"
RULE = "|-----------------|---------------|--------------|--------------|-------|"


def resolved(sizes: list[int] | None = None, mode: str | None = None, **fields: Any) -> Resolution:
    """A resolution on a backend that supports everything."""
    fields.setdefault("attention_support", "ALWAYS")
    options: dict[str, Any] = {}
    if sizes is not None:
        options["cudagraph_capture_sizes"] = sizes
    if mode is not None:
        options["cudagraph_mode"] = mode
    return resolve(Deployment(compilation_config=CompilationOptions(**options), **fields))


def point(tokens: int) -> Range:
    return Range(tokens, tokens)


def decode(tokens: int, count: float = 1, **fields: Any) -> Batches:
    return Batches("decode", point(tokens), count, **fields)


def mixed(tokens: int, count: float = 1, **fields: Any) -> Batches:
    return Batches("mixed", point(tokens), count, **fields)


def either(low: int, high: int | None, count: float = 1, **fields: Any) -> Batches:
    return Batches("any", Range(low, high), count, **fields)


def ran(tokens: int, mode: CUDAGraphMode, padded: int, count: float = 1, **fields: Any) -> Batches:
    """A row of a table."""
    return Batches("any", point(tokens), count, seen=Seen(mode, padded), **fields)


def row(tokens: int, padded: int, mode: str, count: int) -> str:
    return f"| {tokens:<15} | {padded:<13} | {padded - tokens:<12} | {mode:<12} | {count:<5} |"


def table(*rows: str, mode: str = "FULL_AND_PIECEWISE", sizes: str = "[1, 2, 4, 8]") -> list[str]:
    """The lines of a table as vLLM writes them, without prefixes."""
    return [
        "**CUDAGraph Config Settings:**", "", f"- Mode: {mode}", f"- Capture sizes: {sizes}", "",
        "**CUDAGraph Stats:**", "", HEAD, RULE, *rows, "",
    ]  # fmt: skip
