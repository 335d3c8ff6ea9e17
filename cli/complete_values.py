"""The values that completion offers: releases, GPUs, models, backends, codes, and the choices of vLLM's own flags."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from cgplan.releases import SUPPORTED, table

from .candidate import Candidate

Maker = Callable[[], Iterable[Candidate]]

FILES = (
    "--settings", "--sarif-file", "--exclude", "--profile", "--weights", "--compare-with", "--workload", "--metrics",
    "--measure", "--output", "--save", "--csv", "--json",
)  # fmt: skip
"""Options whose value is a path."""


def words(*texts: str) -> Maker:
    return lambda: map(Candidate, texts)


def releases() -> Iterator[Candidate]:
    """The newest first."""
    return map(Candidate, reversed(SUPPORTED))


def gpus() -> Iterator[Candidate]:
    from cgplan.releases.gpus import records

    return (Candidate(record["aliases"][0].replace(" ", "-"), record["name"]) for record in records())


def models() -> Iterator[Candidate]:
    from cgplan.inputs.catalogue import catalogue_ids

    return (Candidate(entry.model_id, entry.architecture) for entry in catalogue_ids())


def codes() -> Iterator[Candidate]:
    from cgplan.rules import all_rules

    return (Candidate(code, rule.title) for code, rule in all_rules().items())


def backends() -> Iterator[Candidate]:
    return map(Candidate, table("backends")["backend"])


def variables() -> Iterator[Candidate]:
    from .environment import READ

    return (Candidate(f"{name}=") for name in READ)


def software() -> Iterator[Candidate]:
    from cgplan import Software

    return (Candidate(f"{name}=") for name in Software.model_fields)


def enum(name: str) -> Iterator[Candidate]:
    from cgplan import vocabulary

    return map(Candidate, getattr(vocabulary, name).__members__)


def _documents() -> Iterator[Candidate]:
    from .schema import DOCUMENTS

    return map(Candidate, DOCUMENTS)


def _shells() -> Iterator[Candidate]:
    from .completion import SHELLS

    return map(Candidate, SHELLS)


def _steps() -> Iterator[Candidate]:
    from cgplan.demo import STEPS

    return (Candidate(step.name, step.shows) for step in STEPS)


def _built_in_files() -> Iterator[Candidate]:
    from cgplan.demo import FILES

    return (Candidate(name, text) for name, text in FILES.items())


SEVERITIES = words("never", "error", "warning", "info")

VALUES: dict[str, Maker] = {
    "--vllm": releases,
    "--assume-release": releases,
    "--from": releases,
    "--to": releases,
    "--gpu": gpus,
    "--model": models,
    "--spec-model": models,
    "--attention-backend": backends,
    "--attention-support": partial(enum, "AttentionCGSupport"),
    "--usage-context": partial(enum, "UsageContext"),
    "--cudagraph-mode": partial(enum, "CUDAGraphMode"),
    "--kv-cache-dtype": words("auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"),
    "--spec-method": words("ngram", "eagle", "eagle3", "mtp", "draft_model", "suffix", "medusa"),
    "--optimization-level": words("0", "1", "2", "3"),
    "--env": variables,
    "--software": software,
    "--fail-on": SEVERITIES,
    "--shape": words("steady", "bursty", "low", "uniform", "bimodal"),
    "--format": words("text", "json", "sarif", "github", "markdown", "concise"),
    "--step": _steps,
    "--print": _built_in_files,
    "--select": codes,
    "--ignore": codes,
}

ARGUMENTS: dict[str, Maker] = {
    "resolve": models,
    "plan": models,
    "diff": models,
    "backends": models,
    "models": models,
    "gpus": gpus,
    "explain": codes,
    "schema": _documents,
    "completion": _shells,
}
"""What stands by position in each command, files aside."""


def values_of(option: str) -> list[Candidate]:
    """The values of an option of cgplan; those that vLLM's flag of that name has, where it has."""
    maker = VALUES.get(option)
    return list(maker()) if maker is not None else flag_choices(option)


def flags_of(release: str | None = None) -> list[Candidate]:
    """Every long option of `vllm serve`."""
    from cgplan.inputs.serve_args_flags import flag_table

    options = flag_table(_known(release)).by_option
    return [Candidate(option, "deprecated" if flag.deprecated else "") for option, flag in options.items()]


def flag_choices(option: str, release: str | None = None) -> list[Candidate]:
    """The values that vLLM's parser takes for an option, where it has a list of them."""
    from cgplan.inputs.serve_args_flags import flag_table

    flag = flag_table(_known(release)).by_option.get(option)
    return [Candidate(str(choice)) for choice in flag.choices if choice is not None] if flag is not None else []


def _known(release: str | None) -> str:
    from cgplan.errors import CgplanError
    from cgplan.releases import canonical

    try:
        return SUPPORTED[-1] if release is None else canonical(release)
    except CgplanError:
        return SUPPORTED[-1]
