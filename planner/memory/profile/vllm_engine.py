"""The engine `vllm`: the installed vLLM in this process, its own runner and its own captures, read through hooks.

vLLM captures in one go; the hooks choose which graphs it captures and read free memory before and after each. Its own
estimate and its own figure are what its methods return. The hooks are GPUModelRunner's `profile_cudagraph_memory`,
`capture_model`, and, of runner V1, `_warmup_and_capture` and the dispatcher's `get_capture_descs`; of runner V2,
CudaGraphManager's `capture` and `_capture_descs` (vllm/v1/worker/gpu_model_runner.py, gpu/model_runner.py,
gpu/cudagraph_utils.py, 0.23.0 to 0.33.0).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...errors import InputError
from ...releases import holds
from ...vocabulary import CUDAGraphMode
from .descriptors import Descriptor
from .engine import Made, Prepared
from .extrapolate import Captured
from .vllm_steps import can_step, run_step

SINCE, UNTIL = "0.23.0", "0.33.0"
"""Releases whose methods have the shape that the hooks expect. Run on a GPU: 0.25.1."""


def installed_version() -> str:
    """The version of the installed vLLM, as it names itself.

    Raises:
        InputError: CG995, there is none, or the hooks do not know it.
    """
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("vllm")
    except PackageNotFoundError:
        raise InputError(
            "vLLM is not installed",
            code="CG995",
            where="--engine vllm",
            fix="install vLLM here, or use --engine synthetic, which needs torch alone",
        ) from None
    check_release(found, "is installed")
    return found


def check_release(version: str, what: str = "is asked for") -> None:
    """The hooks know its methods.

    Raises:
        InputError: CG995, they do not.
    """
    if not holds(base_of(version), SINCE, UNTIL):
        raise InputError(
            f"vLLM {version} {what}, and its captures can be read of {SINCE} to {UNTIL} only",
            code="CG995",
            where="--engine vllm",
            fix="use --engine synthetic, or another release of vLLM",
        )


def base_of(version: str) -> str:
    """The release that a version belongs to: 0.25.1rc1.dev3+g1234 is of 0.25.1."""
    return version.split("+")[0].split("rc")[0].split(".dev")[0]


class VllmEngine:
    """The real engine.

    Args:
        model: what LLM() takes: a path or an id.
        arguments: of LLM(), by name.
        env: environment variables, VLLM_USE_V2_MODEL_RUNNER among them.
        dummy: random weights; no checkpoint is needed.
    """

    name = "vllm"

    def __init__(self, model: str, arguments: Mapping[str, Any], env: Mapping[str, str], dummy: bool = True) -> None:
        self.model = model
        self.arguments = dict(arguments)
        self.env = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1", **env}
        self.dummy = dummy
        self.version = installed_version()
        self.llm: Any = None
        self.runner: Any = None
        self.graphs: Sequence[Descriptor] | None = None
        self.captured: list[Captured] = []
        self.done: Callable[[int, Descriptor], None] = lambda done, what: None
        self.took: int | None = None
        self.estimate: int | None = None
        self.available: int | None = None

    def needs_bytes(self) -> int:
        """vLLM checks what it needs itself."""
        return 0

    def capture_together(
        self, graphs: Sequence[Descriptor], done: Callable[[int, Descriptor], None]
    ) -> Iterator[Captured]:
        """Start vLLM, which captures `graphs` in its own order; the others are left out.

        `prepare` cannot come before: vLLM captures while it starts.
        """
        self.graphs, self.done = graphs, done
        self._start()
        yield from self.captured

    def took_bytes(self) -> int:
        """What vLLM says its capture took."""
        return self.took or 0

    def prepare(self) -> Prepared:
        """Nothing yet: `capture_together` starts vLLM."""
        return Prepared(0, 0)

    def prepared(self) -> Prepared:
        """What stands after the start."""
        weights = int(getattr(self.runner, "model_memory_usage", 0) or 0)
        return Prepared(weights, self.available or 0, ("weights are random",) if self.dummy else ())

    def warm_up(self, descriptor: Descriptor) -> None:
        """vLLM warms up itself."""

    def capture(self, descriptor: Descriptor) -> Made:
        raise NotImplementedError("vLLM captures in one go: capture_together")

    def eager(self, num_tokens: int) -> None:
        run_step(self.runner, num_tokens, CUDAGraphMode.NONE)

    def replay(self, descriptor: Descriptor) -> None:
        run_step(self.runner, descriptor.num_tokens, descriptor.mode)

    @property
    def can_time(self) -> bool:
        """The runner can be given single steps."""
        return can_step(self.runner)

    def release(self) -> None:
        if self.llm is None:
            return
        core = getattr(self.llm.llm_engine, "engine_core", None)
        self.llm = self.runner = None
        if core is not None and hasattr(core, "shutdown"):
            core.shutdown()
        from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

        cleanup_dist_env_and_memory()

    def fingerprint(self) -> dict[str, Any]:
        return {"engine": self.name, "vllm": self.version, "dummy_weights": self.dummy}

    def own_figures(self) -> dict[str, Any]:
        """vLLM's own numbers, bytes."""
        return {"estimate_bytes": self.estimate, "took_bytes": self.took, "available_kv_bytes": self.available}

    def _start(self) -> None:
        os.environ.update(self.env)
        _check_names()
        self._hook()
        from vllm import LLM

        options = {"load_format": "dummy"} if self.dummy else {}
        self.llm = LLM(model=self.model, skip_tokenizer_init=True, **options, **self.arguments)
        self.available = self._available()

    def _available(self) -> int | None:
        core = getattr(self.llm.llm_engine, "engine_core", None)
        core = getattr(core, "engine_core", core)
        worker = getattr(getattr(getattr(core, "model_executor", None), "driver_worker", None), "worker", None)
        value = getattr(worker, "available_kv_cache_memory_bytes", None)
        return int(value) if value is not None else None

    def _hook(self) -> None:
        """Wrap the runners' methods. They are classes of this process, which ends after the profile."""
        from vllm.v1.worker import gpu_model_runner as first
        from vllm.v1.worker.gpu import cudagraph_utils
        from vllm.v1.worker.gpu import model_runner as second

        for runner in (first.GPUModelRunner, second.GPUModelRunner):
            _wrap(runner, "capture_model", self._around_capture)
            _wrap(runner, "profile_cudagraph_memory", self._around_estimate)
        _wrap(first.GPUModelRunner, "_warmup_and_capture", self._around_one)
        _wrap(cudagraph_utils.CudaGraphManager, "capture", self._around_manager)

    def _around_capture(self, original: Callable[..., Any], runner: Any, *args: Any, **named: Any) -> Any:
        self.runner = runner
        self.captured.clear()
        _only(runner, self.graphs)
        self.took = original(runner, *args, **named)
        return self.took

    def _around_estimate(self, original: Callable[..., Any], runner: Any, *args: Any, **named: Any) -> Any:
        self.estimate = original(runner, *args, **named)
        return self.estimate

    def _around_one(self, original: Callable[..., Any], runner: Any, desc: Any, *args: Any, **named: Any) -> Any:
        mode = CUDAGraphMode[named["cudagraph_runtime_mode"].name]
        before = _Reading()
        found = original(runner, desc, *args, **named)
        self._keep(before.until_now(descriptor_of(desc, mode)))
        return found

    def _around_manager(self, original: Callable[..., Any], manager: Any, create: Any, *args: Any, **named: Any) -> Any:
        """Runner V2 makes a forward function for each graph; what happens until the next one is that graph's."""
        from vllm.v1.worker.gpu.cudagraph_utils import ModelCudaGraphManager

        if not isinstance(manager, ModelCudaGraphManager):  # a drafter's
            return original(manager, create, *args, **named)
        begun: list[tuple[Any, _Reading]] = []

        def close() -> None:
            if begun:
                desc, before = begun.pop()
                self._keep(before.until_now(descriptor_of(desc, CUDAGraphMode[desc.cg_mode.name])))

        def watched(desc: Any, *rest: Any, **more: Any) -> Any:
            if not begun or begun[0][0] is not desc:
                close()
                begun.append((desc, _Reading()))
            return create(desc, *rest, **more)

        found = original(manager, watched, *args, **named)
        close()
        return found

    def _keep(self, one: Captured) -> None:
        asked = {_key(graph): graph for graph in self.graphs or ()}
        one = one._replace(descriptor=asked.get(_key(one.descriptor), one.descriptor))
        self.captured.append(one)
        self.done(len(self.captured), one.descriptor)


class _Reading:
    """Free memory, the allocator's, and the time, with nothing in flight."""

    def __init__(self) -> None:
        import torch

        torch.cuda.synchronize()
        self.free = int(torch.cuda.mem_get_info()[0])
        self.reserved = int(torch.cuda.memory_reserved())
        self.at = time.perf_counter()

    def until_now(self, descriptor: Descriptor) -> Captured:
        now = _Reading()
        taken, pool = self.free - now.free, now.reserved - self.reserved
        return Captured(descriptor, taken, pool, now.at - self.at)


def _key(one: Descriptor) -> tuple[CUDAGraphMode, int, int]:
    """What a graph is known by: runners say the number of its requests in ways of their own."""
    return one.mode, one.num_tokens, one.num_active_loras


def descriptor_of(desc: Any, mode: CUDAGraphMode) -> Descriptor:
    """vLLM's batch descriptor as ours; both runners', of all releases read."""
    tokens = int(desc.num_tokens)
    query = getattr(desc, "uniform_token_count", None)
    reqs = getattr(desc, "num_reqs", None) or tokens
    loras = int(getattr(desc, "num_active_loras", 0) or 0)
    return Descriptor(mode, tokens, int(reqs), int(query or 1), loras)


def _only(runner: Any, graphs: Sequence[Descriptor] | None) -> None:
    """Let the runner capture these graphs alone."""
    if graphs is None:
        return
    wanted = set(map(_key, graphs))

    def kept(mode: Any, descs: Sequence[Any]) -> list[Any]:
        own = CUDAGraphMode[mode.name]
        return [desc for desc in descs if _key(descriptor_of(desc, own)) in wanted]

    manager = getattr(runner, "cudagraph_manager", None)
    if manager is not None and hasattr(manager, "_capture_descs"):
        manager._capture_descs = {mode: kept(mode, descs) for mode, descs in manager._capture_descs.items()}
        return
    dispatcher = runner.cudagraph_dispatcher
    every = dispatcher.get_capture_descs()
    dispatcher.get_capture_descs = lambda: [(mode, kept(mode, descs)) for mode, descs in every]


def _wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    original = getattr(owner, name, None)
    if original is None:
        raise InputError(
            f"this vLLM has no {owner.__name__}.{name}",
            code="CG995",
            where="--engine vllm",
            fix="use --engine synthetic, or a release of vLLM as published",
        )
    setattr(owner, name, lambda self, *args, **named: around(original, self, *args, **named))


def _check_names() -> None:
    """Our words for modes are vLLM's."""
    from vllm.config import CUDAGraphMode as Theirs

    assert {mode.name for mode in CUDAGraphMode} <= {mode.name for mode in Theirs}
