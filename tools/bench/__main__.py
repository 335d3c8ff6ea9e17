"""Benchmarks: ratios measured in one run, so that they hold when the machine's speed drifts.

    python tools/bench                              print them
    python tools/bench --write docs/benchmarks.md   print them, and write them as a page, with programs near cgplan

Prints one line a figure: what, the figure, and the limit it is held to. Exit status 1 when a limit is missed. Run it
with the Python of the environment that cgplan is installed in; each ratio alternates the two commands.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import logs
import peers
import sweep

PAGE = """\
# Benchmarks

Written by `python tools/bench --write docs/benchmarks.md`; all figures are of that one run. Ratios are medians of
{runs} pairs, the two commands in turn, so that they hold when the machine's speed drifts.

Machine: {machine}. Load of the machine before and after: {before}, {after}.

## Speed

| what | figure | limit | held |
|---|---|---|---|
{rows}

## Programs near it

Each was installed with pip into a bare virtual environment of its own: the size is that of the environment beside an
empty one, byte code included. A cold start is the median of {starts} runs of `--help`, the one thing that all do
without a GPU and without a network. They answer other questions than cgplan.

{peers}"""
BARE = """
import typer, pydantic, rich
app = typer.Typer()
class Answer(pydantic.BaseModel):
    text: str
@app.command()
def main() -> None:
    rich.print(Answer(text="one line").text)
app()
"""
RUNS = 15
MANIFEST = Path(__file__).parents[2] / "fixtures" / "launches" / "public" / "deployment-command-first.yaml"
MANIFESTS = 1000
VARIANTS = 1000
CGPLAN = Path(sys.executable).with_name("cgplan")
# A shell that forbids bytecode files would have the package compiled anew at every run.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def seconds(command: list[str]) -> float:
    """Wall time of one run of `command`."""
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=False, env=ENVIRONMENT)
    elapsed = time.perf_counter() - start
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.decode()[:500]}")
    return elapsed


def ratio(command: list[str], base: list[str]) -> tuple[float, float, float]:
    """Median of the pairwise ratio, and the two medians in milliseconds."""
    for warm in (command, base):
        seconds(warm)
    pairs = [(seconds(command), seconds(base)) for _ in range(RUNS)]
    middle = statistics.median(a / b for a, b in pairs)
    return middle, *(1000 * statistics.median(side) for side in zip(*pairs, strict=True))


def resolutions_per_second(count: int = 4000) -> float:
    """Resolutions a second on one core over distinct deployments; making the Deployment is not counted."""
    from cgplan import CompilationOptions, CUDAGraphMode, Deployment, resolve
    from cgplan.releases.gpus import gpu

    choose = random.Random(20261129)
    gpus = [gpu(name) for name in ("H100", "A100", "B200", "L4", "RTX 5090", "T4")]
    backends = [None, "FLASH_ATTN", "FLASHINFER", "TRITON_ATTN"]
    deployments: list[Deployment] = []
    seen = set()
    while len(deployments) < count:
        key = (choose.randint(1, 2048), choose.randrange(len(gpus)), choose.choice([None, *CUDAGraphMode]))
        backend = choose.choice(backends)
        card = gpus[key[1]]
        if (key, backend) in seen or (backend in ("FLASH_ATTN", "FLASHINFER") and card.capability < (8, 0)):
            continue
        seen.add((key, backend))
        deployments.append(
            Deployment(
                max_num_seqs=key[0],
                max_num_batched_tokens=8192,
                gpu=card,
                attention_backend=backend,
                compilation_config=CompilationOptions(cudagraph_mode=key[2]),
            )
        )
    resolve(deployments[0])
    rates = []
    for _ in range(3):
        start = time.process_time()
        for deployment in deployments:
            resolve(deployment)
        rates.append(count / (time.process_time() - start))
    return statistics.median(rates)


def seconds_of_manifests() -> float:
    """Processor time in which `cgplan check` checks a folder of manifests, each one different; it is one process.

    Models and releases go round, lengths do not, so that no answer of an earlier file fits.
    """
    models = ("Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B-Instruct", "openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V3")
    releases = ("v0.33.0", "v0.29.0", "v0.24.0")
    text = MANIFEST.read_text(encoding="utf-8")
    for part in ("acme/stork-distill-8b", "v0.24.0", '"12288"'):
        if text.count(part) != 1:
            raise SystemExit(f"{MANIFEST.name} does not have {part} just once")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(MANIFESTS):
            own = text.replace("acme/stork-distill-8b", models[number % len(models)])
            own = own.replace("v0.24.0", releases[number % len(releases)]).replace('"12288"', f'"{8192 + number}"')
            Path(folder, f"deployment-{number:04}.yaml").write_text(own, encoding="utf-8")
        command = [str(CGPLAN), "check", folder, "--fail-on", "never", "--output", "concise"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds(command)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def seconds_of_what_if() -> float:
    """Processor time of a what-if over `VARIANTS` values of --max-num-seqs."""
    from cgplan import Deployment, load_model, plan
    from cgplan.cli.plan_variants import what_if

    made = plan(Deployment(model=load_model("Qwen/Qwen3-8B")))
    start = time.process_time()
    what_if(made, f"max-num-seqs=1..{VARIANTS}")
    return time.process_time() - start


def measured() -> list[tuple[str, str, str, bool]]:
    """What, figure, limit, and whether it is held."""
    bare = [sys.executable, "-c", BARE]
    rate = resolutions_per_second()
    cold, cold_ms, bare_ms = ratio([str(CGPLAN), "resolve", "--json"], bare)
    line = ["vllm", "serve", "Qwen/Qwen3-8B", "--max-num-seqs", "300"]
    check, check_ms, beside_ms = ratio([str(CGPLAN), "check", "--fail-on", "never", "--", *line], bare)
    asked = ["plan", "--model", "Qwen/Qwen3-8B", "--gpu", "h100", "--json"]
    planned, planned_ms, bare_beside_ms = ratio([str(CGPLAN), *asked], bare)
    shown, shown_ms, bare_by_screen_ms = ratio([str(CGPLAN), *asked[:-1]], bare)
    variants = seconds_of_what_if()
    manifests = seconds_of_manifests()
    version, version_ms, pass_ms = ratio([str(CGPLAN), "--version"], [sys.executable, "-c", "pass"])
    return [
        ("resolve(), distinct deployments a second on one core", f"{rate:,.0f}", "at least 5,000", rate >= 5000),
        (
            "cgplan resolve --json, cold, against a bare typer + pydantic + rich program",
            f"{cold:.2f} ({cold_ms:.0f} ms to {bare_ms:.0f} ms)",
            "at most 1.5",
            cold <= 1.5,
        ),
        (
            "cgplan check of one line, cold, against a bare typer + pydantic + rich program",
            f"{check:.2f} ({check_ms:.0f} ms to {beside_ms:.0f} ms)",
            "at most 1.6",
            check <= 1.6,
        ),
        (
            "cgplan plan --json of one model, cold, against a bare typer + pydantic + rich program",
            f"{planned:.2f} ({planned_ms:.0f} ms to {bare_beside_ms:.0f} ms)",
            "at most 1.6",
            planned <= 1.6,
        ),
        (
            "cgplan plan of one model on the screen, cold, against a bare typer + pydantic + rich program",
            f"{shown:.2f} ({shown_ms:.0f} ms to {bare_by_screen_ms:.0f} ms)",
            "at most 1.6",
            shown <= 1.6,
        ),
        (
            f"cgplan plan --what-if over {VARIANTS:,} values, seconds of one core",
            f"{variants:.2f}",
            "at most 2",
            variants <= 2,
        ),
        (
            f"cgplan check of {MANIFESTS:,} manifests, seconds of one core",
            f"{manifests:.1f}",
            "at most 10",
            manifests <= 10,
        ),
        (
            "cgplan --version against python -c pass",
            f"{version:.2f} ({version_ms:.0f} ms to {pass_ms:.0f} ms)",
            "at most 6",
            version <= 6,
        ),
        *logs.rows(),
        *sweep.rows(),
    ]


def page(rows: list[tuple[str, str, str, bool]], before: str) -> str:
    """docs/benchmarks.md."""
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"
    table = "\n".join(
        f"| {what} | {figure} | {limit} | {'yes' if good else 'no'} |" for what, figure, limit, good in rows
    )
    others = peers.page()
    return PAGE.format(
        runs=RUNS, machine=machine, before=before, after=load(), rows=table, starts=peers.RUNS, peers=others
    )


def load() -> str:
    return f"{os.getloadavg()[0]:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="write the page as well")
    given = parser.parse_args()
    before = load()
    rows = measured()
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, {RUNS} pairs a ratio, medians")
    for what, figure, limit, good in rows:
        print(f"{'ok  ' if good else 'MISS'}  {what}: {figure}; {limit}")
    if given.write is not None:
        given.write.write_text(page(rows, before), encoding="utf-8")
    return 0 if all(row[3] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
