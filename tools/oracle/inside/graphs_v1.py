"""The V1 runner's graphs: vLLM's CudagraphDispatcher, asked for its keys and for the path of each batch."""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from oracle.inside.engine import Engine
from oracle.inside.errors import Errors, row

DEFAULTS = [None, None, 0, 0, 0]


class GraphsV1:
    """Adds captures, dispatch rows and the drafter's captures to an answer."""

    def __init__(self, engine: Engine, errors: Errors) -> None:
        self.engine = engine
        self.errors = errors

    def add(
        self, graph: dict[str, Any], config: Any, mode: Any, query_len: int, dispatcher: Any, answer: dict[str, Any]
    ) -> None:
        try:
            dispatcher.initialize_cudagraph_keys(mode, query_len)
        except Exception as error:
            answer["error"] = self.errors.describe(error, "v1_initialize_cudagraph_keys")
            return
        answer["captures"] = _captures(dispatcher)
        answer["dispatch"] = [
            self._dispatch(query, config, query_len, dispatcher) for query in graph.get("dispatch") or []
        ]
        speculative = config.speculative_config
        if speculative is not None and (speculative.use_eagle() or speculative.uses_draft_model()):
            self._add_drafter(config, mode, answer)

    def _dispatch(self, query: list[Any], config: Any, query_len: int, dispatcher: Any) -> list[Any]:
        tokens, reqs, longest, loras = query[:4]
        runner = self.engine.v1_runner
        try:
            uniform = bool(
                runner._is_uniform_decode(
                    max_num_scheduled_tokens=longest,
                    uniform_decode_query_len=query_len,
                    num_tokens=tokens,
                    num_reqs=reqs,
                )
            )
            if hasattr(runner, "_pad_for_sequence_parallelism"):
                me = SimpleNamespace(vllm_config=config, compilation_config=config.compilation_config)
                tokens = runner._pad_for_sequence_parallelism(me, tokens)
            mode, chosen = dispatcher.dispatch(
                num_tokens=tokens, uniform_decode=uniform, has_lora=loras > 0, num_active_loras=loras
            )
            return [query[:4], int(uniform), mode.name, _row(chosen)]
        except Exception as error:
            return [query[:4], None, "ERR", f"{type(error).__name__}: {str(error)[:160]}"]

    def _add_drafter(self, config: Any, mode: Any, answer: dict[str, Any]) -> None:
        proposer = _proposer()
        if not hasattr(proposer, "initialize_cudagraph_keys"):
            return
        try:
            dispatcher = self.engine.dispatcher(config)
            me = SimpleNamespace(speculative_config=config.speculative_config, cudagraph_dispatcher=dispatcher)
            proposer.initialize_cudagraph_keys(me, mode)
            answer["drafter"] = _captures(dispatcher)
        except Exception as error:
            answer["drafter"] = {"error": self.errors.describe(error, "v1_drafter")}


def _proposer() -> Any:
    """The base class of the drafters; older releases keep it beside EAGLE."""
    try:
        from vllm.v1.spec_decode.llm_base_proposer import SpecDecodeBaseProposer

        return SpecDecodeBaseProposer
    except ImportError:
        from vllm.v1.spec_decode import eagle

        module: Any = eagle
        return getattr(module, "SpecDecodeBaseProposer", None) or module.EagleProposer


def _captures(dispatcher: Any) -> dict[str, list[list[Any]]]:
    return {mode.name: [_row(found) for found in graphs] for mode, graphs in dispatcher.get_capture_descs()}


def _row(graph: Any) -> list[Any]:
    loras = getattr(graph, "num_active_loras", 0)
    return row([graph.num_tokens, graph.num_reqs, int(bool(graph.uniform)), int(bool(graph.has_lora)), loras], DEFAULTS)
