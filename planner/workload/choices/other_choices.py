"""What `tune` says beside the sizes: the graph mode, max_num_seqs, and the largest size."""

from __future__ import annotations

from dataclasses import dataclass

from .candidate import Bench
from .graph_modes import GraphModes, graph_modes
from .largest_size import LargestSize, largest_size
from .request_limit import RequestLimit, request_limit


@dataclass(frozen=True)
class OtherChoices:
    """Each is looked at by itself, beside the first answer."""

    modes: GraphModes
    requests: RequestLimit
    largest: LargestSize


def other_choices(bench: Bench) -> OtherChoices:
    return OtherChoices(graph_modes(bench), request_limit(bench), largest_size(bench))
