"""Models that pick an attention class themselves: whether its kernels run on the GPU, which nothing asks before."""

from __future__ import annotations

from collections.abc import Iterator

from ...deployment import Deployment
from ...errors import StartupError
from ...releases import canonical
from ...trace import Rule
from . import BackendChoice
from .facts import Backend, catalogue

NO_KERNELS = Rule(
    code="CG336",
    title="A model that picks its attention class itself does not start on a GPU without that class's kernels.",
    why="vLLM's selector, which asks for the compute capability, is not used. The first forward pass ends the start: "
    "the profile run calls DeepGEMM for the FP8 output projection, capture and requests call the sparse kernels. "
    "Step5's layers ask when they are built.",
    example="DeepSeek V4 on an L40S or A100: its sparse MLA backends need compute capability 9.x, 10.x or 12.x.",
    instead="Use a GPU that the class has kernels for: H100, H200, B200, or from 0.24.0 on compute capability 12.x.",
    source="vllm/models/deepseek_v4/nvidia/model.py:538-568, nvidia/ops/o_proj.py:83-95, sparse_mla.py:95-96, "
    "vllm/models/step5/nvidia/sparse_attention.py:291-297, vllm/platforms/cuda.py:691-697",
    since="0.20.2",
)


REFUSE_WHEN_BUILT = ("STEP5_DSA",)
"""Backends whose layers ask for the compute capability when they are built; the others' kernels fail when they run."""


def check_own_attention(deployment: Deployment, choice: BackendChoice) -> None:
    """The attention class that a model picked has kernels for the GPU.

    Raises:
        StartupError: CG336.
    """
    capability = deployment.gpu.capability
    backend = next((one for one in own_backends(deployment, choice) if not one.runs_on(capability)), None)
    if backend is None:
        return
    major, minor = capability
    runs = backend.enum not in REFUSE_WHEN_BUILT
    raise StartupError(
        f"{deployment.model.architecture} takes {backend.enum}, which has no kernels for compute capability "
        f"{major}.{minor}: it needs {backend.capability_text}",
        code=NO_KERNELS.code,
        stage="profile_run" if runs else "load_model",
        raised_as="RuntimeError" if runs else "NotImplementedError",
        raised_in="the first forward pass" if runs else "the model's attention",
        where="--attention-backend",
        fix=f"use a GPU of compute capability {backend.capability_text}",
    )


def own_backends(deployment: Deployment, choice: BackendChoice) -> Iterator[Backend]:
    """The backends that the model picked itself for its layers; none: the selector chose, as for most models."""
    facts = catalogue(canonical(deployment.vllm))
    own = facts.models.get(deployment.model.architecture)
    if own is None or deployment.gpu.platform != "cuda":
        return
    names = [choice.name] if own.attention else []
    for name in (*names, *(name for _, name, _, _ in own.extra)):
        found = facts.own.get(name) or facts.backends.get(name)
        if found is not None:
            yield found
