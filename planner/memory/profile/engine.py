"""What an engine must do for `measure`: build a model, capture, replay, let go."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from .descriptors import Descriptor


class Prepared(NamedTuple):
    """What stands before the first capture, bytes of this rank.

    Attributes:
        weights_bytes, kv_bytes: of the model and its cache.
        notes: what differs from vLLM's own model, in words.
    """

    weights_bytes: int
    kv_bytes: int
    notes: tuple[str, ...] = ()


class Made(NamedTuple):
    """A captured graph.

    Attributes:
        graphs: torch graphs.
        nodes: kernel nodes in them; 0: not counted.
        instantiate_seconds: to make them runnable once they were captured; None: the engine cannot tell it apart.
    """

    graphs: int
    nodes: int
    instantiate_seconds: float | None = None


class Engine(Protocol):
    """One way of running a model. All calls are made on one thread; `release` may follow any of them."""

    name: str

    def needs_bytes(self) -> int:
        """Weights, cache and the largest step, before anything is allocated."""

    def prepare(self) -> Prepared:
        """Build the model."""

    def warm_up(self, descriptor: Descriptor) -> None:
        """Run the step once without a graph, so that libraries have their workspaces."""

    def capture(self, descriptor: Descriptor) -> Made:
        """Capture the graph and keep it.

        Raises:
            CannotCapture: the step does something that no graph can hold.
        """

    def replay(self, descriptor: Descriptor) -> None:
        """Launch a captured graph; does not wait for the GPU."""

    def eager(self, num_tokens: int) -> None:
        """Launch a decode step without a graph; does not wait for the GPU."""

    def release(self) -> None:
        """Let go of everything. May be called twice, and after a failure."""

    def fingerprint(self) -> dict[str, Any]:
        """What the measured values depend on beside the deployment."""
