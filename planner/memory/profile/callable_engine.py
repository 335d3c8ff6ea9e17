"""The engine `callable`: any torch code of the user's. What no graph can hold is named with the line that does it.

A factory gives the step: `factory()` returns a function or module that is called with one number of tokens, or a pair
of a module and a function from a number of tokens to its input tensors.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import InputError, did_you_mean
from .cuda_graphs import capture_stream, kernel_nodes, new_graph, recorded
from .descriptors import Descriptor
from .engine import Made, Prepared

MOST_FAULTS = 20


class Fault(NamedTuple):
    """Something that no graph can hold.

    Attributes:
        kind: "sync": the CPU waits for the GPU; "capture": the driver refuses it; "outside": memory from elsewhere.
        what: in words.
        where: "file.py:12", of the user's code, and its text.
    """

    kind: str
    what: str
    where: str
    line: str


def load(target: str) -> Callable[[], Any]:
    """The factory `module:name`.

    Raises:
        InputError: CG996, there is no such thing.
    """
    name, colon, attribute = target.partition(":")
    where = "--engine callable"
    if not colon or not name or not attribute:
        raise InputError(
            f"{target!r} is no MODULE:FACTORY", code="CG996", where=where, fix="write it like mypackage.steps:make"
        )
    try:
        module = import_module(name)
    except ImportError as error:
        raise InputError(
            f"{name} cannot be imported: {error}", code="CG996", where=where, fix="run it where that import works"
        ) from None
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [known for known in vars(found) if not known.startswith("_")]
            fix = did_you_mean(part, names) or "name a function of that module"
            raise InputError(f"{name} has no {part!r}", code="CG996", where=where, fix=fix)
        found = getattr(found, part)
    if not callable(found):
        raise InputError(f"{target} cannot be called", code="CG996", where=where, fix="name a function or a class")
    return found  # type: ignore[no-any-return]


class CallableEngine:
    """Captures what a factory makes. PIECEWISE means nothing here: only FULL graphs are captured."""

    name = "callable"

    def __init__(self, factory: Callable[[], Any], device: int = 0) -> None:
        self.factory = factory
        self.device = device
        self.step: Callable[[int], Any] | None = None
        self.inputs: dict[int, tuple[Any, ...]] = {}
        self.graphs: dict[int, tuple[Any, Any]] = {}
        self.pool: Any = None
        self.faults: list[Fault] = []

    def needs_bytes(self) -> int:
        """Not known before it is built."""
        return 0

    def prepare(self) -> Prepared:
        import torch

        torch.cuda.set_device(self.device)
        before = torch.cuda.memory_allocated()
        made = self.factory()
        self.step = self._step_of(made)
        self.pool = torch.cuda.graph_pool_handle()
        return Prepared(torch.cuda.memory_allocated() - before, 0)

    def _step_of(self, made: Any) -> Callable[[int], Any]:
        if isinstance(made, tuple) and len(made) == 2 and all(map(callable, made)):
            module, inputs_of = made

            def step(num_tokens: int) -> Any:
                if num_tokens not in self.inputs:  # graphs are bound to addresses: inputs are made once
                    given = inputs_of(num_tokens)
                    self.inputs[num_tokens] = tuple(given) if isinstance(given, (tuple, list)) else (given,)
                return module(*self.inputs[num_tokens])

            return step
        if callable(made):
            return made  # type: ignore[no-any-return]
        raise InputError(
            f"the factory returned a {type(made).__name__}",
            code="CG996",
            where="--engine callable",
            fix="return a function of the number of tokens, or a pair of a module and a function to its inputs",
        )

    def warm_up(self, descriptor: Descriptor) -> None:
        self.eager(descriptor.num_tokens)

    def eager(self, num_tokens: int) -> None:
        import torch

        assert self.step is not None
        with torch.inference_mode():
            self.step(num_tokens)

    def capture(self, descriptor: Descriptor) -> Made:
        import torch

        found = self.diagnose(descriptor.num_tokens)
        if found:
            self.faults = found
            first = found[0]
            raise InputError(
                f"{first.what} ({first.line})" if first.line else first.what,
                code="CG997",
                where=first.where,
                fix=_FIXES[first.kind],
            )
        graph = new_graph()
        with torch.inference_mode(), recorded(graph, self.pool) as recording:
            output = self.step(descriptor.num_tokens) if self.step is not None else None
        self.graphs[descriptor.num_tokens] = (graph, output)
        return Made(1, kernel_nodes(graph), recording.instantiate_seconds)

    def replay(self, descriptor: Descriptor) -> None:
        self.graphs[descriptor.num_tokens][0].replay()

    def release(self) -> None:
        for graph, _ in self.graphs.values():
            graph.reset()
        self.graphs.clear()
        self.inputs.clear()
        self.step = None
        self.pool = None

    def fingerprint(self) -> dict[str, Any]:
        return {"engine": self.name}

    def diagnose(self, num_tokens: int) -> list[Fault]:
        """What no graph can hold, in the order it happens; nothing: it can be captured.

        The CPU's waits are found by torch's own mode, without a capture that would fail at the first of them. Then a
        throw-away capture shows what the driver refuses, and the allocator's history what was allocated elsewhere.
        """
        import torch

        found: list[Fault] = []
        with torch.inference_mode(), _syncs_noted(found):
            self.eager(num_tokens)
        torch.cuda.synchronize()
        if found:
            return found
        graph = new_graph()
        with torch.inference_mode(), torch.cuda.stream(capture_stream(self.device)):
            self.eager(num_tokens)  # libraries take a workspace for each stream they see, once
        try:
            pool = torch.cuda.graph_pool_handle()
            with torch.inference_mode(), _allocations(self.device) as outside, recorded(graph, pool):
                self.eager(num_tokens)
        except RuntimeError as error:
            return [Fault("capture", _reason(error), *_own_line(traceback.extract_tb(error.__traceback__)))]
        finally:
            torch.cuda.synchronize()
        graph.reset()
        return outside


_FIXES = {
    "sync": "keep the value on the GPU, or take this line out of the step",
    "capture": "take it out of the step, or run this part eagerly between two graphs",
    "outside": "allocate on the stream of the capture, or once before it",
}


@contextmanager
def _syncs_noted(found: list[Fault]) -> Iterator[None]:
    """Note each wait of the CPU, by torch's warnings of synchronising calls, with the line of the user's code."""
    import warnings

    import torch

    def note(message: Any, category: Any, filename: str, lineno: int, *rest: Any) -> None:
        if "called a synchronizing" in str(message) and len(found) < MOST_FAULTS:
            where, line = _own_line(traceback.extract_stack()[:-1])
            fault = Fault("sync", "the CPU waits for the GPU here, which no graph can hold", where, line)
            if fault not in found:
                found.append(fault)

    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = note  # type: ignore[assignment]
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode(before)


def _own_line(frames: Iterable[traceback.FrameSummary]) -> tuple[str, str]:
    """The innermost line that is neither torch's nor ours."""
    import torch

    theirs = (str(Path(torch.__file__).parent), str(Path(__file__).parent.parent.parent))
    own = [frame for frame in frames if not frame.filename.startswith(theirs) and "warnings.py" not in frame.filename]
    if not own:
        return "the step", ""
    return f"{own[-1].filename}:{own[-1].lineno}", (own[-1].line or "").strip()


def _reason(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"the driver refuses to capture it: {text[0] if text else type(error).__name__}"


@contextmanager
def _allocations(device: int) -> Iterator[list[Fault]]:
    """What is allocated on other streams than the one that is captured, and so not from the graph's pool."""
    import torch

    found: list[Fault] = []
    torch.cuda.memory._record_memory_history(enabled="all", context="alloc", stacks="python", max_entries=100_000)
    try:
        yield found
        events = torch.cuda.memory._snapshot(device)["device_traces"][device]
        own = capture_stream(device).cuda_stream
        for event in events:
            if event["action"] != "alloc" or event["stream"] == own or len(found) >= MOST_FAULTS:
                continue
            frames = [
                traceback.FrameSummary(frame["filename"], frame["line"], frame["name"])
                for frame in reversed(event.get("frames", []))
            ]
            what = f"{event['size']:,} bytes are allocated on another stream, outside the graph's pool"
            found.append(Fault("outside", what, *_own_line(frames)))
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
