"""Configuration records: what vLLM's own configuration code resolved, against `cgplan.resolve`.

The record format is described in docs/parity.md. Texts of errors and warnings are vLLM's and are not compared word
for word: an error must be raised at the same stage, as the same type, by the same class and for the same reason.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

from parity_errors import reason_differs

from cgplan import (
    AttentionCGSupport,
    Batch,
    CgplanError,
    CompilationOptions,
    CUDAGraphMode,
    Deployment,
    Gpu,
    Graph,
    ModelShape,
    Overrides,
    Resolution,
    Runner,
    SpeculativeOptions,
    StartupError,
    resolve,
)
from cgplan.inputs.hf_config import shape_of
from cgplan.releases import holds

MODELS = Path(__file__).parent.parent / "fixtures" / "oracle_models.json"
LONGEST_LIST = 130
HEAD, TAIL = 24, 8

# The records were made from source distributions, which lack what these two need; see docs/parity.md. Each with the
# release that brought it; older releases have all that they name.
NOT_IMPORTABLE = {"FLASH_ATTN_MLA_SPARSE_FA4": "0.33.0", "FLASHINFER_MLA_SPARSE_SM90": "0.30.0"}

# Arguments of the record that no rule about CUDA graphs reads.
IGNORED_ARGS = {"max_lora_rank"}


def compare_configuration(record: dict[str, Any]) -> str | None:
    """The first difference, or None."""
    asked, output = record["input"], record["output"]
    try:
        deployment = deployment_of(asked, record["vllm_version"], output.get("ignored_args", ()))
    except StartupError as error:
        return _compare_error(error, output.get("error"), "error")
    graph = asked.get("graph") or {}
    levels: dict[str, Any] = output.get("resolve", {})
    configured = _Replay(deployment, graph)
    settings = configured.settings()
    if isinstance(settings, CgplanError) or "error" in output:
        return _compare_error(settings if isinstance(settings, CgplanError) else None, output.get("error"), "error")
    return (
        _compare_settings(settings, output["config"], record["vllm_version"])
        or _compare_backend(configured, output.get("backend"))
        or _compare_levels(configured, levels, output["config"])
    )


def deployment_of(asked: dict[str, Any], release: str, ignored: Collection[str] = ()) -> Deployment:
    """The deployment that a record's input stands for."""
    device = {k: v for k, v in asked["device"].items() if k != "count"}
    args = {k: v for k, v in (asked.get("args") or {}).items() if k not in IGNORED_ARGS and k not in ignored}
    model, runner = _model(asked["model"])
    if runner is not None:
        args["runner"] = runner
    speculative = args.pop("speculative_config", None)
    if speculative is not None:
        if "model" in speculative:
            speculative = {**speculative, "model": _model(speculative["model"])[0]}
        args["speculative_config"] = SpeculativeOptions(**speculative)
    if "compilation_config" in args:
        args["compilation_config"] = CompilationOptions(**args["compilation_config"])
    graph = asked.get("graph") or {}
    return Deployment(
        vllm=release,
        gpu=Gpu(**device),
        gpus_per_node=asked["device"].get("count", 8),
        model=model,
        usage_context=asked.get("usage_context"),
        env=asked.get("env") or {},
        num_gpu_blocks=graph.get("kv_num_blocks"),
        **args,
    )


@cache
def _model(name: str) -> tuple[ModelShape, str | None]:
    entry = json.loads(MODELS.read_text(encoding="utf-8"))[name]
    runner = entry.get("runner")
    return shape_of(entry["config"], name=name, runner=runner or "auto"), runner


class _Replay:
    """Resolutions of one record, one a support level."""

    def __init__(self, deployment: Deployment, graph: dict[str, Any]) -> None:
        self.deployment = deployment
        self.graph = graph

    def at(self, level: str) -> Resolution | CgplanError:
        """The resolution at a support level; REAL chooses the backend."""
        overrides = Overrides(
            support=None if level == "REAL" else AttentionCGSupport[level],
            piecewise_available=self.graph.get("piecewise_capture_available"),
            varlen_decode=bool(self.graph.get("varlen_decode", False)),
            adaptive_mode=False,
            is_profiling=bool(self.graph.get("is_profiling", False)),
            target_groups_only=True,
            unavailable_backends=tuple(b for b, first in NOT_IMPORTABLE.items() if holds(self.deployment.vllm, first)),
            imported_before_env=True,
            drafter_always_has_graphs=True,
            runs_kernels=False,
        )
        try:
            return resolve(self.deployment, overrides)
        except CgplanError as error:
            return error

    def settings(self) -> dict[str, Any] | CgplanError:
        """The configuration before the backend is known; it is the same for all levels."""
        found = self.at("ALWAYS")
        if isinstance(found, Resolution):
            return found.config
        if isinstance(found, StartupError) and found.settings is not None:
            return found.settings
        return found


def _compare_error(error: CgplanError | None, expected: dict[str, str] | None, where: str) -> str | None:
    if isinstance(error, StartupError) and error.stage == "v2_runner_init":
        return None  # the records build no runner (docs/parity.md)
    if expected is None:
        return None if error is None else f"{where}: cgplan refuses ({error.code}: {error}), vLLM does not"
    if error is None:
        return f"{where}: vLLM refuses ({expected['message'][:120]}), cgplan does not"
    if not isinstance(error, StartupError):
        return f"{where}: {error.code} {error} is no StartupError; vLLM says {expected['message'][:120]}"
    for name, mine, theirs in (
        ("stage", error.stage, expected["stage"]),
        ("type", error.raised_as, expected["type"]),
    ):
        if mine != theirs:
            return f"{where}.{name}: {mine} ({error.code}), vLLM {theirs}: {expected['message'][:120]}"
    return reason_differs(error, expected["message"], where)


def _compare_settings(mine: dict[str, Any], expected: dict[str, Any], release: str) -> str | None:
    for key, theirs in expected.items():
        if key not in mine:
            return f"config.{key}: not in cgplan's answer"
        value = mine[key]
        if key == "block_size" and value is None:
            continue  # docs/parity.md
        if key == "splitting_ops":
            theirs = _spell_out(theirs, release)
        elif key == "compile_sizes":
            value, theirs = sorted(value), sorted(theirs)
        elif key == "pass_config":
            value = {name: value.get(name) for name in theirs}
        if value != theirs:
            return f"config.{key}: {_short(value)}, vLLM {_short(theirs)}"
    for key, value in mine.items():
        if value is not None and key not in expected:
            return f"config.{key}: {_short(value)}, vLLM None"
    return None


def _spell_out(ops: list[str] | None, release: str) -> list[str] | None:
    if ops is None:
        return None
    default = _attention_ops(release)
    return [op for item in ops for op in (default if item == "<attention_ops>" else [item])]


@cache
def _attention_ops(release: str) -> list[str]:
    splitting = resolve(Deployment(vllm=release)).config["splitting_ops"]
    return [op for op in splitting if not op.endswith("kv_cache_update")]


def _compare_backend(replay: _Replay, expected: dict[str, Any] | None) -> str | None:
    if expected is None:
        return None
    found = _Replay(replay.deployment.model_copy(update={"num_gpu_blocks": None}), {"is_profiling": True}).at("REAL")
    if "error" in expected:
        if isinstance(found, StartupError) and found.stage == "attn_backend_selection":
            return reason_differs(found, expected["error"]["message"], "backend.error")
        if isinstance(found, StartupError):
            return None  # refused for an earlier reason; compared with the levels
        return f"backend.error: cgplan {found!r}, vLLM {expected['error']['message'][:160]}"
    if isinstance(found, CgplanError):
        if isinstance(found, StartupError) and found.stage != "attn_backend_selection":
            return None  # refused for another reason; compared with the levels
        return f"backend: cgplan refuses ({found.code}: {found})"
    groups = [[group.name, group.support.name] for group in found.backend.groups]
    for name, mine, theirs in (
        ("groups", groups, expected["groups"]),
        ("min_support", found.backend.support.name, expected["min_support"]),
        ("min_backend", found.backend.weakest, expected["min_backend"]),
    ):
        if mine != theirs:
            return f"backend.{name}: {mine}, vLLM {theirs}"
    return None


def _compare_levels(replay: _Replay, levels: dict[str, Any], config: dict[str, Any]) -> str | None:
    for level, expected in levels.items():
        found = replay.at(level)
        where = f"resolve.{level}"
        full = dict(expected)
        same = full.pop("captures_same_as", None)
        if same is not None:
            full.update({k: levels[same][k] for k in ("captures", "dispatch", "drafter") if k in levels[same]})
        drafter_error = (full.get("drafter") or {}).get("error")
        if drafter_error is not None and drafter_error["stage"] == "v1_drafter":
            # The records build the V1 drafter's dispatcher after the downgrade, a server before it (docs/parity.md).
            del full["drafter"]
            drafter_error = None
        error = full.get("error") or drafter_error
        if isinstance(found, CgplanError) or error is not None:
            difference = _compare_error(found if isinstance(found, CgplanError) else None, error, f"{where}.error")
        else:
            difference = _compare_graphs(found, full, config, replay.graph, where)
        if difference is not None:
            return difference
    return None


def _compare_graphs(
    found: Resolution, expected: dict[str, Any], config: dict[str, Any], graph: dict[str, Any], where: str
) -> str | None:
    pairs: list[tuple[str, Any, Any]] = [
        ("mode", found.cudagraph_mode.value, expected["mode"]),
        (
            "capture_sizes",
            list(found.capture_sizes),
            expected.get("capture_sizes", config["cudagraph_capture_sizes"]),
        ),
        ("max_capture_size", found.max_capture_size, expected["max_capture_size"]),
    ]
    if "lora_capture_cases" in expected:
        cases = list(found.lora.cases) if found.lora is not None else [0]
        pairs.append(("lora_capture_cases", cases, expected["lora_capture_cases"]))
    if "captures" in expected:
        pairs.append(("captures", _captures(found.captures, found.runner), expected["captures"]))
    if "drafter" in expected:
        pairs.append(("drafter", _drafter(found), expected["drafter"]))
    for name, mine, theirs in pairs:
        if mine != theirs:
            return f"{where}.{name}: {_short(mine)}, vLLM {_short(theirs)}"
    for query, row in zip(graph.get("dispatch") or [], expected.get("dispatch") or [], strict=True):
        mine = _dispatch(found, query)
        if mine != row:
            return f"{where}.dispatch{query}: {mine}, vLLM {row}"
    return None


def _captures(captures: dict[CUDAGraphMode, tuple[Graph, ...]], runner: Runner) -> dict[str, Any]:
    order = (CUDAGraphMode.PIECEWISE, CUDAGraphMode.FULL)
    return {m.value: _fold([_row(g, runner) for g in captures[m]]) for m in order if m in captures}


def _drafter(found: Resolution) -> dict[str, Any]:
    drafter = found.drafter
    assert drafter is not None
    if found.runner is Runner.V1:
        return _captures(drafter.managers["cudagraph_dispatcher"], found.runner)
    managers = {name: _captures(captures, found.runner) for name, captures in drafter.managers.items()}
    return {"class": drafter.speculator, **managers}


def _row(graph: Graph, runner: Runner) -> list[Any]:
    if runner is Runner.V1:
        uniform = int(graph.uniform_query_len is not None)
        row: list[Any] = [
            graph.num_tokens,
            graph.num_reqs,
            uniform,
            int(graph.num_active_loras > 0),
            graph.num_active_loras,
        ]
        defaults: list[Any] = [None, None, 0, 0, 0]
    else:
        row, defaults = list(graph), [None, None, None, None, 0, 1]
    while len(row) > 1 and row[-1] == defaults[len(row) - 1]:
        row.pop()
    return row


def _fold(rows: list[list[Any]]) -> Any:
    """A long list as the records hold it: count, digest, head and tail."""
    if len(rows) <= LONGEST_LIST:
        return rows
    text = json.dumps(rows, separators=(",", ":"))
    digest = hashlib.sha1(text.encode()).hexdigest()
    return {"n": len(rows), "sha1": digest, "head": rows[:HEAD], "tail": rows[-TAIL:]}


def _dispatch(found: Resolution, query: list[Any]) -> list[Any]:
    tokens, reqs, longest, loras, *rest = query
    eligible = rest[0] if rest else True
    batch = Batch(tokens, reqs, longest, loras, not eligible)
    answer = found.dispatch_batch(batch)
    if found.runner is Runner.V1:
        uniform = int(batch.is_uniform and longest == found.uniform_decode_query_len)
        graph = answer.graph or Graph(answer.num_tokens)
        return [query[:4], uniform, answer.mode.value, _row(graph, found.runner)]
    may_be_uniform = eligible or found.habits.prefills_may_be_uniform
    count = longest if may_be_uniform and batch.is_uniform else None
    graph = answer.graph or Graph(tokens, reqs, num_active_loras=answer.num_active_loras)
    return [[tokens, reqs, longest, loras, eligible], count, answer.mode.value, _row(graph, found.runner)]


def _short(value: Any) -> str:
    text = re.sub(r"\s+", " ", repr(value))
    return text if len(text) <= 160 else text[:157] + "..."
