"""The steps of the tour: one deployment from a faulty line to the next release, and what is read on the way."""

from __future__ import annotations

from importlib.resources import files

from ..errors import InputError, did_you_mean, shorten
from ..light_dataclass import dataclass

FILES = {
    "crash.log": "a start on an H100 that ended in a crash, as vLLM 0.19.0 printed it, shortened by whole lines",
    "traffic.csv": "steps of a server, made up: most with 40 to 76 decode requests, an hour near 100",
}
"""Files of this folder, and what each is."""


@dataclass(frozen=True)
class Step:
    """One command line of the tour.

    Attributes:
        name: what `--step` takes; that of the command it runs.
        shows: what there is to see, in one sentence.
        words: the words after `cgplan`.
        reads: the file of FILES that it has on standard input, or None.
        status: the exit status that it has.
        lines: how many lines of its output the tour shows.
    """

    name: str
    shows: str
    words: tuple[str, ...]
    reads: str | None = None
    status: int = 0
    lines: int = 24


_SERVER = ("--gpu", "h100", "--model", "Qwen/Qwen3-8B", "--max-num-seqs", "100")

STEPS = (
    Step(
        "check",
        "This line sets cudagraph_mode, and vLLM starts without it: of the two spellings the long one counts alone.",
        (
            "check", "--gpu", "h100", "--", "vllm", "serve", "Qwen/Qwen3-8B", "--max-num-seqs", "100",
            "-cc.cudagraph_mode=FULL", "--compilation-config.max_cudagraph_capture_size=128",
        ),
        status=1,
    ),
    Step(
        "resolve",
        "With vLLM 0.28, 96 decode requests run in a FULL graph and 98 do not: sizes go by 8, and 100 is none of them.",
        ("resolve", "--vllm", "0.28", *_SERVER, "--batch", "96,98,100"),
        lines=34,
    ),
    Step(
        "plan",
        "Where the memory of the GPU goes, how many tokens the KV cache holds, and how far each limit reaches.",
        ("plan", "--vllm", "0.28", *_SERVER),
        lines=30,
    ),
    Step(
        "logs",
        "This server captured its graphs and crashed after that: the cause, the flags that make room, and each "
        "number beside the plan.",
        ("logs", "-", "--gpu", "h100"),
        reads="crash.log",
        status=1,
        lines=52,
    ),
    Step(
        "tune",
        "The capture sizes that pad least for the traffic that was counted, and what each number of them would cost.",
        ("tune", "--vllm", "0.28", *_SERVER, "--workload", "-"),
        reads="traffic.csv",
        lines=30,
    ),
    Step(
        "diff",
        "What an upgrade changes for the same server, by which rule, and the flag that keeps what was.",
        ("diff", "--from", "0.28", "--to", "0.33", *_SERVER),
        lines=46,
    ),
)  # fmt: skip


def step_of(name: str) -> Step:
    """The step of this name.

    Raises:
        InputError: CG902, there is none.
    """
    names = [step.name for step in STEPS]
    if name.strip().casefold() in names:
        return STEPS[names.index(name.strip().casefold())]
    raise InputError(
        f"the tour has no step {shorten(name, 40)}",
        code="CG902",
        where="--step",
        fix=did_you_mean(name, names) or f"give one of {', '.join(names)}",
    )


def text_of(name: str) -> str:
    """The text of a file of FILES.

    Raises:
        InputError: CG902, there is none of this name.
    """
    if name not in FILES:
        raise InputError(
            f"the tour has no file {shorten(name, 40)}",
            code="CG902",
            where="--print",
            fix=did_you_mean(name, FILES) or f"give {' or '.join(FILES)}",
        )
    return (files(__package__ or "cgplan.demo") / name).read_text(encoding="utf-8")
