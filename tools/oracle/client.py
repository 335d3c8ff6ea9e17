"""The way to vLLM: a host process of a release's own environment, and a client for each compute capability."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from oracle.environment import Environment
from oracle.records import Record

TOOLS = Path(__file__).parent.parent
START_SECONDS = 600.0
AHEAD = 8
"""Records sent ahead. Few enough for the buffer of the socket, so that sending never waits for reading."""


class VLLMError(Exception):
    """The process ended without an answer."""


class Host:
    """The process that copies itself for each client."""

    def __init__(self, environment: Environment) -> None:
        self.release = environment.release
        environment.workdir.mkdir(parents=True, exist_ok=True)
        self._folder = tempfile.TemporaryDirectory(prefix="cgplan-oracle-")
        self.socket = Path(self._folder.name) / "socket"
        self._log = (Path(self._folder.name) / "log").open("w", encoding="utf-8")
        # vLLM orders compile_sizes by a set of strings; the seed makes the order the same in each run.
        variables = {**os.environ, "PYTHONPATH": str(TOOLS), "PYTHONHASHSEED": "0"}
        # Importing vLLM takes seconds less from compiled files; the sources stay as they were unpacked.
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        variables["PYTHONPYCACHEPREFIX"] = str(environment.workdir / "pycache")
        command = [str(environment.python), "-m", "oracle.inside", "--release", environment.release]
        command += ["--sources", str(environment.sources), "--workdir", str(environment.workdir)]
        self._process = subprocess.Popen(
            [*command, "--socket", str(self.socket)],
            stdin=subprocess.PIPE,  # the host ends when it is closed, so also when this process is killed
            stdout=self._log,
            stderr=self._log,
            env=variables,
            cwd=environment.workdir,
        )

    def connect(self) -> socket.socket:
        """A new connection; waits for the host to be ready."""
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            connection = socket.socket(socket.AF_UNIX)
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                connection.connect(str(self.socket))
                return connection
            connection.close()
            time.sleep(0.1)
        raise VLLMError(self.last_words())

    def last_words(self) -> str:
        """The end of what vLLM's processes wrote."""
        text = Path(self._log.name).read_text(encoding="utf-8", errors="replace")
        return "the vLLM process ended:\n" + "\n".join(text.splitlines()[-25:])

    def __enter__(self) -> Host:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()
        self._log.close()
        self._folder.cleanup()


class Client:
    """Sends one record at a time and returns it with vLLM's answer."""

    def __init__(self, host: Host, capability: str) -> None:
        self._host = host
        self._connection = host.connect()
        self._lines = self._connection.makefile("r", encoding="utf-8")
        self._send(capability)
        self.about: dict[str, Any] = self._read()["ready"]

    def ask(self, record: Record) -> Record:
        """The record with `vllm_version` and `output` added."""
        return next(self.answers([record]))

    def answers(self, records: Iterable[Record]) -> Iterator[Record]:
        """The records answered, in their order. A few are sent ahead, so that vLLM never waits for the reader."""
        waiting = 0
        for record in records:
            self._send(json.dumps({"id": record["id"], "input": record["input"]}, separators=(",", ":")))
            waiting += 1
            if waiting > AHEAD:
                yield self._answer()
                waiting -= 1
        for _ in range(waiting):
            yield self._answer()

    def _answer(self) -> Record:
        answer = self._read()
        return {name: answer[name] for name in ("id", "vllm_version", "input", "output")}

    def _send(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # reading then says what went wrong
            self._connection.sendall(f"{line}\n".encode())

    def _read(self) -> dict[str, Any]:
        try:
            line = self._lines.readline()
        except ConnectionResetError:
            line = ""
        if not line:
            raise VLLMError(self._host.last_words())
        found: dict[str, Any] = json.loads(line)
        return found

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.close()
        self._connection.close()
