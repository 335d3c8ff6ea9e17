"""Exceptions in a log: the line that names one, out of the lines around it, and which of several is the root."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

EXCEPTION = re.compile(
    r"(?:\[rank[0-9]+\]: ?)?(?P<line>(?P<kind>(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}"
    r"(?:Error|Exception|Interrupt|Exit|Failed|Failure|ErrorGroup)|Exception|KeyboardInterrupt|SystemExit)"
    r"(?:: (?P<text>.*))?)"
)
"""The last line of a traceback. torch.distributed puts "[rank0]: " before it."""

_OUT_OF_MEMORY = re.compile(
    r"(?P<line>(?:(?:\w{1,40}\.){0,4}(?:OutOfMemoryError|RuntimeError|AcceleratorError): )?"
    r"(?:(?:CUDA|HIP|XPU) out of memory\b|CUDA error: out of memory).*)"
)

_FRAME = re.compile(
    r"(?:\[rank[0-9]+\]: ?)?(?:\s|$|Traceback \(most recent call last\):|The above exception was the direct cause"
    r"|During handling of the above exception|\+-|\||File \"|\^)"
)

WRAPPERS = (
    "Engine core initialization failed",
    "Frontend process failed during engine core initialization",
    "WorkerProc initialization failed",
    "Worker failed with error",
    "Engine process failed to start",
    "EngineCore encountered an issue",
    "EngineCore died",
    "Executor failed",
    "cancelled",
    "validation error for ",
    "validation errors for ",
)
"""What a process says when another one failed: never the root."""

EXPLAINS = ("CUDA out of memory occurred when warming up",)
"""vLLM's own words about the exception it caught: they say more than the exception does."""

_VALIDATION = re.compile(r"ValidationError: [0-9]{1,6} validation errors? for ")
_CAUSE = re.compile(
    r"\s{1,12}(?:(?P<kind>Value error|Assertion failed), )?(?P<text>\S.{0,3900}?)"
    r"(?: \[type=(?P<type>\w{1,80}), input_value=.*)?"
)
_KINDS = {"Value error": "ValueError", "Assertion failed": "AssertionError"}
"""How pydantic tells of the exceptions of a validator: indented, below the line of its own exception."""

_IN = re.compile(r'\s*File "(?P<path>[^"]{1,400})", line [0-9]{1,9}, in (?P<name>\w{1,80})')
STEPS = {
    "load_model": "loading",
    "determine_available_memory": "profiling",
    "profile_run": "profiling",
    "profile_cudagraph_memory": "profiling",
    "initialize_from_config": "cache",
    "initialize_kv_cache": "cache",
    "initialize_kv_cache_tensors": "cache",
    "_allocate_kv_cache_tensors": "cache",
    "allocate_kv_cache": "cache",
    "compile_or_warm_up_model": "start-up",
    "capture_model": "capture",
    "_dummy_sampler_run": "warm-up",
    "_dummy_pooler_run": "warm-up",
    "run_busy_loop": "serving",
    "_process_engine_step": "serving",
    "step_with_batch_queue": "serving",
    "execute_dummy_batch": "serving",
    "execute_model": "serving",
    "sample_tokens": "serving",
}
"""Functions of engines and workers, of both runners and all releases, and the step that each belongs to. Start-up runs
`execute_model` as well, for its warm-up: what is within a step of the start is of that step."""
SERVING = "serving"

MAX_CHAIN = 20
MAX_PROCESSES = 4096
MAX_LINE = 4000


def is_frame(message: str) -> bool:
    """Whether a line is of the inside of a traceback: a frame, its source, a line between two exceptions."""
    return _FRAME.match(message) is not None


def exception(message: str) -> str | None:
    """The exception that a line names, as printed; None where it names none."""
    match = EXCEPTION.fullmatch(message[:MAX_LINE])
    return match["line"] if match else None


def out_of_memory(message: str, is_bare: bool = False) -> str | None:
    """Where a line that was abridged holds it, the exception or torch's own words of running out of memory; else None.

    Filters and shippers of logs leave out vLLM's file and line, or put words of their own before the exception.

    Args:
        is_bare: the line has no head, so that what is indented is of the inside of a traceback.
    """
    if "ut of memory" not in message or (is_bare and is_frame(message)):
        return None
    match = _OUT_OF_MEMORY.search(message[:MAX_LINE])
    return match["line"].strip() if match else None


def step_in(message: str) -> str | None:
    """The step that a frame of a traceback belongs to; None: it is no frame, or of no one step."""
    match = _IN.match(message)
    return STEPS.get(match["name"]) if match else None


def function_in(message: str) -> str | None:
    """The function of vLLM that a frame of a traceback is of; None: it is no frame, or not of vLLM."""
    match = _IN.match(message)
    if match is None or "vllm/" not in match["path"].replace("\\", "/") or match["name"].startswith("__"):
        return None
    return match["name"]


@dataclass
class Failure:
    """One exception, where it was first printed, and by which process.

    Attributes:
        step: by the frames above it; "": they do not say.
        function: of vLLM, the innermost of the frames above it; "": there is none.
    """

    line: str
    number: int
    process: str
    is_of_api_server: bool
    step: str = ""
    function: str = ""


@dataclass
class Failures:
    """The exceptions of one start, in the order printed. The same one printed again is one."""

    found: list[Failure] = field(default_factory=list)
    fatal: Failure | None = None
    steps: dict[str, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    validating: str | None = None

    def add(self, failure: Failure) -> None:
        self.framed(failure)
        self.validating = failure.process if _VALIDATION.search(failure.line) else None
        if len(self.found) < MAX_CHAIN and all(failure.line != known.line for known in self.found):
            self.found.append(failure)

    def framed(self, failure: Failure) -> None:
        """Gives an exception what the frames above it said; they are of no other one."""
        failure.step = failure.step or self.steps.pop(failure.process, "")
        failure.function = failure.function or self.functions.pop(failure.process, "")

    def frame(self, message: str, process: str) -> None:
        """Takes the frame of a traceback, the outermost first: the innermost step counts.

        The profile run makes a small KV cache and graphs of its own, so what is within it is of the profile run. A
        step of serving holds no other, and is none within a step of the start.
        """
        function = function_in(message)
        if function is not None and (process in self.functions or len(self.functions) < MAX_PROCESSES):
            self.functions[process] = function
        step = step_in(message)
        known = self.steps.get(process)
        if step is None or known in ("profiling", SERVING) or (step == SERVING and known is not None):
            return
        if known is not None or len(self.steps) < MAX_PROCESSES:
            self.steps[process] = step

    def cause(self, message: str, process: str) -> str | None:
        """The exception that pydantic's own one wraps, where a line tells of it; else None."""
        if self.validating is None or self.validating != process:
            return None
        match = _CAUSE.fullmatch(message[:MAX_LINE])
        if match is None or (match["kind"] is None and match["type"] is None):
            return None
        return f"{_KINDS.get(match['kind'] or '', 'ValidationError')}: {match['text']}"

    @property
    def step(self) -> str:
        """The step of the exception to tell, else of any other of its chain."""
        root = self.root()
        said = (root.step if root is not None else "", *(failure.step for failure in self.found))
        return next((step for step in said if step), "")

    @property
    def function(self) -> str:
        """The innermost function of vLLM of the exception to tell, else of any other of its chain."""
        root = self.root()
        said = (root.function if root is not None else "", *(failure.function for failure in self.found))
        return next((function for function in said if function), "")

    def root(self) -> Failure | None:
        """The exception to tell: the first that no other process is only reporting, or vLLM's own words on it."""
        own = [failure for failure in self.found if not any(word in failure.line for word in WRAPPERS)]
        inner = [failure for failure in own if not failure.is_of_api_server] or own
        for failure in inner:
            if any(word in failure.line for word in EXPLAINS):
                return failure
        killed = [self.fatal] if self.fatal is not None and "died unexpectedly" in self.fatal.line else []
        return next(iter([*inner, *killed, *self.found]), self.fatal)
