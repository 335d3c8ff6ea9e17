"""Hostile input for `cgplan check`: it must end in findings or one clear line, run nothing, and stay small and quick.

    python tools/fuzz_check.py --seed 1 --cases 30000 --processes 300

In this process: mutations of fixtures/launches, of scripts kept here, and of command lines go through everything that
`cgplan check` does, with all forms of output and --fix. As subprocesses: the generators of fuzz_hostile.py go through
the command line under limits; processor time and peak memory are those the system measured (wait4).

What must hold of a case: no exception that is no CgplanError, every place inside its text, the same findings twice, no
process started, no connection made, nothing written; of fixes, that the new text reads as promised. Prints counts, the
slowest cases and each failure; exit status 1 if there is one. `--only N` repeats case N of the seed and prints it.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import json
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import fuzz_hostile
from fuzz_guard import Forbidden, Guard
from fuzz_mutations import NAMES, mutated, mutated_words

from cgplan.check.diagnostic import ConfigEdit, Diagnostic, TokenEdit
from cgplan.cli import check_fixes
from cgplan.cli.check_files import Checker, Wanted
from cgplan.cli.check_output import OUTPUTS, Form, show
from cgplan.cli.options import DeploymentOptions
from cgplan.deployment import LATEST
from cgplan.errors import InputError
from cgplan.inputs.launches import Launch, Source, Span, read
from cgplan.inputs.launches.edit.kinds import CannotEdit
from cgplan.inputs.launches.edit.rewrite import rewritten
from cgplan.inputs.launches.edit.tokens import texts_after
from cgplan.inputs.settings import Settings
from cgplan.report.check_results import LINE, FileResult

FIXTURES = Path(__file__).parents[1] / "fixtures" / "launches"
SECONDS = 5.0
MEGABYTES = 300
LEAP = 30
"""Mebibytes more than ever before that are worth a line."""
FIXED = 4
"""One case in so many is also mended, by findings and by edits at random."""

ASSUMED = ((None, None, None), ("0.19.1", "a100", None), ("0.25.1", "h200", "512"), (LATEST, "b200", None))
"""Release, GPU and --max-num-seqs that are said beside the input."""
WORDS = ("--alpha", "300", '{"a": 1}', "it's", 'a "b" $c', "x: y", "")
"""What edits at random put in."""
LINES = (
    "vllm serve Qwen/Qwen3-8B --max-num-seqs 300 --max-num-batched-tokens 4096",
    "vllm serve --model Qwen/Qwen3-8B -tp 2 --enforce-eager --enforce-eager --max-num-seqs 64 --max-num-seqs 128",
    'vllm serve m --compilation-config {"mode":3,"cudagraph_mode":"FULL"} -cc.max_cudagraph_capture_size=64 -O2',
    'vllm serve m --speculative-config {"method":"ngram","num_speculative_tokens":4} --enable-lora --max-loras 8',
    "VLLM_ATTENTION_BACKEND=FLASHINFER VLLM_X=1 vllm serve m --kv-cache-dtype fp8 --max-model-len 8k",
    "python3 -m vllm.entrypoints.openai.api_server --model m --tensor-parallel-size=4 --gpu-memory-utilization 0.95",
    "docker run --gpus all -e HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123 vllm/vllm-openai:v0.29.0 --model m -tp 2",
)
SCRIPT = """#!/bin/bash
set -euo pipefail
MODEL=${1:-Qwen/Qwen3-8B}
ARGS=(--max-num-seqs 300 --tensor-parallel-size "${TP:-2}")
if [ -n "$EXTRA" ]; then ARGS+=(--enforce-eager); fi
export VLLM_USE_V1=1  # cgplan: ignore CG810
for port in 8000 8001; do
  CUDA_VISIBLE_DEVICES=0 nohup vllm serve "$MODEL" "${ARGS[@]}" --port $port \\
    --compilation-config '{"cudagraph_mode": "FULL", "cudagraph_capture_sizes": [1, 2, 4]}' \\
    --max-num-seqs=64 > "log-$port" 2>&1 &
done
cat > c.yaml <<EOF
model: $MODEL
max-num-seqs: 12
EOF
serve() { exec vllm serve "$1" --config c.yaml "${@:2}"; }
case $ROLE in
  p) serve a --no-enable-prefix-caching ;;
  *) bash -lc "vllm serve b -O3 $(echo x)" ;;
esac
"""


class TooSlow(BaseException):
    """A case ran longer than it may; no handler of errors may hide it."""


class Wrong(Exception):
    """What must hold does not."""


def texts() -> dict[str, str]:
    """What is mutated, by name."""
    found = {"script.sh": SCRIPT, "lines.sh": "\n".join(LINES), "readme.md": f"# t\n\n```bash\n{SCRIPT}```\n"}
    for path in sorted(FIXTURES.rglob("*")):
        if path.is_file() and path.name != "expected.json":
            found[path.name] = path.read_text(encoding="utf-8")
    return found


def checkers() -> list[Checker]:
    """Checks under several assumptions; settings of this folder are not read."""
    found = []
    for release, gpu, seqs in ASSUMED:
        options = DeploymentOptions()
        options.vllm, options.gpu, options.max_num_seqs = release, gpu, seqs
        found.append(Checker(Wanted(options, settings=Settings())))
    return found


class Fuzzer:
    """Runs numbered cases; a case is made from the seed and its number alone."""

    def __init__(self, seed: int, guard: Guard) -> None:
        self.seed = seed
        self.guard = guard
        self.texts = texts()
        self.names = list(self.texts)
        self.others = list(self.texts.values())
        self.checkers = checkers()
        self.counts: collections.Counter[str] = collections.Counter()
        self.codes: collections.Counter[str] = collections.Counter()
        self.slowest: list[tuple[float, int, str]] = []
        self.failures: list[str] = []

    def case(self, number: int) -> tuple[Source | list[str], random.Random]:
        dice = random.Random(f"{self.seed}:{number}")
        kind = dice.random()
        if kind < 0.12:
            return mutated_words(dice, dice.choice(LINES).split()), dice
        if kind < 0.22:
            name, text = fuzz_hostile.small_text(dice)
            return Source(name, text), dice
        name = dice.choice(self.names)
        text = mutated(dice, self.texts[name], self.others)
        return Source(name if dice.random() < 0.8 else dice.choice(NAMES), text), dice

    def run(self, number: int, show_it: bool = False) -> None:
        given, dice = self.case(number)
        if show_it:
            print(given if isinstance(given, list) else f"{given.name}\n{given.text!r}")
        start, before = time.process_time(), _peak()
        try:
            with self.guard.closed():
                self._check(given, dice)
        except TooSlow:
            self._failed(number, f"a step is longer than {SECONDS} s")
        except (Exception, Forbidden):  # the point of it
            self._failed(number, traceback.format_exc())
        seconds = time.process_time() - start
        if _peak() - before > LEAP:
            print(f"case {number} takes the peak from {before:.0f} to {_peak():.0f} MiB ({_kind(given)})", flush=True)
        self.slowest = sorted([*self.slowest, (seconds, number, _kind(given))], reverse=True)[:5]

    def _failed(self, number: int, why: str) -> None:
        self.counts["failures"] += 1
        self.failures.append(f"case {number} of seed {self.seed}: {why}")
        print(self.failures[-1][-2500:], flush=True)

    def _check(self, given: Source | list[str], dice: random.Random) -> None:
        checker = dice.choice(self.checkers)

        def check() -> FileResult:
            return checker.line(given) if isinstance(given, list) else checker.source(given)

        try:
            with _at_most(SECONDS):
                found = check()
        except InputError:  # what stands behind -- cannot be read; the command says so in one line
            self.counts["lines refused in one line"] += 1
            return
        self._count(found)
        for wrong in _misplaced(found):
            raise Wrong(wrong)
        if dice.randrange(FIXED) == 0:
            for step in (lambda: _same(found, check()), lambda: self._mend(found), lambda: self._edit(found, dice)):
                with _at_most(SECONDS):
                    step()
        for output in OUTPUTS if dice.randrange(10) == 0 else [dice.choice(OUTPUTS)]:
            with _at_most(SECONDS):
                _shown(found, output)

    def _count(self, found: FileResult) -> None:
        self.counts["servers"] += len(found.launches)
        self.counts["texts with a server"] += bool(found.launches)
        self.counts["texts refused in one line"] += found.error is not None
        self.codes.update(one.code for one in found.all())

    def _mend(self, found: FileResult) -> None:
        """What --fix says that it mends reads back as mended."""
        for unsafe in (False, True):
            for one in check_fixes.mend([found], unsafe):
                self.counts["findings mended"] += len(one.made)
                self.counts["findings not mended, and said so"] += len(one.left)
                made = [id(each) for each in one.made]
                edits = [
                    (result.launch, [edit for each in result.diagnostics if id(each) in made for edit in each.edits])
                    for result in found.launches
                ]
                _check_text(one.source, one.text, edits)

    def _edit(self, found: FileResult, dice: random.Random) -> None:
        """Edits at random are made as asked, or skipped."""
        if found.source is None or not found.launches:
            return
        launches = [result.launch for result in found.launches]
        wanted = [(launch, _edits(dice, launch)) for launch in dice.sample(launches, min(2, len(launches)))]
        result = rewritten(found.source, wanted)
        self.counts["edits made"] += result.made
        self.counts["edits skipped"] += len(result.skipped)
        skipped = [(id(one.launch), one.edit) for one in result.skipped]
        made = [(launch, [edit for edit in edits if (id(launch), edit) not in skipped]) for launch, edits in wanted]
        others: list[tuple[Launch, list[Any]]] = [
            (one, []) for one in launches if all(one is not each for each, _ in wanted)
        ]
        _check_text(found.source, result.text, [*made, *others])


def _edits(dice: random.Random, launch: Launch) -> list[TokenEdit | ConfigEdit]:
    found: list[TokenEdit | ConfigEdit] = []
    at = 2
    for _ in range(dice.randint(1, 3)):
        if at > len(launch.tokens):
            break
        start = dice.randint(at, len(launch.tokens))
        end = min(len(launch.tokens), start + dice.choice((0, 1, 1, 2, 3)))
        texts = tuple(dice.choices(WORDS, k=dice.randint(0, 2)))
        found.append(TokenEdit(start, end, texts))
        at = end + 1
    return found


def _check_text(source: Source, text: str, edits: Sequence[tuple[Launch, Sequence[Any]]]) -> None:
    """A new text holds the tokens promised, and the same around the servers that are changed."""
    if text == source.text:
        return
    again = _read(source._replace(text=text))
    before = _read(source)
    if len(again) != len(before):
        raise Wrong(f"{len(before)} servers are {len(again)} after a fix: {text!r}")
    promised: dict[tuple[str, ...], int] = collections.Counter()
    places: list[Span] = []
    for launch, own in edits:
        tokens = list(dict.fromkeys(edit for edit in own if isinstance(edit, TokenEdit)))
        if launch.source.text != source.text:
            return
        try:
            promised[tuple(texts_after(launch, tokens))] += 1
        except CannotEdit as error:
            raise Wrong(f"made, and cannot be made: {error}") from None
        places += [token.span for token in launch.tokens if token.style != "made"] if own else []
        places += [Span(0, len(source.text), 1, 1)] if any(isinstance(edit, ConfigEdit) for edit in own) else []
    if promised != collections.Counter(tuple(launch.texts) for launch in again):
        raise Wrong(f"a fix reads as {[launch.texts for launch in again]}, not {list(promised)}: {text!r}")
    first, last = min(one.start for one in places), max(one.end for one in places)
    if source.text[:first].rstrip(" \t,\\\r\n-") != text[: len(source.text[:first].rstrip(" \t,\\\r\n-"))]:
        raise Wrong(f"text in front of a fix has changed: {text!r}")
    tail = source.text[last:].partition("\n")[2]
    if not text.endswith(tail):
        raise Wrong(f"text behind a fix has changed: {text!r}")


def _read(source: Source) -> list[Launch]:
    if source.name != LINE:
        return list(read(source).launches)
    import shlex

    from cgplan.inputs.launches import launch_of

    return [launch_of(shlex.split(source.text))]


def _misplaced(found: FileResult) -> Iterator[str]:
    """Places that are not in their text, or whose line and column are not those of their offset."""
    source = found.source
    if source is None:
        return
    spans: list[tuple[str, str, Span]] = []
    for result in found.launches:
        launch = result.launch
        own = launch.source.text
        spans += [(f"token {token.text[:40]!r}", own, token.span) for token in launch.tokens]
        spans += [(f"variable {one.name[:40]}", own, one.span) for one in launch.env if one.span is not None]
        spans += [("remark", own, one.span) for one in launch.remarks if one.span is not None]
    spans += [("remark", source.text, one.span) for one in found.remarks if one.span is not None]
    spans += [(one.code, one.at.source.text, one.at.span) for one in found.all() if one.at is not None]
    for what, text, span in dict.fromkeys(spans):
        if not 0 <= span.start <= span.end <= len(text):
            yield f"{what}: {span} is not in a text of {len(text)} characters"
        elif Source("", text).span(span.start, span.end) != span:
            yield f"{what}: {span} should be {Source('', text).span(span.start, span.end)}"


def _same(one: FileResult, other: FileResult) -> None:
    def facts(result: FileResult) -> list[Any]:
        return [str(result.error), result.remarks, [_said(finding) for finding in result.all()]]

    if facts(one) != facts(other):
        raise Wrong(f"two answers for one text: {facts(one)} and {facts(other)}")


def _said(one: Diagnostic) -> tuple[Any, ...]:
    return one.code, one.severity, one.message, one.fix, one.at.span if one.at else None


def _shown(found: FileResult, output: str) -> None:
    """Printed as it would be; JSON must be JSON, and all of it must be UTF-8."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        show([found], Form(output, "error", False, True))
    text = out.getvalue()
    if output in ("json", "sarif"):
        json.loads(text)
    (text + err.getvalue()).encode("utf-8")
    if len(err.getvalue().splitlines()) > 1:
        raise Wrong(f"more than one line of error: {err.getvalue()!r}")


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TooSlow

    signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _peak() -> float:
    """Most memory that this process ever held, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _kind(given: Source | list[str]) -> str:
    return "a line" if isinstance(given, list) else f"{given.name}, {len(given.text):,} characters"


def in_process(seed: int, first: int, cases: int) -> Fuzzer:
    """Run cases one after another, and print what came of them."""
    fuzzer = Fuzzer(seed, Guard())
    start = time.process_time()
    for number in range(first, first + cases):
        fuzzer.run(number)
    seconds = time.process_time() - start
    peak = _peak()
    print(f"in process, seed {seed}: {cases:,} cases in {seconds:.0f} s, {fuzzer.counts['failures']} failures")
    print(f"  peak memory of the process {peak:.0f} MiB, at most {MEGABYTES}")
    for what, count in sorted(fuzzer.counts.items()):
        print(f"  {count:,} {what}")
    print(f"  {sum(fuzzer.codes.values()):,} findings of {len(fuzzer.codes)} codes")
    for took, number, what in fuzzer.slowest:
        print(f"  slowest: {took:.2f} s, case {number} ({what})")
    if peak > MEGABYTES:
        fuzzer.failures.append(f"{peak:.0f} MiB")
    return fuzzer


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Fuzz cgplan check.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=2000, help="mutations in this process")
    parser.add_argument("--first", type=int, default=0, help="number of the first of them")
    parser.add_argument("--processes", type=int, default=0, help="hostile cases through the command line")
    parser.add_argument("--only", type=int, help="repeat one mutation and print it")
    options = parser.parse_args(arguments)
    if options.only is not None:
        fuzzer = Fuzzer(options.seed, Guard())
        fuzzer.run(options.only, show_it=True)
        return int(bool(fuzzer.failures))
    failed = bool(options.cases and in_process(options.seed, options.first, options.cases).failures)
    if options.processes:
        command = [sys.executable, str(Path(__file__).with_name("fuzz_hostile.py")), f"--seed={options.seed}",
                   f"--cases={options.processes}", f"--seconds={SECONDS}", f"--megabytes={MEGABYTES}"]  # fmt: skip
        sys.stdout.flush()
        failed = subprocess.run(command, check=False).returncode != 0 or failed
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
