"""Hostile files, pipes, folders and lines for `cgplan check`, and the measure of what it makes of them.

Run by fuzz_check.py as a program of its own: the system counts the memory of whoever starts a process as the process's
own peak, so that one must be small.
"""

# ruff: noqa: E501  (a text a line is easier to read)

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ADDRESS_SPACE = 2 * 2**30
"""Bytes that a subprocess may ask for; what it really takes is measured."""
CPU_LIMIT = 30
WALL_LIMIT = 120
EXPECTED = (0, 1, 2)
"""Exit statuses that `cgplan check` may have."""
UNGUARDED = "--write"

UNITS = (
    "$", "$ ", "$$", "$$ ", "{", "}", "{ ", "(", ")", "( ", "\\", "\\ ", "\\\n", "'", '"', "' ", '" ', "`", "` ", "$(", "${", "${A:-",
    "$((", "$'", '$"', "((", "[[ ", "<", ">", "<<E\n", "<<E ", "<<-E\n", "<(", "|", "|\n", "&", "&&", ";", ";;", "!", "! ", "#",
    " #", "# ", "*", "? ", "[", "]", "- ", "-\n", "--", "--a ", "--a.b=1 ", "--max-num-seqs 3 ", "-cc.mode=3 ", "=", "a=", "a=b ",
    ",", ":", ": ", "a: ", "{a: ", "[{", "{\"a\":", "&a ", "*a ", "!!x ", "!x ", "%i ", "%", "@", "~ ", "\t", " ", "\n", "\r",
    "\r\n", "\x85", "\u2028", "\ufeff", "\0", "\x01", "\x1b[2J", "é", "\U0001f600", "if x; then ", "fi ", "else ", "case x in ",
    "a) ", "esac ", "for i in a; do ", "done ", "f() { ", "} ", "f\n", "eval ", "bash -c ", "sh -c '", "exec ", "export A=1\n",
    "A+=x$A\n", "A=$A$A\n", "A+=(a b)\n", "${A[@]} ", "vllm serve m\n", "vllm serve m; ", "vllm ", "docker run vllm/vllm-openai --model m\n",
    "docker run -e A=1 ", "```\n", "```bash\n", "~~~\n", "> ", "$ vllm serve m\n", "[Service]\n", "ExecStart=vllm serve m\n",
    "Environment=A=1\n", "FROM x\n", "CMD vllm serve m\n", "ENV A=1 ", "ARG A=1\n", "RUN <<E\n", "# cgplan: ignore\n", "# cgplan: ignore CG905\n",
    "{{", "{%", "{{ x }}\n", "1", "9", "0x", "1_", "1e", "12:", "a", "word ", "yes ", "null ", "\"a\", ", "'a', ", "x\n  ",
)  # fmt: skip
ESCAPES = ("\\n", "\\x41", "\\u0000", "\\ud800", "\\U00110000", "\\\\", '\\"', "\\ ", "\\\n  ")

Wrap = Callable[[str], tuple[str, str]]


def _pod(container: str) -> str:
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers:\n  - name: c\n    image: vllm/vllm-openai:v0.30.0\n{container}"  # fmt: skip


def _service(rest: str) -> str:
    return f"services:\n  s:\n    image: vllm/vllm-openai:v0.30.0\n{rest}"


def _block(text: str, indent: int) -> str:
    return "".join(" " * indent + line for line in text.splitlines(keepends=True))


WRAPS: dict[str, Wrap] = {
    "bare": lambda p: ("-", p + "\nvllm serve m\n"),
    "script word": lambda p: ("a.sh", f"vllm serve m --x {p}\n"),
    "script before": lambda p: ("a.sh", f"{p}\nvllm serve m\n"),
    "script quoted": lambda p: ("a.sh", f"vllm serve m --x '{p}'\n"),
    "script double": lambda p: ("a.sh", f'vllm serve m --x "{p}"\n'),
    "script variable": lambda p: ("a.sh", f'A="{p}"\nvllm serve m $A ${{A[@]}} "$A"\n'),
    "script array": lambda p: ("a.sh", f'A=({p})\nvllm serve m "${{A[@]}}"\n'),
    "script default": lambda p: ("a.sh", f"vllm serve ${{M:-{p}}} --x 1\n"),
    "script document": lambda p: ("a.sh", f"bash <<E\nvllm serve m {p}\nE\n"),
    "script in script": lambda p: ("a.sh", f"bash -c 'vllm serve m {p}'\n"),
    "script function": lambda p: ("a.sh", f"f() {{ vllm serve $1 {p}\n}}\n" + "f m\n" * 50),
    "docker run": lambda p: ("a.sh", f"docker run -e A={p} vllm/vllm-openai --model m {p}\n"),
    "JSON option": lambda p: ("a.sh", f"vllm serve m --compilation-config '{p}'\n"),
    "model": lambda p: ("a.sh", f"vllm serve '{p}'\n"),
    "flag": lambda p: ("a.sh", f"vllm serve m '--{p}'\n"),
    "value": lambda p: ("a.sh", f"vllm serve m --max-num-seqs '{p}'\n"),
    "batch": lambda p: ("a.sbatch", f"#!/bin/bash\n#SBATCH --gpus={p}\nvllm serve m\n"),
    "k8s script": lambda p: ("a.yaml", _pod(f'    command: [sh, -c, "vllm serve m {p}"]\n')),
    "k8s script block": lambda p: ("a.yaml", _pod(f"    command: [sh, -c]\n    args:\n    - |\n{_block('vllm serve m ' + p, 6)}\n")),
    "k8s script folded": lambda p: ("a.yaml", _pod(f"    command: [sh, -c]\n    args:\n    - >\n{_block('vllm serve m ' + p, 6)}\n")),
    "k8s words": lambda p: ("a.yaml", _pod(f"    args: [--model, m, '{p}']\n")),
    "k8s words plain": lambda p: ("a.yaml", _pod(f"    args:\n    - --model\n    - m\n    - {p}\n")),
    "k8s one word": lambda p: ("a.yaml", _pod(f'    args: "--model m {p}"\n')),
    "k8s env": lambda p: ("a.yaml", _pod(f"    env:\n    - name: A\n      value: '{p}'\n    args: [--model, m, $(A), $(A)]\n")),
    "k8s config": lambda p: ("a.yaml", _pod(f"    args: [--model, m, --config, /c/c.yaml]\n    volumeMounts: [{{name: v, mountPath: /c}}]\n  volumes: [{{name: v, configMap: {{name: k}}}}]\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: k}}\ndata:\n  c.yaml: |\n    max-num-seqs: 3\n{_block(p, 4)}\n")),
    "k8s script map": lambda p: ("a.yaml", f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: k}}\ndata:\n  start.sh: |\n    vllm serve m\n{_block(p, 4)}\n"),
    "YAML top": lambda p: ("a.yaml", f"{p}\n# vllm serve m\n"),
    "YAML value": lambda p: ("a.yaml", f"apiVersion: v1\nkind: Pod\nmetadata: {{name: vllm}}\nx: {p}\n"),
    "YAML double": lambda p: ("a.yaml", f'a: "vllm serve m {p}"\nb: c\n'),
    "YAML key": lambda p: ("a.yaml", f"services:\n  ? {p}\n  : vllm serve m\n"),
    "compose text": lambda p: ("compose.yaml", _service(f'    command: "--model m {p}"\n')),
    "compose folded": lambda p: ("compose.yaml", _service(f"    command: >\n{_block('--model m ' + p, 6)}\n")),
    "compose words": lambda p: ("compose.yaml", _service(f"    command: [--model, m, '{p}']\n")),
    "compose env": lambda p: ("compose.yaml", _service(f"    environment: ['A={p}']\n    command: --model m $A\n")),
    "compose entrypoint": lambda p: ("compose.yaml", _service(f"    entrypoint: sh -c 'vllm serve m {p}'\n")),
    "CMD": lambda p: ("Dockerfile", f"FROM vllm/vllm-openai:v0.30.0\nCMD vllm serve m {p}\n"),
    "CMD words": lambda p: ("Dockerfile", f'FROM vllm/vllm-openai:v0.30.0\nCMD ["--model", "m", "{p}"]\n'),
    "ENV": lambda p: ("Dockerfile", f"FROM x\nENV A={p}\nCMD vllm serve $A $A\n"),
    "ExecStart": lambda p: ("a.service", f"[Service]\nExecStart=/bin/vllm serve m {p}\n"),
    "Environment": lambda p: ("a.service", f"[Service]\nEnvironment={p}\nExecStart=/bin/vllm serve m $A ${{A}}\n"),
    "Markdown": lambda p: ("a.md", f"# t\n{p}\n```bash\nvllm serve m {p}\n```\n"),
    "Markdown YAML": lambda p: ("a.md", f"```yaml\nservices:\n  a:\n    command: vllm serve m {p}\n```\n"),
    "config": lambda p: ("a.yaml", f"model: m\nmax-num-seqs: 3\ntensor-parallel-size: 2\nserved-model-name: {p}\n"),
    "stack values": lambda p: ("values.yaml", f"servingEngineSpec:\n  modelSpec:\n  - name: a\n    modelURL: m\n    vllmConfig:\n      extraArgs: ['{p}', '--x']\n"),
    "task": lambda p: ("a.sky.yaml", f"resources:\n  accelerators: H100:8\nrun: |\n  vllm serve m {p}\n"),
    "image": lambda p: ("compose.yaml", f"services:\n  s:\n    image: 'vllm/vllm-openai:{p}'\n    command: --model m\n"),
    "suppression": lambda p: ("a.sh", f"# cgplan: ignore {p}\nvllm serve m --bogus  # cgplan: ignore {p}\n"),
}  # fmt: skip


def payload(dice: random.Random, size: int) -> str:
    """Some `size` characters that are hard to read."""
    kind = dice.randrange(10)
    if kind < 5:
        unit = dice.choice(UNITS)
        return unit * (size // len(unit) + 1)
    if kind < 7:
        one, two = dice.choice(UNITS), dice.choice(UNITS)
        half = size // 2
        return one * (half // len(one) + 1) + two * (half // len(two) + 1)
    if kind == 7:
        unit = "".join(dice.choices(UNITS, k=dice.randint(2, 5)))
        return unit * (size // len(unit) + 1)
    if kind == 8:
        return dice.choice(ESCAPES) * (size // 4)
    return "".join(dice.choices(UNITS, k=max(1, size // 3)))[:size]


def small_text(dice: random.Random) -> tuple[str, str]:
    """A text with a small payload in it, and its name."""
    name, text = dice.choice(list(WRAPS.values()))(payload(dice, dice.choice((1, 3, 20, 300, 3000))))
    return name, text


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
    pod = "---\n" + _pod(f"    command: [{', '.join(line.split())}]\n")
    ways: dict[str, tuple[str, str, str]] = {
        "servers of a script": ("a.sh", "", f"{line}\n"),
        "containers of a script": ("a.sh", "", "docker run vllm/vllm-openai:v0.30.0 --model m --bogus\n"),
        "pods": ("a.yaml", "", pod),
        "containers of a pod": ("a.yaml", _pod(""), f"  - name: c\n    command: [{', '.join(line.split())}]\n"),
        "services": ("compose.yaml", "services:\n", "  s%d:\n    image: vllm/vllm-openai\n    command: --model m --bogus\n"),
        "fences": ("a.md", "", f"```bash\n{line}\n```\n"),
        "ExecStart": ("a.service", "[Service]\n", f"ExecStart={line}\n"),
        "stages": ("Dockerfile", "", f"FROM vllm/vllm-openai:v0.30.0\nCMD {line}\n"),
        "anchored pods": ("a.yaml", "a: &a\n" + _block(_pod(f"    command: [{', '.join(line.split())}]\n"), 2) + "b:\n", "- *a\n"),
        "items": ("a.yaml", "apiVersion: v1\nkind: List\nitems:\n", _block(pod[4:], 2).replace("  apiV", "- apiV", 1)),
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
            "fifo of a manifest": iter([_pod("    args: [--model, m, --bogus]\n").encode()]),
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


class Measured(NamedTuple):
    """What a subprocess did: exit status, CPU seconds, peak resident MiB, and the ends of what it wrote."""

    status: int
    seconds: float
    megabytes: float
    out: str
    err: str


def measure(case: Hostile, folder: Path) -> Measured:
    """Run `cgplan` with the words of a case."""
    guard = [] if UNGUARDED in case.arguments else [str(HERE / "fuzz_guard.py")]
    command = [sys.executable, *(guard or [str(Path(sys.executable).with_name("cgplan"))]), *case.arguments]
    with open(folder / "out", "w+b") as out, open(folder / "err", "w+b") as err:
        feeds_stdin = case.feed is not None and case.pipe is None
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE if feeds_stdin else subprocess.DEVNULL, stdout=out, stderr=err,
            preexec_fn=_limits, cwd=folder, env={**os.environ, "PYTHONUTF8": "1"},
        )  # fmt: skip
        feeder = threading.Thread(target=_feed, args=(case, process), daemon=True)
        feeder.start()
        alarm = threading.Timer(WALL_LIMIT, process.kill)
        alarm.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        alarm.cancel()
        if case.pipe is not None:  # lets a feeder go that waits for a reader
            os.close(os.open(case.pipe, os.O_RDONLY | os.O_NONBLOCK))
        feeder.join(5)
        ends = []
        for file in (out, err):
            file.seek(0)
            ends.append(file.read(3000).decode("utf-8", "replace"))
    seconds = usage.ru_utime + usage.ru_stime
    return Measured(process.returncode, seconds, usage.ru_maxrss / 1024, *ends)


def _feed(case: Hostile, process: subprocess.Popen[bytes]) -> None:
    if case.feed is None:
        return
    try:
        with open(case.pipe, "wb") if case.pipe is not None else process.stdin as file:  # type: ignore[union-attr]
            for data in case.feed:
                file.write(data)
                if process.returncode is not None:
                    return
    except (BrokenPipeError, ValueError):
        pass


def _limits() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(seed: int, numbers: Sequence[int], folder: Path, seconds: float, megabytes: float, keeps: bool = False) -> int:
    """Run numbered cases; print what came of them. Returns the number of failures."""
    statuses: Counter[int] = Counter()
    slow: list[tuple[float, int, str]] = []
    large: list[tuple[float, int, str]] = []
    failures = 0
    for number in numbers:
        dice = random.Random(f"{seed}:process:{number}")
        own = folder / str(number)
        own.mkdir()
        case = dice.choice(GENERATORS)(dice, own)
        done = measure(case, own)
        statuses[done.status] += 1
        options = " ".join(word for word in case.arguments[2:] if word.startswith("-") and len(word) < 20)[:40]
        what = f"{case.what} {options}"
        slow = sorted([*slow, (done.seconds, number, what)], reverse=True)[:5]
        large = sorted([*large, (done.megabytes, number, what)], reverse=True)[:5]
        why = _fault(done, seconds, megabytes)
        if why:
            failures += 1
            print(f"process {number} of seed {seed} ({what}): {why}", flush=True)
            print(f"    {done.seconds:.2f} s, {done.megabytes:.0f} MiB, {done.out[-300:]!r} {done.err[-1500:]!r}", flush=True)  # fmt: skip
        if keeps:
            print(f"process {number}: {what}: cd {own}; cgplan {' '.join(case.arguments)[:300]}")
        else:
            subprocess.run(["rm", "-rf", str(own)], check=False)
    print(f"subprocesses, seed {seed}: {len(numbers)} cases, {failures} failures, statuses {dict(sorted(statuses.items()))}")  # fmt: skip
    for figure, number, what in slow:
        print(f"  slowest: {figure:.2f} s, process {number} ({what})")
    for figure, number, what in large:
        print(f"  largest: {figure:.0f} MiB, process {number} ({what})")
    return failures


def _fault(done: Measured, seconds: float, megabytes: float) -> str:
    if done.status not in EXPECTED:
        return f"exit status {done.status}"
    if "Traceback" in done.err or "forbidden:" in done.err:
        return "a traceback, or something forbidden"
    if done.status == 2 and not done.err.startswith("error["):
        return "no line that says why"
    if done.seconds > seconds:
        return f"more than {seconds} s"
    return f"more than {megabytes} MiB" if done.megabytes > megabytes else ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz the command line of cgplan check.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=5.0, help="of the processor, most for a case")
    parser.add_argument("--megabytes", type=float, default=300.0, help="resident, most for a case")
    parser.add_argument("--keep", type=Path, help="folder to leave the files of the cases in")
    options = parser.parse_args()
    numbers = range(options.first, options.first + options.cases)
    if options.keep is not None:
        options.keep.mkdir(parents=True)
        return int(run(options.seed, numbers, options.keep, options.seconds, options.megabytes, keeps=True) > 0)
    with tempfile.TemporaryDirectory() as folder:
        return int(run(options.seed, numbers, Path(folder), options.seconds, options.megabytes) > 0)


if __name__ == "__main__":
    sys.exit(main())
