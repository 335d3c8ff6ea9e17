"""Values of the Python API: every public function with arguments that nobody should give it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import cgplan
from cgplan import (
    Context,
    Deployment,
    Measured,
    MemoryFlags,
    ModelShape,
    Overrides,
    load_model,
    plan,
    resolve,
    tune,
)  # fmt: skip
from cgplan.releases import SUPPORTED, canonical
from cgplan.releases.gpus import gpu
from cgplan.workload.histogram import Batches, Range, workload_of
from cgplan.workload.sizes.limits import Limits

from .deployments import WORDS
from .documents import odd
from .kind import Kind

BYTES = ("weights", "activation", "non_torch", "total", "free", "graphs", "graph_estimate")
LINES = ("vllm serve Qwen/Qwen3-8B", "vllm serve m --max-num-seqs 300", "ls", "", "vllm serve 'm", "a; vllm serve m; b")


class Values:
    """Draws a call, and makes it."""

    def __init__(self, folder: str) -> None:
        self.deployment = Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"))
        self.resolution = resolve(self.deployment)
        self.calls: tuple[Callable[[random.Random], Any], ...] = (
            self._dispatch, self._flags, self._measured, self._limits, self._named, self._check, self._fields,
            self._resolution, self._workload, self._plan,
        )  # fmt: skip

    def make(self, dice: random.Random) -> int:
        return dice.randrange(len(self.calls))

    def answer(self, given: int, dice: random.Random) -> Any:
        return repr(self.calls[given](dice))[:20_000]

    def _number(self, dice: random.Random) -> Any:
        return dice.randint(0, 600) if dice.random() < 0.5 else odd(dice)

    def _dispatch(self, dice: random.Random) -> Any:
        """A batch; other types than whole numbers are refused."""
        numbers = [self._number(dice) for _ in range(dice.randint(1, 4))]
        if dice.random() < 0.3:
            return self.resolution.padded(dice.choice((0, 1, 513, -1, 10**9)))
        return self.resolution.dispatch(*numbers)

    def _flags(self, dice: random.Random) -> Any:
        flags = MemoryFlags(odd(dice), odd(dice) if dice.random() < 0.3 else None)
        return plan(self.deployment, flags).fits

    def _measured(self, dice: random.Random) -> Any:
        known = Measured(**{name: self._bytes(dice) for name in dice.sample(BYTES, 3)})
        return plan(self.deployment, known=known).fits

    def _bytes(self, dice: random.Random) -> Any:
        return dice.randint(0, 10**11) if dice.random() < 0.6 else odd(dice)

    def _limits(self, dice: random.Random) -> Any:
        return gpu(odd(dice, ("h100", "H100", "nvidia h100", "a100-40"))) if dice.random() < 0.5 else canonical(
            odd(dice, (*SUPPORTED, "0.33", "v0.30.0", "0.34.0", "latest", "0.33.0rc1"))
        )  # fmt: skip

    def _named(self, dice: random.Random) -> Any:
        return load_model(odd(dice, ("Qwen/Qwen3-8B", "qwen3-8b", "/nowhere", "~x", "./", "https://u:p@h/x", "a\0b")))

    def _check(self, dice: random.Random) -> Any:
        line: Any = (
            odd(dice, LINES) if dice.random() < 0.5 else dice.choice((*LINES, [], ["vllm", "serve"], ["vllm", 3]))
        )
        context = Context(release=dice.choice((None, *SUPPORTED)), gpu=dice.choice((None, gpu("l4"))))
        return [one.code for one in cgplan.check(line, context).diagnostics]

    def _fields(self, dice: random.Random) -> Any:
        name = dice.choice(tuple(Deployment.model_fields))
        return resolve(Deployment(**{name: odd(dice, WORDS)})).max_capture_size

    def _resolution(self, dice: random.Random) -> Any:
        shape = ModelShape(**{dice.choice(tuple(ModelShape.model_fields)): odd(dice, WORDS) for _ in range(2)})
        overrides = Overrides(piecewise_available=dice.choice((None, True, False)), is_profiling=dice.random() < 0.5)
        return resolve(Deployment(model=shape, vllm=dice.choice(SUPPORTED)), overrides).cudagraph_mode

    def _workload(self, dice: random.Random) -> Any:
        low = dice.choice((-1, 0, 1, 7, 600, 10**9))
        high = dice.choice((None, low, low + 8, low - 1))
        batches = Batches(dice.choice(("decode", "mixed", "any")), Range(low, high), count=self._count(dice))
        steps = workload_of([batches], "own")
        if dice.random() < 0.05:
            limits = Limits(dice.choice((None, 0, -1, 4)), dice.choice((None, 0, -1)), dice.choice((None, 0.0, -1.0)))
            return tune(
                self.deployment, steps, limits=limits, must=dice.choice(((), (0,), (8,), (-1,), (10**6,)))
            ).chosen
        return steps

    def _count(self, dice: random.Random) -> Any:
        return dice.choice((0, 1, -1, 0.5, 1e300, float("nan"), float("inf"), 10**400))

    def _plan(self, dice: random.Random) -> Any:
        size = odd(dice) if dice.random() < 0.7 else dice.randint(0, 10**11)
        return plan(self.deployment, kv_bytes=size, auto_fit=dice.random() < 0.2).fits


KIND = Kind("values", "arguments of the Python API", 0.1, Values, is_json=False)
