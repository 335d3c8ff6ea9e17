"""What must not be shown is in no text of a page."""

from __future__ import annotations

from html_helpers import small

from cgplan.report.check_secrets import HIDDEN, Secrets
from cgplan.report.html.blocks import Findings, Line, Section, Table
from cgplan.report.html.masking import masked
from cgplan.trace import Finding

SECRET = "a-secret-value-1"


def test_every_kind_of_text_is_masked() -> None:
    blocks = (
        Line(f"x {SECRET}"),
        Table(SECRET, (SECRET,), ((SECRET,),)),
        Findings((Finding("CG701", "warning", f"m {SECRET}", f"--x {SECRET}", SECRET),)),
    )
    made = small()._replace(about=SECRET, key=((SECRET, SECRET),), sections=(Section("x", SECRET, blocks),))
    shown = masked(made, Secrets((SECRET,)).mask)
    assert SECRET not in repr(shown)
    assert repr(shown).count(HIDDEN) == 11


def test_the_rest_stays_as_it_is() -> None:
    assert masked(small(), Secrets((SECRET,)).mask) == small()


def test_control_characters_go() -> None:
    made = small()._replace(about="a\x1b[31mb\u202ec\nd")
    assert masked(made, str).about == "a [31mb c d"
