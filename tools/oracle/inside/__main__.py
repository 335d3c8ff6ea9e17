"""Answer records of one release over a socket, one process a connection.

    python -m oracle.inside --sources DIR --release 0.33.0 --workdir DIR --socket PATH

A connection says its compute capability in its first line, and gets a line about the environment; then each line it
sends is a record and each line it gets the same record with vLLM's answer. vLLM decides a few things while it is
imported, so a process stands for one capability.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import TextIO

from oracle import models
from oracle.inside.ground import Ground


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, required=True, help="folder of the unpacked source distribution")
    parser.add_argument("--release", required=True)
    parser.add_argument("--workdir", type=Path, required=True, help="folder for model configurations and caches")
    parser.add_argument("--socket", type=Path, required=True)
    options = parser.parse_args()
    models.write(options.workdir / "models")
    ground = Ground(options.sources, options.release, options.workdir)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(options.socket))
        listener.listen()
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in ready:  # closed: whoever started this is gone
                return
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _serve(ground, connection)
            connection.close()


def _serve(ground: Ground, connection: socket.socket) -> None:
    """Answer one connection until it ends, then leave at once: vLLM keeps threads that would delay an orderly end."""
    status = 1
    try:
        with connection.makefile("r", encoding="utf-8") as asked, connection.makefile("w", encoding="utf-8") as answers:
            _answer(ground, asked, answers)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _answer(ground: Ground, asked: TextIO, answers: TextIO) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    from oracle.inside.replay import Replay

    major, minor = (int(part) for part in asked.readline().split("."))
    replay = Replay(ground, (major, minor))
    _write(answers, {"ready": replay.about()})
    for line in asked:
        record = json.loads(line)
        try:
            output = replay.answer(record["input"])
        except Exception as error:
            traceback.print_exc()
            output = {"error": replay.errors.describe(error, "harness")}
        _write(answers, {**record, "vllm_version": ground.release, "output": output})


def _write(answers: TextIO, document: object) -> None:
    answers.write(json.dumps(document, separators=(",", ":")) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
