"""Public reports of what went wrong, as lines: each gives the finding, or the number, that would have told.

fixtures/check/cases.json holds them, cases_in_words.json questions of others, which `explain` answers; docs/cases.md
says where they come from, and by which command each is told.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import cgplan.check.families  # noqa: F401
from cgplan.check import Context, Report, check
from cgplan.cli.explained import found as found_by_explain
from cgplan.model_shape import ModelShape
from cgplan.releases.gpus import gpu
from cgplan.resolve import Resolution
from cgplan.rules import all_rules
from cgplan.sections import Gpu
from cgplan.vocabulary import CUDAGraphMode

ROOT = Path(__file__).parents[2]
CASES: list[dict[str, Any]] = json.loads((ROOT / "fixtures/check/cases.json").read_text(encoding="utf-8"))
IN_WORDS: list[dict[str, Any]] = json.loads((ROOT / "fixtures/check/cases_in_words.json").read_text(encoding="utf-8"))
FULL, PIECEWISE = CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE


def report_of(case: dict[str, Any]) -> Report:
    shape = case.get("shape")
    where = case["gpu"]
    context = Context(
        release=case["release"],
        gpu=gpu(where) if isinstance(where, str) else Gpu(**where),
        gpus_per_node=8,
        model=ModelShape.model_validate_json(json.dumps(shape)) if shape else None,
        settings=case.get("settings", {}),
    )
    return check(case["line"], context)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case: dict[str, Any]) -> None:
    report, expect = report_of(case), case["expect"]
    found = {one.code: one for one in report.diagnostics}
    wanted = expect.get("codes", {})
    assert {code: found[code].severity for code in wanted if code in found} == wanted, sorted(found)
    assert not found.keys() & set(expect.get("absent", ()))
    told = " ".join(f"{found[code].message} {found[code].fix}" for code in wanted)
    assert [text for text in expect.get("text", ()) if text not in told] == [], told
    if "flag" in expect:
        assert expect["flag"] in [found[code].flag for code in wanted]
    if "resolution" in expect:
        assert report.resolution is not None, sorted(found)
        assert numbers(report.resolution, expect["resolution"]) == expect["resolution"]


def numbers(found: Resolution, wanted: dict[str, Any]) -> dict[str, Any]:
    """What the resolution says to each of the keys of `wanted`."""
    decode = {
        str(batch): part.mode.value
        for part in found.uniform_decode_coverage().ranges
        for batch in range(part.first, part.last + 1)
    }
    full = found.captures.get(FULL, ())
    known: dict[str, Any] = {
        "mode": found.cudagraph_mode.value,
        "backend": found.backend.name,
        "piecewise": found.graph_count(PIECEWISE),
        "full": found.graph_count(FULL),
        "largest": max((graph.num_tokens for graphs in found.captures.values() for graph in graphs), default=0),
        "full_largest": max((graph.num_tokens for graph in full), default=0),
        "sizes": found.config["cudagraph_capture_sizes"],
        "max_num_seqs": found.max_num_seqs,
        "max_num_batched_tokens": found.max_num_batched_tokens,
        "decode": {batch: decode[batch] for batch in wanted.get("decode", ())},
        "padded": {batch: found.padded(int(batch)) for batch in wanted.get("padded", ())},
        "eager": [batch for batch in wanted.get("eager", ()) if decode[str(batch)] == "NONE"],
    }
    return {key: known[key] for key in wanted}


PAGE = (ROOT / "docs/cases.md").read_text(encoding="utf-8")
TOLD, _, REST = PAGE.partition("## Graphs as reported")
GRAPHS_ONLY, _, NOT_COVERED = REST.partition("## Not covered")


def test_docs_say_of_every_case_what_is_asked_for() -> None:
    """Where the page says that a finding tells it, the fixture asks for that finding."""
    told = dict(re.findall(r"^\| ([A-E]\d\d) \| [^|]* \| ([^|]*) \|", TOLD, re.MULTILINE))
    by_id = {case["id"]: case["expect"] for case in CASES}
    assert told == {name: ", ".join(by_id[name].get("codes", ())) for name in told}
    assert "" not in told.values()
    graphs = re.findall(r"^\| ([A-E]\d\d) \|", GRAPHS_ONLY, re.MULTILINE)
    assert [name for name in graphs if "resolution" not in by_id[name]] == []
    left = re.findall(r"^\| ([A-E]\d\d) \|", NOT_COVERED, re.MULTILINE)
    assert by_id.keys() <= {*told, *graphs, *left}
    assert len({*told, *graphs, *left}) == len(told) + len(graphs) + len(left) == 95
    numbers_said = re.search(
        r"tells (\d+) by a finding\. For (\d+) more [^.]*\. (\d+) are not covered[^:]*: of these\n"
        r"[^.]* tells (\d+), [^.]* and (\d+) are told by none\.",
        PAGE,
        re.DOTALL,
    )
    assert numbers_said is not None
    none = NOT_COVERED.count("| nothing |")
    counted = [len(told), len(graphs), len(left), len(left) - none, none]
    assert [int(number) for number in numbers_said.groups()] == counted


@pytest.mark.parametrize("case", IN_WORDS, ids=[case["id"] for case in IN_WORDS])
def test_case_in_words(case: dict[str, Any]) -> None:
    answer = found_by_explain(case["words"])
    assert answer is not None
    assert not answer.rule_first
    topic = answer.topics[0]
    assert topic.name == case["topic"]
    assert set(case["codes"]) <= set(topic.rules)
    assert [text for text in case["text"] if text not in topic.answer] == []


def test_docs_say_which_other_command_tells_a_case() -> None:
    """Of what `check` does not cover: the questions are in the fixture, the plans in the table below."""
    table, _, of_plan = NOT_COVERED.partition("## Told by `cgplan plan`")
    rows = dict(re.findall(r"^\| ([A-E]\d\d) \| .* \| ([^|]*) \|$", table, re.MULTILINE))
    assert len(rows) == 34
    by_id = {case["id"]: case["codes"][0] for case in IN_WORDS}
    said = {name: found[1] for name, cell in rows.items() if (found := re.search(r"`explain` (CG\d+)", cell))}
    assert said == {name: code for name, code in by_id.items() if name in rows}
    assert all(f"{name} " in PAGE for name in by_id)
    for name, cell in rows.items():
        codes = re.findall(r"`plan` (CG\d+)", cell)
        assert all(re.search(rf"^\| [^|]*{code}[^|]*\| [^|]*{name}", of_plan, re.MULTILINE) for code in codes), name
        assert set(re.findall(r"CG\d+", cell)) <= set(all_rules())
        assert cell == "nothing" or re.fullmatch(r"(`(plan|logs|tune|explain|plan --json)`( CG\d+)?(, )?)+", cell), cell
