"""KV cache records: what vLLM's own planner made of a model and its memory, against `cgplan.memory`.

A record names a model of the catalogue, the arguments and the KV cache memory of one rank of each pipeline stage; see
docs/parity.md. Compared are the groups with their layers, pages and blocks of a request, the bytes of a block, the
number of blocks, the block size, the fitted length, the capacity line and the kinds of error with the numbers that
they name.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from kv_record_specs import numbers, stages_of
from parity_config import MODELS, NOT_IMPORTABLE
from parity_errors import SIGNS

from cgplan import (
    CgplanError,
    Deployment,
    Gpu,
    ModelShape,
    Overrides,
    Resolution,
    SpeculativeOptions,
    StartupError,
    resolve,
)
from cgplan.inputs.catalogue import load
from cgplan.inputs.hf_config import shape_of
from cgplan.memory.kv.cache import kv_cache, planning_settings
from cgplan.memory.kv.cache_plan import KVCachePlan, PlannedGroup
from cgplan.memory.kv.capacity import KVCacheTooSmall, plan_kv_cache
from cgplan.memory.layers.kv_layers import kv_layers
from cgplan.releases import holds
from cgplan.resolve.hybrid_manager import uses_manager

KV_SIGNS = {
    "CG540": r"divisible|divide|^$",
    "CG541": r"KDA recurrent state",
    "CG542": r"VLLM_PP_LAYER_PARTITION|partition",
    "CG544": r"fp8_e5m2 kv-cache is not supported with fp8 checkpoints",
    "CG545": r"Triton attention backend",
    "CG546": r"Triton MLA backend",
    "CG547": r"DCP for FlashMLA sparse",
    "CG548": r"logits soft cap",
    "CG549": r"only supports fp8 kv-cache",
    "CG550": r"block size",
    "CG551": r"block size|block_size",
    "CG552": r"divisible",
    "CG554": r"In Mamba cache align mode",
    "CG555": r"Input should be 'auto', 'float32' or 'float16'",
    "CG556": r"nvfp4 KV cache is not supported with MLA",
    "CG557": r"--mamba-block-size can only be set with",
    "CG558": r"Duplicate layer name",
    "CG559": r"divisible by weight quantization",
    "CG560": r"No available memory for the cache blocks",
    "CG561": r"To serve at least one request",
    "CG562": r"Cannot auto-fit max_model_len",
    "CG563": r"one unified type",
    "CG564": r"DCP not support sliding window",
    "CG565": r"by zero",
    "CG566": r"page size (of the layer )?is not divisible",
    "CG567": r"^$",
    "CG588": r"TurboQuant KV cache (is not supported|requires identifiable)",
    "CG568": r"No KV cache layout satisfies",
    "CG569": r"does not satisfy every supported set",
    "CG570": r"block-compact layout|block-outer|cannot express",
    "CG571": r"bounded_replay",
    "CG572": r"same window size",
    "CG587": r"^$",
    "CG580": r"explicitly enabled",
    "CG583": r"per-state compression",
}
"""What vLLM's message says for each code."""

IGNORED_ARGS = {"dcp_kv_cache_interleave_size"}
"""Arguments that no rule about sizes reads."""

PLENTY = [10 << 30]
"""Bytes where vLLM stopped before it asked for them."""

NEEDED = re.compile(
    r"\(([\d.]+) GiB KV cache is needed, which is larger than the available KV cache memory \(([-\d.]+) GiB\)\."
    r"(?: Based on the available memory, the estimated maximum model length is (\d+)\.)?"
)


def is_kv_record(record: dict[str, Any]) -> bool:
    return {"model", "gpu", "available"} <= set(record["input"])


def compare_kv(record: dict[str, Any]) -> str | None:
    """The first difference, or None."""
    asked, output = record["input"], record["output"]
    try:
        deployment, auto_fit = deployment_of(asked, record["vllm_version"])
        unavailable = tuple(name for name, first in NOT_IMPORTABLE.items() if holds(deployment.vllm, first))
        resolution = _resolution(deployment, unavailable)
        found = kv_cache(
            deployment, resolution, asked.get("available_bytes", PLENTY), auto_fit=auto_fit, unavailable=unavailable
        ).plan
    except CgplanError as error:
        return _compare_error(error, output.get("error"))
    if "error" in output:
        return _compare_error(None, output["error"])
    return _compare_plan(found, output) or _compare_graphs(deployment, found, unavailable, output["result"])


def compare_planning(record: dict[str, Any]) -> str | None:
    """The same for the planner alone: the layers are the record's own. None as well where vLLM stops before it."""
    asked, output = record["input"], record["output"]
    error = output.get("error")
    if "specs" not in output or (error and error["stage"] not in PLANNING_STAGES):
        return None
    deployment, auto_fit = deployment_of(asked, record["vllm_version"])
    unavailable = tuple(name for name, first in NOT_IMPORTABLE.items() if holds(deployment.vllm, first))
    try:
        resolution = _resolution(deployment, unavailable)
        layers = kv_layers(deployment, resolution, unavailable=unavailable)
        settings = planning_settings(deployment, resolution, layers, auto_fit=auto_fit)
        plan = plan_kv_cache(
            stages_of(output, len(layers.stages), record["vllm_version"]), asked["available_bytes"], settings
        )
    except CgplanError as raised:
        return _compare_error(raised, error)
    return _compare_error(None, error) if error else _compare_plan(plan, output)


PLANNING_STAGES = ("initialize_kv_caches", "get_supported_kv_cache_layouts")


def deployment_of(asked: dict[str, Any], release: str) -> tuple[Deployment, bool]:
    """The deployment that a record stands for, and whether its length is to be fitted."""
    args = {key: value for key, value in asked["args"].items() if key not in IGNORED_ARGS}
    auto_fit = args.get("max_model_len") == -1
    if auto_fit:
        del args["max_model_len"]
    speculative = args.pop("speculative_config", None)
    if speculative is not None:
        if "model" in speculative:
            speculative = {**speculative, "model": _model(speculative["model"])}
        args["speculative_config"] = SpeculativeOptions(**speculative)
    deployment = Deployment(
        vllm=release,
        gpu=Gpu(**{key: value for key, value in asked["gpu"].items() if key != "count"}),
        gpus_per_node=asked["gpu"].get("count", 8),
        model=_model(asked["model"]),
        env=asked.get("env") or {},
        **args,
    )
    return deployment, auto_fit


@cache
def _model(name: str) -> ModelShape:
    if not name.startswith("draft_"):
        return load(name, completed=False)
    entry = json.loads(MODELS.read_text(encoding="utf-8"))[name]
    return shape_of(entry["config"], name=name, runner=entry.get("runner") or "auto")


def _resolution(deployment: Deployment, unavailable: tuple[str, ...]) -> Resolution:
    uses_manager(deployment)
    overrides = Overrides(
        unavailable_backends=unavailable, is_profiling=True, imported_before_env=True, runs_kernels=False
    )
    return resolve(deployment, overrides)


def _compare_error(error: CgplanError | None, expected: dict[str, Any] | None) -> str | None:
    if expected is None:
        return None if error is None else f"error: cgplan refuses ({error.code}: {error}), vLLM does not"
    message = expected["message"]
    if not isinstance(error, StartupError):
        return f"error: cgplan {error!r}, vLLM {expected['type']} at {expected['stage']}: {message[:140]}"
    theirs = {"load_model": ("load_model", "attn_backend_selection")}.get(expected["stage"], (expected["stage"],))
    if error.stage not in theirs:
        return f"error.stage: {error.stage} ({error.code}: {error}), vLLM {expected['stage']}: {message[:140]}"
    if error.raised_as != expected["type"]:
        return f"error.type: {error.raised_as} ({error.code}: {error}), vLLM {expected['type']}: {message[:140]}"
    raised_in = (expected.get("raised_in") or "").rpartition(":")[2]
    if error.stage in PLANNING_STAGES and error.raised_in != raised_in:
        return f"error.raised_in: {error.raised_in} ({error.code}: {error}), vLLM {raised_in}: {message[:140]}"
    sign = KV_SIGNS.get(error.code) or SIGNS.get(error.code)
    if sign is None:
        return f"error: {error.code} has no sign in tools/; vLLM {message[:140]}"
    if not re.search(sign, message):
        return f"error: {error.code} ({error}), vLLM {message[:200]}"
    return _compare_too_small(error, message) if isinstance(error, KVCacheTooSmall) else None


def _compare_too_small(error: KVCacheTooSmall, message: str) -> str | None:
    found = NEEDED.search(message)
    if found is None:
        return f"error: no numbers in {message[:200]}"
    theirs = (found[1], found[2], int(found[3] or 0))
    mine = (_gib(error.needed_bytes), _gib(error.available_bytes), error.estimated_max_model_len)
    return None if mine == theirs else f"error: (needed, available, longest) {mine}, vLLM {theirs}"


def _gib(size: int) -> str:
    return str(round(size / (1 << 30), 2))


def _compare_plan(plan: KVCachePlan, output: dict[str, Any]) -> str | None:
    expected = output["result"]
    stages = expected["stages"]
    pairs: list[tuple[str, Any, Any]] = [
        ("kv_cache_layout", plan.layout.name if plan.layout else None, expected.get("kv_cache_layout")),
        ("bytes_per_block", list(plan.bytes_per_block), [_bytes_per_block(stage) for stage in stages]),
        ("num_blocks", plan.num_blocks, expected["num_blocks"]),
        ("block_size", plan.block_size, expected["block_size"]),
        ("max_model_len", plan.max_model_len, expected["max_model_len"]),
        ("kv_tp_replicas", plan.tp_replicas, expected.get("kv_tp_replicas", 1)),
        ("groups", len(plan.groups), len(expected["groups"])),
    ]
    if "hash_block_size" in expected:
        steps = plan.prefix_steps
        pairs += [
            ("hash_block_size", steps and steps.hashes, expected["hash_block_size"]),
            ("cache_hit_alignment_tokens", steps and steps.hits, expected["cache_hit_alignment_tokens"]),
        ]
    if expected["kv_cache_size_tokens"] is not None:
        pairs += [
            ("kv_cache_size_tokens", plan.tokens, expected["kv_cache_size_tokens"]),
            ("max_concurrency", plan.max_concurrency, expected["max_concurrency"]),
        ]
    else:
        pairs += [("capacity line", _capacity(plan), _logged_capacity(output["log_core"]))]
    pairs += [("padding layers", _padding_found(plan), _padding_logged(output["log_core"]))]
    for name, mine, theirs in pairs:
        if mine != theirs:
            return f"{name}: {mine}, vLLM {theirs}"
    for index, (group, row) in enumerate(zip(plan.groups, expected["groups"], strict=True)):
        difference = _compare_group(group, row)
        if difference is not None:
            return f"groups[{index}].{difference}"
    return None


def _capacity(plan: KVCachePlan) -> tuple[str, str] | None:
    if plan.tokens is None:
        return None
    return f"{plan.tokens:,}", f"{plan.max_concurrency:.2f}"


def _logged_capacity(lines: Iterable[str]) -> tuple[str, str] | None:
    """Until 0.23 vLLM keeps neither number, but logs both."""
    found = re.search(r"KV cache size: ([\d,]+) tokens.*?tokens per request: ([\d.]+)x", " ".join(lines))
    return (found[1], found[2]) if found else None


def _bytes_per_block(stage: dict[str, Any]) -> int:
    """Of a pool whose tensors alias each other (0.24 to 0.28) the stride; their sizes would count it many times."""
    tensors = stage.get("tensors") or []
    first = (tensors["head"] if isinstance(tensors, dict) else tensors)[:1]
    size: int = stage["bytes_per_block"]
    if first and "shared_by" in first[0]:
        size = first[0].get("block_stride", size)
    return size


def _compare_graphs(
    deployment: Deployment, plan: KVCachePlan, unavailable: tuple[str, ...], expected: dict[str, Any]
) -> str | None:
    """Whether the blocks suffice for the graphs of a model with Mamba layers, which the start looks at next."""
    refused = "Mamba" in (expected.get("cudagraph") or {}).get("error", {}).get("message", "")
    overrides = Overrides(unavailable_backends=unavailable, imported_before_env=True, runs_kernels=False)
    found = None
    try:
        resolve(deployment.model_copy(update={"num_gpu_blocks": plan.num_blocks}), overrides)
    except CgplanError as error:
        found = error.code
    if (found == "CG501") == refused:
        return None
    return f"cudagraph: cgplan {found or 'starts'}, vLLM {'refuses' if refused else 'starts'}"


def _compare_group(group: PlannedGroup, expected: dict[str, Any]) -> str | None:
    spec = expected["spec"]
    for name, mine, theirs in (
        ("kind", group.spec.kind, spec["kind"]),
        ("block_size", group.spec.block_size, spec["block_size"]),
        ("page_size_bytes", group.spec.page_size_bytes, spec["page_size_bytes"]),
        ("layers", _ranges(group.layer_names), _ranges(_spelled_out(expected["layers"]))),
        (
            "n_layers_per_stage",
            list(group.layers_per_stage),
            expected.get("n_layers_per_stage", [expected["n_layers"]]),
        ),
        ("blocks_per_request", group.blocks_per_request, expected.get("blocks_per_request", group.blocks_per_request)),
    ):
        if mine != theirs:
            return f"{name}: {mine}, vLLM {theirs}"
    return None


def _spelled_out(layers: dict[str, str]) -> Iterator[str]:
    for template, ranges in layers.items():
        if ranges:
            yield from (template.replace("{}", str(number), 1) for number in numbers(ranges))
        else:
            yield template


def _ranges(names: Iterable[str]) -> list[str]:
    return sorted(names)


def _padding_logged(lines: Iterable[str]) -> Counter[tuple[str, str]]:
    logged = (re.search(r"Add (\d+) padding layers, may waste at most ([\d.]+)%", line) for line in lines)
    return Counter((found[1], found[2]) for found in logged if found)


def _padding_found(plan: KVCachePlan) -> Counter[tuple[str, str]]:
    """vLLM's logger keeps a line that is said twice; so does this."""
    said = [finding.message for finding in plan.warnings if finding.code == "CG575"]
    found = (re.search(r"(\d+) padding layers may waste at most ([\d.]+)%", message) for message in said)
    return Counter((match[1], match[2]) for match in found if match)
