"""Texts that are hard to read, and what they are wrapped in."""

# ruff: noqa: E501  (a text a line is easier to read)

from __future__ import annotations

import random
from collections.abc import Callable

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


def pod(container: str) -> str:
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers:\n  - name: c\n    image: vllm/vllm-openai:v0.30.0\n{container}"  # fmt: skip


def _service(rest: str) -> str:
    return f"services:\n  s:\n    image: vllm/vllm-openai:v0.30.0\n{rest}"


def block(text: str, indent: int) -> str:
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
    "k8s script": lambda p: ("a.yaml", pod(f'    command: [sh, -c, "vllm serve m {p}"]\n')),
    "k8s script block": lambda p: ("a.yaml", pod(f"    command: [sh, -c]\n    args:\n    - |\n{block('vllm serve m ' + p, 6)}\n")),
    "k8s script folded": lambda p: ("a.yaml", pod(f"    command: [sh, -c]\n    args:\n    - >\n{block('vllm serve m ' + p, 6)}\n")),
    "k8s words": lambda p: ("a.yaml", pod(f"    args: [--model, m, '{p}']\n")),
    "k8s words plain": lambda p: ("a.yaml", pod(f"    args:\n    - --model\n    - m\n    - {p}\n")),
    "k8s one word": lambda p: ("a.yaml", pod(f'    args: "--model m {p}"\n')),
    "k8s env": lambda p: ("a.yaml", pod(f"    env:\n    - name: A\n      value: '{p}'\n    args: [--model, m, $(A), $(A)]\n")),
    "k8s config": lambda p: ("a.yaml", pod(f"    args: [--model, m, --config, /c/c.yaml]\n    volumeMounts: [{{name: v, mountPath: /c}}]\n  volumes: [{{name: v, configMap: {{name: k}}}}]\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: k}}\ndata:\n  c.yaml: |\n    max-num-seqs: 3\n{block(p, 4)}\n")),
    "k8s script map": lambda p: ("a.yaml", f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: k}}\ndata:\n  start.sh: |\n    vllm serve m\n{block(p, 4)}\n"),
    "YAML top": lambda p: ("a.yaml", f"{p}\n# vllm serve m\n"),
    "YAML value": lambda p: ("a.yaml", f"apiVersion: v1\nkind: Pod\nmetadata: {{name: vllm}}\nx: {p}\n"),
    "YAML double": lambda p: ("a.yaml", f'a: "vllm serve m {p}"\nb: c\n'),
    "YAML key": lambda p: ("a.yaml", f"services:\n  ? {p}\n  : vllm serve m\n"),
    "compose text": lambda p: ("compose.yaml", _service(f'    command: "--model m {p}"\n')),
    "compose folded": lambda p: ("compose.yaml", _service(f"    command: >\n{block('--model m ' + p, 6)}\n")),
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
