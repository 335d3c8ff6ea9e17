"""A measured record beside the options of `cgplan plan`: what is taken from it, and what is to be known of it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from cgplan import Deployment, resolve
from cgplan.errors import InputError, shorten
from cgplan.memory.budget.measured import Measured
from cgplan.memory.budget.measured_record import Profile, check_fits, fingerprint_of, in_one_line, profile_of
from cgplan.memory.capacity_plan import CapacityPlan
from cgplan.memory.estimates import GIB
from cgplan.memory.request import MemoryRequest

FLAG = "--profile"
FIELDS = ("weights", "activation", "non_torch", "graphs", "graph_estimate", "free", "total")
SCALED = (
    "Profile: the record is of the other deployment. Where the prediction is the same its values hold, elsewhere the "
    "prediction is as many times larger or smaller as they were."
)
OF_GIVEN_GPU = "Profile: the record's GPU memory is left out, as --gpu-memory-bytes says another."


class Known(NamedTuple):
    """What is known, of which deployment (None: the one that is asked about), and what is to be said of it."""

    measured: Measured
    of: Deployment | None
    remarks: tuple[str, ...]


def read(name: str) -> Profile:
    """The record in a file, or on stdin where it is named -.

    Raises:
        InputError: CG910, CG911, CG914: there is none.
    """
    from cgplan.inputs.safe_json import shown

    from .record_file import read_record

    try:
        document = read_record(name)
    except InputError as error:
        error.fix = "give a measured record, a JSON file in the form that `cgplan schema profile` prints"
        raise
    return profile_of(document, FLAG, "stdin" if name == "-" else shown(name))


def known_by(
    record: Profile, deployment: Deployment, given: Measured, *, memory_given: bool, first: MemoryRequest | None = None
) -> Known:
    """The values of the record, with those of the options over them.

    Args:
        given: by options.
        memory_given: --gpu-memory-bytes was, and speaks for the GPU.
        first: of the deployment that this one is compared with, which the record may be of instead.

    Raises:
        InputError: CG907, the record is of another deployment.
    """
    resolution = resolve(deployment)
    try:
        check_fits(record, deployment, resolution, FLAG)
    except InputError:
        if first is None:
            raise
        return Known(first.known, first.known_of, (SCALED,))
    remarks = []
    said = record.fingerprint.model_dump(exclude_none=True)
    missing = [key for key in fingerprint_of(deployment, resolution) if key not in said]
    if missing:
        remarks.append(f"Profile: its fingerprint does not say {', '.join(missing)}; they are taken to be the same.")
    crash = (record.profile or {}).get("crash")
    if isinstance(crash, dict):
        why = in_one_line(shorten(str(crash.get("what", "")), 160))
        remarks.append(f"Profile: the start it is of crashed ({why}), so this plan may not start either.")
    measured = record.as_measured()
    if memory_given and (measured.total is not None or measured.free is not None):
        measured = replace(measured, total=None, free=None)
        remarks.append(OF_GIVEN_GPU)
    over = {name: value for name in FIELDS if (value := getattr(given, name)) is not None}
    apart = tuple((name, given.source) for name in over)
    return Known(replace(measured, **over, apart=apart), None, tuple(remarks))


def held_against(record: Profile, made: CapacityPlan) -> tuple[str, ...]:
    """A record whose KV cache is not within the plan's bounds may be of other options than its fingerprint says."""
    had, flags, known = record.kv_cache_bytes, made.request.flags, made.request.known
    if had is None or made.budget is None or known.graph_estimate is None or known.apart:
        return ()
    if flags.utilization is not None or flags.kv_cache_bytes or flags.reserve_bytes:
        return ()
    cache = made.budget.tightest.kv_cache
    if cache.low <= had <= cache.high:
        return ()
    return (
        f"Profile: vLLM had {had / GIB:.2f} GiB for its KV cache when the record was made; this plan says"
        f" {cache.low / GIB:.2f} to {cache.high / GIB:.2f}, so it may be of other options than its fingerprint says,"
        " or of another share of the GPU.",
    )
