"""From a configuration and a support level to the graphs: the steps of the worker, in its order."""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import hashlib
import inspect
import json
from types import SimpleNamespace
from typing import Any

from oracle.inside.backends import attention_spec, mamba_spec
from oracle.inside.engine import Engine
from oracle.inside.errors import Errors, Log, fold
from oracle.inside.graphs_v1 import GraphsV1
from oracle.inside.graphs_v2 import GraphsV2
from oracle.inside.settings import draft_tokens, uses_v2
from oracle.models import Layers

# What the worker hands to the resolution, by name. A release that asks for more must be read first.
KNOWN = {
    "min_cg_support",
    "min_cg_attn_backend",
    "uniform_decode_query_len",
    "tensor_parallel_size",
    "kv_cache_config",
    "max_num_reqs",
    "is_profiling",
    "use_v2_model_runner",
    "piecewise_capture_available",
}
SHARED = ("captures", "dispatch", "drafter")


class Levels:
    """Resolves one configuration for several support levels."""

    def __init__(self, engine: Engine, errors: Errors, log: Log) -> None:
        self.engine = engine
        self.errors = errors
        self.log = log
        self.v1 = GraphsV1(engine, errors)
        self.v2 = GraphsV2(engine, errors)

    def resolve(
        self, graph: dict[str, Any], layers: Layers, config: Any, wanted: list[tuple[str, str, str | None]]
    ) -> dict[str, Any]:
        """An answer for each (label, level, backend class). The configuration is given back as it was."""
        compilation = config.compilation_config
        mode = compilation.cudagraph_mode
        sizes = list(compilation.cudagraph_capture_sizes or [])
        largest = compilation.max_cudagraph_capture_size
        answers: dict[str, Any] = {}
        seen: dict[str, str] = {}
        for label, level, backend in wanted:
            self.log.take()
            try:
                with self.engine.set_config(config):
                    answer = self._one(graph, layers, config, self.engine.support[level], backend)
            except Exception as error:
                answer = {"error": self.errors.describe(error, "harness")}
            warnings = self.log.take()
            if warnings:
                answer["warnings"] = warnings
            _share(answer, label, seen)
            if answer.get("capture_sizes") == sizes:
                del answer["capture_sizes"]
            answers[label] = answer
            compilation.cudagraph_mode = mode
            compilation.cudagraph_capture_sizes = list(sizes)
            compilation.max_cudagraph_capture_size = largest
        return answers

    def _one(
        self, graph: dict[str, Any], layers: Layers, config: Any, level: Any, backend: str | None
    ) -> dict[str, Any]:
        answer: dict[str, Any] = {}
        v2 = uses_v2(config)
        dispatcher = None
        if not v2:
            # The V1 runner makes its dispatcher in the constructor, before a backend is known.
            try:
                dispatcher = self.engine.dispatcher(config)
            except Exception as error:
                return {"error": self.errors.describe(error, "v1_dispatcher_init")}
        query_len = 1 + draft_tokens(config)
        blocks = self._kv_cache(graph, layers)
        try:
            if hasattr(config.compilation_config, "resolve_cudagraph_mode_and_sizes"):
                mode = self._settle(graph, config, level, backend, query_len, blocks, v2, answer)
            else:
                mode = self._settle_in_runner(config, level, backend, query_len, blocks, v2)
        except Exception as error:
            return {**answer, "error": self.errors.describe(error, "resolve_cudagraph_mode_and_sizes")}
        compilation = config.compilation_config
        answer["mode"] = mode.name
        answer["capture_sizes"] = list(compilation.cudagraph_capture_sizes or [])
        answer["max_capture_size"] = compilation.max_cudagraph_capture_size
        if v2:
            self.v2.add(graph, config, mode, query_len, answer)
        else:
            self.v1.add(graph, config, mode, query_len, dispatcher, answer)
        return answer

    def _settle(
        self,
        graph: dict[str, Any],
        config: Any,
        level: Any,
        backend: str | None,
        query_len: int,
        blocks: Any,
        v2: bool,
        answer: dict[str, Any],
    ) -> Any:
        """vLLM's own resolution, a method of the compilation settings since 0.20."""
        settle = config.compilation_config.resolve_cudagraph_mode_and_sizes
        accepted = set(inspect.signature(settle).parameters)
        if not accepted <= KNOWN:
            raise NotImplementedError(f"resolve_cudagraph_mode_and_sizes also takes {sorted(accepted - KNOWN)}")
        given: dict[str, Any] = {
            "kv_cache_config": blocks,
            "max_num_reqs": config.scheduler_config.max_num_seqs,
            "tensor_parallel_size": config.parallel_config.tensor_parallel_size,
            "is_profiling": bool(graph.get("is_profiling", False)),
            "use_v2_model_runner": v2,
        }
        if v2 and "piecewise_capture_available" in accepted:
            given["piecewise_capture_available"] = self._in_pieces(graph, config)
            answer["piecewise_capture_available"] = given["piecewise_capture_available"]
        named = {name: value for name, value in given.items() if name in accepted}
        return settle(level, backend, query_len, **named)

    def _in_pieces(self, graph: dict[str, Any], config: Any) -> bool:
        """The runner asks the loaded model; a compiled or breakable one is taken to be capturable in pieces."""
        given = graph.get("piecewise_capture_available")
        if given is not None:
            return bool(given)
        from vllm import envs

        modes = self.engine.compilation_mode
        compiled = config.compilation_config.mode not in (modes.NONE, modes.STOCK_TORCH_COMPILE)
        return bool(envs.VLLM_USE_BREAKABLE_CUDAGRAPH or compiled)

    def _settle_in_runner(
        self, config: Any, level: Any, backend: str | None, query_len: int, blocks: Any, v2: bool
    ) -> Any:
        """Up to 0.19 the V1 runner resolves the mode in a method of its own, and V2 takes it as it is."""
        compilation = config.compilation_config
        if v2:
            return compilation.cudagraph_mode
        builder = SimpleNamespace(get_cudagraph_support=lambda *args: level)
        faked = type(backend or "NoBackend", (), {"get_builder_cls": staticmethod(lambda: builder)})
        groups = blocks.kv_cache_groups if blocks is not None else [SimpleNamespace(kv_cache_spec=None)]
        runner = SimpleNamespace(
            vllm_config=config,
            compilation_config=compilation,
            parallel_config=config.parallel_config,
            speculative_config=None,
            uniform_decode_query_len=query_len,
            kv_cache_config=blocks,
            max_num_reqs=config.scheduler_config.max_num_seqs,
            # The keys are made afterwards, by the same call, so that its errors have a stage of their own.
            cudagraph_dispatcher=SimpleNamespace(initialize_cudagraph_keys=lambda *args: None),
        )
        self.engine.v1_runner._check_and_update_cudagraph_mode(runner, [{faked}], groups)
        return compilation.cudagraph_mode

    def _kv_cache(self, graph: dict[str, Any], layers: Layers) -> Any:
        """A KV cache of as many blocks as the record says, or None."""
        blocks = graph.get("kv_num_blocks")
        if blocks is None:
            return None
        from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec

        torch = self.engine.torch
        spec = mamba_spec(torch) if layers.mamba else attention_spec(8, 128, torch.bfloat16)
        groups = [KVCacheGroupSpec(["layer.0"], spec)]
        return KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=groups)


def _share(answer: dict[str, Any], label: str, seen: dict[str, str]) -> None:
    """Point to an earlier label with the same graphs instead of repeating them, and fold long lists."""
    if answer.get("captures") is not None:
        text = json.dumps([answer.get(name) for name in SHARED], separators=(",", ":"))
        digest = hashlib.sha1(text.encode()).hexdigest()
        if digest in seen:
            for name in SHARED:
                answer.pop(name, None)
            answer["captures_same_as"] = seen[digest]
        else:
            seen[digest] = label
    fold(answer.get("captures"))
    fold(answer.get("drafter"))
