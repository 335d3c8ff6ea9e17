"""The files beside config.json that change what vLLM says of a model.

Follows vllm/transformers_utils/config.py:925-935 and 968-1123 at 0.33.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..light_dataclass import dataclass
from .hf_node import MAX_INT, checked_int
from .safe_json import exists, read_list, read_object

_POOLING_MODULES = (
    "sentence_transformers.models.Pooling",
    "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
)
_ENCODERS = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")


@dataclass(frozen=True)
class Sidecars:
    """What stands beside config.json in the model's directory.

    Attributes:
        sentence_transformer: there is a modules.json, so `--runner auto` gives pooling.
        pooling_type: of its pooling module: MEAN, CLS or LAST; None where it says nothing.
        encoder_length: max_seq_length of its encoder, tokens, or None.
        tokenizer_length: model_max_length of the tokenizer, tokens, or None.
        quantization_config: of hf_quant_config.json (ModelOpt), or None.
    """

    sentence_transformer: bool = False
    pooling_type: str | None = None
    encoder_length: int | None = None
    tokenizer_length: int | None = None
    quantization_config: Mapping[str, Any] | None = None


def read_sidecars(folder: Path) -> Sidecars:
    """What stands in the model's `folder`.

    Raises:
        InputError: CG910, CG911, CG912 or CG914 of one of the files.
    """
    quantization = folder / "hf_quant_config.json"
    modules = folder / "modules.json"
    pooling = _pooling_module(modules) if exists(modules) else None
    return Sidecars(
        sentence_transformer=exists(modules) and pooling is not None,
        pooling_type=_pooling_type(folder, pooling) if pooling is not None else None,
        encoder_length=_encoder_length(folder),
        tokenizer_length=_length(folder / "tokenizer_config.json", "model_max_length"),
        quantization_config=read_object(quantization) if exists(quantization) else None,
    )


def _length(file: Path, key: str) -> int | None:
    if not exists(file):
        return None
    value = read_object(file).get(key)
    # Tokenizers write 1e30 for "no limit".
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > MAX_INT:
        return None
    return checked_int(value, f"{file.name}: {key}", low=1)


def _encoder_length(folder: Path) -> int | None:
    for encoder in _ENCODERS:
        length = _length(folder / f"sentence_{encoder}_config.json", "max_seq_length")
        if length is not None:
            return length
    return None


def _pooling_module(modules: Path) -> Mapping[str, Any] | None:
    for module in read_list(modules):
        if isinstance(module, dict) and module.get("type") in _POOLING_MODULES:
            return module
    return None


def _pooling_type(folder: Path, module: Mapping[str, Any]) -> str | None:
    """How the pooling module pools a sequence; its folder must lie directly in the model's."""
    path = module.get("path")
    if not isinstance(path, str) or not path or path in (".", "..") or "/" in path or "\\" in path:
        return None
    file = folder / path / "config.json"
    if not exists(file):
        return None
    found = None
    for key, value in read_object(file).items():
        mode = value if key == "pooling_mode" and isinstance(value, str) else key if value is True else ""
        name = mode.replace("pooling_mode_", "").split("_")[0]
        name = "LAST" if "lasttoken" in name else name.upper()
        if name in ("CLS", "LAST", "MEAN"):
            found = name
    return found
