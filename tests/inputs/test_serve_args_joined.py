"""An option and its value in one token."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgplan.check import Diagnostic, Report, TokenEdit, check, check_launch
from cgplan.inputs.launches import Source, read
from cgplan.inputs.launches.asked import ask
from cgplan.inputs.serve_args_flags import flag_table
from cgplan.inputs.serve_args_joined import split_joined

TABLE = flag_table("0.33.0")


def parts(text: str) -> tuple[str, ...] | None:
    found = split_joined(text, TABLE)
    return None if found is None else found.texts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--max-num-seqs 100", ("--max-num-seqs", "100")),
        ("--model Qwen/Qwen3.5-9B", ("--model", "Qwen/Qwen3.5-9B")),
        ("--max_num_seqs\t100", ("--max_num_seqs", "100")),
        ("-tp 4", ("-tp", "4")),
        ("-cc.mode 3", ("-cc.mode", "3")),
        ("--enforce-eager ", ("--enforce-eager",)),
        (" --port 80", ("--port", "80")),
        ("--enforce-eager --port 80", ("--enforce-eager", "--port", "80")),
        ("--port 80 --seed 1", ("--port", "80", "--seed", "1")),
        ("--compilation-config '{\"mode\": 3}'", ("--compilation-config", '{"mode": 3}')),
        ('--compilation-config {"mode": 3}', ("--compilation-config", '{"mode": 3}')),
        ("--cudagraph-capture-sizes 1 2 4", ("--cudagraph-capture-sizes", "1", "2", "4")),
        ("--chat-template you are a helper", ("--chat-template", "you are a helper")),
        ("--model=Qwen/Qwen3-8B --port 80", ("--model=Qwen/Qwen3-8B", "--port", "80")),
        ("--max-num-sek 9", ("--max-num-sek", "9")),
    ],
)
def test_what_was_meant(text: str, expected: tuple[str, ...]) -> None:
    assert parts(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "--max-num-seqs=100", "--max-num-seqs", "-0.5 and more", "- a list", "--chat-template=you are --port",
        '--compilation-config={"mode": 3}', "you --port 80", '{"a": "--port 80"}', "--", "-- x", "-x y",
        "--enforce-eager yes",
    ],
)  # fmt: skip
def test_other_tokens_stay_as_they_are(text: str) -> None:
    assert parts(text) is None


@given(st.text(max_size=60))
def test_any_text_is_looked_at_without_an_error(text: str) -> None:
    for one in (text, f"--model {text}", f"--max-num-seqs={text}", f"--cc {text}"):
        found = split_joined(one, TABLE)
        assert found is None or all(found.texts)


def report_of(*words: str) -> Report:
    return check(["vllm", "serve", *words])


def of_code(report: Report, code: str) -> list[Diagnostic]:
    return [one for one in report.diagnostics if one.code == code]


def test_it_is_an_error_and_the_rest_is_read_as_meant() -> None:
    report = report_of("--model Qwen/Qwen3-8B", "--max-num-seqs", "8")
    (one,) = of_code(report, "CG954")
    assert (one.severity, one.safe) == ("error", True)
    assert one.edits == (TokenEdit(2, 3, ("--model=Qwen/Qwen3-8B",)),)
    assert report.asked.args is not None
    assert report.asked.args.model == "Qwen/Qwen3-8B"
    assert not of_code(report, "CG935")
    assert not of_code(report_of("Qwen/Qwen3-8B", "--max-num-seqs", "8"), "CG954")


def test_nothing_is_lost_of_a_misspelt_one() -> None:
    report = report_of("Qwen/Qwen3-8B", "--max-num-sek 9")
    assert [one.edits for one in of_code(report, "CG954")] == [(TokenEdit(3, 4, ("--max-num-sek=9",)),)]
    assert [one.edits for one in of_code(report, "CG905")] == [()]


def test_a_second_finding_in_it_has_no_change_of_its_own() -> None:
    report = report_of("Qwen/Qwen3-8B", "--max-num-seqs 9", "--max-num-seqs 8")
    assert len(of_code(report, "CG954")) == 2
    assert all(not one.edits for one in of_code(report, "CG924"))


@pytest.mark.parametrize("item", ["--model Qwen/Qwen3-8B", '"--model Qwen/Qwen3-8B"'])
def test_a_manifest(item: str) -> None:
    text = (
        "kind: Pod\napiVersion: v1\nspec:\n  containers:\n    - name: a\n      image: vllm/vllm-openai:v0.30.0\n"
        f"      args:\n        - {item}\n"
    )
    (launch,) = read(Source("pod.yaml", text)).launches
    (one,) = of_code(check_launch(ask(launch)), "CG954")
    assert one.at is not None
    assert (one.at.span.line, one.at.span.column) == (8, 11)


SLIPS = (
    "--model Qwen/Qwen3-8B", "--max-num-seqs 8", "-tp 4", "--enforce-eager ", "-cc.mode 3", '-cc {"mode": 3}', "-O 3",
    "--config x.yaml", "\u2014max-num-seqs 3", "\u2013cc.mode=3", "--max-num-sek 3",
    "--model=a --port 3", "--served-model-name a b", "--api-key k", "--lora-modules a=b c=d", "Qwen/Qwen3-4B",
    "--model", "--max-num-seqs", "8",
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(SLIPS), max_size=5))
def test_any_of_them_together_are_checked(words: list[str]) -> None:
    report = report_of("Qwen/Qwen3-8B", *words)
    assert len(of_code(report, "CG954")) <= len(words)
