"""What a typed program does with cgplan: `mypy --strict` reads it against the installed package, and it runs."""

from __future__ import annotations

from cgplan import (
    CapacityPlan,
    CompilationOptions,
    CUDAGraphMode,
    Deployment,
    Diagnostic,
    Dispatch,
    InputError,
    Report,
    Resolution,
    StartupError,
    check,
    gpu,
    load_model,
    plan,
    resolve,
)


def asked(max_num_seqs: int) -> Deployment:
    return Deployment(
        gpu=gpu("h100"),
        model=load_model("Qwen/Qwen3-8B"),
        max_num_seqs=max_num_seqs,
        compilation_config=CompilationOptions(cudagraph_mode=CUDAGraphMode.FULL_DECODE_ONLY),
    )


def graphs(deployment: Deployment) -> tuple[CUDAGraphMode, int, bool]:
    made: Resolution = resolve(deployment)
    batch: Dispatch = made.dispatch(100)
    mode: CUDAGraphMode = made.cudagraph_mode
    return mode, batch.num_tokens, made.findings == ()


def starts(deployment: Deployment) -> str:
    capacity: CapacityPlan = plan(deployment)
    return capacity.starts


def errors(line: str) -> list[str]:
    report: Report = check(line)
    found: tuple[Diagnostic, ...] = tuple(report.diagnostics)
    return [one.code for one in found if one.severity == "error"]


def refused(line: str) -> str | None:
    try:
        check(line)
    except (InputError, StartupError) as error:
        return error.code
    return None
