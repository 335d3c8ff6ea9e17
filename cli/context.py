"""From the options to what the user says beside a line or a file that was read: `ask` lays it over the launch."""

from __future__ import annotations

from typing import Any

from cgplan.inputs.launches.asked import Context
from cgplan.releases import assume, stand_in
from cgplan.report.words import sentence

from . import environment, machine, settings, values
from .options import DeploymentOptions

TWINS = (
    ("attention_backend", "attention_config", "backend"),
    ("cudagraph_capture_sizes", "compilation_config", "cudagraph_capture_sizes"),
    ("max_cudagraph_capture_size", "compilation_config", "max_cudagraph_capture_size"),
)
"""Settings that are a field and a key of a section; where the user gives one, the line's other one goes."""

DRAFTS_WITHOUT_MODEL = ("ngram", "ngram_gpu", "suffix", "mtp")

MACHINE = ("vllm", "gpus_per_node")
"""Scalars of the options that are parts of a Context of their own."""


def context_of(options: DeploymentOptions) -> Context:
    """What the options say of a launch. What they do not say stays as the launch has it.

    Raises:
        InputError: an option's value cannot be read or is not known.
    """
    assumptions: list[str] = []
    ignored: list[str] = []
    fields = settings.scalars(options, assumptions)
    release = _release(options, assumptions)
    gpu = machine.named_gpu(options)
    name = options.model if options.model is not None else options.model_tag
    model = None if name is None else settings.shape_or_stand_in(name, "--model", options.runner or "auto", assumptions)
    env = values.pairs(options.env or (), "--env")
    environment.check(env)
    fields.update(settings.sections(options, ignored))
    if _is_auto(options.max_model_len):
        fields["max_model_len"] = None
    return Context(
        release=release,
        gpu=gpu,
        gpus_per_node=fields.get("gpus_per_node"),
        software=machine.named_software(options),
        model=model,
        env=env,
        settings=_alone({key: value for key, value in fields.items() if key not in MACHINE}),
        gpu_memory=machine.gpu_memory(options),
        here=machine.Here(),
        assumptions=tuple(sentence(text) for text in assumptions),
        ignored=tuple(ignored),
        said_release=options.vllm if _is_stood_in_for(options) else None,
    )


def _release(options: DeploymentOptions, assumptions: list[str]) -> str | None:
    if options.assume_release is not None:
        release, assumed = assume(options.vllm, options.assume_release)
        assumptions[:0] = [assumed] if assumed is not None else []
        return release
    if options.vllm is None:
        return None
    release, said = stand_in(options.vllm)
    assumptions[:0] = [said] if said is not None else []
    return release


def _is_stood_in_for(options: DeploymentOptions) -> bool:
    return options.vllm is not None and options.assume_release is None and stand_in(options.vllm)[1] is not None


def _is_auto(max_model_len: str | None) -> bool:
    return max_model_len is not None and max_model_len.strip().lower() in ("auto", "-1")


def _alone(given: dict[str, Any]) -> dict[str, Any]:
    """`given`, and None for what it takes the place of under another name."""
    for field, section, key in TWINS:
        inner = given.get(section)
        if field in given:
            given[section] = {key: None, **(inner or {})}
        elif inner and key in inner:
            given[field] = None
    drafts = given.get("speculative_config")
    if drafts and "model" not in drafts and drafts.get("method") in DRAFTS_WITHOUT_MODEL:
        drafts["model"] = None
    return given
