"""Golden inputs: their fields changed, into a Deployment, and on through resolve and plan to the documents."""

from __future__ import annotations

import gzip
import json
import random
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from cgplan import AttentionCGSupport, Deployment, MemoryFlags, ModelShape, Overrides, plan, resolve
from cgplan.inputs.catalogue import catalogue_ids, load
from cgplan.inputs.hf_config import shape_of
from cgplan.memory.document import as_document as plan_document
from cgplan.releases import SUPPORTED
from cgplan.releases.gpus import gpu
from cgplan.resolve.document import as_document
from cgplan.sections import (
    AttentionOptions,
    CompilationOptions,
    Gpu,
    KVTransferOptions,
    PassOptions,
    Software,
    SpeculativeOptions,
)  # fmt: skip

from .documents import changed, odd
from .kind import Kind

FIXTURES = Path(__file__).parents[2] / "fixtures"
OF_A_FILE = 400
"""Records that are taken of each file of fixtures/golden."""
GPUS = ("h100", "h200", "a100", "b200", "l4", "t4", "gb200", "rtx-pro-6000")
SECTIONS = (Deployment, CompilationOptions, PassOptions, AttentionOptions, SpeculativeOptions, KVTransferOptions, Gpu,
            Software)  # fmt: skip
WORDS = (
    *dict.fromkeys(name for section in SECTIONS for name in section.model_fields),
    "FULL_AND_PIECEWISE", "FULL_DECODE_ONLY", "PIECEWISE", "NONE", "FULL", "VLLM_COMPILE", "STOCK_TORCH_COMPILE",
    "FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLASH_ATTN_MLA", "CUTLASS_MLA", "FLEX_ATTENTION", "fp8", "fp8_e5m2",
    "nvfp4", "bfloat16", "float32", "ngram", "eagle", "eagle3", "mtp", "draft_model", "medusa", "suffix", "mp", "ray",
    "external_launcher", "deepep_low_latency", "NixlConnector", "kv_both", "LMCacheConnectorV1", *SUPPORTED,
)  # fmt: skip


@cache
def shape(name: str) -> ModelShape:
    """The shape of a model of the golden records."""
    entry = json.loads((FIXTURES / "oracle_models.json").read_text(encoding="utf-8"))[name]
    return shape_of(entry["config"], name=name, runner=entry.get("runner") or "auto")


def inputs() -> list[dict[str, Any]]:
    """What golden records ask for, of every release."""
    found: list[dict[str, Any]] = []
    for path in sorted((FIXTURES / "golden").glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in islice(lines, OF_A_FILE):
                record = json.loads(line)
                found.append({"vllm": record["vllm_version"], **record["input"]})
    return found


class Deployments:
    """Fields of golden inputs, changed."""

    def __init__(self, folder: str) -> None:
        self.inputs = inputs()
        self.catalogue = [entry.model_id for entry in catalogue_ids() if entry.served]

    def make(self, dice: random.Random) -> dict[str, Any]:
        asked = dice.choice(self.inputs)
        device = {name: value for name, value in asked["device"].items() if name != "count"}
        fields: dict[str, Any] = {"vllm": asked["vllm"], "gpu": device, "env": asked.get("env") or {},
                                  "usage_context": asked.get("usage_context"), **(asked.get("args") or {})}  # fmt: skip
        if dice.random() < 0.9:
            fields = changed(dice, fields, WORDS)
        if dice.random() < 0.1:
            fields["vllm"] = dice.choice(SUPPORTED)
        if dice.random() < 0.3:
            fields["gpu"] = gpu(dice.choice(GPUS))
        if dice.random() < 0.05:
            fields["model"] = odd(dice, WORDS)
        elif dice.random() < 0.5:
            fields["model"] = shape(asked["model"])
        else:
            fields["model"] = load(dice.choice(self.catalogue))
        if isinstance(fields["model"], ModelShape) and dice.random() < 0.3:
            fields["model"] = changed(dice, fields["model"].model_dump(), WORDS)
        return fields

    def answer(self, given: dict[str, Any], dice: random.Random) -> Any:
        deployment = Deployment(**_with_sections(given, dice))
        return documents(deployment, dice)


def documents(deployment: Deployment, dice: random.Random) -> Any:
    """What resolve says of a deployment, and where it says something, what plan says."""
    overrides = Overrides()
    if dice.random() < 0.1:
        overrides = Overrides(support=dice.choice(tuple(AttentionCGSupport)))
    resolution = resolve(deployment, overrides)
    found = [as_document(resolution)]
    if dice.random() < 0.5 and deployment.model.weights is not None:
        flags = MemoryFlags(dice.choice((None, 0.9, 0.3, 0.05, 1.0, 1e-9)), dice.choice((None, None, None, 1, 10**10)))
        found.append(
            plan_document(plan(deployment, flags, auto_fit=dice.random() < 0.1 and not deployment.max_model_len))
        )
    return found


def _with_sections(given: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """The same; sections as mappings, or as the classes of the API."""
    found = dict(given)
    if dice.random() < 0.5:
        for name, section in (("compilation_config", CompilationOptions), ("speculative_config", SpeculativeOptions)):
            value = found.get(name)
            if isinstance(value, dict) and all(isinstance(key, str) for key in value):
                found[name] = section(**value)
    return {str(name): value for name, value in found.items()}


KIND = Kind("deployments", "golden inputs with changed fields, through Deployment, resolve and plan", 0.05, Deployments)
