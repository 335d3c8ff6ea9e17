"""vLLM imported under the faked platform, with the few places replaced that would need a GPU or a second process."""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import copy
import functools
import gc
import importlib
import os
import pkgutil
import sys
from types import SimpleNamespace
from typing import Any

from oracle.inside.fake_platform import Device, install_platform, install_torch
from oracle.inside.ground import Ground
from oracle.inside.stand_ins import install_missing_ops

FLASH_ATTN = "vllm.v1.attention.backends.flash_attn"


class Engine:
    """The parts of one vLLM release that the replay calls."""

    def __init__(self, ground: Ground, device: Device) -> None:
        self.release = ground.release
        self.unloadable: dict[str, str] = {}
        self.stand_ins = ground.finder.made
        self.torch = ground.torch
        install_torch(self.torch, device)
        install_platform(device)
        self._import()
        _parse_once()
        install_missing_ops()
        self._import_backends()
        self._import_speculators()
        self._caches: list[Any] = []
        self._modules = 0
        self._environment = dict(os.environ)

    def restore_environment(self) -> None:
        """The environment variables as they were before any record."""
        os.environ.clear()
        os.environ.update(self._environment)

    def _import(self) -> None:
        self._claim_flash_attn_4()
        import vllm.model_executor.models.registry as registry
        from vllm.config import set_current_vllm_config
        from vllm.config.compilation import CompilationConfig, CompilationMode, CUDAGraphMode
        from vllm.engine import arg_utils
        from vllm.usage.usage_lib import UsageContext
        from vllm.v1.attention.backend import AttentionCGSupport
        from vllm.v1.cudagraph_dispatcher import CudagraphDispatcher
        from vllm.v1.worker import gpu_model_runner

        # A class is looked at in this process, where the platform is the faked one.
        registry._run_in_subprocess = lambda function: function()
        if hasattr(arg_utils, "configure_logging_if_needed"):
            arg_utils.configure_logging_if_needed = lambda *args, **kwargs: None
        self.arg_utils: Any = arg_utils
        self.set_config: Any = set_current_vllm_config
        self.compilation_config: Any = CompilationConfig
        self.compilation_mode: Any = CompilationMode
        self.graph_mode: Any = CUDAGraphMode
        self.usage_context: Any = UsageContext
        self.support: Any = AttentionCGSupport
        self.dispatcher: Any = CudagraphDispatcher
        self.v1_runner: Any = gpu_model_runner.GPUModelRunner
        self.attention_ops: list[str] = list(getattr(CompilationConfig, "_attention_ops", []))
        self.v2_graphs = self._v2_graphs()
        self._said_once = _once_caches()

    def _v2_graphs(self) -> Any:
        """The module of the V2 runner's graph manager, with one pipeline rank."""
        from vllm.v1.worker.gpu import cudagraph_utils

        module: Any = cudagraph_utils
        if hasattr(module, "get_pp_group"):
            only = SimpleNamespace(is_first_rank=True, is_last_rank=True, world_size=1, rank_in_group=0)
            module.get_pp_group = lambda: only
        return module

    def _claim_flash_attn_4(self) -> None:
        """A wheel carries FlashAttention 4; a source distribution lacks the generated files."""
        from vllm.vllm_flash_attn import flash_attn_interface

        module: Any = flash_attn_interface
        if hasattr(module, "FA4_AVAILABLE"):
            module.FA4_AVAILABLE, module.FA4_UNAVAILABLE_REASON = True, None

    def _import_backends(self) -> None:
        """Import each attention backend now, so that what it logs at import falls on no record."""
        from vllm.v1.attention.backends import registry

        for enum in ("AttentionBackendEnum", "MambaAttentionBackendEnum"):
            for backend in getattr(registry, enum, ()):
                if not any(word in backend.name for word in ("ROCM", "XPU", "CPU")):
                    try:
                        backend.get_class()
                    except Exception as error:
                        self._note(backend.name, error)

    def _import_speculators(self) -> None:
        """The V2 runner's drafters. Their constructors allocate on the GPU, so they only keep what graphs need."""
        self.init_speculator: Any = None
        try:
            from vllm.v1.worker.gpu import spec_decode
        except ImportError:
            return
        package: Any = spec_decode
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            try:
                module = importlib.import_module(found.name)
            except Exception as error:
                self._note(found.name, error)
                continue
            for member in vars(module).values():
                if (
                    isinstance(member, type)
                    and hasattr(member, "init_cudagraph_manager")
                    and "__init__" in vars(member)
                ):
                    member.__init__ = _init_speculator  # type: ignore[misc]
        self.init_speculator = getattr(package, "init_speculator", None)

    def _note(self, what: str, error: Exception) -> None:
        self.unloadable[what] = f"{type(error).__name__}: {str(error)[:120]}"

    def forget(self) -> None:
        """Empty vLLM's caches: what they hold may depend on the environment variables of an earlier record."""
        if len(sys.modules) != self._modules:
            self._caches += _new_caches()
            self._modules = len(sys.modules)
        for cached in self._caches:
            cached.cache_clear()

    def forget_what_was_said(self) -> None:
        """Let vLLM log again what it logs once a process."""
        for cached in self._said_once:
            cached.cache_clear()

    def reload_flash_attn(self, config: Any) -> None:
        """FlashAttention fixes its level at import, when a worker has its configuration already.

        The module is loaded without the record's environment variables, as all backends are; else the level would
        depend on which record comes first.
        """
        if FLASH_ATTN in sys.modules:
            asked = dict(os.environ)
            self.restore_environment()
            with self.set_config(config):
                importlib.reload(sys.modules[FLASH_ATTN])
            os.environ.update(asked)
        self._modules = 0  # the reloaded module has new caches
        self.forget()


def _init_speculator(self: Any, vllm_config: Any, device: Any, *args: Any, **kwargs: Any) -> None:
    speculative = vllm_config.speculative_config
    self.vllm_config, self.device, self.speculative_config = vllm_config, device, speculative
    self.num_speculative_steps = speculative.num_speculative_tokens
    self.max_num_reqs = vllm_config.scheduler_config.max_num_seqs
    self.draft_model_config = speculative.draft_model_config


def _parse_once() -> None:
    """Read each model's configuration from its file once; a record gets a copy of its own."""
    from vllm.transformers_utils import config

    parser: Any = config.HFConfigParser
    parse, known = parser.parse, {}

    def parse_once(self: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
        key = repr((model, args, sorted(kwargs.items())))
        if key not in known:
            known[key] = parse(self, model, *args, **kwargs)
        return copy.deepcopy(known[key])

    parser.parse = parse_once


def _new_caches() -> list[Any]:
    """vLLM's caches that the last call did not see. Looking through every object takes a second, so what has been
    seen is taken out of the collector's lists."""
    kind = functools._lru_cache_wrapper
    found = [
        cached
        for cached in gc.get_objects()
        if type(cached) is kind and (getattr(cached, "__module__", None) or "").startswith("vllm")
    ]
    gc.freeze()
    return found


def _once_caches() -> list[Any]:
    import vllm.logger as logger

    names = [f"_print_{level}_once" for level in ("debug", "info", "warning", "error")]
    found = [getattr(logger, name, None) for name in names]
    return [cached for cached in found if hasattr(cached, "cache_clear")]
