"""Which model runner serves the deployment, V1 or V2.

Source: vllm/config/vllm.py:730-767, 3053-3151, 3222-3337 @ 0.33.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from ..env_switches import int_switch
from ..errors import StartupError
from ..trace import Rule
from ..vocabulary import Runner
from .mode import uses_hisparse
from .runner_support import drafts_on_v2_only, v1_lacks, v2_lacks

if TYPE_CHECKING:
    from .engine import Engine

CHOICE = Rule(
    "CG609",
    title="Runner V2 serves every model from 0.29.0, listed ones from 0.22.1; V1 what V2 lacks, or what was forced.",
    why="V2 is the newer runner; a few features exist in one of the two only.",
    example="Suffix decoding: V1, with a warning.",
    instead="Set VLLM_USE_V2_MODEL_RUNNER to 0 or 1.",
    source="vllm/config/vllm.py:730-767",
)
UNSUPPORTED = Rule(
    "CG610",
    title="A runner that was chosen must support every feature asked for.",
    why="There is no falling back once the choice is forced.",
    example="VLLM_USE_V2_MODEL_RUNNER=0 with adaptive verification does not start.",
    instead="Unset VLLM_USE_V2_MODEL_RUNNER, or drop the feature.",
    source="vllm/config/vllm.py:3324-3337",
)

ASYNC_SCHEDULING = Rule(
    "CG802",
    title="Async scheduling is on unless the model pools or runner V1 has a feature that excludes it.",
    why="The next step is prepared while the GPU works; some V1 proposers need its result first.",
    example="n-gram drafts on runner V1: off, with a warning; --async-scheduling as well does not start.",
    instead="Use runner V2, or --no-async-scheduling.",
    source="vllm/config/vllm.py:1650-1730",
)


def forced_by_environment(engine: Engine) -> bool | None:
    """VLLM_USE_V2_MODEL_RUNNER: True, False, or None when it is not set.

    Raises:
        InputError: the variable is no number, which vLLM cannot read either.
    """
    return int_switch(engine.deployment.env, "VLLM_USE_V2_MODEL_RUNNER")


def choose(engine: Engine) -> Runner:
    """VllmConfig.use_v2_model_runner; evaluated anew whenever vLLM asks, since the mode counts."""
    return choose_with_reason(engine)[0]


def choose_with_reason(engine: Engine) -> tuple[Runner, str]:
    """The runner, and why it, for people."""
    d, facts = engine.deployment, engine.facts["runner"]
    if uses_hisparse(engine):
        if engine.v2_forced is False:
            _refuse(Runner.V1, "HiSparse")
        return Runner.V2, "HiSparse runs on runner V2 only."
    if engine.v2_forced is not None:
        forced = Runner.V2 if engine.v2_forced else Runner.V1
        return forced, f"VLLM_USE_V2_MODEL_RUNNER={d.env['VLLM_USE_V2_MODEL_RUNNER']} forces it."
    if facts["v2_default"] == "never":
        return Runner.V1, "Runner V2 is on trial in this release."
    if facts["v2_default"] == "listed":
        if _forces_v2(engine):
            return Runner.V2, "Only runner V2 has what was asked for."
        if not _is_listed(engine):
            return Runner.V1, "This release serves such models with runner V1."
    if d.gpu.platform == "rocm" and _stays_on_v1(engine):
        return Runner.V1, "This architecture stays on runner V1 on ROCm."
    if not d.software.triton:
        return Runner.V1, "Runner V2 needs Triton."
    lacks = v2_lacks(engine)
    if lacks:
        return Runner.V1, f"Runner V2 does not support {', '.join(lacks)}."
    return Runner.V2, "the default runner"


def _forces_v2(engine: Engine) -> bool:
    d, facts, speculation = engine.deployment, engine.facts["runner"], engine.speculation
    return (
        (facts["forces_prefill_context_parallel"] and d.prefill_context_parallel_size > 1)
        or (speculation is not None and speculation.method == "dspark")
        or (facts["forces_diffusion"] and d.model.is_diffusion)
        or drafts_on_v2_only(engine) is not None
    )


def _is_listed(engine: Engine) -> bool:
    """Whether a release that lists its V2 models lists this one."""
    model, facts = engine.deployment.model, engine.facts["runner"]
    if engine.runner_type != "generate":
        return False
    listed = any(name in facts["v2_architectures"] for name in model.architectures)
    if not facts["v2_dense"]:
        quantized = (engine.deployment.quantization or model.quantization) is not None
        return listed and not (facts["v2_plain_only"] and (model.is_moe or quantized))
    if model.is_attention_free or (model.is_hybrid and not (listed and facts["v2_listed_hybrids"])):
        return False
    return listed or not model.is_moe


def _stays_on_v1(engine: Engine) -> bool:
    names = engine.facts["runner"]["rocm_v1_architectures"]
    return any(name in names for name in engine.deployment.model.architectures) and not v1_lacks(engine)


def check(engine: Engine, runner: Runner) -> None:
    """Step 3.21, second half."""
    facts = engine.facts["runner"]
    if runner is Runner.V2:
        lacks = v2_lacks(engine) if facts["checks_v2"] else []
    else:
        lacks = v1_lacks(engine)
    if lacks:
        _refuse(runner, ", ".join(lacks))


def settle_async_scheduling(engine: Engine, runner: Runner) -> None:
    """Whether the scheduler runs ahead of the GPU."""
    d, facts = engine.deployment, engine.facts["async_scheduling"]
    if d.async_scheduling is False:
        engine.async_scheduling = False
    elif d.async_scheduling:
        obstacle = _async_obstacle(engine, runner, (*facts["methods"], *facts["named_methods"]))
        if (obstacle is not None and not obstacle.startswith("pipeline")) or (obstacle and facts["v1_only"]):
            raise StartupError(
                f"async scheduling does not work with {obstacle}",
                code=ASYNC_SCHEDULING.code,
                where="--async-scheduling",
                fix=ASYNC_SCHEDULING.instead,
            )
    elif engine.runner_type == "pooling" and facts["not_pooling"]:
        engine.async_scheduling = False
    else:
        obstacle = _async_obstacle(engine, runner, facts["methods"])
        if obstacle is not None:
            engine.set(ASYNC_SCHEDULING, "async_scheduling", False, f"Off: {obstacle}.")


def _async_obstacle(engine: Engine, runner: Runner, methods: Sequence[str]) -> str | None:
    facts, speculation = engine.facts["async_scheduling"], engine.speculation
    if facts["v1_only"] and runner is Runner.V2:
        return None
    if speculation is not None and speculation.method not in methods:
        return f"{speculation.method} drafts"
    if speculation is not None and speculation.options.disable_padded_drafter_batch:
        return "disable_padded_drafter_batch"
    stages = engine.deployment.pipeline_parallel_size
    if facts["pipeline_on_v1"] and stages > 1 and runner is Runner.V1:
        return "pipeline parallelism on runner V1"
    return None


def _refuse(runner: Runner, what: str) -> NoReturn:
    raise StartupError(
        f"runner {runner} does not support {what}",
        code=UNSUPPORTED.code,
        where="VLLM_USE_V2_MODEL_RUNNER",
        fix=UNSUPPORTED.instead,
    )
