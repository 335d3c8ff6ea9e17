"""The differential fuzzer: fresh inputs through vLLM and through cgplan; disagreements, shrunk, by kind."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock

from oracle import compare
from oracle.client import Client, Host, VLLMError
from oracle.environment import Environment
from oracle.records import Record, by_capability
from oracle.shrink import Input, shrink

SHRUNK_PER_KIND = 2
REPORT_EVERY = 1000


@dataclass(frozen=True)
class Disagreement:
    """A shrunk record on which cgplan and vLLM differ."""

    kind: str
    difference: str
    record: Record
    first_id: str


@dataclass
class Outcome:
    """What a run found. `refused` counts the inputs that vLLM itself does not start with."""

    release: str
    inputs: int = 0
    refused: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    shrunk: list[Disagreement] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def report(self) -> str:
        """The summary, then each kind with its shrunk inputs."""
        rate = self.inputs / self.seconds if self.seconds else 0.0
        lines = [
            f"vLLM {self.release}: {self.inputs} inputs ({self.refused} refused by vLLM), "
            f"{self.kinds.total()} disagreements of {len(self.kinds)} kinds, "
            f"{self.seconds:.0f} s, {rate:.1f} inputs/s"
        ]
        lines += [f"  lost: {text}" for text in self.lost]
        for name, number in self.kinds.most_common():
            lines.append(f"\n[{number}x] {name}")
            for found in self.shrunk:
                if found.kind == name:
                    lines.append(f"  {found.first_id}: {found.difference}")
                    lines.append(f"    {json.dumps(found.record['input'])}")
        return "\n".join(lines)


class Fuzzer:
    """Runs records of one release; safe to use from several threads, one vLLM process each."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.outcome = Outcome(environment.release)
        self._lock = Lock()
        self._start = time.monotonic()

    def run(self, records: Iterable[Record], jobs: int) -> Outcome:
        """Every record, `jobs` compute capabilities at a time."""
        groups = by_capability(records)
        with Host(self.environment) as host, ThreadPoolExecutor(jobs) as pool:
            list(pool.map(lambda capability: self._group(host, capability, groups[capability]), groups))
        self.outcome.seconds = time.monotonic() - self._start
        return self.outcome

    def _group(self, host: Host, capability: str, records: list[Record]) -> None:
        left = records
        while left:
            with Client(host, capability) as client:
                done = self._answered(client, left)
            left = left[done:]

    def _answered(self, client: Client, records: list[Record]) -> int:
        """Compare every answer, then shrink what differs; how many records are dealt with.

        A record at which the process ends is lost and counts as dealt with.
        """
        done = 0
        found: list[Disagreement] = []
        try:
            for record in client.answers(records):
                done += 1
                text = compare.difference(record)
                with self._lock:
                    self._count(record)
                    if text is not None and self._is_wanted(compare.kind(text)):
                        found.append(Disagreement(compare.kind(text), text, record, record["id"]))
            for disagreement in found:
                self._shrink(client, disagreement)
        except VLLMError as error:
            with self._lock:
                self.outcome.lost.append(f"after {done} of {len(records)}: {str(error)[-300:]}")
            return done + 1
        return done

    def _is_wanted(self, kind: str) -> bool:
        """Count a disagreement; whether it is one of the few of its kind to be shrunk."""
        self.outcome.kinds[kind] += 1
        return self.outcome.kinds[kind] <= SHRUNK_PER_KIND

    def _count(self, answered: Record) -> None:
        self.outcome.inputs += 1
        self.outcome.refused += "error" in answered["output"]
        if self.outcome.inputs % REPORT_EVERY == 0:
            seconds = time.monotonic() - self._start
            print(
                f"{self.outcome.inputs} inputs, {self.outcome.kinds.total()} disagreements, {seconds:.0f} s", flush=True
            )

    def _shrink(self, client: Client, found: Disagreement) -> None:
        def ask(candidate: Input) -> Record:
            return client.ask({"id": "shrunk", "input": candidate})

        def kind(candidate: Input) -> str | None:
            text = compare.difference(ask(candidate))
            return None if text is None else compare.kind(text)

        record = ask(shrink(found.record["input"], kind))
        text = compare.difference(record) or found.difference
        with self._lock:
            self.outcome.shrunk.append(Disagreement(found.kind, text, record, found.first_id))
        print(f"disagreement {text}\n    {json.dumps(record['input'])}", flush=True)
