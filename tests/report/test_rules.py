"""Every code that can be printed has a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cgplan
import cgplan.cli
from cgplan.errors import InputError
from cgplan.report.rules import as_document, find
from cgplan.rules import all_rules
from cgplan.trace import RENAMED

CODE = re.compile(r"""["'](CG\d{3})["']""")


def _codes() -> dict[str, Path]:
    """Codes that stand as string literals in the package."""
    found: dict[str, Path] = {}
    for package in (cgplan, cgplan.cli):
        assert package.__file__ is not None
        for path in Path(package.__file__).parent.rglob("*.py"):
            for code in CODE.findall(path.read_text(encoding="utf-8")):
                found.setdefault(code, path)
    return found


def test_every_code_in_the_tree_is_explained() -> None:
    rules = all_rules()
    missing = {code: path for code, path in _codes().items() if code not in rules and code not in RENAMED}
    assert not missing


def test_every_rule_says_all_it_should() -> None:
    for code, rule in all_rules().items():
        assert re.fullmatch(r"CG[1-9]\d\d", code)
        for text in (rule.title, rule.why, rule.example, rule.instead, rule.source):
            assert text.strip(), code
        assert "\n" not in rule.title, code
        assert re.search(r"[.?!]$", rule.title), code
        assert as_document(rule)["code"] == code


@pytest.mark.parametrize("code", ["CG000", "", "nonsense", "CG7011", "\x1b"])
def test_an_unknown_code_is_refused(code: str) -> None:
    with pytest.raises(InputError) as caught:
        find(code)
    assert caught.value.code == "CG908"


def test_only_cli_and_report_import_rich_or_typer() -> None:
    assert cgplan.__file__ is not None
    root = Path(cgplan.__file__).parent
    for path in root.rglob("*.py"):
        inside = path.relative_to(root).parts[0]
        if inside not in ("cli", "report"):
            assert not re.search(r"^\s*(import|from) (rich|typer)\b", path.read_text(encoding="utf-8"), re.M), path
