"""`--what-if FLAG=VALUES`: one option of a deployment over several values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Any, get_type_hints

from cgplan import Deployment
from cgplan.errors import CgplanError, InputError, did_you_mean, shorten
from cgplan.memory.capacity_plan import CapacityPlan
from cgplan.memory.request import MemoryRequest, check_sizes
from cgplan.memory.what_if import Variant, outcome, outcomes
from cgplan.report.plan_text import WhatIf

from . import machine, settings, values
from .options import DeploymentOptions
from .quantities import share, size
from .streams import say

FLAG = "--what-if"
AS_GIVEN = "as given"
"""What the row of the deployment without the change is called."""
MOST_VALUES = 10_000
OF_MEMORY = ("gpu_memory_utilization", "kv_cache_memory_bytes", "kv_bytes")
SPEC_TOKENS = "spec_tokens"
NOT_VARIED = ("model_tag", "env", "software", "assume_release", "gpu_memory_bytes", "gpus_per_node")
SWITCHES = ("true", "false")

_NUMBER = r"([0-9]{1,18}(?:\.[0-9]{1,9})?)"
_RANGE = re.compile(rf"{_NUMBER}\.\.{_NUMBER}(?::{_NUMBER})?")
_SHORT = {"tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "dp": "data_parallel_size"}


def what_if(made: CapacityPlan, text: str) -> WhatIf:
    """What becomes of each value.

    Raises:
        InputError: the option is not known, or no value can be read. One among others that cannot be read, or that vLLM
            refuses, is an outcome.
    """
    name, equals, listed = text.partition("=")
    option = name.strip().lstrip("-").replace("-", "_").casefold()
    option = _SHORT.get(option, option)
    if not equals or not listed.strip():
        raise InputError(
            f"{shorten(text, 40)!r} is no FLAG=VALUES",
            code="CG906",
            where=FLAG,
            fix=f"write {FLAG} max-num-seqs=64,128",
        )
    _check_known(option, name)
    if option == SPEC_TOKENS and made.deployment.speculative_config is None:
        raise InputError(
            "there are no drafts whose number could be varied: no method of speculative decoding is given",
            code="CG905",
            where=FLAG,
            fix="add the method, as in `--spec-method mtp --what-if spec-tokens=0,1,2`; 0 is without drafts",
        )
    variants = [_variant(made, option, value) for value in _values(listed)]
    problems = [one.problem for one in variants if isinstance(one.problem, InputError)]
    if len(problems) == len(variants):
        raise problems[0]
    base = outcome(Variant(AS_GIVEN, made.deployment, made.request))
    return WhatIf("--" + option.replace("_", "-"), outcomes(variants), base)


def _check_known(option: str, name: str) -> None:
    known = [*OF_MEMORY, *(field for field in _hints() if field not in NOT_VARIED)]
    if option not in known:
        flags = [field.replace("_", "-") for field in known]
        raise InputError(
            f"{shorten(name.strip(), 40)!r} cannot be varied",
            code="CG902",
            where=FLAG,
            fix=did_you_mean(option.replace("_", "-"), flags)
            or "name an option of `cgplan plan --help`, for example max-num-seqs",
        )


def _values(listed: str) -> list[str]:
    """Values apart by commas, or by semicolons where a value holds commas; A..B:STEP is a range, of decimals, too."""
    parts = listed.split(";" if ";" in listed else ",")
    found: list[str] = []
    for part in parts:
        found += _ranged(part.strip())
        if len(found) > MOST_VALUES:
            raise InputError(f"more than {MOST_VALUES} values", code="CG914", where=FLAG, fix="give fewer")
    return list(dict.fromkeys(found))


def _ranged(text: str) -> Iterator[str]:
    found = _RANGE.fullmatch(text)
    if found is None:
        if not text:
            raise InputError("a value is missing", code="CG906", where=FLAG, fix="write values apart by one comma")
        yield text
        return
    first, last, step = (Decimal(part) if part is not None else Decimal(1) for part in found.groups())
    is_whole = all("." not in (part or "") for part in found.groups())
    if not step or last < first or (not is_whole and found[3] is None):
        fix = "write 64..512:64, or 0.90..0.98:0.02"
        raise InputError(f"{shorten(text, 40)} is no range", code="CG906", where=FLAG, fix=fix)
    if (last - first) // step >= MOST_VALUES:
        raise InputError(f"more than {MOST_VALUES} values", code="CG914", where=FLAG, fix="give a larger step")
    yield from (str(first + step * number) for number in range(int((last - first) // step) + 1))


def _variant(made: CapacityPlan, option: str, value: str) -> Variant:
    """The deployment with one value, or why there is none."""
    try:
        return _read(made, option, value)
    except CgplanError as error:
        if isinstance(error, InputError):
            error.where = FLAG
        return Variant(value, None, made.request, error)


def _read(made: CapacityPlan, option: str, value: str) -> Variant:
    request = made.request
    if option in OF_MEMORY:
        request = _with_memory(request, option, value)
        check_sizes(made.deployment, request)
        return Variant(value, made.deployment, request)
    if option == SPEC_TOKENS and value == "0":
        return Variant(value, made.deployment.model_copy(update={"speculative_config": None}), request)
    if option == "max_model_len":
        is_auto = value.lower() in ("auto", "-1")
        request = replace(request, auto_fit=is_auto)
        if is_auto:
            return Variant(value, made.deployment.model_copy(update={"max_model_len": None}), request)
    return Variant(value, _changed(made.deployment, _fields(option, value)), request)


def _with_memory(request: MemoryRequest, option: str, value: str) -> MemoryRequest:
    if option == "gpu_memory_utilization":
        return replace(request, flags=replace(request.flags, utilization=share(value, FLAG)))
    if option == "kv_bytes":
        return replace(request, kv_bytes=size(value, FLAG))
    return replace(request, flags=replace(request.flags, kv_cache_bytes=size(value, FLAG)))


def _fields(option: str, value: str) -> dict[str, Any]:
    """Fields of a Deployment that the option sets."""
    options = DeploymentOptions()
    if option == "model":
        return {"model": settings.shape(value, FLAG)}
    if option == "vllm":
        known, said = values.release_and_note(value, FLAG)
        if said is not None:
            say(said)
        return {"vllm": known}
    hint = _hints()[option]
    if "bool" in hint:
        if value.lower() not in SWITCHES:
            raise InputError(f"{shorten(value, 40)!r} is no switch", code="CG906", where=FLAG, fix="give true or false")
        setattr(options, option, value.lower() == "true")
    elif "list" in hint:
        setattr(options, option, [value])
    else:
        setattr(options, option, value)
    if option == "gpu":
        return {"gpu": machine.named_gpu(options)}
    return {**settings.scalars(options, []), **settings.sections(options, [])}


@cache
def _hints() -> dict[str, str]:
    """The type of each option, as text; reading them takes longer than a plan."""
    return {name: str(hint) for name, hint in get_type_hints(DeploymentOptions).items()}


def _changed(deployment: Deployment, fields: dict[str, Any]) -> Deployment:
    """The deployment with `fields` in the place of its own; of a section, its keys are."""
    given = {name: getattr(deployment, name) for name in deployment.model_fields_set}
    for name, value in fields.items():
        before = given.get(name)
        if isinstance(value, dict) and before is not None:
            value = {**before.model_dump(exclude_unset=True), **value}
        given[name] = value
    return Deployment(**given)
