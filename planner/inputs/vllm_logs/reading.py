"""A log from its first to its last byte: each line to the start and the process it belongs to."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from ...errors import InputError
from ...startup import reprs
from ...startup.record import Place, Start, StartupLog
from . import bars, names, starts
from .lines import LIMIT, Line, Splitter
from .of_server import of_server
from .parts import parts, put
from .prefixes import Printed, split
from .quoted import MOST_LINES, REMARK, REMARK_OF_PARTS, is_words, quoted, warnings
from .recognise import downgrade, find, recognise
from .serving import is_dead, is_of_a_step, is_of_memory
from .shapes import Read, Unfit
from .start_notes import StartNotes, key_of
from .streams import Source, chunks, name_of
from .timing import timed
from .tracebacks import Failure, exception, function_in, is_frame, out_of_memory, step_in
from .wrapping import Bare, Unwrapper

EXAMPLES = 20
TEXT = 300
MAX_MESSAGE = 4000
MAX_REMARKS = 20

SECRET = ("api_key", "hf_token", "ssl_keyfile_password")
PHASES = {"L1": "load", "weights": "weights", "L4": "profile", "L10": "capture", "L21": "init engine"}
PHASES |= {"dynamo": "dynamo", "compile": "compile", "compile_and_run": "compile", "warm-up": "warm-up"}
PHASES |= {"compile_range": "compile range"}
ESTIMATES = {"L8": "1", "L9": "0"}
MESSAGE_LEVELS = ("WARNING", "ERROR", "CRITICAL")


class Tap(Protocol):
    """Listens to the text of a log while it is read, as `workload.tap` does."""

    def through(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The same pieces."""


def read_log(path_or_stream: Source, tap: Tap | None = None) -> StartupLog:
    """What the log says of each start of vLLM in it, by process. Constant memory; a log may have any size.

    Args:
        path_or_stream: a path, "-" for standard input, or an open stream of bytes or text; plain, gzip or zstd. Words
            that are no file are read as a few lines of a log, where they say something.
        tap: what else listens.

    Raises:
        InputError: CG986 the log cannot be read, CG987 it is not text, CG988 zstd without a reader.
    """
    if isinstance(path_or_stream, str) and is_words(path_or_stream):
        found = read_log(io.StringIO(path_or_stream))
        if found.starts:
            return found
    remarks: list[str] = []
    reading = _Reading()
    splitter = Splitter()
    pieces = chunks(path_or_stream, remarks)
    for line in splitter.lines(pieces if tap is None else tap.through(pieces)):
        reading.requests = splitter.requests
        reading.line(line)
        splitter.everything = bool(reading.unwrapper.parts)
    reading.rest()
    text = splitter.beginning()
    if reading.take_quoted(text):
        remarks.append(REMARK)
    elif reading.take_parts(text):
        remarks.append(REMARK_OF_PARTS)
    reading.requests = splitter.requests
    reading.at_the_end()
    counts = splitter.counts
    if counts.first_is_binary and not reading.starts.kept:
        raise InputError(
            "this is binary data, not a log",
            code="CG987",
            where=name_of(path_or_stream),
            fix="give the text that vLLM printed",
        )
    if counts.nul_bytes:
        remarks.append(f"{counts.nul_bytes} NUL bytes: parts of the log are binary")
    if counts.cut:
        remarks.append(f"{counts.cut} lines are longer than {LIMIT} bytes; the rest of them was skipped")
    if reading.replaced:
        remarks.append(f"{reading.replaced} lines are not UTF-8; what could not be decoded was replaced")
    if reading.starts.dropped:
        remarks.append(
            f"{reading.starts.dropped} starts between the first {starts.FIRST_KEPT} and the last were left out"
        )
    if dropped := sum(notes.dropped for notes in reading.starts.kept):
        remarks.append(f"{dropped} further messages or ranks were left out")
    return StartupLog(
        reading.built(counts.lines),
        counts.lines,
        reading.not_recognised,
        tuple(reading.examples),
        tuple(remarks[:MAX_REMARKS]),
    )


@dataclass
class _Reading:
    """Where the reading stands."""

    starts: starts.Starts = field(default_factory=starts.Starts)
    unwrapper: Unwrapper = field(default_factory=Unwrapper)
    not_recognised: int = 0
    examples: list[Place] = field(default_factory=list)
    replaced: int = 0
    number: int = 0
    requests: int = 0
    told: set[int] = field(default_factory=set)  # Of the first lines those with a value, or not recognised.
    has_heads: bool = False

    def line(self, line: Line) -> None:
        text = line.data.decode("utf-8", "replace")
        if "\ufffd" in text:
            self.replaced += 1
        self.number = line.number
        lead = line.lead.decode("utf-8", "replace") if line.lead else ""
        for bare in self.unwrapper.unwrap(text):
            if line.is_of_request:
                self._served(bare)
            else:
                self._bare(bare, lead, line.is_cut)

    def _served(self, bare: Bare) -> None:
        """A line of a server at work: that it is one is all that is read of it."""
        for printed in split(bare, ""):
            self._notes(printed).serving.is_serving = True

    def rest(self) -> None:
        for bare in self.unwrapper.rest():
            self._bare(bare, "", True)

    def take_quoted(self, text: str) -> bool:
        """Takes errors without the name of an exception, where the text has nothing else of vLLM."""
        errors = quoted(text)
        known = any(notes.is_opened or notes.failures.found or notes.is_up for notes in self.starts.kept)
        if known or (errors and self.has_heads):
            return False
        for number, line in errors:
            self._forget(number)
            self._failed(self._notes(Printed(line)), Failure(line, number, "", False))
        return bool(errors)

    def take_parts(self, text: str) -> bool:
        """Takes the values of a few lines that were quoted in part, or in an older wording, without vLLM's head."""
        if self.has_heads or any(notes.is_opened or notes.failures.found for notes in self.starts.kept):
            return False
        taken = False
        for number, line, values in parts(text):
            if number in self.told and not any(place.line == number for place in self.examples):
                continue
            taken = True
            self._forget(number)
            put(values, self._notes(Printed(line)), self._place(line))
        for number, line in warnings(text):
            if number not in self.told:
                self.number, taken = number, True
                if ("WARNING", line) not in self._notes(Printed(line)).messages:
                    self._message(Printed(line, level="WARNING"))
        return taken

    def _forget(self, number: int) -> None:
        """Goes to a line that is read after all, and was told as not recognised."""
        kept = [place for place in self.examples if place.line != number]
        self.not_recognised -= len(self.examples) - len(kept)
        self.number, self.examples = number, kept

    def built(self, lines: int) -> tuple[Start, ...]:
        """The starts; that of a few lines without the beginning of one is a part."""
        found = self.starts.built(lines)
        kept = self.starts.kept
        if lines > MOST_LINES or len(found) != 1 or kept[0].is_opened or kept[0].is_up or kept[0].has_served:
            return found
        return (replace(found[0], is_part=True),)

    def at_the_end(self) -> None:
        """Memory that ran out ended a server that was up; values of several ranks without a name are no one's."""
        for notes in self.starts.kept:
            late = notes.serving.of_memory(self.requests)
            if notes.is_up and not notes.has_served:
                late = next(filter(is_of_memory, notes.failures.found), late)
            if late is not None and notes.failures.fatal is None and not notes.serving.is_stopping:
                self._ends(notes, late)
            dropped = notes.drop_unnamed()
            self.not_recognised += dropped
            if dropped:
                room = max(0, EXAMPLES - len(self.examples))
                self.examples = sorted((*self.examples, *notes.loose[:room]), key=lambda place: place.line)

    def _bare(self, bare: Bare, lead: str, is_cut: bool) -> None:
        for printed in split(bare, lead):
            self._printed(printed, is_cut)

    def _printed(self, printed: Printed, is_cut: bool) -> None:
        message = printed.message
        if "Capturing" in message and (match := bars.BAR.search(message)):
            self._bar(match, printed)
            message = message[match.end() :].strip()
            if not message:
                return
        if self._failure(printed):
            return
        if "hutting down" in message or "[shutdown]" in message:
            notes = self._notes(printed)
            notes.serving.stops(message, notes.failures.fatal is not None)
        self.has_heads = self.has_heads or printed.has_head
        read = recognise(message) if printed.has_head else find(message)
        if isinstance(read, Read) and is_cut and message[-1:].isdigit():
            read = Unfit(read.shape)  # The log ends within the number, for all one can see.
        if isinstance(read, Read) and printed.is_torn:
            read = Unfit(read.shape)
        if read is not None and self.number <= MOST_LINES:
            self.told.add(self.number)
        if isinstance(read, Read):
            self._read(read, printed)
        elif isinstance(read, Unfit):
            self._unfit(printed)
        elif "█" in message and self._banner(printed):
            return
        if printed.level in MESSAGE_LEVELS:
            self._message(printed)

    def _place(self, text: str) -> Place:
        return Place(self.number, text[:TEXT])

    def _bar(self, match: re.Match[str], printed: Printed) -> None:
        bar = bars.read(match)
        if bar is None:
            self._unfit(printed)
            return
        notes = self._notes(printed)
        notes.bar(bar, printed.process, self._place(match[0]))

    def _unfit(self, printed: Printed) -> None:
        self.not_recognised += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(self._place(printed.message.strip()))

    def _notes(self, printed: Printed) -> StartNotes:
        return self._seen(self.starts.of(printed, self.number), printed)

    def _seen(self, notes: StartNotes, printed: Printed) -> StartNotes:
        notes.last_line = self.number
        notes.began = notes.began or printed.time
        return notes

    def _opened(self, printed: Printed, what: str) -> StartNotes:
        return self._seen(self.starts.opened(printed, self.number, what), printed)

    def _banner(self, printed: Printed) -> bool:
        if match := starts.VERSION.fullmatch(printed.message):
            notes = self._opened(printed, "banner")
            notes.version, notes.has_banner = match["version"], True
            return True
        if match := starts.MODEL.fullmatch(printed.message):
            self._notes(printed).model = match["model"].strip()
            return True
        return False

    def _failure(self, printed: Printed) -> bool:
        """Takes lines of tracebacks: the exceptions are kept, the frames are not."""
        message = printed.message.strip("\r ")
        if printed.level not in ("ERROR", "CRITICAL", "") and printed.has_head:
            return False
        if line := exception(message) or out_of_memory(printed.message, is_bare=not printed.has_head):
            notes = self._notes(printed)
            if printed.level or printed.process or not notes.is_ready:
                notes.message("ERROR", line, self._place(line), printed.process)
            api = names.is_api_server(printed.process)
            self._failed(notes, Failure(line, self.number, names.label(printed.process), api))
            return True
        if (printed.level in ("ERROR", "CRITICAL") or not printed.has_head) and is_frame(printed.message):
            self._frame(printed)
            return "%|" not in message
        if printed.level == "ERROR" and "died unexpectedly" in message:
            self._fatal(printed)
        return False

    def _failed(self, notes: StartNotes, failure: Failure) -> None:
        """Takes an exception: of the start, or of a server at work, where only some are its end."""
        failures, serving = notes.failures, notes.serving
        if not notes.has_served or failures.fatal:
            failures.add(failure)
            if is_of_a_step(failure) or (notes.is_up and is_dead(failure.line)):
                self._ends(notes, failure)
            return
        if is_dead(failure.line) and not serving.is_stopping:
            self._ends(notes, failure)
            failures.add(failure)
        elif not failure.is_of_api_server or (failure.process == names.MAIN and is_of_memory(failure)):
            serving.failed(failure, failures, self.requests)
            if is_of_a_step(failure):
                self._ends(notes, failure)

    def _ends(self, notes: StartNotes, failure: Failure) -> None:
        notes.failures.fatal = notes.failures.fatal or failure
        notes.serving.ended(notes.failures, self.requests)

    def _frame(self, printed: Printed) -> None:
        """Of the inside of a traceback: the step of the start, and what a validator said."""
        wraps = self.starts.latest(printed)
        if wraps is None:
            return
        failures, process = wraps.failures, names.label(printed.process)
        if step_in(printed.message) is not None or function_in(printed.message) is not None:
            self._notes(printed).failures.frame(printed.message, process)
        elif (line := failures.cause(printed.message, process)) is not None:
            notes = self._notes(printed)
            notes.message("ERROR", line, self._place(line), printed.process)
            if not notes.has_served or failures.fatal:
                is_more = failures.validating
                failures.add(Failure(line, self.number, process, names.is_api_server(printed.process)))
                failures.validating = is_more

    def _fatal(self, printed: Printed) -> None:
        notes = self._notes(printed)
        if notes.failures.fatal is None and not notes.serving.is_stopping:
            line = printed.message.strip()[:MAX_MESSAGE]
            api = names.is_api_server(printed.process)
            self._ends(notes, Failure(line, self.number, names.label(printed.process), api))

    def _message(self, printed: Printed) -> None:
        text = printed.message.strip()[:MAX_MESSAGE]
        if not text:
            return
        notes = self._notes(printed)
        level = "ERROR" if printed.level == "CRITICAL" else printed.level
        notes.message(level, text, self._place(text), printed.process)
        if printed.level == "WARNING" and "udagraph" in text and (mode := downgrade(text)):
            notes.mode = mode

    def _read(self, read: Read, printed: Printed) -> None:
        values, shape, place = read.values, read.shape, self._place(printed.message)
        if shape in ("version", "headless"):
            notes = self._opened(printed, "banner")
            notes.version, notes.has_banner = str(values["version"]), True
            if "model" in values:
                notes.model = str(values["model"])
            return
        if shape == "arguments":
            self._arguments(str(values["arguments"]), printed)
            return
        if shape == "engine":
            self._engine(read, printed)
            return
        notes = self._notes(printed)
        self._survived(notes, printed)
        if shape in PHASES:
            notes.phase(PHASES[shape], float(values["seconds"]), printed.process)
        timed(notes, shape, values, printed)
        if shape in ESTIMATES:
            notes.environment.setdefault("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", ESTIMATES[shape])
        if shape == "fatal":
            self._fatal(printed)
        elif not of_server(notes, shape, values, printed):
            is_of_rank = notes.rank(printed.process).read(shape, values, place)
            if is_of_rank and printed.process is None:
                notes.unnamed(place)

    def _survived(self, notes: StartNotes, printed: Printed) -> None:
        """An exception of a process that goes on was not its end."""
        failures = notes.failures
        if failures.found and failures.fatal is None:
            label = names.label(printed.process)
            failures.found = [failure for failure in failures.found if failure.process != label]

    def _arguments(self, text: str, printed: Printed) -> None:
        arguments = reprs.parse_dict(text)
        if arguments is None:
            self._unfit(printed)
            return
        notes = self._opened(printed, "arguments")
        notes.has_arguments = True
        notes.arguments = {key: "(hidden)" if key in SECRET else value for key, value in arguments.items()}

    def _engine(self, read: Read, printed: Printed) -> None:
        engine = reprs.parse_settings(str(read.values["config"]))
        if engine is None:
            self._unfit(printed)
            return
        notes = self._opened(printed, "engine")
        said = f"{printed.time} {printed.message}"
        notes.engines.setdefault(names.label(printed.process), (key_of(printed.process), said))
        notes.version = notes.version or str(read.values["version"])
        if not notes.engine:
            notes.engine = engine
            notes.settle_engine()
