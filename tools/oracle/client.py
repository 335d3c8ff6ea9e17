"""A process of a release's own environment that answers records for one compute capability."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from oracle.environment import Environment
from oracle.records import Record

TOOLS = Path(__file__).parent.parent


class VLLMError(Exception):
    """The process ended without an answer."""


class Client:
    """Sends one record at a time and returns it with vLLM's answer."""

    def __init__(self, environment: Environment, capability: str) -> None:
        self._log = tempfile.TemporaryFile(mode="w+", encoding="utf-8")
        # vLLM orders compile_sizes by a set of strings; the seed makes the order the same in each run.
        variables = {**os.environ, "PYTHONPATH": str(TOOLS), "PYTHONHASHSEED": "0"}
        command = [str(environment.python), "-m", "oracle.inside"]
        command += ["--sources", str(environment.sources), "--release", environment.release]
        command += ["--capability", capability, "--workdir", str(environment.workdir)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=variables,
            text=True,
            encoding="utf-8",
        )
        try:
            self.about: dict[str, Any] = self._read()["ready"]
        except VLLMError:
            self.close()
            raise

    def ask(self, record: Record) -> Record:
        """The record with `vllm_version` and `output` added."""
        given = {"id": record["id"], "input": record["input"]}
        try:
            _pipe(self._process.stdin).write(json.dumps(given, separators=(",", ":")) + "\n")
            _pipe(self._process.stdin).flush()
        except BrokenPipeError:
            pass  # reading says what went wrong
        answer = self._read()
        return {name: answer[name] for name in ("id", "vllm_version", "input", "output")}

    def _read(self) -> dict[str, Any]:
        line = _pipe(self._process.stdout).readline()
        if not line:
            self._process.wait()
            self._log.seek(0)
            raise VLLMError("the vLLM process ended:\n" + "".join(self._log.readlines()[-25:]))
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """End the process."""
        _pipe(self._process.stdin).close()
        self._process.wait()
        _pipe(self._process.stdout).close()
        self._log.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
