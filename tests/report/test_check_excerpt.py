"""Lines with carets: what stands above a caret is what the finding is about."""

from __future__ import annotations

from check_helpers import Source, at
from hypothesis import given
from hypothesis import strategies as st

from cgplan.inputs.launches.asked import Located
from cgplan.report.check_excerpt import excerpt, width_of
from cgplan.report.check_secrets import Secrets


def lines(text: str, words: str, width: int = 100) -> list[tuple[int, str, str]]:
    return [tuple(one) for one in excerpt(at(Source("f", text), words), Secrets(), width)]


def test_one_word() -> None:
    assert lines("a\n  - --bogus x\n", "--bogus") == [(2, "  - --bogus x", "    ^^^^^^^")]


def test_tabs_are_blanks() -> None:
    assert lines("\tab\tcd", "cd") == [(1, "    ab  cd", "        ^^")]


def test_wide_characters_take_two_columns() -> None:
    assert lines("日本 x", "x") == [(1, "日本 x", "     ^")]
    assert lines("日本 x", "本") == [(1, "日本 x", "  ^^")]
    assert lines("e\u0301 x", "x") == [(1, "e\u0301 x", "  ^")]


def test_line_ends_and_marks_are_not_shown() -> None:
    assert lines("\ufeffab cd\r\nx\r\n", "cd") == [(1, "ab cd", "   ^^")]


def test_control_characters_are_not_printed() -> None:
    assert lines("a\x1b[31m\u202eb", "b") == [(1, "a?[31m?b", "       ^")]


def test_nothing_has_a_caret_too() -> None:
    source = Source("f", "ab\n")
    for offset, column in ((0, 0), (2, 2)):
        shown = excerpt(Located(source, source.span(offset, offset)), Secrets(), 80)
        assert [one.marks for one in shown] == [" " * column + "^"]


def test_all_of_a_short_stretch_and_the_ends_of_a_long_one() -> None:
    assert lines("k: |\n  a\n  b\nz", "a\n  b") == [(2, "  a", "  ^"), (3, "  b", "  ^")]
    long = "\n".join(f"  l{n}" for n in range(9))
    assert [one[0] for one in lines(long, long[2:])] == [1, 0, 9]


def test_a_long_line_is_cut_around_the_caret() -> None:
    text = "a" * 500 + " --bogus " + "b" * 500
    ((_, shown, marks),) = lines(text, "--bogus", 60)
    assert len(shown) <= 60
    assert shown[0] == shown[-1] == "…"
    assert shown[marks.index("^") : len(marks)] == "--bogus"
    ((_, shown, marks),) = lines(text, text[2:900], 60)
    assert len(shown) <= 60
    assert marks


def test_a_secret_is_hidden_and_the_caret_stays_right() -> None:
    source = Source("f", "--api-key abcdefgh --bogus")
    secrets = Secrets((), ((10, 18),), source)
    ((_, shown, marks),) = excerpt(at(source, "--bogus"), secrets, 80)
    assert (shown, marks) == ("--api-key *** --bogus", "              ^^^^^^^")
    ((_, shown, marks),) = excerpt(at(source, "abcdefgh"), secrets, 80)
    assert (shown, marks) == ("--api-key *** --bogus", "          ^^^")


@given(
    st.text(st.sampled_from("ab \t日é\x07"), max_size=200),
    st.text("xy", min_size=1, max_size=90),
    st.text(st.sampled_from("ab \t日"), max_size=200),
    st.integers(20, 120),
)
def test_carets_stand_below_what_they_mark(before: str, word: str, after: str, width: int) -> None:
    source = Source("f", before + word + after)
    ((_, shown, marks),) = excerpt(at(source, word, len(before)), Secrets(), width)
    column, marked = 0, ""
    for char in shown:
        size = width_of(char)
        if marks[column : column + 1] == "^":
            marked += char
        column += size
    assert column <= width
    assert marked
    assert word.startswith(marked.rstrip("…"))
    assert len(marked) == len(word) or len(word) > width // 3
