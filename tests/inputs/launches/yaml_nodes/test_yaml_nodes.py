"""YAML nodes: what PyYAML reads, and the place of each character of each value."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cgplan.errors import InputError
from cgplan.inputs.launches.launch import Source
from cgplan.inputs.launches.yaml_nodes import MAX_DEPTH, Mapping, Node, Scalar, Sequence, documents, walk


def read(text: str) -> list[Node]:
    return documents(Source("f.yaml", text))[0]


def one(text: str) -> Any:
    (document,) = read(text)
    return document


def scalar(text: str) -> Scalar:
    """The value of `k:` in text."""
    value = one(text).get("k")
    assert isinstance(value, Scalar)
    return value


def plain(node: Node) -> Any:
    """A node as Python values, scalars as text."""
    if isinstance(node, Scalar):
        return node.text
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    assert isinstance(node, Mapping)
    return {key.text: plain(value) for key, value in node.items}


STYLES = {
    "plain": ("k: one two # c\n", "one two", "one two"),
    "plain over lines": ("k: one\n  two\n\n  three\nl: 1\n", "one two\nthree", "one\n  two\n\n  three"),
    "single": ("k: 'it''s' # c\n", "it's", "'it''s'"),
    "single over lines": ("k: 'a\n\n  b  \n  c'\n", "a\nb c", "'a\n\n  b  \n  c'"),
    "double": (r'k: "a\tb\u00e9\x41\"\\ c"', 'a\tbéA"\\ c', r'"a\tb\u00e9\x41\"\\ c"'),
    "double over lines": ('k: "a \\\n   b\n\n   c\\\n\n   d"\n', "a b\nc\nd", '"a \\\n   b\n\n   c\\\n\n   d"'),
    "literal": ("k: |\n  a\n    b\n\n  c\n\n\nl: 1\n", "a\n  b\n\nc\n", None),
    "literal, strip": ("k: |- # why\n  a\n  b\n\n# x\nl: 1\n", "a\nb", "|- # why\n  a\n  b"),
    "literal, keep": ("k: |+\n  a\n\n\nl: 1\n", "a\n\n\n", None),
    "literal, indented": ("k: |2\n    a\n   b\n", "  a\n b\n", None),
    "literal, empty": ("k: |\nl: 1\n", "", None),
    "literal, blank lines only": ("k: |+\n\n\nl: 1\n", "\n\n", None),
    "folded": ("k: >\n  a\n  b\n\n  c\n   d\n   e\n  f\n", "a b\nc\n d\n e\nf\n", None),
    "folded, strip": ("k: >-\n  --a 1\n  --b 2\n", "--a 1 --b 2", ">-\n  --a 1\n  --b 2"),
    "literal with tabs": ("k: |\n  a\n  \tb\n", "a\n\tb\n", None),
    "no end of line": ("k: |\n  a\n  b", "a\nb", "|\n  a\n  b"),
}


@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("bom", ["", "\ufeff"], ids=["no BOM", "BOM"])
@pytest.mark.parametrize("name", STYLES)
def test_each_style_is_mapped_exactly(name: str, bom: str, ends: str) -> None:
    text, value, written = STYLES[name]
    text = bom + text.replace("\n", ends)
    found = scalar(text)
    assert found.text == value
    assert found.exact
    if written is not None:
        assert text[found.span.start : found.span.end] == written.replace("\n", ends)
    for at, char in enumerate(found.text):
        span = found.span_of(at, at + 1)
        if char.isalnum() and char.isascii() and "\\x" not in text:
            assert text[span.start : span.end] == char


def test_an_escape_is_one_stretch() -> None:
    text = r'k: "a\u00e9b"'
    assert text[slice(*scalar(text).span_of(1, 2)[:2])] == r"\u00e9"
    assert text[slice(*scalar(text).span_of(0, 3)[:2])] == r"a\u00e9b"


def test_line_and_column_are_those_of_the_text() -> None:
    found = scalar("# c\nk: |\n  one\n  two\n")
    assert found.span[2:] == (2, 4)
    assert found.span_of(4, 7)[2:] == (4, 3)


def test_anchor_and_tag_do_not_belong_to_a_value() -> None:
    text = "a: &x\n  - 1\nk: !!str &y 'q'\nl: *y\nm: !Ref # c\n  z\nn: *x\n"
    root = one(text)
    written = {key.text: text[value.span.start : value.span.end] for key, value in root.items}
    assert written == {"a": "- 1", "k": "'q'", "l": "'q'", "m": "z", "n": "- 1"}
    assert root.get("l") is root.get("k")


def test_a_value_that_is_not_written_has_an_empty_span() -> None:
    root = one("k:\nl: 1\n")
    assert root.get("k").value is None
    assert root.get("k").text == ""
    assert root.get("k").span[:2] == (2, 2)


def test_collections_know_where_they_stand() -> None:
    text = "a:\n- 1\n- [2,  3] # c\n\n# d\nb: {x: 1}\n"
    root = one(text)
    a, b = root.get("a"), root.get("b")
    assert (text[a.start : a.end], a.flow) == ("- 1\n- [2,  3]", False)
    assert (text[b.start : b.end], b.flow) == ("{x: 1}", True)
    assert text[root.start : root.end] == text.strip()


@pytest.mark.parametrize(
    "written", ["1", "-1", "0x1F", "017", "1_000", "0b11", "1:30", "1.5", "1e3", "1.5e+3", ".inf", "yes", "Off", "true",
                "~", "null", "", "text", "v1.2", "08", "1k", "n", "+5", "-.inf", "190:20:30.15", "'1'", '"yes"']
)  # fmt: skip
def test_values_are_those_of_yaml_1_1(written: str) -> None:
    assert scalar(f"k: {written}\n").value == yaml.safe_load(f"k: {written}\n")["k"]


def test_dates_unknown_tags_and_huge_numbers_stay_text() -> None:
    assert scalar("k: 2024-01-01").value == "2024-01-01"
    assert scalar("k: !!python/object:os.system x").value == "x"
    assert scalar("k: !!str 1").value == "1"
    assert scalar("k: !!int 1").value == 1
    assert scalar("k: " + "9" * 5000).value == "9" * 5000


def test_merge_keys_are_put_in() -> None:
    root = one("a: &a {x: 1, y: 2}\nb: &b {x: 3, z: 4}\nk:\n  <<: [*a, *b]\n  y: 5\nl:\n  <<: *a\nm: {'<<': *a}\n")
    assert plain(root.get("k")) == {"x": "1", "y": "5", "z": "4"}
    assert plain(root.get("l")) == {"x": "1", "y": "2"}
    assert plain(root.get("m")) == {"<<": {"x": "1", "y": "2"}}


def test_keys_given_twice_are_kept_and_told() -> None:
    found, remarks = documents(Source("f", "a: 1\nb: 2\na: 3\n"))
    root = found[0]
    assert isinstance(root, Mapping)
    assert [key.text for key, _ in root.items] == ["a", "b", "a"]
    assert root.at("a").text == "3"  # type: ignore[union-attr]
    assert [(one.kind, one.span.line) for one in remarks if one.span] == [("duplicate_key", 3)]
    assert documents(Source("f", "a: 1\nb: 2\n"))[1] == []


def test_several_documents_and_none() -> None:
    assert [plain(one) for one in read("a: 1\n---\n- 2\n---\n...\n")] == [{"a": "1"}, ["2"], ""]
    assert read("") == read("# c\n") == []


def test_odd_keys_stand_for_their_text() -> None:
    assert plain(one("? [a, b]\n: 1\n? {c: 2}\n: 3\n")) == {"[a, b]": "1", "{c: 2}": "3"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: [1\nc: 2\n", 3),
        ("a: 'x\n", 2),
        ("a: *b\n", 1),
        ("x: 1\na: &a [*a]\n", 2),
        ("x: 1\na: &a {b: *a}\n", 2),
        ("a: 1\n\tb: 2\n", 2),
        ("a: 1\nb: \x07\n", 2),
        ("a: \0", 1),
        ("%YAML 9.9 x\n---\na", 1),
        ("a: %x", 1),
        ("a: \ud800", 1),
    ],
)
def test_what_is_no_yaml_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(InputError) as caught:
        read(text)
    assert caught.value.code == "CG911"
    assert caught.value.where == f"f.yaml:{line}"
    assert caught.value.fix


def test_a_template_is_told_to_be_rendered() -> None:
    with pytest.raises(InputError) as caught:
        read("{{- if .Values.x }}\na: 1\n{{- end }}\n")
    assert "helm template" in (caught.value.fix or "")


def aliases(levels: int, wide: int) -> str:
    lines = ["a0: &a0 [x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * wide)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        aliases(30, 9),
        aliases(MAX_DEPTH + 10, 1),
        "[" * 100_000,
        "{a: " * 100_000,
        "- " * 5_000,
        "\n".join(" " * n + "a:" for n in range(500)),
        "a: &m {" + ", ".join(f"k{n}: 1" for n in range(1000)) + "}\nb:\n" + "  - <<: *m\n" * 1000,
        "[" + "1," * 400_000 + "]",
    ],
    ids=["laughs", "deep aliases", "brackets", "braces", "dashes", "blocks", "merges", "many"],
)
def test_bombs_are_refused_in_time(text: str) -> None:
    begun = time.perf_counter()
    with pytest.raises(InputError) as caught:
        read(text)
    assert caught.value.code in ("CG914", "CG911")  # libyaml itself gives up on some
    assert time.perf_counter() - begun < 5


@pytest.mark.parametrize(
    "text",
    [
        "k: x" + " " * 500_000 + "y\n",
        "k: '" + " " * 500_000 + "y'\n",
        'k: "' + "\\n" * 200_000 + '"\n',
        "k: |\n  x\n" + " \n" * 200_000 + "l: 1\n",
        "k: >+\n  x" + "\n  y" * 100_000 + "\n",
        "k: |1\n" + " " * 300_000 + "x\n",
        "k: !a " + "# c\n " * 200_000 + "x",
    ],
)
def test_long_scalars_take_little_time(text: str) -> None:
    begun = time.perf_counter()
    found = scalar(text)
    found.span_of(0, 1)
    assert time.perf_counter() - begun < 3


def test_many_small_manifests_take_little_time() -> None:
    text = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n" + "  - name: a\n    args: [--x, '1', \"2\"]\n" * 20
    begun = time.perf_counter()
    for _ in range(100):
        read(text)
    assert time.perf_counter() - begun < 2  # 1,000 files in some seconds


def test_walk_gives_every_node_once_in_order() -> None:
    assert [node.text for node in walk(one("a: [x, {b: y}]\nc: z\n")) if isinstance(node, Scalar)] == ["x", "y", "z"]


def test_the_pure_parser_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [text for text, _, _ in STYLES.values()] + ["a: &x !t [1, {b: *x2}]".replace("*x2", "c"), "- a\n- b\n"]
    with_c = [[(type(node), node.span) for node in walk(one(text))] for text in texts]
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert [[(type(node), node.span) for node in walk(one(text))] for text in texts] == with_c


TEXT = st.text(alphabet="ab \t\n'\"\\:#-é\u2028\x85€😀{}[]&*!|>%@`~,", max_size=40)


@settings(max_examples=300, deadline=None)
@given(
    value=TEXT,
    style=st.sampled_from([None, "'", '"', "|", ">"]),
    width=st.sampled_from([10, 1000]),
    wide=st.booleans(),
    ends=st.sampled_from(["\n", "\r\n"]),
)
def test_every_character_lies_at_its_span(value: str, style: str | None, width: int, wide: bool, ends: str) -> None:
    written = yaml.safe_dump({"k": [value, {"n": value}]}, default_style=style, width=width, allow_unicode=wide)  # type: ignore[call-overload]
    text = written.replace("\n", ends)
    for node in walk(one(text)):
        assert isinstance(node, (Scalar, Sequence, Mapping))
        if not isinstance(node, Scalar):
            continue
        whole = node.span
        assert 0 <= whole.start <= whole.end <= len(text)
        if not node.exact:
            assert node.span_of(0, 1) == whole
            continue
        before = whole.start
        for at, char in enumerate(node.text):
            span = node.span_of(at, at + 1)
            stretch = text[span.start : span.end]
            assert whole.start <= span.start <= span.end
            assert before <= span.start or char.isspace()  # a run of line breaks is one stretch
            assert stretch == char or stretch.startswith("\\") or char in " \n'" or char.isspace()
            before = span.end
        if node.text:
            assert node.span_of(0, len(node.text)).start >= whole.start


@settings(max_examples=200, deadline=None)
@given(value=TEXT, style=st.sampled_from(["'", '"']))
def test_quoted_scalars_are_always_exact(value: str, style: str) -> None:
    assert scalar(yaml.safe_dump({"k": value}, default_style=style, width=12)).exact


@settings(max_examples=200, deadline=None)
@given(
    lines=st.lists(st.text(alphabet="ab -#\t", max_size=8), max_size=6), header=st.sampled_from(["|", ">", "|-", ">+"])
)
def test_block_scalars_are_exact(lines: list[str], header: str) -> None:
    text = f"k: {header}\n" + "".join(f"  {line}\n" if line.strip() else "\n" for line in ["x", *lines]) + "l: 1\n"
    assert scalar(text).exact


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet="ab:-\n []{}&*!|>'\"#,?%\t<", max_size=60))
def test_no_text_gives_a_traceback(text: str) -> None:
    try:
        found = read(text)
    except InputError:
        return
    try:
        expected = list(yaml.compose_all(text, Loader=yaml.CSafeLoader))
    except (yaml.YAMLError, AttributeError):
        assume(False)
    assert len(found) == len([one for one in expected if one is not None])
    for document in found:
        for node in walk(document):
            assert node.span.end <= len(text) + 1
            if isinstance(node, Scalar):
                node.value  # noqa: B018


def test_reading_constructs_nothing() -> None:
    read("a: !!python/object/apply:sys.setrecursionlimit [7]")
    assert sys.getrecursionlimit() > 7
