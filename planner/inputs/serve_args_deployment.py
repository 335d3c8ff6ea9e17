"""From the settings of a `vllm serve` line to a Deployment, with what had to be assumed and what is not modelled."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from ..deployment import Deployment
from ..errors import StartupError, shorten
from ..model_shape import ModelShape
from ..releases import table
from ..sections import AttentionOptions, CompilationOptions, Gpu, KVTransferOptions, PassOptions, Software
from .drafts import with_draft
from .serve_args import ServeArgs
from .serve_args_ranges import out_of_range
from .served_model import NamedModel, named_model

SECTIONS: dict[str, Collection[str]] = {
    "compilation_config": CompilationOptions.model_fields,
    "attention_config": AttentionOptions.model_fields,
    "kv_transfer_config": KVTransferOptions.model_fields,
}
OWN = ("vllm", "gpu", "gpus_per_node", "model", "software", "usage_context", "env")
"""Fields of a Deployment that no flag sets under that name."""
SPECULATIVE = (("spec_method", "method"), ("spec_model", "model"), ("spec_tokens", "num_speculative_tokens"))
LEVELS = {text: level for level in range(4) for text in (str(level), f"O{level}")}


class ServedDeployment(NamedTuple):
    """What a line asks for.

    Attributes:
        deployment: the request.
        assumptions: what the line does not say and is assumed, one line each.
        ignored: settings that vLLM takes and that are not modelled, one line each.
        model: how the line's model was found; None: its shape was given.
    """

    deployment: Deployment
    assumptions: tuple[str, ...]
    ignored: tuple[str, ...]
    model: NamedModel | None = None

    @property
    def model_assumed(self) -> bool:
        """Whether another shape stands in for that of the model."""
        return self.model is not None and not self.model.is_known


def to_deployment(
    args: ServeArgs,
    *,
    gpu: Gpu | None = None,
    gpus_per_node: int | None = None,
    software: Software | None = None,
    model: ModelShape | None = None,
    env: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> ServedDeployment:
    """The deployment that a command line describes.

    Args:
        args: of parse_serve.
        gpu, gpus_per_node, software: where it would run; None: the defaults of Deployment, which is said.
        model: the model's shape. None: by the line's name, as `named_model` finds it.
        env: environment variables of the command.
        settings: fields of Deployment that take the place of the line's; of a section, its keys do, at any depth.

    Raises:
        InputError: a value is beyond what cgplan takes, or the model's files cannot be used.
        StartupError: vLLM would refuse a value after parsing.
    """
    for error in out_of_range(args, settings or ()):
        raise error
    asked = _Asked(args)
    fields = asked.fields()
    named = asked.model((settings or {}).get("runner")) if model is None else None
    fields["model"] = model if named is None else named.shape
    for name, value in (("gpu", gpu), ("gpus_per_node", gpus_per_node), ("software", software)):
        if value is not None:
            fields[name] = value
    if gpu is None:
        asked.assumptions.append(f"GPU: {Gpu().name}; the line does not name one.")
    if env:
        fields["env"] = dict(env)
    fields = overlaid(fields, settings or {})
    return ServedDeployment(Deployment(**fields), tuple(asked.assumptions), tuple(asked.ignored), named)


def overlaid(fields: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """`fields` with `settings` in their place; of an object within, its keys are."""
    found = dict(fields)
    for name, value in settings.items():
        before = found.get(name)
        inner = isinstance(value, Mapping) and isinstance(before, Mapping)
        found[name] = overlaid(before, value) if inner else value  # type: ignore[arg-type]
    return found


_WEIGHT_FLAGS = {"kv_offloading_size": "the second KV cache is in the CPU's memory, which is not modelled"}
"""Settings of memory that is not the GPU's."""
NAMES = ("cpu_offload_params", "offload_params")
"""Settings whose value is a set of names."""


class _Asked:
    """Collects the fields of one deployment."""

    def __init__(self, args: ServeArgs) -> None:
        self.args = args
        self.assumptions: list[str] = []
        self.ignored: list[str] = []

    def fields(self) -> dict[str, Any]:
        given = self.args.values.items()
        known = Deployment.model_fields.keys() - set(OWN)
        found: dict[str, Any] = {dest: value for dest, value in given if dest in known and value is not None}
        found["vllm"] = self.args.release
        found |= {dest: tuple(sorted(found[dest])) for dest in NAMES if dest in found}
        self._add_numbers(found)
        for name, modelled in SECTIONS.items():
            if name in found:
                found[name] = self._section(name, found[name], modelled)
        found.pop("speculative_config", None)
        speculative = self._speculative()
        if speculative:
            found["speculative_config"] = speculative
        if self.args.values.get("hf_overrides"):
            self.ignored.append("hf_overrides: the model's shape is taken without them")
        self.ignored += [f"{dest}: {what}" for dest, what in _WEIGHT_FLAGS.items() if self.args.values.get(dest)]
        return found

    def _add_numbers(self, found: dict[str, Any]) -> None:
        if found.get("max_model_len") == -1:
            del found["max_model_len"]
            self.assumptions.append("max_model_len auto: the model's own length is taken; what fits is not looked at.")
        blocks = self.args.values.get("num_gpu_blocks_override")
        if blocks is not None:
            found["num_gpu_blocks"] = blocks
        if "optimization_level" in found:
            found["optimization_level"] = _level(str(found["optimization_level"]))

    def _section(self, name: str, given: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
        """The keys that are modelled; vLLM has accepted all of them."""
        section = {key: value for key, value in given.items() if key in known}
        unread = [key for key in given if key not in known]
        passes = section.get("pass_config")
        if isinstance(passes, dict):
            section["pass_config"] = {k: v for k, v in passes.items() if k in PassOptions.model_fields}
            unread += [f"pass_config.{key}" for key in passes if key not in PassOptions.model_fields]
        self.ignored += [_not_modelled(name, key) for key in unread]
        return {key: value for key, value in section.items() if value is not None}

    def _speculative(self) -> dict[str, Any]:
        given = self.args.values.get("speculative_config")
        if given is not None and not isinstance(given, dict):
            raise _refused(
                "--speculative-config",
                "--speculative-config is not a JSON object",
                "ValidationError",
                """write --speculative-config '{"method": "ngram", "num_speculative_tokens": 3}'""",
            )
        config = dict(given or {})
        for dest, key in SPECULATIVE:
            value = self.args.values.get(dest)
            if value is None:
                continue
            if key in config:
                flag = "--" + dest.replace("_", "-")
                message = f"{flag} and --speculative-config.{key} exclude each other"
                raise _refused(flag, message, "ValueError", "drop one of the two")
            config[key] = value
        config = {key.replace("-", "_"): value for key, value in config.items()}
        for key in [key for key in config if key in table("config_fields")["speculative_config"]["fields"]]:
            del config[key]
            self.ignored.append(_not_modelled("speculative_config", key))
        return with_draft(config, lambda name: self._named(name, "draft", "Draft model").shape)

    def model(self, runner: str | None = None) -> NamedModel:
        name = self.args.model if self.args.model is not None else self.args.get("model")
        if self.args.model is None:
            self.assumptions.append(f"Model: {name}, vLLM's default; the line names none.")
        return self._named(str(name), runner or self.args.values.get("runner", "auto"), "Model")

    def _named(self, name: str, runner: str, what: str) -> NamedModel:
        found = named_model(name, runner)
        if not found.is_known:
            self.assumptions.append(
                f"{what}: {found.instead} in the place of {found.name}, which is neither here nor in the catalogue."
            )
        return found


def _level(text: str) -> int:
    level = LEVELS.get(text)
    if level is None:
        message = f"{shorten(text, 40)!r} is no optimisation level"
        raise _refused("--optimization-level", message, "ValidationError", "give -O0 to -O3")
    return level


def _not_modelled(section: str, key: str) -> str:
    return f"{section}.{key}: vLLM reads it; what it does to CUDA graphs is not modelled"


def _refused(where: str, message: str, raised_as: str, fix: str | None = None) -> StartupError:
    return StartupError(message, code="CG903", raised_as=raised_as, raised_in="EngineArgs", where=where, fix=fix)
