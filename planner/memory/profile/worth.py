"""What each answer to the graphs' memory would leave of the KV cache, if vLLM deducted it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...deployment import Deployment
from ..budget.measured import Measured
from ..plan import plan


class Left(NamedTuple):
    """The KV cache of the server.

    Attributes:
        graph_bytes: what is deducted.
        kv_bytes: of each GPU; num_blocks, tokens: of the server, None where nothing is left.
    """

    graph_bytes: int
    kv_bytes: int
    num_blocks: int | None
    tokens: int | None


def left_by(deployment: Deployment, document: Mapping[str, Any]) -> dict[str, Left]:
    """By "two", "auto", "all", as far as the document of a profile has them: the rank's that needs most.

    Raises:
        CgplanError: the deployment cannot be planned.
    """
    found = {}
    total = document["profile"]["machine"].get("total_bytes")
    for name in ("two", "auto", "all"):
        given = [one["graph_bytes"][name] for one in document["profile"]["ranks"]]
        sizes = [one["best"] if isinstance(one, dict) else one for one in given if one is not None]
        if not sizes:
            continue
        known = Measured(graph_estimate=max(0, *sizes), total=total, source="profiled")
        made = plan(deployment, known=known)
        cache = made.best
        blocks, tokens = (cache.plan.num_blocks, cache.plan.tokens) if cache.plan is not None else (None, None)
        found[name] = Left(max(sizes), min(cache.kv_bytes), blocks, tokens)
    return found
