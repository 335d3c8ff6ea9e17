"""--quantization beside a checkpoint that is quantised already.

Source: vllm/config/model.py, ModelConfig._verify_quantization, and the classes' override_quantization_method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import StartupError
from ..trace import Rule

if TYPE_CHECKING:
    from .engine import Engine

OTHER_METHOD = Rule(
    "CG141",
    title="--quantization is not the method of the checkpoint.",
    why="The weights are stored by one method; vLLM refuses to read them by another.",
    example="--quantization awq with a checkpoint of compressed-tensors does not start.",
    instead="Leave --quantization out: the checkpoint says what it is.",
    source="vllm/config/model.py:1452-1462",
)
PASSED_OVER = Rule(
    "CG142",
    title="A checkpoint of ModelOpt decides its method; --quantization is passed over.",
    why="ModelOpt's classes claim such a checkpoint whatever the user says, and vLLM says nothing.",
    example="--quantization compressed-tensors with an NVFP4 checkpoint of ModelOpt: modelopt_fp4 counts.",
    instead="Leave --quantization out.",
    source="vllm/model_executor/layers/quantization/modelopt.py:453-459",
)
NOT_STORED = Rule(
    "CG143",
    title="--quantization awq, gptq and the like need a checkpoint that is stored so.",
    why="They read the quantisation from the checkpoint's files and quantise nothing; where none says it, vLLM ends"
    " while it loads.",
    example="--quantization awq with Qwen/Qwen3-8B: there is no configuration of AWQ.",
    instead="Name the quantised checkpoint, or a method that quantises while it loads: fp8. Of a checkpoint that is not"
    " known here, --weights-bytes tells `plan` how large the weights of a GPU are.",
    source="vllm/model_executor/model_loader/weight_utils.py:197-400",
)

_AWQ = frozenset(("awq", "awq_marlin", "auto_awq"))
_GPTQ = frozenset(("gptq", "gptq_marlin", "auto_gptq"))
_STORED = {"auto_awq": _AWQ, "auto_gptq": _GPTQ, "compressed-tensors": {"compressed-tensors"}, "fp8": {"fp8"}}
"""Methods of checkpoints, and the names that they take. Others are left alone: classes claim some of them."""
_ASKED = _AWQ | _GPTQ | {"compressed-tensors", "fp8", "modelopt", "modelopt_fp4", "bitsandbytes"}
"""Methods that read a checkpoint of their own and no other."""
_WHILE_LOADING = frozenset(("fp8", "bitsandbytes"))
"""Of them, those that quantise a plain checkpoint."""
MODELOPT = "modelopt"


def check(engine: Engine) -> None:
    """Refuse a method that is not the checkpoint's; note one that is passed over."""
    asked, stored = engine.deployment.quantization, engine.deployment.model.quantization
    if asked is None or asked not in _ASKED:
        return
    if stored is None:
        _check_plain(engine, asked)
        return
    if stored in _STORED and asked not in _STORED[stored]:
        raise StartupError(
            f"--quantization {asked} does not match the checkpoint, which is stored as {stored}",
            code=OTHER_METHOD.code,
            raised_in="ModelConfig",
            where="--quantization",
            fix="leave --quantization out",
        )
    if stored.startswith(MODELOPT) and not asked.startswith(MODELOPT):
        engine.trace.find(
            PASSED_OVER,
            "warning",
            f"--quantization {asked} is passed over: the checkpoint's method, {stored}, counts",
            fix="leave --quantization out",
            where="--quantization",
        )


def _check_plain(engine: Engine, asked: str) -> None:
    """Note a method that reads a quantised checkpoint, where this one's configuration speaks of none."""
    weights = engine.deployment.model.weights
    if asked in _WHILE_LOADING or weights is None or weights.schemes:
        return
    engine.trace.find(
        NOT_STORED,
        "error",
        f"--quantization {asked} reads a checkpoint that is stored so, and this configuration speaks of no"
        " quantisation: vLLM will not load it; the weights count as they are stored",
        fix="leave --quantization out, or name the quantised checkpoint; of one that is not known here `cgplan plan"
        " --weights-bytes N` takes the weights of a GPU as they are stored",
        where="--quantization",
    )
