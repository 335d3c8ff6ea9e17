"""What --workload names, each source read once: a log with steps, text of /metrics, CSV or JSON, with its weight.

Two texts of /metrics without weights are two moments of one server, as everywhere: what came in between is one source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import InputError, shorten
from ...inputs.vllm_logs.streams import chunks
from ..gathered import Gathered
from ..mixture import Traffic
from ..tune_rules import NO_STEPS
from .fetch import fetch, is_address
from .metrics import Snapshot, gathered
from .sources import MAX_BYTES, moments_of, named, read_text
from .tap import StepTap

WHERE = "--workload"
STDIN = "stdin"


@dataclass(frozen=True)
class Given:
    """One source of steps.

    Attributes:
        name: for a person.
        weight: its share of a mixture, beside the weights of the others; None: as many steps as it has.
        gathered: its steps.
        remarks: what the reader of its bytes had to say.
    """

    name: str
    weight: float | None
    gathered: Gathered
    remarks: tuple[str, ...] = ()


def read_given(given: Sequence[str]) -> tuple[Given, ...]:
    """The sources that FILE, an address, or either with @WEIGHT behind it name, in their order.

    Raises:
        InputError: CG725 a file has no steps, CG906 a weight, CG905 standard input twice or more than two moments of
            a server, CG718 the later moment comes first; else as the sources say.
    """
    asked = [named(text, WHERE) for text in given]
    if sum(name == "-" for name, _ in asked) > 1:
        raise InputError("stdin is read once", code="CG905", where=WHERE, fix="give - once")
    read = [(name, weight, *_read(name)) for name, weight in asked]
    moments = moments_of([found for _, weight, found, _ in read if weight is None], WHERE)
    made = []
    for name, weight, found, remarks in read:
        if not isinstance(found, Snapshot):
            made.append(Given(_shown(name), weight, found, remarks))
        elif weight is not None or len(moments) < 2:
            made.append(Given(_shown(name), weight, gathered(found), remarks))
        elif found is moments[1]:
            steps = gathered(found, moments[0])
            made.append(Given(f"{_shown(name)}, after {moments[0].where}", None, steps, remarks))
    return tuple(made)


def _shown(name: str) -> str:
    if not is_address(name):
        return STDIN if name == "-" else shorten(name, 80)
    scheme, _, rest = name.split("?")[0].partition("://")
    host, mark, path = rest.partition("/")
    return shorten(f"{scheme}://{host.rpartition('@')[2]}{mark}{path}", 80)  # a name and a password are not shown


def _read(name: str) -> tuple[Snapshot | Gathered, tuple[str, ...]]:
    """Its steps, or a moment of a server; and remarks of the reading."""
    if is_address(name):
        return _own(fetch(name), _shown(name)), ()
    tap = StepTap()
    remarks: list[str] = []
    kept: list[bytes] = []
    size = 0
    for piece in tap.through(chunks(name, remarks)):
        size += len(piece)
        if size <= MAX_BYTES:
            kept.append(piece)
    found = tap.finish()
    if found is not None and found.parts:
        return found, tuple(remarks)
    if size > MAX_BYTES:
        raise no_steps(_shown(name))
    if not size:
        raise InputError(f"{_shown(name)} is empty", code="CG718", where=_shown(name), fix=NO_STEPS.instead)
    return _own(b"".join(kept).decode("utf-8", "replace"), _shown(name)), tuple(remarks)


def _own(text: str, shown: str) -> Snapshot | Gathered:
    """What is no log with steps: text of /metrics, CSV or JSON."""
    try:
        return read_text(text, shown)
    except InputError as error:
        if "iteration_tokens_total" in error.message:
            raise no_steps(shown) from None
        raise


def no_steps(shown: str) -> InputError:
    return InputError(f"{shown} tells of no steps", code=NO_STEPS.code, where=WHERE, fix=NO_STEPS.instead)


def traffic_of(given: Sequence[Given]) -> tuple[Traffic, ...]:
    """The sources as parts of a mixture.

    Raises:
        InputError: CG725, a source has no steps.
    """
    return tuple(_part(one) for one in given)


def _part(one: Given) -> Traffic:
    workload = one.gathered.together()
    if workload is None:
        raise no_steps(one.name)
    notes = [*one.remarks, *one.gathered.remarks]
    lost = one.gathered.not_recognised
    if lost:
        notes.append("1 line that looks like a step was not understood" if lost == 1 else
                     f"{lost:,} lines that look like steps were not understood")  # fmt: skip
    settings = dict.fromkeys(part.settings for part in one.gathered.parts if part.settings is not None)
    return Traffic(one.name, workload, one.weight, notes=tuple(notes), settings=tuple(settings))


def read_traffic(given: Sequence[str]) -> tuple[Traffic, ...]:
    """The parts of a mixture that FILE or FILE@WEIGHT name; see `read_given`."""
    return traffic_of(read_given(given))
