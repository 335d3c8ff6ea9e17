"""Small changes of texts and command lines, as a slip of the hand or an evil mind would make them. All by one Random."""

# ruff: noqa: E501  (a text a line is easier to read)

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

PIECES = (
    "$", "$$", "${", "$(", "${A", "${A:-", "$((", "`", "'", '"', "\\", "\\\n", "\\ \n", "\n", "\r\n", "\r", "\t", " ", "  ",
    "#", " # x\n", "{", "}", "[", "]", "(", ")", ";", "&", "&&", "|", "||", "<", ">", "<<E\n", "<<-'E'\n", "E\n", "<(", "!",
    "*", "?", "~", "%", "%i", "@", ":", ": ", "- ", "-", "--", "=", ",", ".", "&a ", "*a", "<<: *a\n", "!!str ", "!x ", "|\n",
    ">-\n", "|+2\n", "---\n", "...\n", "%YAML 1.1\n", "\ufeff", "\0", "\x01", "\x85", "\u2028", "\ud800", "é", "\U0001f600",
    "{{ .Values.a }}", "{%- if a %}", "{{- end }}", "null", "~", "true", "1e999", "-1", "0x1f", "1_000", "12:30:45", ".inf",
    "999999999999999999999999", "vllm serve ", "vllm", "--model", "--max-num-seqs", "--max-num-seqs 300", "-O3", "-cc",
    '--compilation-config {"mode":3}', "--compilation-config '{\"cudagraph_capture_sizes\": [1,2]}'", "--config", "-cc.mode=3",
    "--max-model-len 8k", "--no-enforce-eager", "--served-model-name", "--config c.yaml", "VLLM_USE_V1=0 ", "export A=1\n",
    "A=(1 2)\n", "if true; then\n", "fi\n", "for i in 1 2; do\n", "done\n", "case $1 in\n", "esac\n", "f() {\n", "}\n",
    "eval ", "exec ", "bash -c ", "sh -lc '", "docker run vllm/vllm-openai ", "srun ", "env A=1 ", "image: vllm/vllm-openai:v0.29.0\n",
    "command: ", "args: ", "env:\n", "kind: ConfigMap\n", "ExecStart=", "CMD ", "ENTRYPOINT ", "FROM vllm/vllm-openai:v0.29.0\n",
    "```bash\n", "```\n", "$ ", "# cgplan: ignore\n", "# cgplan: ignore CG905\n", "# cgplan: ignore-file\n",
)  # fmt: skip
"""What is put in."""

NAMES = (
    "a.sh", "a.yaml", "a.yml", "a.json", "Dockerfile", "a.service", "a.md", "-", "a", "a.sbatch", "compose.yaml",
    "values.yaml", "a.yaml.j2", "a.sky.yaml",
)  # fmt: skip
MOST = 60_000
"""Characters of a mutated text."""

Change = Callable[[random.Random, str, Sequence[str]], str]


def mutated(dice: random.Random, text: str, others: Sequence[str]) -> str:
    """`text` after one to eight changes; stretches of `others` may be put in."""
    for _ in range(min(8, 1 + int(dice.expovariate(0.6)))):
        text = dice.choice(CHANGES)(dice, text, others)[:MOST]
    return text


def mutated_words(dice: random.Random, words: Sequence[str]) -> list[str]:
    """A command line as words, after changes."""
    found = list(words)
    for _ in range(dice.randint(1, 5)):
        at = dice.randrange(len(found) + 1)
        kind = dice.randrange(6)
        if kind == 0:
            found[at:at] = [dice.choice(PIECES)]
        elif kind == 1 and at < len(found):
            del found[at]
        elif kind == 2 and at < len(found):
            found[at] = mutated(dice, found[at], words)
        elif kind == 3 and at < len(found):
            found[at] = found[at] * dice.choice((2, 50))
        elif kind == 4:
            found[at:at] = dice.choices(found or ["vllm"], k=dice.choice((1, 3, 30)))
        else:
            found[at:at] = dice.choice(PIECES).split()
    return [word.replace("\0", "") for word in found]


def _put_in(dice: random.Random, text: str, others: Sequence[str]) -> str:
    at = dice.randrange(len(text) + 1)
    return text[:at] + dice.choice(PIECES) + text[at:]


def _put_in_word(dice: random.Random, text: str, others: Sequence[str]) -> str:
    """At the edge of a word, where it changes more."""
    edges = [at for at in range(1, len(text)) if text[at - 1].isspace() != text[at].isspace()]
    at = dice.choice(edges) if edges else 0
    return text[:at] + dice.choice(PIECES) + text[at:]


def _repeat(dice: random.Random, text: str, others: Sequence[str]) -> str:
    at = dice.randrange(len(text) + 1)
    return text[:at] + dice.choice(PIECES) * dice.choice((2, 3, 20, 300, 3000)) + text[at:]


def _cut(dice: random.Random, text: str, others: Sequence[str]) -> str:
    at = dice.randrange(len(text) + 1)
    return text[:at] + text[at + dice.choice((1, 1, 2, 5, 40, 400)) :]


def _end(dice: random.Random, text: str, others: Sequence[str]) -> str:
    return text[: dice.randrange(len(text) + 1)]


def _swap_character(dice: random.Random, text: str, others: Sequence[str]) -> str:
    if not text:
        return text
    at = dice.randrange(len(text))
    return text[:at] + chr(dice.choice((dice.randrange(128), dice.randrange(0x110000)))) + text[at + 1 :]


def _lines(dice: random.Random, text: str, others: Sequence[str]) -> str:
    lines = text.splitlines(keepends=True)
    if not lines:
        return text
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    kind = dice.randrange(5)
    if kind == 0:
        lines[one], lines[other] = lines[other], lines[one]
    elif kind == 1:
        lines[one:one] = [lines[other]] * dice.choice((1, 2, 40))
    elif kind == 2:
        del lines[one : one + dice.randint(1, 4)]
    elif kind == 3:
        lines[one] = " " * dice.choice((1, 2, 4)) + lines[one]
    else:
        lines[one] = lines[one].removeprefix("  ")
    return "".join(lines)


def _line_ends(dice: random.Random, text: str, others: Sequence[str]) -> str:
    return text.replace("\n", dice.choice(("\r\n", "\r", "\\\n", "\n\n", " \n", "\u2028")))


def _quotes(dice: random.Random, text: str, others: Sequence[str]) -> str:
    old, new = dice.sample(("'", '"', "`", "|", ">", "[", "]", "{", "}", ":", "\\", " "), 2)
    return text.replace(old, new, dice.choice((1, 3, -1)))


def _splice(dice: random.Random, text: str, others: Sequence[str]) -> str:
    other = dice.choice(others) if others else text
    at, start = dice.randrange(len(text) + 1), dice.randrange(len(other) + 1)
    return text[:at] + other[start : start + dice.choice((5, 80, 2000))] + text[at:]


def _several(dice: random.Random, text: str, others: Sequence[str]) -> str:
    return dice.choice(("---\n", "\n", "")).join([text] * dice.choice((2, 3, 20)))


CHANGES: tuple[Change, ...] = (
    _put_in, _put_in, _put_in_word, _put_in_word, _put_in_word, _repeat, _cut, _cut, _end, _swap_character, _lines, _lines,
    _line_ends, _quotes, _splice, _several,
)  # fmt: skip
