"""config.json and what stands beside it: published and golden ones, changed, as values and as folders."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

from cgplan import Deployment, MemoryFlags, plan, resolve
from cgplan.inputs.catalogue import _catalogue, _config, load_model
from cgplan.inputs.hf_config import shape_of
from cgplan.memory.document import as_document as plan_document
from cgplan.releases import SUPPORTED
from cgplan.releases.gpus import gpu
from cgplan.resolve.document import as_document

from .deployments import FIXTURES, GPUS
from .documents import as_text, changed
from .kind import Kind
from .texts import mutated

BESIDE = ("hf_quant_config.json", "generation_config.json", "params.json", "sentence_bert_config.json", "modules.json",
          "quantize_config.json", "tokenizer_config.json", "config_sentence_transformers.json")  # fmt: skip
WORDS = ("LlamaForCausalLM", "Qwen3ForCausalLM", "DeepseekV3ForCausalLM", "BertModel", "NemotronHForCausalLM",
         "Qwen3NextForCausalLM", "MambaForCausalLM", "WhisperForConditionalGeneration", "full_attention",
         "sliding_attention", "linear_attention", "mamba", "fp8", "awq", "gptq", "compressed-tensors", "modelopt",
         "bitsandbytes", "yarn", "llama3", "dynamic", "longrope", "text_config", "vision_config", "quantization_config",
         "rope_scaling", "rope_parameters", "layer_types", "num_key_value_heads", "head_dim", "kv_lora_rank",
         "sliding_window", "n_routed_experts", "num_experts", "hybrid_override_pattern",
         "num_nextn_predict_layers")  # fmt: skip


class Models:
    """Changed configurations; one in twelve as a folder on disk."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder) / "model"
        golden = json.loads((FIXTURES / "oracle_models.json").read_text(encoding="utf-8"))
        self.configs = [one["config"] for one in golden.values()] + [_config(one) for one in _catalogue().values()]

    def make(self, dice: random.Random) -> dict[str, Any] | Path:
        config = changed(dice, dice.choice(self.configs), WORDS)
        if dice.random() >= 1 / 12:
            return config if isinstance(config, dict) else {"config": config}
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        text = as_text(config)
        if dice.random() < 0.5:
            text = mutated(dice, text, [text])
        (self.folder / "config.json").write_bytes(text.encode("utf-8", "surrogatepass"))
        for name in dice.sample(BESIDE, 2):
            beside = changed(dice, dice.choice((config, {"quantization": {"quant_algo": "FP8"}}, [])), WORDS)
            (self.folder / name).write_text(as_text(beside), encoding="utf-8")
        return self.folder

    def answer(self, given: dict[str, Any] | Path, dice: random.Random) -> Any:
        runner: Any = dice.choice(("auto", "auto", "auto", "generate", "pooling", "draft"))
        if isinstance(given, Path):
            made = load_model(str(given), runner=runner)
        else:
            made = shape_of(given, name=dice.choice(("m", "org/m", None)), runner=runner)
        deployment = Deployment(
            model=made,
            runner=runner,
            vllm=dice.choice(SUPPORTED),
            gpu=gpu(dice.choice(GPUS)),
            tensor_parallel_size=dice.choice((1, 1, 2, 3, 8)),
            max_model_len=dice.choice((None, 4096)),
        )
        found = [as_document(resolve(deployment))]
        if dice.random() < 0.7:
            found.append(plan_document(plan(deployment, MemoryFlags(dice.choice((None, 0.5))))))
        return found


KIND = Kind("models", "config.json with changed keys, as values and folders, through the shape, resolve and plan", 0.02,
            Models)  # fmt: skip
