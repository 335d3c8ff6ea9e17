"""Changes of a setting in a configuration file or a config map."""

from __future__ import annotations

import pytest
from rewrite_cases import shell

from cgplan.inputs.launches.edit.kinds import ConfigEdit, TokenEdit
from cgplan.inputs.launches.edit.rewrite import rewritten, target_of
from cgplan.inputs.launches.launch import ConfigText, Launch, LaunchToken, Reading, Source, Span

CONFIG = """\
# top
model: m   # the model
max-num-seqs: 64
enable-x: false  # off
compilation-config:
  mode: 3   # three
  cudagraph_mode: FULL

  sizes:
    - 1
    - 2
# below
flow: {a: 1, b: 2}
text: >-
  long
  text

last: "9"
"""


def config(source: Source) -> Reading:
    lines = tuple(range(1, source.text.count("\n") + 2))
    files = {"c.yaml": ConfigText(source.text, lines, source)}
    program = LaunchToken("vllm", Span(0, 0, 1, 1), "made", False)
    return Reading((Launch(source, "config", "", (program,), files=files),))


def config_map(source: Source) -> Reading:
    lines = source.text.split("\n")
    first = lines.index("  c.yaml: |") + 1
    body = "\n".join(line[4:] for line in lines[first:])
    files = {"c.yaml": ConfigText(body, tuple(range(first + 1, len(lines) + 1)))}
    return Reading((Launch(source, "kubernetes", "", (), files=files),))


@pytest.mark.parametrize("embedded", [False, True])
@pytest.mark.parametrize(
    ("edits", "old", "new"),
    [
        ([ConfigEdit("enable-x", 4, "no-enable-x", True)], "enable-x: false  # off", "no-enable-x: true  # off"),
        ([ConfigEdit("enable-x", 4)], "enable-x: false  # off\n", ""),
        ([ConfigEdit("max-num-seqs", 3, "max-num-seqs", 8)], "64", "8"),
        ([ConfigEdit("max-num-seqs", 3, "seqs", 64)], "max-num-seqs", "seqs"),
        ([ConfigEdit("model", 2, "model", "x: y")], "model: m ", 'model: "x: y" '),
        ([ConfigEdit("model", 2, "model", "8")], "model: m ", 'model: "8" '),
        ([ConfigEdit("last", 18, "last", "10")], '"9"', '"10"'),
        ([ConfigEdit("last", 18)], 'last: "9"\n', ""),
        ([ConfigEdit("text", 14, "text", "short")], " >-\n  long\n  text", " short"),
        ([ConfigEdit("text", 14)], "text: >-\n  long\n  text\n", ""),
        ([ConfigEdit("flow", 13, "flow", {"a": 1})], "{a: 1, b: 2}", "{a: 1}"),
        ([ConfigEdit("a", 13)], "{a: 1, b: 2}", "{b: 2}"),
        ([ConfigEdit("flow.b", 13, "c", "8")], "b: 2}", 'c: "8"}'),
        ([ConfigEdit("compilation-config", 5)], CONFIG[CONFIG.index("comp") : CONFIG.index("# below")], ""),
        ([ConfigEdit("compilation-config.mode", 6, "mode", 0)], "mode: 3 ", "mode: 0 "),
        ([ConfigEdit("sizes", 9)], "  sizes:\n    - 1\n    - 2\n", ""),
        ([ConfigEdit("sizes", 9, "sizes", [4])], "\n    - 1\n    - 2", "\n    - 4"),
        ([ConfigEdit("compilation-config", 5, "compilation-config", {"mode": 3, "sizes": [1, 2], "new": {"y": "on"}})],
         "# three\n  cudagraph_mode: FULL\n\n  sizes:\n    - 1\n    - 2\n",
         "# three\n\n  sizes:\n    - 1\n    - 2\n  new: {y: 'on'}\n"),
        ([ConfigEdit("compilation-config", 5, "compilation-config", 1e-5)],
         CONFIG[CONFIG.index("-config:") + 8 : CONFIG.index("\n# below")], " 1.0e-05"),
    ],
)  # fmt: skip
def test_a_setting_of_a_file(edits: list[ConfigEdit], old: str, new: str, embedded: bool) -> None:
    text, read = CONFIG, config
    if embedded:

        def indented(part: str) -> str:
            return part.replace("\n", "\n    ").replace("\n    \n", "\n\n")

        front = "kind: x\ndata:\n  c.yaml: |\n"
        text, read = front + "    " + indented(CONFIG).removesuffix("    "), config_map
        whole = old.endswith("\n") and not new
        old, new = indented(old), indented(new)
        if whole:
            old = f"    {old[:-4]}" if CONFIG[CONFIG.index(edits[0].key.rpartition(".")[2] + ":") - 1] == "\n" else old
    source = Source("c.yaml", text)
    (launch,) = read(source).launches
    made = rewritten(source, [(launch, edits)], read)
    assert made.skipped == ()
    assert made.text == text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "edit", "reason"),
    [
        ("a: 1\n", ConfigEdit("b", 1), "no key b"),
        ("a: 1\n", ConfigEdit("a", 2), "no key a"),
        ("a: &x {b: 1}\nc: *x\n", ConfigEdit("c", 2), "alias"),
        ("a: &x {b: 1}\nc: *x\n", ConfigEdit("a", 1), "read"),
        ("- a: 1\n", ConfigEdit("a", 1), "cannot be read"),
        ("- a: [\n", ConfigEdit("a", 1), "cannot be read"),
        ("b:\n  - a: 1\n", ConfigEdit("a", 2), "lines of its own"),
    ],
)
def test_a_setting_that_cannot_be_changed(text: str, edit: ConfigEdit, reason: str) -> None:
    source = Source("c.yaml", text)
    made = rewritten(source, [(config(source).launches[0], [edit])], config)
    assert made.text == text
    assert reason in made.skipped[0].reason


def test_a_bomb_is_not_unfolded() -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)), "b: 1", ""]
    source = Source("c.yaml", "\n".join(lines))
    made = rewritten(source, [(config(source).launches[0], [ConfigEdit("b", 13, "b", 2)])], config)
    assert "too large" in made.skipped[0].reason


def test_an_edit_of_another_text_says_where_it_is() -> None:
    source, other = Source("m.sh", "vllm serve --config c.yaml"), Source("c.yaml", "a: 1\n")
    (launch,) = shell(source).launches
    launch = Launch(source, "shell", "", launch.tokens, files={"c.yaml": ConfigText(other.text, (1,), other)})
    edit = ConfigEdit("a", 1, "a", 2)
    assert target_of(launch, edit) == other
    assert target_of(launch, TokenEdit(0, 1)) == source
    there = rewritten(other, [(launch, [edit])], config)
    assert (there.text, there.skipped) == ("a: 2\n", ())
    here = rewritten(source, [(launch, [edit])], shell)
    assert here.text == source.text
    assert here.skipped[0].reason == "it is in c.yaml"
