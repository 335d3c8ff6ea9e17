"""What each compared field is called, where it belongs, and where to look for the rule that changed it."""

from __future__ import annotations

from typing import NamedTuple

SECTIONS = {
    "start": "vLLM",
    "runner": "Runner and memory",
    "limits": "Limits",
    "mode": "Mode",
    "sizes": "Sizes",
    "graphs": "Graphs",
    "attention": "Attention",
    "coverage": "Batches",
    "drafter": "Drafter",
    "settings": "Settings",
    "findings": "Findings",
}

MODES = ("requested_mode", "configured_mode", "cudagraph_mode", "compilation_mode")
LIMITS = ("max_num_seqs", "max_num_batched_tokens")
GRID = ("cudagraph_mode", "configured_mode", "runner", *LIMITS)
GRAPHS = ("capture_sizes", "cudagraph_mode", "runner", "lora_cases", "uniform_decode_query_len", "max_num_seqs")


class Field(NamedTuple):
    """One compared field.

    Attributes:
        label: for people.
        section: a key of SECTIONS.
        decided: fields of the trace whose decisions tell what made it.
        owners: rules that can change it without a decision of their own, most likely first; the first is named when
            nothing else explains a change.
        follows: fields that it is computed from.
        owned_first: a rule of `owners` that changed explains more than the fields that it follows.
    """

    label: str
    section: str
    decided: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    owned_first: bool = True


SIZES = ("cudagraph_capture_sizes", "max_cudagraph_capture_size")

FIELDS = {
    "startup": Field("start", "start"),
    "runner": Field("runner", "runner", ("runner",), ("CG609",), ("configured_mode",)),
    "graph_memory_deducted": Field(
        "graph memory estimate", "runner", ("graph_memory_deducted",), ("CG503",), ("runner", "cudagraph_mode")
    ),
    "max_num_seqs": Field("max_num_seqs", "limits", ("max_num_seqs",), ("CG101",), ("max_num_batched_tokens",)),
    "max_num_batched_tokens": Field("max_num_batched_tokens", "limits", ("max_num_batched_tokens",), ("CG101",)),
    "max_model_len": Field("max_model_len", "limits", ("max_model_len",), ("CG129",)),
    "uniform_decode_query_len": Field(
        "tokens of a decode request", "limits", ("num_speculative_tokens_per_batch_size",), ("CG416",), ("runner",)
    ),
    "compilation_mode": Field("compilation", "mode", ("mode", "breakable"), ("CG201",)),
    "requested_mode": Field("mode asked for", "mode", (), ("CG202",)),
    "configured_mode": Field(
        "mode configured", "mode", ("cudagraph_mode",), ("CG202",), ("requested_mode", "compilation_mode")
    ),
    "cudagraph_mode": Field(
        "mode in the end",
        "mode",
        ("cudagraph_mode",),
        ("CG202",),
        ("configured_mode", "compilation_mode", "backend.support", "runner"),
    ),
    "max_cudagraph_capture_size": Field(
        "largest size", "sizes", SIZES, ("CG108", "CG401"), ("cudagraph_mode", "runner", *LIMITS)
    ),
    "capture_sizes": Field("sizes", "sizes", SIZES, ("CG108", "CG401"), ("cudagraph_mode", "runner", *LIMITS)),
    "graphs.FULL": Field("FULL graphs", "graphs", (), ("CG413", "CG421", "CG401"), GRAPHS, False),
    "graphs.PIECEWISE": Field("PIECEWISE graphs", "graphs", (), ("CG413", "CG334"), GRAPHS, False),
    "graphs.total": Field("graphs in all", "graphs", (), ("CG413", "CG421", "CG401"), GRAPHS, False),
    "graphs.unreachable": Field("graphs that serve no batch", "graphs", (), ("CG703", "CG702"), GRAPHS, False),
    "lora_cases": Field("LoRA cases", "graphs", ("lora_cases",), ("CG413",), ("runner",)),
    "backend.name": Field("backend", "attention", ("attention_backend", "kv_cache_dtype"), ("CG301", "CG307", "CG344")),
    "backend.support": Field(
        "support level", "attention", ("attention_support",), ("CG320", "CG316"), ("backend.name",)
    ),
    "backend.weakest": Field("weakest backend", "attention", ("attention_support",), ("CG316",), ("backend.name",)),
    "drafter.speculator": Field("drafter", "drafter", (), ("CG415",), ("runner",), False),
    "num_ubatches": Field("microbatches", "limits", (), ("CG603",), ("runner",)),
    "pads_to": Field("pads to multiples of", "sizes", (), ("CG643",), ("runner",)),
}

RUNNER_RULES = {
    "hybrid or Mamba models": ("CG620", "CG621"),
    "prefill context parallelism": ("CG622", "CG623"),
    "stock torch.compile": ("CG624",),
    "sequence parallelism": ("CG625",),
    "external_launcher": ("CG626",),
    "speculative method": ("CG627",),
    "dynamic speculative decoding": ("CG628",),
    "parallel drafting": ("CG629",),
    "another vocabulary": ("CG630",),
    "EAGLE3 with pipeline": ("CG631",),
    "adaptive verification with": ("CG632",),
    "dual batch overlap": ("CG633", "CG634"),
}
"""What runner V2 lacks, in the words of the decision, and the rules that say so."""

KINDS = {"uniform_decode": "decode batches", "mixed": "mixed batches"}

SETTING_OWNERS = {
    "max_num_scheduled_tokens": "CG407",
    "max_num_active_seqs": "CG409",
    "async_scheduling": "CG802",
    "enable_chunked_prefill": "CG128",
    "splitting_ops": "CG212",
    "compile_sizes": "CG126",
    "compile_ranges_endpoints": "CG127",
    "custom_ops": "CG220",
    "dtype": "CG131",
    "use_ubatching": "CG603",
    "breakable_cudagraph": "CG205",
    "num_speculative_tokens": "CG416",
    "dynamic_sd_schedule": "CG406",
    "data_parallel_size": "CG403",
}
"""Rules of settings that have no field of their own; the others go by the optimisation level."""

SEQUENCE_PARALLEL = ("enable_sp", "fuse_gemm_comms", "sp_min_token_num")


def field_of(name: str) -> Field:
    """What is known of the field `name`."""
    known = FIELDS.get(name)
    if known is not None:
        return known
    head, _, rest = name.partition(".")
    if head == "config":
        return _setting(rest)
    if head == "finding":
        return Field(f"finding {rest}", "findings", (), (rest,))
    if head == "drafter":
        what = rest.removeprefix("graphs").lstrip(".").removesuffix("_cudagraph_manager")
        label = f"drafter's graphs ({what})" if what else "drafter's graphs"
        return Field(label, "drafter", ("drafter",), ("CG415", "CG426"), ("drafter.speculator", *GRAPHS), False)
    kind, _, lora = rest.partition(".")
    label = KINDS[kind] + (" with adapters" if lora else "")
    if head == "first_cliff":
        label = f"first eager {label}"
    follows = ("graphs.FULL", "graphs.PIECEWISE", *GRAPHS)
    if kind == "mixed":
        return Field(label, "coverage", (), ("CG702", "CG413"), (*follows, "max_num_batched_tokens"), False)
    return Field(label, "coverage", (), ("CG702", "CG413", "CG421"), follows, False)


def _setting(name: str) -> Field:
    leaf = name.removeprefix("pass_config.")
    owner = SETTING_OWNERS.get(name, "CG641" if leaf in SEQUENCE_PARALLEL else "CG219")
    follows: tuple[str, ...] = ("compilation_mode", "runner", *LIMITS)
    if name.startswith("pass_config."):
        follows = ("compilation_mode", *LIMITS)
    if name == "compile_ranges_endpoints":
        follows = ("config.pass_config.fuse_allreduce_rms", *follows)
    return Field(name, "settings", (name,), (owner,), follows)
