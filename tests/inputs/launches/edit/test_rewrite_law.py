"""For servers written in every style: after random edits the text reads as the edited tokens, and the rest stays."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cgplan.inputs.launches import Source, read
from cgplan.inputs.launches.edit.kinds import TokenEdit
from cgplan.inputs.launches.edit.rewrite import rewritten
from cgplan.inputs.launches.edit.tokens import texts_after

WORDS = st.one_of(
    st.sampled_from(
        ["1", "8k", "true", "off", "0.9", "FULL", '{"mode": 3}', '{"a": "b, c"}', "it's", "a b", "x: y", "[1]"]
    ),
    st.text("ab1 '\"$#:{},[]\\%*~!&|é-", min_size=1, max_size=8),
).filter(lambda word: not re.search(r"\{[{%]", word))  # a template
OPTIONS = st.sampled_from(["--alpha", "--beta-x", "--gamma", "--delta=1", "-d", "--no-eps"])
TOKENS = st.lists(st.one_of(OPTIONS, WORDS), min_size=1, max_size=7).map(lambda rest: ["vllm", "serve", "m", *rest])

Draw = Callable[[st.SearchStrategy[object]], object]


def pick(draw: Draw, *choices: str) -> str:
    return str(draw(st.sampled_from(choices)))


def shell_word(draw: Draw, text: str) -> str:
    double = '"' + re.sub(r'([$`"\\])', r"\\\1", text) + '"'
    ways = [shlex.quote(text), "'" + text.replace("'", "'\\''") + "'", double]
    return pick(draw, *ways)


def shell_line(draw: Draw, tokens: list[str], indent: str, newline: str = "\n") -> str:
    line = " ".join(tokens[:3])
    for token in tokens[3:]:
        gap = pick(draw, " ", "  ", f" \\{newline}{indent}  ", f" \\{newline}{indent}  ")
        line += gap + shell_word(draw, token)
    return line


def script(draw: Draw, tokens: list[str]) -> str:
    newline = pick(draw, "\n", "\r\n")
    front = pick(draw, "#!/bin/bash\n# start\n", "set -e\n\n", "", "export A=1\ncd /tmp && ")
    back = pick(draw, "\n", "  # last one\n", " > log 2>&1 &\necho done  \n", "", " | tee log\n")
    return front.replace("\n", newline) + shell_line(draw, tokens, "", newline) + back.replace("\n", newline)


def yaml_word(draw: Draw, text: str, *, flow: bool = False) -> str:
    single = "'" + text.replace("'", "''") + "'"
    ways = [single, json.dumps(text, ensure_ascii=False)]
    plain = r"-{0,2}[a-z][\w=-]*" if flow else r"-{0,2}[a-z][\w=-]*( [a-z]+)*"
    if re.fullmatch(plain, text, re.ASCII) and text not in ("true", "off", "on", "y", "n", "no", "yes", "null"):
        ways += [text, text]
    return pick(draw, *ways)


def pod(container: str) -> str:
    tail = "    env:\n    - name: A   # kept\n      value: '1'\n"
    head = "# pod\napiVersion: v1\nkind: Pod\nmetadata: {name: p}   # kept\nspec:\n  containers:\n"
    return f"{head}  - name: c\n    image: example/image:1\n{container}{tail}"


def items(draw: Draw, tokens: list[str]) -> str:
    indent = pick(draw, "    ", "      ", "        ")
    dash = pick(draw, "- ", "-   ")
    lines = ["    command:\n"]
    for token in tokens:
        above = pick(draw, "", "", f"{indent}# kept above\n", "\n")
        behind = pick(draw, "", "", "  # own", "  ")
        lines.append(f"{above}{indent}{dash}{yaml_word(draw, token)}{behind}\n")
    return pod("".join(lines)).replace("\n", pick(draw, "\n", "\r\n"))


def flow(draw: Draw, tokens: list[str]) -> str:
    gap = pick(draw, " ", "\n      ", "   # own\n      ")
    end = pick(draw, "", "\n    ", ", ", ",\n    ") if "#" not in gap else pick(draw, "\n    ", ",\n    ")
    body = f",{gap}".join(yaml_word(draw, token, flow=True) for token in tokens)
    first = pick(draw, "", "\n      ")
    return pod(f"    command: [{first}{body}{end}]\n")


def block_script(draw: Draw, tokens: list[str]) -> str:
    line = shell_line(draw, tokens, "        ")
    front = pick(draw, "", "set -e\n        ", "# start\n        export A=1\n        exec ")
    mark = pick(draw, "|", "|-", "|+")
    return pod(f"    command: [sh, -c]\n    args:\n    - {mark}\n        {front}{line}\n")


def quoted_script(draw: Draw, tokens: list[str]) -> str:
    line = " ".join([*tokens[:3], *(shell_word(draw, token) for token in tokens[3:])])
    written = pick(draw, json.dumps(line, ensure_ascii=False), "'" + line.replace("'", "''") + "'")
    return pod(f"    command: [sh, -c, {written}]\n")


def manifest_json(draw: Draw, tokens: list[str]) -> str:
    indent = draw(st.sampled_from([None, 2]))
    container = {"name": "c", "image": "x/y:1", "command": tokens, "env": [{"name": "A", "value": "1"}]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}, indent=indent)  # type: ignore[arg-type]


def dockerfile(draw: Draw, tokens: list[str]) -> str:
    gap = pick(draw, ", ", ",", ", \\\n     ")
    return f"FROM example/image:1\nENV A=1\n# start\nCMD [{gap.join(json.dumps(token) for token in tokens)}]\n"


def unit(draw: Draw, tokens: list[str]) -> str:
    line = "/usr/bin/vllm serve m"
    for token in tokens[3:]:
        inside = token.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$")
        plain = re.fullmatch(r"[\w=.-]+", token, re.ASCII) is not None
        quoted = pick(draw, "'" + inside.replace("'", "\\'") + "'", '"' + inside.replace('"', '\\"') + '"')
        line += pick(draw, " ", " \\\n    ") + (inside if plain else quoted)
    return f"[Unit]\n# a server\nDescription=x\n\n[Service]\nEnvironment=A=1\nExecStart={line}\nRestart=always\n"


def compose(command: str) -> str:
    head = "services:\n  s:\n    image: example/image:1\n    entrypoint: []\n"
    return f"{head}    command:{command}    ports: ['80:80']  # kept\n"


def compose_list(draw: Draw, tokens: list[str]) -> str:
    lines = "".join(f"      - {yaml_word(draw, token.replace('$', '$$'))}\n" for token in tokens)
    return compose(f"\n{lines}")


def compose_text(draw: Draw, tokens: list[str]) -> str:
    line = " ".join([*tokens[:3], *(shlex.quote(token).replace("$", "$$") for token in tokens[3:])])
    written = pick(draw, json.dumps(line, ensure_ascii=False), "'" + line.replace("'", "''") + "'", f">\n      {line}")
    return compose(f" {written}\n")


STYLES: dict[str, tuple[str, Callable[[Draw, list[str]], str]]] = {
    "script": ("a.sh", script),
    "items": ("a.yaml", items),
    "flow": ("a.yaml", flow),
    "block_script": ("a.yaml", block_script),
    "quoted_script": ("a.yaml", quoted_script),
    "manifest_json": ("a.json", manifest_json),
    "dockerfile": ("Dockerfile", dockerfile),
    "unit": ("a.service", unit),
    "compose_list": ("compose.yaml", compose_list),
    "compose_text": ("compose.yaml", compose_text),
}


@st.composite
def edits_of(draw: Draw, count: int) -> list[TokenEdit]:
    edits = []
    at = 3
    while at <= count and len(edits) < 4:
        start = draw(st.integers(at, count))
        assert isinstance(start, int)
        end = draw(st.integers(start, min(count, start + 3)))
        assert isinstance(end, int)
        texts = draw(st.lists(st.one_of(OPTIONS, WORDS), max_size=3))
        assert isinstance(texts, list)
        edits.append(TokenEdit(start, end, tuple(texts)))
        at = end + int(bool(draw(st.booleans()))) if end > start else end + 1
        if draw(st.booleans()):
            break
    return edits


@pytest.mark.parametrize("style", STYLES)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(data=st.data())
def test_reads_back_as_edited_and_the_rest_stays(style: str, data: st.DataObject) -> None:
    name, write = STYLES[style]
    tokens = data.draw(TOKENS)
    text = write(data.draw, tokens)
    source = Source(name, text)
    (launch,) = read(source).launches
    if launch.texts[-len(tokens) + 1 :] != tokens[1:]:
        return  # a reader's matter
    edits = data.draw(edits_of(len(tokens)))
    if not all(token.literal for edit in edits for token in launch.tokens[edit.start : edit.end]):
        return
    made = rewritten(source, [(launch, edits)])
    assert made.skipped == (), (text, launch.texts, edits)
    (after,) = read(Source(name, made.text)).launches
    assert after.texts == texts_after(launch, edits)
    assert after.env == launch.env or [one[:2] for one in after.env] == [one[:2] for one in launch.env]

    touched = {index for edit in edits for index in range(edit.start, edit.end)}
    at = 0
    for index, token in enumerate(launch.tokens):
        written = text[token.span.start : token.span.end]
        if index not in touched:
            at = made.text.index(written, at) + len(written)
    kept = [line for line in text.splitlines() if line.lstrip().startswith("#") or "# kept" in line]
    assert [line for line in made.text.splitlines() if line in kept] == kept
    first, last = launch.tokens[3 if len(tokens) > 3 else 2].span.start, launch.tokens[-1].span.end
    assert made.text[: text.rindex("vllm", 0, first)] == text[: text.rindex("vllm", 0, first)]
    tail = text[last:].partition("\n")[2]
    assert made.text.endswith(tail)
