"""The models that records name: their configurations, and what vLLM would only learn by building their layers.

Standard library only: the module is also imported by the process that runs vLLM.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

CONFIGS = Path(__file__).parent.parent.parent / "fixtures" / "oracle_models.json"


@dataclass(frozen=True)
class Layers:
    """Layer kinds that the choice of the attention backends depends on.

    Attributes:
        mamba: name of the Mamba backend that the model's recurrent layers ask for, or None.
        attention: the model has attention layers.
        encoder_only: its attention looks both ways.
        sliding_window: some attention layers have a window.
    """

    mamba: str | None = None
    attention: bool = True
    encoder_only: bool = False
    sliding_window: bool = False


LAYERS = {
    "bamba": Layers(mamba="MAMBA2"),
    "jamba": Layers(mamba="MAMBA1"),
    "mamba2": Layers(mamba="MAMBA2", attention=False),
    "qwen3_next": Layers(mamba="GDN_ATTN"),
    "nemotron_h": Layers(mamba="MAMBA2"),
    "bert": Layers(encoder_only=True),
    "gemma2": Layers(sliding_window=True),
    "gemma3_text": Layers(sliding_window=True),
}


def layers(name: str) -> Layers:
    """The layer kinds of the model called `name`; a plain decoder unless LAYERS says otherwise."""
    return LAYERS.get(name, Layers())


@cache
def entries() -> dict[str, dict[str, Any]]:
    """Every model: its Hugging Face configuration, and the runner to ask vLLM for."""
    found: dict[str, dict[str, Any]] = json.loads(CONFIGS.read_text(encoding="utf-8"))
    return found


def write(folder: Path) -> None:
    """A folder for each model, holding its config.json, as vLLM reads a local model."""
    for name, entry in entries().items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        target = folder / name / "config.json"
        text = json.dumps(entry["config"], sort_keys=True)
        if target.exists() and target.read_text(encoding="utf-8") == text:
            continue
        # Two runs may share the folder: one must never read half of what the other writes.
        half = target.with_suffix(f".{os.getpid()}")
        half.write_text(text, encoding="utf-8")
        half.replace(target)
