"""Drive an engine: prepare, warm up, capture, time, let go. Whatever happens, what was measured is kept and marked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ...errors import CgplanError
from ...vocabulary import CUDAGraphMode
from .cuda_graphs import kernel_nodes, new_graph, recorded
from .descriptors import Descriptor
from .engine import Engine, Prepared
from .extrapolate import Captured
from .speed import StepTimes, Times, times_of

WARM_UPS = 2
REPEATS = 11
MOST_SECONDS = 0.25
"""Of repeats of one step of one kind."""


@dataclass
class Measured:
    """What one rank measured.

    Attributes:
        prepared: the model.
        captured: graphs, in the order of capture.
        taken_bytes: free memory before the first warm-up less that after the last capture.
        left_bytes: what torch still has allocated after the release; 0 where all is let go.
        peak_bytes: the most that torch had reserved.
        steps: times by batch size.
        stopped: why it ended early, in words; "": it did not.
    """

    prepared: Prepared | None = None
    captured: list[Captured] = field(default_factory=list)
    taken_bytes: int = 0
    setup_bytes: int = 0
    left_bytes: int = 0
    peak_bytes: int = 0
    seconds: float = 0.0
    steps: list[StepTimes] = field(default_factory=list)
    stopped: str = ""


Told = Callable[[str, int, int, int], None]
"""Progress: what is done, how many of how many, free bytes."""


def measure(
    engine: Engine,
    graphs: Sequence[Descriptor],
    sizes: Iterable[int] = (),
    tell: Told = lambda what, done, of, free: None,
) -> Measured:
    """Capture `graphs` and time decode steps of `sizes` tokens. Never raises for want of memory or an interruption.

    Raises:
        CgplanError: the engine cannot run this model; what was allocated is released.
    """
    import torch

    started = time.perf_counter()
    found = Measured()
    allocated = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    try:
        tell("building the model", 0, len(graphs), _free())
        found.prepared = engine.prepare()
        _capture(engine, graphs, found, tell)
        _time(engine, sizes, {one.descriptor for one in found.captured}, found, tell)
    except CgplanError:
        raise
    except KeyboardInterrupt:
        found.stopped = "interrupted"
    except torch.cuda.OutOfMemoryError as error:
        found.stopped = f"out of memory: {_first_line(error)}"
    except RuntimeError as error:
        found.stopped = f"{type(error).__name__}: {_first_line(error)}"
    finally:
        found.peak_bytes = torch.cuda.max_memory_reserved()
        _let_go(engine)
        found.left_bytes = max(0, torch.cuda.memory_allocated() - allocated)
        found.seconds = time.perf_counter() - started
    return found


def _let_go(engine: Engine) -> None:
    """Release, also after a failed capture, whose error the next call to CUDA would otherwise report."""
    import gc

    import torch

    engine.release()
    gc.collect()
    with suppress(RuntimeError):
        torch.cuda.synchronize()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()


def _capture(engine: Engine, graphs: Sequence[Descriptor], found: Measured, tell: Told) -> None:
    """vLLM's order: a warm-up of each mode's graph, then its capture. Free memory is read with nothing in flight."""
    import torch

    if graphs and not hasattr(engine, "capture_together"):
        # By now vLLM's profile run has been: libraries are loaded, and their workspaces are not the graphs'.
        engine.warm_up(max(graphs, key=lambda one: one.num_tokens))
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = _free()
    together = getattr(engine, "capture_together", None)
    if together is not None:
        for one in together(graphs, lambda done, what: tell(f"capturing {what}", done, len(graphs), _free())):
            found.captured.append(one)
        found.prepared = engine.prepared()  # type: ignore[attr-defined]
        found.taken_bytes = engine.took_bytes()  # type: ignore[attr-defined]
        found.setup_bytes = found.taken_bytes - sum(one.taken_bytes for one in found.captured)
        return
    outside = 0
    for done, descriptor in enumerate(graphs):
        tell(f"capturing {descriptor}", done, len(graphs), _free())
        start = _free()
        engine.warm_up(descriptor)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        free, reserved, at = _free(), torch.cuda.memory_reserved(), time.perf_counter()
        outside += start - free
        made = engine.capture(descriptor)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - at
        taken, pool = free - _free(), torch.cuda.memory_reserved() - reserved
        found.captured.append(Captured(descriptor, taken, pool, seconds, *made))
        found.setup_bytes = outside
        found.taken_bytes = before - _free()
    tell("captured", len(graphs), len(graphs), _free())


def _time(engine: Engine, sizes: Iterable[int], captured: set[Descriptor], found: Measured, tell: Told) -> None:
    wanted = list(sizes) if getattr(engine, "can_time", True) else []
    graph_of = {(one.mode, one.num_tokens): one for one in captured if not one.num_active_loras}
    for done, size in enumerate(wanted):
        tell(f"timing {size} tokens", done, len(wanted), _free())
        full, pieces = (graph_of.get((mode, size)) for mode in (CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE))
        eager, submit = _repeated(lambda size=size: engine.eager(size))  # type: ignore[misc]
        found.steps.append(
            StepTimes(
                size,
                eager,
                submit,
                None if full is None else _repeated(lambda one=full: engine.replay(one))[0],  # type: ignore[misc]
                None if pieces is None else _repeated(lambda one=pieces: engine.replay(one))[0],  # type: ignore[misc]
                _launches(engine, size),
            )
        )


def _repeated(step: Callable[[], None]) -> tuple[Times, Times]:
    """Seconds of a step from its launch to the end of its last kernel, and those until the CPU has launched it.

    Each starts on an idle GPU, as decode steps do: the first event has then passed before the first kernel is there,
    so that waiting for launches counts.
    """
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    for _ in range(WARM_UPS):
        step()
    torch.cuda.synchronize()
    whole: list[float] = []
    submitted: list[float] = []
    begin = time.perf_counter()
    while len(whole) < REPEATS and (len(whole) < 3 or time.perf_counter() - begin < MOST_SECONDS):
        start.record()
        at = time.perf_counter()
        step()
        submitted.append(time.perf_counter() - at)
        end.record()
        torch.cuda.synchronize()
        whole.append(start.elapsed_time(end) / 1000)
    return times_of(whole), times_of(submitted)


def _launches(engine: Engine, size: int) -> int:
    """Kernels of an eager step: nodes of a throw-away capture."""
    import torch

    graph = new_graph()
    try:
        with recorded(graph, torch.cuda.graph_pool_handle()):
            engine.eager(size)
        return kernel_nodes(graph)
    except RuntimeError:
        return 0
    finally:
        graph.reset()
        torch.cuda.empty_cache()  # its pool must not count into the peak of the next size


def _free() -> int:
    import torch

    return int(torch.cuda.mem_get_info()[0])


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:300] if text else type(error).__name__
