"""The `vllm serve` line of a start, put together again from what its log says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..deployment import Deployment
from ..inputs.serve_args_flags import Flag, flag_table
from ..sections import CompilationOptions
from .record import Start
from .reprs import parse_settings

MEMORY = (
    "gpu_memory_utilization",
    "kv_cache_memory_bytes",
    "num_gpu_blocks_override",
    "mm_ipc_gpu_memory_gb",
    "cpu_offload_gb",
    "offload_group_size",
    "kv_offloading_size",
    "hf_overrides",
    "spec_method",
    "spec_model",
    "spec_tokens",
)
"""Arguments beside the fields of a Deployment that the plan looks at."""
NOT_ARGUMENTS = ("gpu", "gpus_per_node", "model", "software", "usage_context", "env", "num_gpu_blocks", "vllm")

ENGINE = {
    "dtype": "dtype",
    "max_seq_len": "max_model_len",
    "tensor_parallel_size": "tensor_parallel_size",
    "pipeline_parallel_size": "pipeline_parallel_size",
    "data_parallel_size": "data_parallel_size",
    "decode_context_parallel_size": "decode_context_parallel_size",
    "quantization": "quantization",
    "enforce_eager": "enforce_eager",
    "kv_cache_dtype": "kv_cache_dtype",
    "enable_prefix_caching": "enable_prefix_caching",
    "enable_chunked_prefill": "enable_chunked_prefill",
}
"""Settings of the engine's own line, which stand in where the log has no arguments."""

ENGINE_GRAPHS = (
    "cudagraph_mode",
    "cudagraph_capture_sizes",
    "mode",
    "cudagraph_mm_encoder",
    "cudagraph_specialize_lora",
)
"""Of its compilation_config, what decides the graphs."""

_OBJECT = re.compile(r"\w{1,80}\((?P<inside>.*)\)", re.DOTALL)


def arguments_of(start: Start) -> tuple[dict[str, Any], list[str]]:
    """The arguments that the plan looks at, by vLLM's names, and what was assumed for those that the log lacks."""
    wanted = {*Deployment.model_fields, *MEMORY} - set(NOT_ARGUMENTS)
    assumptions: list[str] = []
    given = {name: value for name, value in start.arguments.items() if name in wanted and value is not None}
    if not start.arguments and start.engine:
        given = _of_engine(start)
        assumptions.append("the log has no arguments; the engine's own line stands in, with what was resolved by then")
    given.update({name: value for name, value in start.said.items() if name in MEMORY})
    for name in ("max_num_seqs", "max_num_batched_tokens"):
        value = getattr(start, name)
        if name not in given and value is not None:
            given[name] = value
            assumptions.append(f"{name} {value}, as the log has it")
    if not start.arguments:
        _add_of_ranks(start, given, assumptions)
    return given, assumptions


def _add_of_ranks(start: Start, given: dict[str, Any], assumptions: list[str]) -> None:
    """What ranks print of arguments that the log lacks."""
    share = next((rank.utilization for rank in start.ranks if rank.utilization is not None), None)
    if share is not None and "gpu_memory_utilization" not in given:
        given["gpu_memory_utilization"] = share
        assumptions.append(f"gpu_memory_utilization {share:g}, as the log has it")
    length = start.concurrency_length
    if length is not None and "max_model_len" not in given:
        given["max_model_len"] = length
        assumptions.append(f"max_model_len {length}, for which the log says the concurrency")


def model_of(start: Start) -> str | None:
    """The model that was served, as it was named."""
    for value in (start.arguments.get("model_tag"), start.arguments.get("model"), start.model):
        if isinstance(value, str) and value:
            return value
    return None


def words_of(given: Mapping[str, Any], model: str, release: str) -> tuple[list[str], list[str]]:
    """The words of the line, and the names of arguments that the release does not have."""
    table = flag_table(release)
    words, left_out = ["vllm", "serve", model], []
    for name, value in given.items():
        flag = table.by_dest.get(name)
        if flag is None:
            left_out.append(name)
            continue
        words += _words(flag, _plain(name, value))
    return words, left_out


def _of_engine(start: Start) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, name in ENGINE.items():
        value = start.engine.get(key)
        if value is None:
            continue
        found[name] = str(value).removeprefix("torch.") if key == "dtype" else value
    config = start.engine.get("compilation_config")
    if isinstance(config, Mapping):
        kept = {key: config[key] for key in ENGINE_GRAPHS if config.get(key) is not None}
        if kept:
            found["compilation_config"] = kept
    drafts = _plain("speculative_config", start.engine.get("speculative_config"))
    if isinstance(drafts, dict):
        found["speculative_config"] = _drafts(drafts)
    return found


def _drafts(printed: dict[str, Any]) -> dict[str, Any]:
    """SpeculativeConfig prints method, model and num_spec_tokens."""
    found = {key: printed[key] for key in ("method", "model") if isinstance(printed.get(key), str)}
    tokens = printed.get("num_spec_tokens", printed.get("num_speculative_tokens"))
    if isinstance(tokens, int):
        found["num_speculative_tokens"] = tokens
    return found


def _plain(name: str, value: Any) -> Any:
    """A value without what vLLM itself has put into it: objects as their settings, only keys that say something."""
    if isinstance(value, str) and name.endswith("_config") and (match := _OBJECT.fullmatch(value)):
        value = parse_settings(match["inside"]) or {}
    if name == "compilation_config" and isinstance(value, Mapping):
        known = CompilationOptions.model_fields
        return {key: own for key, own in value.items() if key in known and own not in (None, "", [], {}, ())}
    if name.endswith("_config") and isinstance(value, Mapping):
        return {key: own for key, own in value.items() if own is not None}
    return value


def _words(flag: Flag, value: Any) -> Iterator[str]:
    if not flag.takes_value:
        if value is True:
            yield flag.long
        elif value is False and flag.negative:
            yield min(flag.negative, key=lambda option: (not option.startswith("--no-"), option))
        return
    if isinstance(value, Mapping):
        if value:
            yield f"{flag.long}={json.dumps(dict(value), default=str)}"
        return
    if isinstance(value, (list, tuple)):
        if value:
            yield flag.long
            yield from (str(item) for item in value)
        return
    yield f"{flag.long}={value}"
