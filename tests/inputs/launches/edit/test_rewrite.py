"""Fixes in a text: just what was edited differs, and the new text reads back as meant."""

from __future__ import annotations

import pytest
from rewrite_cases import shell

from cgplan.inputs.launches.edit.kinds import TokenEdit
from cgplan.inputs.launches.edit.rewrite import Rewritten, rewritten
from cgplan.inputs.launches.kubernetes.container_words import expanded_word
from cgplan.inputs.launches.launch import EnvVariable, Launch, LaunchToken, Reading, Source, Span
from cgplan.inputs.launches.shell.commands import Word, in_words
from cgplan.inputs.launches.yaml_nodes import Mapping, Node, Scalar, Sequence, documents


def manifest(source: Source) -> Reading:
    """The servers of a YAML text with lists `command` and `args`."""
    launches: list[Launch] = []

    def walk(node: Node) -> None:
        if isinstance(node, Mapping):
            lists = [node.get(key) for key in ("command", "args")]
            words = [
                Word(item.text, item.span, "flow" if one.flow else "item", True, item.style, item.span_of)
                for one in lists
                if isinstance(one, Sequence)
                for item in one.items
                if isinstance(item, Scalar)
            ]
            found = in_words([expanded_word(word, {}) for word in words], {})
            launches.extend(Launch(source, "kubernetes", "", one.tokens, one.env) for one in found)
            for _, value in node.items:
                walk(value)
        elif isinstance(node, Sequence):
            for value in node.items:
                walk(value)

    for document in documents(source)[0]:
        walk(document)
    return Reading(tuple(launches))


def changed(text: str, *edits: tuple[int, int] | tuple[int, int, tuple[str, ...]], of: int = 0) -> Rewritten:
    """`text` after edits of its launch number `of`."""
    read = manifest if text.lstrip("\ufeff").startswith(("-", "#yaml", "{")) else shell
    source = Source("a file", text)
    launches = read(source).launches
    return rewritten(source, [(launches[of], [TokenEdit(*edit) for edit in edits])], read)


SCRIPT = """\
#!/bin/bash
vllm serve m \\
  --a 1 \\
  --b '{"x": 1}' \\
  --c 3  # last
echo "done"
"""


ARRAY = """\
ARGS=(
  # seats
  --a 1
  --b 2   # why
  --c 3
)
vllm serve m "${ARGS[@]}" > log
"""


LIST = """\
#yaml
- command: [vllm, "serve", m]   # c
  args:
    # above
    - --a   # own
    - "1"

    # for b
    - --b
    - '2'
    -   --cc={"x":1}
- other: 1   # kept
"""


FLOW = """\
- args: [
    "vllm", "serve",
    "--a",  # one
    "1",
    "--b",
    "2"   # two
  ]
"""


BLOCK = """\
- command: [sh, -c]
  args:
    - |
      vllm serve m \\
        --a 1 \\
        --b 2
"""


@pytest.mark.parametrize(
    ("text", "edits", "old", "new"),
    [
        # a script: lines of their own go as such, and the last leaves no backslash behind
        (SCRIPT, [(3, 5)], "  --a 1 \\\n", ""),
        (SCRIPT, [(5, 7)], "  --b '{\"x\": 1}' \\\n", ""),
        (SCRIPT, [(7, 9)], " \\\n  --c 3  # last", ""),
        (SCRIPT, [(5, 9)], " \\\n  --b '{\"x\": 1}' \\\n  --c 3  # last", ""),
        (SCRIPT, [(3, 9)], " \\\n  --a 1 \\\n  --b '{\"x\": 1}' \\\n  --c 3  # last", ""),
        (SCRIPT, [(4, 5)], " 1", ""),
        (SCRIPT, [(3, 3, ("--n", "2", "--m"))], "  --a", "  --n 2 \\\n  --m \\\n  --a"),
        (SCRIPT, [(9, 9, ("--n", "2"))], "  # last", " \\\n  --n 2  # last"),
        (SCRIPT, [(4, 5, ("it's",)), (6, 7, ('{"x": 2}',))], "1 \\\n  --b '{\"x\": 1", "\"it's\" \\\n  --b '{\"x\": 2"),
        (SCRIPT, [(4, 5, ("$HOME `x` it's",))], "--a 1", "--a '$HOME `x` it'\"'\"'s'"),
        (SCRIPT, [(3, 5, ("--z=8",))], "--a 1", "--z=8"),
        (SCRIPT, [(9, 9, ("--n",)), (9, 9, ("--m",))], "  # last", " \\\n  --n \\\n  --m  # last"),
        (SCRIPT, [(7, 9), (3, 3, ("--c", "3"))], SCRIPT[24:], SCRIPT[24:].replace("  --a", "  --c 3 \\\n  --a").replace(
            " \\\n  --c 3  # last", "")),
        (SCRIPT.replace("\n", "\r\n"), [(7, 9)], " \\\r\n  --c 3  # last", ""),
        (SCRIPT.replace("\n", "\r\n"), [(3, 3, ("--n",))], "  --a", "  --n \\\r\n  --a"),
        # all on one line
        ("vllm serve m --a 1 --b 2 > log 2>&1 &", [(3, 5)], " --a 1", ""),
        ("vllm serve m --a 1 --b 2 > log 2>&1 &", [(5, 7)], " --b 2", ""),
        ("vllm serve m --a 1 --b 2 > log 2>&1 &", [(7, 7, ("--n", "x y"))], " >", " --n 'x y' >"),
        ("X=1 vllm serve m --a   1\n", [(3, 5, ("--b",))], "--a   1", "--b"),
        # two options on a line
        ("vllm serve m \\\n  --a 1 --b 2 \\\n  --c 3\n", [(3, 5)], "--a 1 ", ""),
        ("vllm serve m \\\n  --a 1 --b 2 \\\n  --c 3\n", [(5, 7)], " --b 2", ""),
        ("vllm serve m --a 1 \\\n  --b 2\n", [(3, 7)], " --a 1 \\\n  --b 2", ""),
        # an array
        (ARRAY, [(3, 5)], "  --a 1\n", ""),
        (ARRAY, [(5, 7)], "  --b 2   # why\n", ""),
        (ARRAY, [(7, 9)], "  --c 3\n", ""),
        (ARRAY, [(9, 9, ("--n", "4"))], "  --c 3\n", "  --c 3\n  --n 4\n"),
        (ARRAY, [(7, 7, ("--n", "4"))], "# why\n", "# why\n  --n 4\n"),
        # a script in a script
        ("bash -c 'vllm serve m --a 1 --b 2'\n", [(4, 5, ("x y",))], "--a 1", '--a "x y"'),
        ("bash -c \"vllm serve m --a 1\"\n", [(4, 5, ('{"x": 1}',))], "--a 1", "--a '{\\\"x\\\": 1}'"),
        # items of a list
        (LIST, [(3, 5)], "    - --a   # own\n    - \"1\"\n", ""),
        (LIST, [(7, 8)], "    -   --cc={\"x\":1}\n", ""),
        (LIST, [(4, 5, ("true",)), (6, 7, ("it's",))], "\"1\"\n\n    # for b\n    - --b\n    - '2'",
         "\"true\"\n\n    # for b\n    - --b\n    - 'it''s'"),
        (LIST, [(3, 4, ("--a: b",))], "--a   #", '"--a: b"   #'),
        (LIST, [(3, 4, ('{"a": 1}',))], "--a   #", "'{\"a\": 1}'   #"),
        (LIST, [(3, 4, ("8",))], "--a   #", '"8"   #'),
        (LIST, [(3, 4, ("$(X)",))], "--a   #", "$$(X)   #"),
        (LIST, [(4, 4, ("--n", "off"))], "# own\n", '# own\n    - --n\n    - "off"\n'),
        (LIST, [(8, 8, ("--n",))], '{"x":1}\n', '{"x":1}\n    -   --n\n'),
        (LIST, [(3, 3, ("--n",))], "    - --a", "    - --n\n    - --a"),
        (LIST, [(2, 3, ("m2",))], ", m]", ", m2]"),
        (LIST.replace("\n", "\r\n"), [(3, 4), (8, 8, ("--n",))], None, LIST.replace("    - --a   # own\n", "").replace(
            '{"x":1}\n', '{"x":1}\n    -   --n\n').replace("\n", "\r\n")),
        ("\ufeff" + LIST, [(7, 8)], "    -   --cc={\"x\":1}\n", ""),
        ("- args:\n  - vllm\n  - serve\n  - m\n  - --a", [(3, 4)], "  - --a", ""),
        ("- args:\n  - vllm\n  - serve\n  - --a", [(2, 2, ("m",)), (3, 3, ("--b",))],
         "  - --a", "  - m\n  - --a\n  - --b"),
        ("- args:\n  - vllm\n  - serve\n  - >-\n    --a\n\n- b: 1", [(2, 3, ("--b",))], ">-\n    --a", "--b"),
        ("- args:\n  - vllm\n  - serve\n  - |-\n    --a\n\n- b: 1", [(2, 3)], "  - |-\n    --a\n", ""),
        # items of an array
        (FLOW, [(2, 4)], '    "--a",  # one\n    "1",\n', ""),
        (FLOW, [(5, 6)], ',\n    "2"   # two\n', "\n"),
        (FLOW, [(6, 6, ("--n", "1"))], '"2"   # two\n', '"2",   # two\n    "--n",\n    "1"\n'),
        (FLOW, [(3, 3, ("x",))], "# one\n", '# one\n    "x",\n'),
        ('- args: ["vllm", "serve", "m", "--a"]', [(3, 4)], ', "--a"', ""),
        ('- args: ["vllm", "serve", "m", "--a"]', [(2, 3)], '"m", ', ""),
        ('- args: ["vllm", "serve", "m", "--a", ]', [(3, 4)], '"--a", ', ""),
        ('{"args": ["vllm", "serve", "m"]}', [(3, 3, ("--cc", '{"a": "b"}'))],
         '"m"', '"m", "--cc", "{\\"a\\": \\"b\\"}"'),
        ("- args: [vllm, serve, 'm']", [(2, 3, ("a, b",))], "'m'", "'a, b'"),
        ("- args: [vllm, serve, m]", [(2, 3, ("a, b",))], "m]", '"a, b"]'),
        # a script in YAML
        (BLOCK, [(5, 7)], " \\\n        --b 2", ""),
        (BLOCK, [(7, 7, ("--n", '{"x": 1}'))], "--b 2", "--b 2 \\\n        --n '{\"x\": 1}'"),
        ("- command: [sh, -c, 'vllm serve m --a 1']", [(4, 5, ("x y",))], "--a 1", '--a "x y"'),
        ("- command: [sh, -c, 'vllm serve m --a 1']", [(4, 5, ('{"x": 1}',))], "--a 1", "--a ''{\"x\": 1}''"),
        ('- command: [sh, -c, "vllm serve m --a 1"]', [(4, 5, ('{"x": 1}',))], "--a 1", "--a '{\\\"x\\\": 1}'"),
        ("- command:\n  - sh\n  - -c\n  - >-\n    vllm serve m\n    --a 1\n    --b 2\n", [(3, 5)], "    --a 1\n", ""),
        ("- command:\n  - sh\n  - -c\n  - >-\n    vllm serve m\n    --a 1\n    --b 2\n", [(5, 5, ("--n",))], "--a 1\n",
         "--a 1\n    --n\n"),
    ],
)  # fmt: skip
def test_just_this_differs(text: str, edits: list[tuple[int, int]], old: str | None, new: str) -> None:
    made = changed(text, *edits)
    assert made.skipped == ()
    assert made.made == len(edits)
    if old is None:
        assert made.text == new
    else:
        assert text.count(old) >= 1
        assert made.text == text.replace(old, new, 1)


def test_nothing_to_do_is_the_text_itself() -> None:
    assert changed(LIST) == Rewritten(LIST)
    assert changed(LIST, (3, 3)).text == LIST
    assert changed(LIST, (3, 5, ("--a", "1"))).text == LIST


@pytest.mark.parametrize(
    ("text", "edits", "reasons"),
    [
        (SCRIPT, [(3, 5), (4, 5, ("2",))], ["another fix changes the same text"]),
        (SCRIPT, [(3, 5), (4, 4, ("2",))], ["another fix changes the same text"]),
        (SCRIPT, [(8, 20)], ["no such tokens"]),
        (SCRIPT, [(-1, 2)], ["no such tokens"]),
        ("N=8\nvllm serve m --a $N\n", [(4, 5, ("9",))], ["a variable is put in at $N"]),
        ("- command: [vllm]\n  args: [serve, m]\n", [(0, 9)], ["no such tokens"]),
        ("- args:\n  - vllm\n  - serve\n  -\n    m\n", [(2, 3)], ["line of its own"]),
        # a plain scalar cannot hold this word
        ("- command:\n  - sh\n  - -c\n  - vllm serve m --a 1\n", [(4, 5, ("a\nb",))], ["read back"]),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said(text: str, edits: list[tuple[int, int]], reasons: list[str]) -> None:
    made = changed(text, *edits)
    assert len(made.skipped) == len(reasons)
    assert all(reason in one.reason for one, reason in zip(made.skipped, reasons, strict=True))
    if made.made == 0:
        assert made.text == text


def test_the_same_edit_twice_is_made_once() -> None:
    made = changed(SCRIPT, (3, 5, ("--z",)), (3, 5, ("--z",)))
    assert made.text == SCRIPT.replace("--a 1", "--z")
    assert (made.made, made.skipped) == (2, ())


def test_a_variable_may_go() -> None:
    text = "N=8\nvllm serve m --a $N --b 2\n"
    assert changed(text, (3, 5)).text == text.replace(" --a $N", "")


def test_a_good_fix_is_made_beside_one_that_fails() -> None:
    text = "- command:\n  - sh\n  - -c\n  - vllm serve m --a 1 --b 2\n"
    made = changed(text, (4, 5, ("a\nb",)), (6, 7, ("3",)))
    assert made.text == text.replace("2\n", "3\n")
    assert [one.edit.start for one in made.skipped if isinstance(one.edit, TokenEdit)] == [4]


def test_one_bad_fix_among_many_costs_few_readings() -> None:
    text = "".join(f"vllm serve m{number} --a 1 &\n" for number in range(150))
    source = Source("x.sh", text)
    launches = shell(source).launches
    reads = 0

    def read(again: Source) -> Reading:
        nonlocal reads
        reads += 1
        if "bad" in again.text:
            raise ValueError("it cannot be read")
        return shell(again)

    changes = [(launch, [TokenEdit(4, 5, ("bad" if number == 99 else "2",))]) for number, launch in enumerate(launches)]
    made = rewritten(source, changes, read)
    assert made.text == text.replace("--a 1", "--a 2").replace("m99 --a 2", "m99 --a 1")
    assert [one.launch for one in made.skipped] == [launches[99]]
    assert reads < 40


SHARED = """\
#yaml
- command: &c [vllm, serve, m, --a]
- command: *c
"""


def test_servers_that_share_their_text_change_together_or_not_at_all() -> None:
    source = Source("x", SHARED)
    one, two = manifest(source).launches
    alone = rewritten(source, [(one, [TokenEdit(3, 4, ("--b",))])], manifest)
    assert alone.text == SHARED
    assert [skipped.reason for skipped in alone.skipped] == ["another server would change with it"]
    both = rewritten(source, [(one, [TokenEdit(3, 4, ("--b",))]), (two, [TokenEdit(3, 4, ("--b",))])], manifest)
    assert both.text == SHARED.replace("--a", "--b")
    assert (both.made, both.skipped) == (2, ())


def test_several_servers_of_a_text() -> None:
    text = "vllm serve a --x 1 &\nvllm serve b --x 1\n"
    source = Source("x.sh", text)
    one, two = shell(source).launches
    made = rewritten(source, [(two, [TokenEdit(3, 5)]), (one, [TokenEdit(4, 5, ("2",))])], shell)
    assert made.text == "vllm serve a --x 2 &\nvllm serve b\n"


def test_an_edit_that_breaks_another_part_of_the_file_is_not_made() -> None:
    """A reader that sees no harm in what it does not look at."""
    text = "#yaml\n- command: [vllm, serve, m]\n- other: &x 1\n- more: *x\n"
    source = Source("x", text)
    (launch,) = manifest(source).launches
    at = text.index("&x 1")
    fooled = Launch(
        source, "kubernetes", "", (*launch.tokens[:2], LaunchToken("m", Span(at + 3, at + 4, 3, 13), "flow"))
    )

    def read(again: Source) -> Reading:
        words = ("vllm", "serve", "m" if again.text == text else "2")
        return Reading((Launch(again, "kubernetes", "", tuple(
            token._replace(text=word) for token, word in zip(fooled.tokens, words, strict=True)
        )),))  # fmt: skip

    made = rewritten(source, [(fooled, [TokenEdit(2, 3, ("2",))])], read)
    assert made.made == 1  # the scalar itself is what was edited
    assert made.text == text.replace("&x 1", '&x "2"')

    wider = fooled.tokens[2]._replace(span=Span(at, at + 4, 3, 10))
    fooled = Launch(source, "kubernetes", "", (*fooled.tokens[:2], wider))
    lost = rewritten(source, [(fooled, [TokenEdit(2, 3, ("2",))])], read)
    assert lost.text == text
    assert "something else" in lost.skipped[0].reason


def test_a_change_of_the_environment_is_refused() -> None:
    source = Source("x", "vllm serve m")

    def read(again: Source) -> Reading:
        (launch,) = shell(again).launches
        grown = EnvVariable("X", str(len(again.text)), None)
        return Reading((Launch(again, "shell", "", launch.tokens, (grown,)),))

    (launch,) = read(source).launches
    made = rewritten(source, [(launch, [TokenEdit(2, 3, ("mm",))])], read)
    assert "environment" in made.skipped[0].reason


@pytest.mark.parametrize("fault", [Reading(), ValueError("no")])
def test_a_text_that_is_not_read_again_is_not_written(fault: Reading | ValueError) -> None:
    source = Source("x", "vllm serve m")

    def read(again: Source) -> Reading:
        if again.text == source.text:
            return shell(again)
        if isinstance(fault, ValueError):
            raise fault
        return fault

    made = rewritten(source, [(shell(source).launches[0], [TokenEdit(2, 3, ("n",))])], read)
    assert made.text == source.text
    assert len(made.skipped) == 1


def test_a_pasted_line() -> None:
    from cgplan.inputs.launches.pasted import launch_of

    launch = launch_of(["A=1", "vllm", "serve", "m", "--cc", '{"x": 1}'])
    made = rewritten(launch.source, [(launch, [TokenEdit(4, 5, ('{"x": 2}',)), TokenEdit(2, 2, ("n",))])])
    assert made.text == """A=1 vllm serve n m --cc '{"x": 2}'"""
