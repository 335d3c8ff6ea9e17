"""Manifests, Helm, compose, Dockerfiles, scripts, units and lines, changed, through everything that `check` does."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from cgplan.check.diagnostic import Diagnostic
from cgplan.cli.check_files import Checker, Wanted
from cgplan.cli.check_output import OUTPUTS
from cgplan.cli.options import DeploymentOptions
from cgplan.deployment import LATEST
from cgplan.inputs.launches import Source
from cgplan.inputs.settings import Settings

from .edits import check_edited, check_mended, misplaced, shown
from .kind import Kind, Wrong
from .payloads import small_text
from .texts import NAMES, mutated, mutated_words

FIXTURES = Path(__file__).parents[2] / "fixtures" / "launches"
FIXED = 4
"""One case in so many is also mended, by findings and by edits at random."""

ASSUMED = ((None, None, None), ("0.19.1", "a100", None), ("0.25.1", "h200", "512"), (LATEST, "b200", None))
"""Release, GPU and --max-num-seqs that are said beside the input."""
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


class Manifests:
    """Texts of servers, and lines."""

    def __init__(self, folder: str) -> None:
        self.texts = texts()
        self.names = list(self.texts)
        self.others = list(self.texts.values())
        self.checkers = checkers()

    def make(self, dice: random.Random) -> Source | list[str]:
        kind = dice.random()
        if kind < 0.12:
            return mutated_words(dice, dice.choice(LINES).split())
        if kind < 0.22:
            return Source(*small_text(dice))
        name = dice.choice(self.names)
        text = mutated(dice, self.texts[name], self.others)
        return Source(name if dice.random() < 0.8 else dice.choice(NAMES), text)

    def answer(self, given: Source | list[str], dice: random.Random) -> Any:
        checker = dice.choice(self.checkers)
        found = checker.line(given) if isinstance(given, list) else checker.source(given)
        for wrong in misplaced(found):
            raise Wrong(wrong)
        if dice.randrange(FIXED) == 0:
            check_mended(found)
            check_edited(found, dice)
        for output in OUTPUTS if dice.randrange(10) == 0 else [dice.choice(OUTPUTS)]:
            shown(found, output)
        return [str(found.error), repr(found.remarks), [_said(one) for one in found.all()]]


def _said(one: Diagnostic) -> tuple[Any, ...]:
    return one.code, one.severity, one.message, one.fix, repr(one.at.span) if one.at else None


KIND = Kind(
    "manifests", "files and lines of `check`, with fixes, edits at random and all outputs", 0.015, Manifests, False
)
