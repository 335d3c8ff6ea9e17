"""Headers of safetensors files: changed, cut and overgrown, alone and as a folder with an index."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

from cgplan import Deployment, load_model
from cgplan.inputs.safetensors_headers import read_tensors
from cgplan.memory.budget.tensors import weights_of
from cgplan.releases.gpus import gpu

from .documents import as_text, changed
from .kind import Kind

NAMES = ("model.embed_tokens.weight", "lm_head.weight", "model.norm.weight", "model.layers.0.self_attn.q_proj.weight",
         "model.layers.0.mlp.down_proj.weight", "model.layers.35.mlp.experts.3.w1.weight",
         "model.layers.99999999999999999999.mlp.up_proj.weight", "visual.blocks.0.attn.qkv.weight", "",
         "a" * 9000)  # fmt: skip
DTYPES = ("BF16", "F32", "U8", "F4", "I64", "F8_E4M3", "X", "", None, 3)


class Headers:
    """One to three files in a folder, half of them with an index."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder) / "weights"
        self.deployments = [
            Deployment(
                model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"), tensor_parallel_size=tp, pipeline_parallel_size=pp
            )
            for tp, pp in ((1, 1), (8, 1), (1, 2))
        ]

    def make(self, dice: random.Random) -> Path:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        count = dice.randint(1, 3)
        names = [f"model-{at:05}-of-{count:05}.safetensors" for at in range(1, count + 1)]
        index: dict[str, Any] = {}
        for name in names:
            header = self._header(dice)
            index.update(dict.fromkeys(header, name) if isinstance(header, dict) else {})
            (self.folder / name).write_bytes(_file(dice, header))
        if dice.random() < 0.5:
            document = {"metadata": {}, "weight_map": index}
            if dice.random() < 0.6:
                document = changed(dice, document, (*NAMES, *names, "weight_map", "../x.safetensors"))
            (self.folder / "model.safetensors.index.json").write_text(as_text(document), encoding="utf-8")
        if dice.random() < 0.1:
            (self.folder / names[0]).unlink()
        return self.folder if dice.random() < 0.8 else self.folder / dice.choice(names)

    def _header(self, dice: random.Random) -> Any:
        found: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        at = 0
        for name in dice.sample(NAMES, dice.randint(1, 5)):
            shape = [dice.choice((0, 1, 3, 64)) for _ in range(dice.randint(0, 3))]
            size = 2
            for number in shape:
                size *= number
            found[name] = {"dtype": dice.choice(DTYPES) if dice.random() < 0.1 else "BF16", "shape": shape,
                           "data_offsets": [at, at + size]}  # fmt: skip
            at += size
        return changed(dice, found, NAMES) if dice.random() < 0.4 else found

    def answer(self, given: Path, dice: random.Random) -> Any:
        found = read_tensors(given)
        return repr(weights_of(dice.choice(self.deployments), found, "headers"))


def _file(dice: random.Random, header: Any) -> bytes:
    text = as_text(header)
    data = text.encode("utf-8", "surrogatepass") if dice.random() < 0.95 else json.dumps(text).encode()
    length = (
        len(data)
        if dice.random() < 0.85
        else dice.choice((0, 1, len(data) - 1, len(data) + 1, 2**20, 2**63, 2**64 - 1))
    )
    whole = length.to_bytes(8, "little") + data + bytes(600_000 if dice.random() < 0.7 else 10)
    return whole[: dice.randrange(len(whole))] if dice.random() < 0.08 else whole


KIND = Kind(
    "tensors", "headers and indices of safetensors files, through the reader and the weights", 0.05, Headers, False
)
