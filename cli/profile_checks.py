"""What `cgplan profile` looks at before a GPU is touched, and where a record goes whose file cannot be written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cgplan.errors import InputError

from . import values
from .options import DeploymentOptions

if TYPE_CHECKING:
    from cgplan.memory.budget.budget import MemoryFlags
    from cgplan.memory.profile.descriptors import Descriptor
    from cgplan.memory.profile.sampling import Sample

MOST_TIMED = 10
MOST_TOKENS = 65_536
"""Of a step that is timed."""
ENGINES = ("synthetic", "vllm", "callable")


def check_engine(engine: str, sample: str, target: str | None, *, real_weights: bool, lm_head: bool) -> None:
    """Options that do not go together.

    Raises:
        InputError: CG905, a choice is not known, or an option is of another engine; CG996, --target names nothing.
    """
    from cgplan.memory.profile.sampling import SAMPLES

    _check_choice("--engine", engine, ENGINES)
    _check_choice("--sample", sample, SAMPLES)
    if (target is not None) != (engine == "callable"):
        raise InputError(
            "--target goes with --engine callable, and that needs it",
            code="CG905",
            where="--target" if target is not None else "--engine",
            fix="cgplan profile --engine callable --target mymodule:make_step",
        )
    if target is not None and not all(target.partition(":")):
        raise InputError(
            f"{target!r} is no MODULE:FACTORY", code="CG996", where="--target", fix="write it like mypackage.steps:make"
        )
    if real_weights and engine != "vllm":
        raise InputError(
            "--real-weights goes with --engine vllm", code="CG905", where="--real-weights", fix="add --engine vllm"
        )
    if lm_head and engine != "synthetic":
        raise InputError(
            "--lm-head goes with --engine synthetic", code="CG905", where="--lm-head", fix=f"leave it out with {engine}"
        )


def _check_choice(flag: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        from cgplan.errors import did_you_mean

        fix = did_you_mean(given, known) or f"choose {', '.join(known)}"
        raise InputError(f"{given!r} is no choice of {flag}", code="CG905", where=flag, fix=fix)


def gpu_index(text: str) -> int:
    """Which GPU of this machine.

    Raises:
        InputError: it is no number from 0 on.
    """
    found = values.whole(text, "--device")
    if found < 0:
        raise InputError(f"{found} is no GPU", code="CG903", where="--device", fix="GPUs count from 0: --device 0")
    return found


def sizes_to_time(text: str | None, every: Sequence[Descriptor], sample: Sample, most: int | None) -> tuple[int, ...]:
    """Batch sizes to time: those given, or some of the captured ones.

    Args:
        every: all graphs.
        most: tokens of the largest step that vLLM runs; None: it does not run what is timed.

    Raises:
        InputError: CG903, no step has so many tokens.
    """
    from cgplan.memory.profile.sampling import chosen

    if text == "none":
        return ()
    if text is not None:
        sizes = tuple(sorted(set(values.numbers(text, "--times"))))
        if not sizes or sizes[0] < 1 or sizes[-1] > MOST_TOKENS:
            raise InputError(
                f"a step has 1 to {MOST_TOKENS:,} tokens", code="CG903", where="--times", fix="--times 1,8,64"
            )
        if most is not None and sizes[-1] > most:
            raise InputError(
                f"vLLM runs no step of {sizes[-1]:,} tokens: max_num_batched_tokens is {most:,}",
                code="CG903",
                where="--times",
                fix=f"time at most {most}, or give --max-num-batched-tokens {sizes[-1]}",
            )
        return sizes
    known = sorted({one.num_tokens for one in chosen(every, "auto" if sample == "all" else sample)})
    if len(known) <= MOST_TIMED:
        return tuple(known)
    step = (len(known) - 1) / (MOST_TIMED - 1)
    return tuple(sorted({known[round(step * place)] for place in range(MOST_TIMED)}))


def take_installed_release(options: DeploymentOptions) -> None:
    """The graphs are those that the installed vLLM captures, so its rules hold.

    Raises:
        InputError: CG995, there is none that can be profiled, or --vllm names another.
    """
    from cgplan.memory.profile.vllm_engine import base_of, installed_version
    from cgplan.releases import stand_in

    here = stand_in(base_of(installed_version()))[0]
    if options.vllm is not None and stand_in(options.vllm)[0] != here:
        raise InputError(
            f"--vllm says {options.vllm}, and vLLM {here} is installed",
            code="CG995",
            where="--vllm",
            fix="leave it out, or use --engine synthetic",
        )
    options.vllm = here


def release_of_dry_run(options: DeploymentOptions) -> tuple[str, ...]:
    """By which release the graphs are said: that of --vllm, else the installed one. Returns it in words.

    Raises:
        InputError: CG995, the installed vLLM is meant, and cannot be profiled.
    """
    from importlib.metadata import PackageNotFoundError, version

    from cgplan.memory.profile.vllm_engine import base_of, installed_version
    from cgplan.releases import stand_in

    try:
        here = version("vllm")
    except PackageNotFoundError:
        here = ""
    if options.vllm is None and here:
        options.vllm = stand_in(base_of(installed_version()))[0]
        return (f"by the rules of the installed vLLM, {here}",)
    asked = ", as --vllm says" if options.vllm is not None else " (--vllm names another)"
    missing = f"vLLM {here} is installed here" if here else "vLLM is not installed here"
    return (f"by the rules of the release in the title{asked}; {missing}, and a profile runs the installed one",)


def memory_of_line(options: DeploymentOptions) -> MemoryFlags:
    """The flags of memory of a line or file, which the engine `vllm` is given, too.

    Raises:
        InputError: CG903, a value is no share or no number of bytes.
    """
    from cgplan.memory.budget.budget import MemoryFlags

    args = options.asked.args if options.asked is not None else None
    given = args.values if args is not None else {}
    return MemoryFlags(given.get("gpu_memory_utilization"), given.get("kv_cache_memory_bytes"))


def kept(record: str, error: InputError) -> str:
    """A measurement is not lost with its file: the record goes to another one, or to stdout. Returns which."""
    import tempfile

    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", prefix="cgplan-profile-", suffix=".json", delete=False
        ) as file:
            file.write(record)
    except OSError:
        error.fix = "the record is on stdout"
        print(record, end="")
        return "-"
    error.fix = f"the record is in {file.name}"
    return file.name
