"""Hostile files, pipes, folders and lines for `cgplan check`."""

# ruff: noqa: E501  (a text a line is easier to read)

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from .payloads import WRAPS, block, payload, pod


class Hostile(NamedTuple):
    """A case: what it is, the words behind `cgplan`, and what is written to its standard input or into a pipe."""

    what: str
    arguments: list[str]
    feed: Iterator[bytes] | None = None
    pipe: Path | None = None


def _many(dice: random.Random, folder: Path) -> Hostile:
    """A great many servers in one file."""
    count = dice.choice((300, 3000, 30_000, 100_000))
    line = "vllm serve m --max-num-seqs 300 --bogus --max-num-seqs 301"
    one = "---\n" + pod(f"    command: [{', '.join(line.split())}]\n")
    ways: dict[str, tuple[str, str, str]] = {
        "servers of a script": ("a.sh", "", f"{line}\n"),
        "containers of a script": ("a.sh", "", "docker run vllm/vllm-openai:v0.30.0 --model m --bogus\n"),
        "pods": ("a.yaml", "", one),
        "containers of a pod": ("a.yaml", pod(""), f"  - name: c\n    command: [{', '.join(line.split())}]\n"),
        "services": ("compose.yaml", "services:\n", "  s%d:\n    image: vllm/vllm-openai\n    command: --model m --bogus\n"),
        "fences": ("a.md", "", f"```bash\n{line}\n```\n"),
        "ExecStart": ("a.service", "[Service]\n", f"ExecStart={line}\n"),
        "stages": ("Dockerfile", "", f"FROM vllm/vllm-openai:v0.30.0\nCMD {line}\n"),
        "anchored pods": ("a.yaml", "a: &a\n" + block(pod(f"    command: [{', '.join(line.split())}]\n"), 2) + "b:\n", "- *a\n"),
        "items": ("a.yaml", "apiVersion: v1\nkind: List\nitems:\n", block(one[4:], 2).replace("  apiV", "- apiV", 1)),
    }  # fmt: skip
    what = dice.choice(list(ways))
    name, head, unit = ways[what]
    body = "".join(unit % number for number in range(count)) if "%d" in unit else unit * count
    return _file(folder, f"{count} {what}", name, (head + body)[: 15 * 2**20], dice)


def _bomb(dice: random.Random, folder: Path) -> Hostile:
    levels, width = dice.choice(((9, 10), (30, 2), (99, 3), (4, 500)))
    text = "a0: &a0 [vllm, serve, m]\n"
    for level in range(1, levels + 1):
        text += f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]\n"
    kinds = {
        "aliases": text,
        "merged aliases": "a0: &a0 {x: vllm}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * width)}]}}\n" for n in range(1, levels)),
        "an anchor in itself": "a: &a [*a]\nb: &b {<<: *b, vllm: *b}\n",
        "keys that are collections": "? " * 90 + "vllm\n",
        "flow depth": "vllm: " + "[" * 10**6,
        "flow maps": "vllm: " + "{a: " * 300_000,
        "block depth": "".join(" " * n + "a:\n" for n in range(3000)) + "vllm: 1",
        "dashes": "- " * 500_000 + "vllm",
        "JSON depth": json.dumps("vllm serve m") + "[" * 200_000 + "]" * 200_000,
        "long keys": f"services:\n  {'k' * 10**6}:\n    command: vllm serve m\n",
        "many keys": "vllm: 1\n" + "".join(f"k{n}: v\n" for n in range(400_000)),
        "one key often": "kind: Pod\napiVersion: v1\n" + "vllm: 1\n" * 200_000,
        "tags": "vllm: " + "!!python/object/apply:os.system [touch /tmp/cgplan-canary]\n" * 3,
        "documents": "--- vllm\n" * 300_000,
        "directives": "%TAG ! tag:x,2000:\n" * 100_000 + "--- vllm\n",
        "numbers": f"apiVersion: v1\nkind: Pod\nspec: {{containers: [{{image: vllm/vllm-openai, args: [--model, {'9' * 10**6}, 1{'_1' * 10**5}]}}]}}\n",
        "sexagesimal": "max-num-seqs: " + "1:" * 100_000 + "1\nmodel: vllm\n",
        "extends": "services:\n" + "".join(f"  s{n}:\n    extends: {{service: s{(n + 1) % 3000}}}\n    image: vllm/vllm-openai\n" for n in range(3000)),
    }  # fmt: skip
    what = dice.choice(list(kinds))
    return _file(
        folder, f"{what} {levels}x{width}", dice.choice(("a.yaml", "a.json", "compose.yaml")), kinds[what], dice
    )


def _folder(dice: random.Random, folder: Path) -> Hostile:
    what = dice.choice(("deep", "loops", "wide", "pipes", "binary"))
    root = folder / "tree"
    root.mkdir()
    server = "vllm serve m --bogus\n"
    if what == "deep":
        here = os.open(root, os.O_RDONLY)
        for _ in range(dice.choice((50, 600, 2500))):  # longer than a path may be
            os.mkdir("d", dir_fd=here)
            inner = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = inner
        os.close(here)
    elif what == "loops":
        for name in ("a", "b", "c"):
            (root / name).mkdir()
            (root / name / "up").symlink_to(root)
            (root / name / "me.yaml").symlink_to("me.yaml")
            (root / name / "other.sh").symlink_to(root / "a" / "a.sh")
        (root / "a" / "a.sh").write_text(server)
        (root / "gone.yaml").symlink_to("nowhere")
    elif what == "wide":
        for number in range(150):
            (root / f"{number}.sh").write_text(server)
    elif what == "pipes":
        for name in ("a.yaml", "b.sh", "Dockerfile"):
            os.mkfifo(root / name)
        (root / "zero.yaml").symlink_to("/dev/zero")
        (root / "random.sh").symlink_to("/dev/urandom")
        (root / "tty.md").symlink_to("/dev/tty")
    else:
        for number in range(50):
            (root / f"{number}{dice.choice(('.yaml', '.sh', '.md', ''))}").write_bytes(
                b"#!/bin/sh\n" + dice.randbytes(3000)
            )
        (root / "\udcff.sh".encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")).write_text(server)
    return Hostile(f"folder: {what}", _with_options(dice, [str(root)]))


def _special(dice: random.Random, folder: Path) -> Hostile:
    what = dice.choice(("/dev/zero", "/dev/urandom", "/dev/null", "/dev/full", "/proc/self/mem", "/proc/self/environ",
                        "fifo", "endless fifo", "fifo of a manifest", "symlink loop", "sparse", "unreadable name"))  # fmt: skip
    path = folder / "x.yaml"
    if what.startswith("/"):
        return Hostile(what, _with_options(dice, [what]))
    if "fifo" in what:
        os.mkfifo(path)
        feeds: dict[str, Iterator[bytes]] = {
            "endless fifo": _endless(b"vllm serve m\n" * 1000),
            "fifo of a manifest": iter([pod("    args: [--model, m, --bogus]\n").encode()]),
        }
        return Hostile(what, _with_options(dice, [str(path)]), feeds.get(what), path)
    if what == "symlink loop":
        path.symlink_to(path)
    elif what == "sparse":
        with open(path, "wb") as file:
            file.truncate(dice.choice((2**24, 2**24 + 1, 10**8, 2**40)))
    else:
        return Hostile(what, _with_options(dice, [dice.choice(("\udcff\udcfe", "a" * 5000, "\n\x1b[2J", "x/" * 3000))]))
    return Hostile(what, _with_options(dice, [str(path)]))


def _stdin(dice: random.Random, folder: Path) -> Hostile:
    ways: dict[str, Callable[[], Iterator[bytes]]] = {
        "endless": lambda: _endless(b"vllm serve m\n" * 1000),
        "endless zeros": lambda: _endless(bytes(2**16)),
        "100 MB": lambda: (b"a: vllm\n" * 12_500 for _ in range(1000)),
        "random bytes": lambda: iter([dice.randbytes(10**6)]),
        "UTF-16": lambda: iter(["vllm serve m".encode("utf-16")]),
        "one byte too many": lambda: iter([b"#" * (16 * 2**20 + 1)]),
        "as long as may be": lambda: iter([b"#" * (16 * 2**20 - 4) + b"vllm"]),
        "as long as may be, wide": lambda: iter(["\U0001f600".encode() + b"#" * (16 * 2**20 - 8) + b"vllm"]),
        "nothing": lambda: iter([b""]),
    }
    what = dice.choice(list(ways))
    return Hostile(f"stdin: {what}", _with_options(dice, ["-"]), ways[what]())


def _line(dice: random.Random, folder: Path) -> Hostile:
    """A command line; the system takes words of 128 KiB and 2 MiB in all."""
    size = dice.choice((100, 10_000, 120_000))
    words = [payload(dice, size).replace("\0", "")[:size] for _ in range(dice.choice((1, 2, 5)))]
    words = [word.encode("utf-8", "replace")[:120_000].decode("utf-8", "ignore") for word in words]
    option = dice.choice(
        (
            "--x",
            "--compilation-config",
            "-cc",
            "--max-num-seqs",
            "--hf-overrides",
            "--config",
            "-O",
            "--served-model-name",
        )
    )
    many = dice.choice(
        ([], ["--bogus"] * 10_000, ["--max-num-seqs", "3"] * 5000, ["a"] * 20_000, ["-cc.a.b.c=1"] * 5000)
    )
    deep = dice.choice(
        ([], ["-cc", '{"a":' * 20_000], ["-cc", "[" * 60_000 + "]" * 60_000], ["--" + "a." * 30_000 + "b", "1"])
    )
    return Hostile(
        f"line: {size} {option} {len(many)} {len(deep)}",
        ["check", "--", "vllm", "serve", "m", option, *words, *many, *deep],
    )


def _payload(dice: random.Random, folder: Path) -> Hostile:
    what = dice.choice(list(WRAPS))
    size = dice.choice((10_000, 120_000, 250_000, 1_000_000, 1_000_000, 14 * 2**20))
    inside = payload(dice, size)[:size]
    name, text = WRAPS[what](inside)
    return _file(folder, f"{what}: {size:,} of {inside[:12]!r}", name, text, dice)


def _file(folder: Path, what: str, name: str, text: str, dice: random.Random) -> Hostile:
    path = folder / ("a" if name == "-" else name)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return Hostile(what, _with_options(dice, [str(path)]))


def _with_options(dice: random.Random, arguments: list[str]) -> list[str]:
    options = dice.choice(
        ([], [], ["--json"], ["-f", "sarif"], ["-f", "github"], ["-f", "markdown"], ["-f", "concise"], ["-v"],
         ["--fix"], ["--fix", "--unsafe-fixes"], ["--fix", "--write"])
    )  # fmt: skip
    return (
        ["check", *arguments, *options] if "-" not in arguments or "--write" not in options else ["check", *arguments]
    )


def _endless(data: bytes) -> Iterator[bytes]:
    while True:
        yield data


GENERATORS: tuple[Callable[[random.Random, Path], Hostile], ...] = (
    *[_payload] * 10, _many, _many, _bomb, _bomb, _bomb, _folder, _special, _special, _stdin, _line, _line,
)  # fmt: skip
