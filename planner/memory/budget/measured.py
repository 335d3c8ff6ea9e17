"""What was measured of a deployment, or is known of it otherwise, and takes the place of an estimate."""

from __future__ import annotations

from ...errors import InputError, shorten
from ...light_dataclass import dataclass


@dataclass(frozen=True)
class Measured:
    """What is known of a deployment and need not be estimated; None: not known. Bytes of one rank.

    Attributes:
        weights, activation, non_torch: as vLLM's log has them.
        total, free: of the GPU before vLLM takes its budget.
        graphs: what capture takes.
        graph_estimate: what vLLM estimates for it.
        source: where they are from.
        apart: names of those that are from elsewhere, and where from.
        capture_seconds: how long the capture of all graphs took.

    Raises:
        InputError: a value is no whole number of bytes; those of graphs alone may be below 0, as differences are.
    """

    weights: int | None = None
    activation: int | None = None
    non_torch: int | None = None
    total: int | None = None
    free: int | None = None
    graphs: int | None = None
    graph_estimate: int | None = None
    source: str = "measured"
    apart: tuple[tuple[str, str], ...] = ()
    capture_seconds: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known."""
        return self == Measured(source=self.source, apart=self.apart)

    def source_of(self, name: str) -> str:
        """Where the value of that name is from."""
        return dict(self.apart).get(name, self.source)

    def __post_init__(self) -> None:
        for name in ("weights", "activation", "non_torch", "total", "free"):
            check_bytes(getattr(self, name), name)
        for name in ("graphs", "graph_estimate"):
            check_bytes(getattr(self, name), name, least=None)


def check_bytes(size: object, name: str, least: int | None = 0) -> None:
    """Refuse what is no number of bytes; None is none, and no fault.

    Raises:
        InputError: CG903, `size` is no whole number, or below `least`.
    """
    if size is None or (type(size) is int and (least is None or size >= least)):
        return
    fix = "give whole bytes" if least is None else "give whole bytes, 0 or more"
    raise InputError(f"{shorten(repr(size), 60)} is no number of bytes", code="CG903", where=name, fix=fix)
