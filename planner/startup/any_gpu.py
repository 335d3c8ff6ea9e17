"""What holds of a start on whatever GPU it ran, where none is named: the KV cache of the log is enough for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..deployment import Deployment
from ..errors import CgplanError
from ..inputs.launches.asked import Context
from ..memory.capacity_plan import capacity_in
from ..memory.kv.capacity import KVCacheTooSmall
from ..memory.limits import constraints
from ..releases import SUPPORTED
from ..releases.gpus import gpu
from ..resolve import Resolution, resolve
from ..trace import Finding
from .deployment import Served, served
from .known import GIB, release_of
from .record import Start
from .siblings import cause
from .stages import kv_bytes_by_stage

STAND_INS = ("l40s", "h100")
"""GPUs of the two kinds by which vLLM's defaults differ, the lower first."""
LITTLE = 256 << 20
ROUNDED = 0.01
"""GiB by which a printed figure may differ from a planned one; of large ones a share."""


def planned(start: Start, context: Context) -> list[tuple[Served, Resolution]]:
    """The deployment of `start` on each of STAND_INS; []: the model is not known, or it cannot be resolved."""
    release = context.release or release_of(start) or SUPPORTED[-1]
    try:
        found = [served(start, context._replace(gpu=gpu(name), release=release)) for name in STAND_INS]
        return [(one, resolve(one.deployment)) for one in found if one.deployment is not None]
    except CgplanError:
        return []


def sizes_of(start: Start, deployment: Deployment) -> list[int] | None:
    """The KV cache of each pipeline stage, by the ranks or, where no rank says it, by the error; None: not known."""
    sizes = kv_bytes_by_stage(start, deployment)
    if sizes is not None or start.crash is None:
        return sizes
    said = cause(start, start.crash)[1].get("available_bytes")
    return [said] * deployment.pipeline_parallel_size if isinstance(said, int) and said > 0 else None


def broken(start: Start, plans: list[tuple[Served, Resolution]]) -> list[Finding]:
    """Constraints that do not hold in the KV cache of the log on any of the GPUs."""
    by_gpu: list[dict[str, Finding]] = []
    for known, resolution in plans:
        assert known.deployment is not None
        sizes = sizes_of(start, known.deployment)
        if sizes is None:
            return []
        try:
            found = constraints(known.deployment, resolution, sizes, known.auto_fit).broken
        except CgplanError:
            return []
        by_gpu.append({one.code: one for one in found})
    if not by_gpu:
        return []
    return [one for code, one in by_gpu[0].items() if all(code in other for other in by_gpu)]


class Charged(NamedTuple):
    """That a need is the one with the hybrid KV cache manager off, in words, and what to do."""

    text: str
    fix: str


def charged_in_full(
    deployment: Deployment, length: int, needed: int, plugin: str | None = None, available: int | None = None
) -> Charged | None:
    """That the need of the message is the one with the hybrid KV cache manager off; None: it is not, or the model's
    layers all take the same.

    Args:
        length, needed: tokens and bytes of the message.
        plugin: the platform's, whose rules may switch it off.
        available: bytes that are there, by the message.
    """
    switched_off, switched_on = (_refusal(deployment, length, off) for off in (True, False))
    if switched_off is None or switched_on is None:
        return None
    off, on = switched_off.needed_bytes, switched_on.needed_bytes
    if on > 0.9 * off or abs(off - needed) > max(ROUNDED * GIB, 0.002 * off):
        return None
    own = [*_switches(deployment), *([f"the rules of {plugin}"] if plugin is not None else [])]
    why = ", ".join(own) or "--disable-hybrid-kv-cache-manager, a KV connector or a platform's plugin"
    text = (
        f"{needed / GIB:.2f} GiB is what a request takes where layers with a window are charged at the full length: the"
        f" hybrid KV cache manager is off, and with it on {on / GIB:.2f} GiB are needed"
    )
    fix = "leave out what switches it off, or a --max-model-len that fits"
    if available is not None and on > available:
        fits = _refusal(deployment, length, False, available)
        longest = fits.estimated_max_model_len if fits is not None else 0
        text += f", which is more than the {available / GIB:.2f} as well"
        fix = "leave out what switches it off"
        fix += f", with --max-model-len {longest} or less" if longest else " and a shorter --max-model-len"
    return Charged(f"{text}. What switches it off: {why}", fix)


def _switches(deployment: Deployment) -> Iterator[str]:
    """What of the deployment switches the manager off."""
    if deployment.disable_hybrid_kv_cache_manager:
        yield "--disable-hybrid-kv-cache-manager"
    if deployment.kv_transfer_config is not None and deployment.kv_transfer_config.kv_connector is not None:
        yield f"the KV connector {deployment.kv_transfer_config.kv_connector}"


def _refusal(deployment: Deployment, length: int, off: bool, available: int = LITTLE) -> KVCacheTooSmall | None:
    """vLLM's refusal of a request of that length with the manager off or on; None: it is none, or not known."""
    try:
        other = deployment.model_copy(update={"max_model_len": length, "disable_hybrid_kv_cache_manager": off})
        refusal = capacity_in(other, resolve(other), [available] * other.pipeline_parallel_size).refusal
    except CgplanError:
        return None
    return refusal if isinstance(refusal, KVCacheTooSmall) else None
