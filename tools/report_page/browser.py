"""A headless Chromium over its debugging pipe: JSON messages that end with a zero byte."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE = 60.0
"""Seconds that one answer may take."""


def find_chromium() -> str | None:
    """The program, or None: there is none here. CHROMIUM names another one."""
    named = os.environ.get("CHROMIUM")
    return next((path for name in ((named,) if named else NAMES) if (path := shutil.which(name))), None)


class Browser:
    """One page of a browser that is started for it and ended with it."""

    def __init__(self, program: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="report-page-")
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # The protocol is spoken on descriptors 3 and 4 of the browser.
        flags = "--headless=new --remote-debugging-pipe --no-sandbox --disable-gpu --no-first-run --hide-scrollbars"
        command = f'exec "$0" {flags} --user-data-dir="$1" about:blank 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, program, self._folder.name],
            pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._rest, self._number = b"", 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM", "Accessibility"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(10)
        os.close(self._write)
        os.close(self._read)
        self._folder.cleanup()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command; its answer. Events that come in between are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while True:
            found = self._next(end)
            if found.get("id") == self._number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']['message']}")
                answer: dict[str, Any] = found["result"]
                return answer
            self.events.append(found)

    def wait_for(self, method: str) -> None:
        """Until an event has come."""
        end = time.monotonic() + PATIENCE
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._next(end))

    def told(self, method: str) -> list[dict[str, Any]]:
        """The parameters of all events of a kind so far."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def _next(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            piece = os.read(self._read, 1 << 20) if ready else b""
            if not piece:
                raise TimeoutError("the browser does not answer")
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found
