"""From the options to a Deployment, with what had to be assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from cgplan import Deployment, ModelShape
from cgplan.errors import CgplanError, InputError, shorten
from cgplan.releases import assume, stand_in
from cgplan.report.words import sentence

from . import environment, machine, no_effect, secrecy, settings, values
from .options import DeploymentOptions
from .pasted import Pasted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cgplan.inputs.launches import Launch
    from cgplan.inputs.launches.asked import Asked as LaunchAsked
    from cgplan.inputs.launches.asked import Context


class Asked(NamedTuple):
    """What was asked.

    Attributes:
        deployment: the request.
        assumptions: what was not said and is assumed, one line each.
        ignored: settings that vLLM takes and that are not modelled, one line each.
        model, gpu: how the screen names them.
    """

    deployment: Deployment
    assumptions: tuple[str, ...]
    ignored: tuple[str, ...]
    model: str
    gpu: str

    @property
    def layout(self) -> str:
        """How many GPUs share the work, in vLLM's short words; "" for one."""
        d = self.deployment
        sizes = {
            "tp": d.tensor_parallel_size,
            "pp": d.pipeline_parallel_size,
            "dp": d.data_parallel_size,
            "dcp": d.decode_context_parallel_size,
            "pcp": d.prefill_context_parallel_size,
            "nodes": d.nnodes,
        }
        return " ".join(f"{name} {size}" for name, size in sizes.items() if size > 1)


def request_of(options: DeploymentOptions, line: Pasted, which: str | None = None) -> Asked:
    """What a command asks for: the line behind `--` or the file of its MODEL, with the options over it; else these.

    Args:
        which: `--launch`, where a file starts several servers.

    Raises:
        InputError: an option, the file or the line cannot be read.
        StartupError: vLLM would refuse it.
    """
    launch = launch_of(options, line, which)
    if launch is None:
        return deployment_of(options)
    from .context import context_of

    return _served(launch, options, context_of(options))


def launch_of(options: DeploymentOptions, line: Pasted, which: str | None = None) -> Launch | None:
    """The launch that a command speaks of, or None: it has options only."""
    if options.model_tag is None and line.words is None and which is None:
        return None
    from .launched import taken

    return taken(options, line, which)


def request_of_releases(
    launch: Launch, options: DeploymentOptions, releases: Sequence[str]
) -> tuple[Asked, dict[str, CgplanError]]:
    """What a launch asks for, by the first of these releases that takes its line, and why the others do not.

    Raises:
        InputError, StartupError: none takes it, or an option cannot be read.
    """
    from cgplan.inputs.launches.asked import ask

    from .context import context_of
    from .launched import why_not

    context = context_of(options)
    refused: dict[str, CgplanError] = {}
    for release in releases:
        found = ask(launch, context._replace(release=release))
        error = why_not(found) if found.refused else None
        if error is not None:
            refused[release] = secrecy.without_secrets(error)
    takes = next((release for release in releases if release not in refused), releases[0])
    return _served(launch, options, context._replace(release=takes)), refused


def _served(launch: Launch, options: DeploymentOptions, context: Context) -> Asked:
    from cgplan.inputs.launches.asked import ask

    from .launched import where_from, why_not

    options.asked = asked = ask(launch, context)
    refused = why_not(asked)
    if refused is not None or asked.served is None:
        raise refused or InputError(
            "the launch cannot be read", code="CG911", where=launch.label or None, fix="cgplan check says what it holds"
        )
    deployment, ignored = asked.served.deployment, asked.served.ignored
    assumptions = [*where_from(launch), *_in_its_place(asked), *asked.assumptions]
    if context.software is None:
        assumptions.append(machine.OFFICIAL_IMAGE)
    assumptions += environment.notes(environment.of_vllm(deployment.env, context.env), deployment.vllm)
    given = {name: getattr(deployment, name) for name in deployment.model_fields_set}
    assumptions += no_effect.notes(given, deployment.model)
    texts = tuple(sentence(text) for text in secrecy.lines_of(launch, assumptions))
    ignored = tuple(secrecy.lines_of(launch, ignored))
    return Asked(deployment, texts, ignored, deployment.model.name or "", deployment.gpu.name)


def _in_its_place(asked: LaunchAsked) -> list[str]:
    """That the command names another model than the line."""
    line = asked.args.model if asked.args is not None else None
    named = asked.context.model.name if asked.context.model is not None else None
    if not line or not named or line.rstrip("/").rpartition("/")[2] == named.rstrip("/").rpartition("/")[2]:
        return []
    return [f"Model: {shorten(named, 80)} of the command stands in the place of the line's {shorten(line, 80)}."]


def deployment_of(options: DeploymentOptions, release: str | None = None) -> Asked:
    """The deployment that the options describe.

    Args:
        release: that which the assumptions speak of, where it is not the deployment's.

    Raises:
        InputError: an option's value cannot be read or is not known.
        StartupError: vLLM would refuse it.
    """
    assumptions: list[str] = []
    ignored: list[str] = []
    fields = settings.scalars(options, assumptions)
    if options.assume_release is not None:
        fields["vllm"], assumed = assume(options.vllm, options.assume_release)
        assumptions[:0] = [assumed] if assumed is not None else []
    elif options.vllm is not None:
        fields["vllm"], said = stand_in(options.vllm)
        assumptions[:0] = [said] if said is not None else []
    fields["gpu"] = machine.gpu_of(options, fields, assumptions)
    fields["model"] = model = _model(options, assumptions)
    fields["software"] = machine.software_of(options, assumptions)
    fields["env"] = values.pairs(options.env or (), "--env")
    environment.check(fields["env"])
    of_environment = len(assumptions)
    if options.usage_context is None:
        assumptions.append("Started by `vllm serve` (usage context OPENAI_API_SERVER); --usage-context changes it.")
    fields.update(settings.sections(options, ignored))
    if "speculative_config" in fields:
        settings.check_speculative(fields["speculative_config"], options)
    assumptions += no_effect.notes(fields, model)
    _check_named(options, fields)
    deployment = Deployment(**fields)
    assumptions[of_environment:of_environment] = environment.notes(deployment.env, release or deployment.vllm)
    return Asked(
        deployment, tuple(sentence(text) for text in assumptions), tuple(ignored), model.name or "", fields["gpu"].name
    )


def _check_named(options: DeploymentOptions, fields: dict[str, Any]) -> None:
    """Drafts of MTP are a part of the model: the one that stands in where none is named says nothing of them."""
    named = options.model if options.model is not None else options.model_tag
    drafts = fields.get("speculative_config") or {}
    if named is None and "mtp" in (options.spec_method, drafts.get("method")) and not drafts.get("model"):
        raise InputError(
            "drafts by mtp come from the model, and no model is named",
            code="CG429",
            where="--spec-method",
            fix="name the model with --model",
        )


def _model(options: DeploymentOptions, assumptions: list[str]) -> ModelShape:
    if options.model is not None and options.model_tag is not None and options.model != options.model_tag:
        raise InputError(
            "the model is given twice, by position and by --model",
            code="CG907",
            where="--model",
            fix="drop one of the two",
        )
    name = options.model if options.model is not None else options.model_tag
    if name is None:
        assumptions.append("Model: a dense 8B decoder (the shape of Llama 3.1 8B); --model names yours.")
        return ModelShape()
    return settings.shape_or_stand_in(name, "--model", options.runner or "auto", assumptions)
