"""The V2 runner's graphs: vLLM's graph manager, and the speculator's managers."""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import inspect
from typing import Any

from oracle.inside.engine import Engine
from oracle.inside.errors import Errors, row

DEFAULTS = [None, None, None, None, 0, 1]


class GraphsV2:
    """Adds captures, dispatch rows and the drafter's captures to an answer."""

    def __init__(self, engine: Engine, errors: Errors) -> None:
        self.engine = engine
        self.errors = errors

    def add(self, graph: dict[str, Any], config: Any, mode: Any, query_len: int, answer: dict[str, Any]) -> None:
        try:
            manager = self._manager(graph, config, mode, query_len, answer)
        except Exception as error:
            answer["error"] = self.errors.describe(error, "v2_manager_init")
            return
        answer["captures"] = self._captures(manager)
        assert hasattr(manager, "_graphs_captured")
        manager._graphs_captured = True  # dispatch answers NONE until graphs exist
        answer["dispatch"] = [self._dispatch(query, manager) for query in graph.get("dispatch") or []]
        if config.speculative_config is not None and self.engine.init_speculator is not None:
            answer["drafter"] = self._drafter(config, mode)

    def _manager(self, graph: dict[str, Any], config: Any, mode: Any, query_len: int, answer: dict[str, Any]) -> Any:
        module = self.engine.v2_graphs
        kind = getattr(module, "ModelCudaGraphManager", None) or module.CudaGraphManager
        accepted = inspect.signature(kind.__init__).parameters
        given: dict[str, Any] = {}
        if "lora_capture_cases" in accepted:
            from vllm.v1.worker.gpu.lora_utils import get_lora_capture_cases

            given["lora_capture_cases"] = get_lora_capture_cases(config.lora_config, config.compilation_config)
            answer["lora_capture_cases"] = given["lora_capture_cases"]
        if "varlen_decode" in accepted:
            given["varlen_decode"] = bool(graph.get("varlen_decode", False))
        if "ubatch_runner" in accepted:
            parallel = config.parallel_config
            split = bool(getattr(parallel, "use_ubatching", False)) and parallel.data_parallel_size > 1
            given["ubatch_runner"] = object() if split else None
        if "decode_query_len" in accepted:
            given["decode_query_len"] = query_len
        return kind(config, self.engine.torch.device("cpu"), mode, **given)

    def _dispatch(self, query: list[Any], manager: Any) -> list[Any]:
        tokens, reqs, longest, loras, eligible = [*query, True][:5]
        query = [tokens, reqs, longest, loras, eligible]
        try:
            uniform, old_rule = self._uniform(reqs, tokens, longest, eligible)
            given: dict[str, Any] = {
                "num_reqs": reqs,
                "num_tokens": tokens,
                "uniform_token_count": uniform,
                "num_active_loras": loras,
                # Up to 0.30 the runner always says how long the longest query is, later only without a prefill.
                "max_query_len": longest if eligible or old_rule else None,
            }
            accepted = inspect.signature(manager.dispatch).parameters
            graph = manager.dispatch(**{name: value for name, value in given.items() if name in accepted})
            return [query, uniform, graph.cg_mode.name, _row(graph)]
        except Exception as error:
            return [query, None, "ERR", f"{type(error).__name__}: {str(error)[:160]}"]

    def _uniform(self, reqs: int, tokens: int, longest: int, eligible: bool) -> tuple[int | None, bool]:
        """What the runner's own helper says of the batch, and whether it asks for prefills in the old way."""
        from vllm.v1.worker.gpu import model_runner

        helper: Any = getattr(model_runner, "get_uniform_decode_token_count", None)
        if helper is None:  # up to 0.27
            module: Any = model_runner
            return module.get_uniform_token_count(reqs, tokens, longest), False
        old_rule = "has_prefill" in inspect.signature(helper).parameters
        return helper(reqs, tokens, longest, not eligible if old_rule else eligible), old_rule

    def _drafter(self, config: Any, mode: Any) -> dict[str, Any]:
        init = self.engine.init_speculator
        more = [None] * (len(inspect.signature(init).parameters) - 2)
        try:
            speculator = init(config, self.engine.torch.device("cpu"), *more)
            if hasattr(speculator, "init_cudagraph_manager"):  # up to 0.19 its constructor makes the manager
                speculator.init_cudagraph_manager(mode)
        except Exception as error:
            return {"error": self.errors.describe(error, "v2_drafter")}
        found: dict[str, Any] = {"class": type(speculator).__name__}
        for name, value in sorted(vars(speculator).items()):
            if isinstance(value, self.engine.v2_graphs.CudaGraphManager):
                found[name] = self._captures(value)
        return found

    def _captures(self, manager: Any) -> dict[str, list[list[Any]]]:
        modes = (self.engine.graph_mode.PIECEWISE, self.engine.graph_mode.FULL)
        graphs = manager._capture_descs
        return {mode.name: [_row(found) for found in graphs[mode]] for mode in modes if mode in graphs}


def _row(graph: Any) -> list[Any]:
    values = [
        graph.num_tokens,
        graph.num_reqs,
        getattr(graph, "uniform_token_count", None),
        getattr(graph, "max_query_len", None),
        getattr(graph, "num_active_loras", 0),
        getattr(graph, "num_ubatches", 1),
    ]
    return row(values, DEFAULTS)
