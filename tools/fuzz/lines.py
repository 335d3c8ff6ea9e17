"""Arguments: command lines of the golden records, changed, through vLLM's grammar to a deployment and its answer."""

from __future__ import annotations

import gzip
import json
import random
from itertools import islice
from typing import Any

from cgplan.check import check_launch
from cgplan.cli.launched import why_not
from cgplan.inputs.launches import launch_of
from cgplan.inputs.launches.asked import Context, ask
from cgplan.inputs.serve_args_flags import flag_table
from cgplan.releases import SUPPORTED
from cgplan.releases.gpus import gpu
from cgplan.resolve import resolve
from cgplan.resolve.document import as_document

from .deployments import FIXTURES, GPUS
from .documents import as_text, odd
from .kind import Kind
from .texts import mutated_words

OF_A_FILE = 500
VALUES = ("1", "0", "-1", "2", "8", "64", "300", "8k", "8K", "1.5k", "1e3", "0x10", "٣", "auto", "none", "None", "true",
          "FULL", "PIECEWISE", "fp8", "bfloat16", "FLASH_ATTN", "mp", "ngram", "[1,2,4]", "{}", "{", "[]", '"x"',
          '{"mode":3}', '{"method":"ngram","num_speculative_tokens":3}', '{"cudagraph_mode":"FULL"}', "1,2,4", "0.9",
          "1e999", "nan", "inf", "99999999999999999999", "", " ", "\n", "a=b", "/nowhere", "org/model",
          "x" * 3000)  # fmt: skip
MODELS = (
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-30B-A3B",
    "deepseek-ai/DeepSeek-V3",
    "Qwen/Qwen3-8B-AWQ",
    "org/unknown",
    "m",
    "~x/y",
)
SECTIONS = ("-cc", "-ac", "-sc", "--compilation-config", "--speculative-config", "--kv-transfer-config",
            "--hf-overrides", "--attention-config", "--kernel-config", "--pooler-config")  # fmt: skip
KEYS = ("mode", "cudagraph_mode", "cudagraph_capture_sizes", "max_cudagraph_capture_size",
        "pass_config.fuse_norm_quant",
        "splitting_ops", "backend", "method", "num_speculative_tokens", "model", "kv_connector", "x",
        "a.b.c", "")  # fmt: skip


class Lines:
    """Golden lines changed, and lines put together from a release's own options."""

    def __init__(self, folder: str) -> None:
        self.lines: list[list[str]] = []
        for path in sorted((FIXTURES / "golden-args").glob("*.jsonl.gz")):
            with gzip.open(path, "rt", encoding="utf-8") as rows:
                self.lines += [json.loads(row)["input"]["argv"] for row in islice(rows, OF_A_FILE)]
        self.options = {release: tuple(flag_table(release).by_option) for release in SUPPORTED}

    def make(self, dice: random.Random) -> tuple[list[str], str]:
        release = dice.choice(SUPPORTED)
        if dice.random() < 0.5:
            return mutated_words(dice, dice.choice(self.lines)), release
        words = ["vllm", "serve", dice.choice(MODELS)]
        for _ in range(dice.randint(1, 6)):
            words += self._option(dice, release)
        return (mutated_words(dice, words) if dice.random() < 0.3 else words), release

    def _option(self, dice: random.Random, release: str) -> list[str]:
        kind = dice.random()
        value = as_text(odd(dice))[:5000] if dice.random() < 0.2 else dice.choice(VALUES)
        if kind < 0.2:
            return [dice.choice(SECTIONS), value]
        if kind < 0.35:
            return [f"{dice.choice(SECTIONS)}.{dice.choice(KEYS)}={value}"]
        option = dice.choice(self.options[release])
        if kind < 0.5:
            return [f"{option}={value}"]
        if kind < 0.6:
            return [option[: dice.randint(2, len(option))], value]
        return [option] if kind < 0.75 else [option, value]

    def answer(self, given: tuple[list[str], str], dice: random.Random) -> Any:
        words, release = given
        asked = ask(launch_of(words), Context(release=release, gpu=gpu(dice.choice(GPUS))))
        if dice.random() < 0.25:
            found = check_launch(asked)
            return [[one.code, one.severity, one.message, one.fix] for one in found.diagnostics]
        refused = why_not(asked)
        if refused is not None:
            raise refused
        if asked.served is None:
            return "not served"
        return as_document(resolve(asked.served.deployment))


KIND = Kind("lines", "lines of `vllm serve` of each release, through the grammar, check and resolve", 0.145, Lines)
