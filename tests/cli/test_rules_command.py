"""`cgplan rules`, the page made of the same text, and the text itself, which stands once."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import build_docs
import pytest

import cgplan as package
from cgplan.cli.app import run
from cgplan.releases import holds
from cgplan.report import registry
from cgplan.rules import all_rules

Run = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def cgplan(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line: (exit status, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "80")

    def call(line: str) -> tuple[int, str, str]:
        status = run(line.split())
        out, err = capsys.readouterr()
        return status, out, err

    return call


def listed(cgplan: Run, line: str) -> list[str]:
    return [rule["code"] for rule in json.loads(cgplan(f"rules {line} --json")[1])["rules"]]


def test_all_are_listed(cgplan: Run) -> None:
    assert listed(cgplan, "") == list(all_rules())
    status, out, err = cgplan("rules")
    assert (status, err) == (0, "")
    assert all(code in out for code in all_rules())


@pytest.mark.parametrize("columns", ["60", "80", "120"])
def test_the_table_keeps_its_width(cgplan: Run, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    out = cgplan("rules")[1]
    assert max(len(row) for row in out.splitlines()) <= int(columns)


def test_the_rules_of_a_release(cgplan: Run) -> None:
    rules = all_rules()
    found = listed(cgplan, "--vllm 0.28")
    assert found == [code for code, rule in rules.items() if holds("0.28.0", rule.since, rule.until)]
    assert "CG111" not in found
    assert "CG111" in listed(cgplan, "--vllm 0.31")


def test_the_rules_that_came_since(cgplan: Run) -> None:
    found = listed(cgplan, "--since 0.31")
    assert "CG111" in found
    assert "CG110" not in found
    assert set(found) == {c for c, r in all_rules().items() if r.since in ("0.31.0", "0.32.0", "0.33.0")}


@pytest.mark.parametrize(
    ("line", "code", "other"),
    [("CG4", "CG401", "CG101"), ("cg111", "CG111", "CG110"), ("mamba BLOCK", "CG501", "CG101")],
)
def test_the_filter(cgplan: Run, line: str, code: str, other: str) -> None:
    found = listed(cgplan, line)
    assert code in found
    assert other not in found


def test_words_give_few_rules_the_best_first(cgplan: Run) -> None:
    found = listed(cgplan, "mamba cache blocks sequences")
    assert found[0] == "CG501"
    assert 1 < len(found) <= 12
    assert [code for code in found if code.startswith("CG5")] == listed(cgplan, "CG5 mamba cache blocks sequences")


def test_explain_takes_words(cgplan: Run) -> None:
    status, out, err = cgplan("explain max_num_seqs (256) exceeds available Mamba cache blocks (95).")
    assert (status, err) == (0, "")
    assert out.startswith("max_num_seqs exceeds available Mamba cache blocks.")
    assert "cgplan logs server.log" in out
    assert "CG501" in out
    document = json.loads(cgplan("explain lora capture slow --json")[1])
    assert document["topics"][0]["name"] == "lora-capture"
    assert not document["rule_first"]
    assert "topics" not in json.loads(cgplan("explain CG501 --json")[1])


def test_explain_answers_with_a_rule_where_it_says_more(cgplan: Run) -> None:
    out = cgplan("explain pooling models graphs")[1]
    assert out.startswith("CG207  Pooling models have no FULL graphs.")
    assert "cgplan explain" not in out, "the page is here already"
    assert "Source: vllm/config/vllm.py" in out


def test_options_in_a_question_are_words(cgplan: Run) -> None:
    status, out, err = cgplan("explain --enable-lora -- capture -slow")
    assert (status, err) == (0, "")
    assert out.startswith("Why is capture with LoRA slow")
    assert cgplan("explain -- --enable-lora slow")[1].startswith("Why is capture with LoRA slow")
    assert cgplan("explain --help")[0] == 0
    assert json.loads(cgplan("explain --enable-lora slow --json")[1])["topics"]


def test_explain_takes_several_codes(cgplan: Run) -> None:
    out = cgplan("explain cg501 CG502")[1]
    assert out.index("CG501") < out.index("CG502")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("CG999", "there is no code 'CG999' [cgplan explain]; fix: cgplan explain lists all codes; near it are CG99"),
        ("999", "there is no code '999'"),
        ("CGxyz", "there is no code 'CGxyz'"),
        ("qqq zzz", "nothing fits 'qqq zzz'"),
    ],
)
def test_explain_of_what_is_not_there(cgplan: Run, words: str, said: str) -> None:
    status, out, err = cgplan(f"explain {words}")
    assert (status, out) == (2, "")
    assert err.startswith(f"error[CG908]: {said}")
    assert ("cgplan logs FILE" in err) is (words == "qqq zzz")


def test_explain_alone_lists_codes_and_questions(cgplan: Run) -> None:
    out = " ".join(cgplan("explain")[1].split())
    assert "CG998" in out
    assert "How dense should the list of sizes be?" in out


def test_nothing_matches(cgplan: Run) -> None:
    assert cgplan("rules nosuchword") == (1, "No rule matches.\n", "")


def test_markdown(cgplan: Run) -> None:
    lines = cgplan("rules CG111 --markdown")[1].splitlines()
    assert lines[0] == "| code | since | until | rule | source |"
    assert lines[2].startswith("| CG111 | 0.31.0 | - | max_num_seqs itself")


@pytest.mark.parametrize("flag", ["--vllm", "--since"])
def test_an_unknown_release(cgplan: Run, flag: str) -> None:
    status, out, err = cgplan(f"rules {flag} 0.12")
    assert (status, out) == (2, "")
    assert err.splitlines()[0].startswith("error[CG801]")
    assert f"[{flag}]" in err
    assert "--assume-release" not in err


def test_the_page_is_up_to_date() -> None:
    for path, text in build_docs.pages().items():
        assert path.read_text(encoding="utf-8") == text, f"run python tools/build_docs.py: {path.name} is stale"


def test_the_page_has_every_rule() -> None:
    page = registry.pages(registry.select())
    for code, rule in all_rules().items():
        assert f"### {code}\n" in page
        assert all(text in page for text in (rule.title, rule.why, rule.example, rule.instead))


def test_the_text_of_a_rule_stands_once_in_the_source() -> None:
    assert package.__file__ is not None
    texts: Counter[str] = Counter()
    for path in Path(package.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts[node.value] += 1
    for code, rule in all_rules().items():
        assert texts[rule.title] == 1, code


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("CG501", "since 0.20.2; until 0.19.1 the sizes are cut to the blocks instead"),
        ("CG502", "by default since 0.20.2"),
        ("CG510", "until 0.19.1; since 0.20.2 too few blocks are refused instead"),
        ("CG503", "since 0.29.0"),
    ],
)
def test_explain_says_what_changed_between_releases(cgplan: Run, code: str, words: str) -> None:
    assert words in " ".join(cgplan(f"explain {code}")[1].split())
    (rule,) = json.loads(cgplan(f"explain {code} --json")[1])["rules"]
    assert (rule["history"] != "") is (code != "CG503")
