"""Values of a line that are of the whole server, and of no one rank."""

from __future__ import annotations

from .prefixes import Printed
from .start_notes import StartNotes


def of_server(notes: StartNotes, shape: str, values: dict[str, int | float | str], printed: Printed) -> bool:
    """Takes what a line says of the whole server; False where it speaks of one rank."""
    if shape == "L13":
        notes.tokens(printed.process, **{key: values[key] for key in ("tokens", "concurrency", "length")})
    elif shape in ("L13a", "L13b"):
        notes.tokens(printed.process, **values)
    elif shape == "L14":
        notes.values["max_model_len"] = values["length"]
        if "derived" in values:
            notes.values["derived_max_model_len"] = values["derived"]
    elif shape == "L15":
        # Blocks for the estimate are set from 0, and are no blocks of the server.
        if values["before"]:
            notes.first("num_gpu_blocks", values["blocks"])
    elif shape in ("L17", "L18"):
        notes.values["block_size"] = values["block_size"]
    elif shape == "blocks":
        notes.first("num_gpu_blocks", values["blocks"])
    elif shape in _FIRST:
        name, key = _FIRST[shape]
        notes.first(name, values[key])
    elif shape == "L25":
        notes.first("runner", "V2")
    elif shape == "L21":
        notes.is_up = True
    elif shape == "ready":
        notes.is_ready = True
    else:
        return shape in (
            "weights",
            "dynamo",
            "compile",
            "compile_and_run",
            "compile_range",
            "warm-up",
            "L3",
            "L16",
            "padding",
            "encoder",
        )
    return True


_FIRST = {
    "architecture": ("architecture", "architecture"),
    "length": ("max_model_len", "length"),
    "batched": ("max_num_batched_tokens", "tokens"),
    "seqs": ("max_num_seqs", "seqs"),
    "platform": ("platform_plugin", "plugin"),
    "flash": ("flash_version", "version"),
    "kernels": ("decode_kernels", "kernels"),
}
