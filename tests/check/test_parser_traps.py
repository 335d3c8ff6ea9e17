"""What the parser does in silence, case by case; the fixtures of test_traps fire and mend each rule."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgplan.check import ConfigEdit, Context, Diagnostic, TokenEdit, check, check_launch, families
from cgplan.check.registry import CHECKS
from cgplan.inputs.launches import ConfigText, launch_of
from cgplan.inputs.launches.asked import ask
from cgplan.inputs.serve_args_tokens import Note
from cgplan.trace import RULES

SERVE = "vllm serve Qwen/Qwen3-8B"

RULES_OF_NOTES = {
    "model_flag": ("CG935", "CG936"),
    "repeated": ("CG924",),
    "duplicate_key": ("CG925",),
    "bucket_lost": ("CG920", "CG921", "CG922"),
    "list_replaced": ("CG923", "CG931"),
    "abbreviation": ("CG926", "CG927"),
    "yaml_false": ("CG930",),
    "yaml_overridden": ("CG931",),
    "config_unread": ("CG932",),
    "model_ignored": ("CG934",),
    "value_is_key": ("CG929",),
    "odd_level": ("CG928",),
    "deprecated": ("CG937",),
    "changed_value": ("CG938",),
    "hidden_spelling": (),
}
"""By kind of a note: the rules that speak of it. Spellings that the help hides are good for years: no rule."""


def found(line: str, code: str, release: str | None = None) -> list[Diagnostic]:
    return [one for one in check(line, Context(release=release)).diagnostics if one.code == code]


def with_config(text: str, line: str = f"{SERVE} --config c.yaml", release: str | None = None) -> list[Diagnostic]:
    files = {"c.yaml": ConfigText(text, tuple(range(1, text.count("\n") + 2)))}
    launch = replace(launch_of(shlex.split(line)), files=files)
    return list(check_launch(ask(launch, Context(release=release))).diagnostics)


def test_every_kind_of_note_has_its_rules() -> None:
    kinds = set(re.findall(r"`(\w+)`", (Note.__doc__ or "").partition("kind:")[2].partition("message:")[0]))
    assert kinds == set(RULES_OF_NOTES)
    for codes in RULES_OF_NOTES.values():
        assert all(code in CHECKS and code in RULES for code in codes)


def test_every_family_is_there() -> None:
    assert {"parser_traps", "repeats", "flags", "environment", "launch_remarks"} <= set(families.FAMILIES)


@pytest.mark.parametrize("line", [SERVE, f"{SERVE} --max-num-seqs 256 -tp 2 -O3", f"{SERVE} -cc.mode=3 --port 8001"])
def test_a_good_line_is_silent(line: str) -> None:
    assert not [one for one in check(line).diagnostics if one.code.startswith("CG9") or one.code.startswith("CG81")]


def test_an_abbreviation_that_a_later_release_refuses() -> None:
    [one] = found(f"{SERVE} --max-num-p 2", "CG927", "0.25.1")
    assert one.severity == "warning"
    assert "0.27.1" in one.message or "later" in one.message or "ambiguous" in one.message
    assert not found(f"{SERVE} --max-num-partial-prefills 2", "CG927", "0.25.1")
    assert not found(f"{SERVE} --max-num-batched 64", "CG927", "0.25.1")


def test_yaml_false_says_what_is_lost() -> None:
    [lost] = [one for one in with_config("enable-prefix-caching: false\n") if one.code == "CG930"]
    assert lost.severity == "error"
    assert lost.flag == "no-enable-prefix-caching: true"
    [off] = [one for one in with_config("enforce-eager: false\n") if one.code == "CG930"]
    assert (off.severity, off.edits) == ("info", ())


def test_yaml_false_is_taken_by_the_module_since_0_28() -> None:
    line = "python3 -m vllm.entrypoints.openai.api_server --config c.yaml"
    text = "enable-prefix-caching: false\n"
    assert "CG930" in [one.code for one in with_config(text, line, "0.27.1")]
    assert "CG930" not in [one.code for one in with_config(text, line, "0.28.0")]


def test_level_with_a_dot_and_a_compilation_config() -> None:
    [alone] = found(f"{SERVE} -O.mode=3", "CG928")
    assert alone.edits == (TokenEdit(3, 4, ("-cc.mode=3",)),)
    [beside] = found(f"{SERVE} -O.mode=3 --compilation-config.cudagraph_mode=FULL", "CG928")
    assert beside.edits == ()


def test_a_value_taken_for_a_key_is_one_fault() -> None:
    report = check(f"{SERVE} --gpu-memory-utilization -0.5 --max-num-seqs 8")
    assert [one.code for one in report.diagnostics if one.severity == "error"] == ["CG929"]


def test_model_at_the_front_is_one_edit() -> None:
    [one] = found("vllm serve --model Qwen/Qwen3-8B -tp 2", "CG935")
    assert one.edits == (TokenEdit(2, 4, ("Qwen/Qwen3-8B",)),)


def test_a_model_of_the_file_gives_way() -> None:
    [one] = [one for one in with_config("model: Qwen/Qwen3-0.6B\n") if one.code == "CG936"]
    assert (one.severity, one.edits) == ("info", ())
    assert one.at is not None


def test_a_token_that_is_not_literal_is_not_edited() -> None:
    launch = launch_of(shlex.split(f"{SERVE} --max-num-seq 64"))
    tokens = tuple(token._replace(literal=token.text != "--max-num-seq") for token in launch.tokens)
    report = check_launch(ask(replace(launch, tokens=tokens)))
    [one] = [one for one in report.diagnostics if one.code == "CG926"]
    assert one.edits == ()


PIECES = (
    "--max-num-seq 64", "--max-num-seqs 8", "--max-num-seqs=16", "-cc.mode=3", "-cc.cudagraph_mode FULL",
    "--compilation-config.mode=0", "--compilation_config.cudagraph_num_of_warmups=2", '-cc {"cudagraph_mode":"NONE"}',
    '--compilation-config={"mode":3,"mode":2}', "--served-model-name a b", "--served-model-name c", "-O.mode=3", "-O4",
    "--enforce-eagr", "--enforce-eager true", "--enforce-eager=false", "--task embed", "--model Qwen/Qwen3-0.6B",
    "--config=c.yaml", "--gpu-memory-utilization -0.5", "-ac.backend=FLASH_ATTN", "--attention-backend FLASH_ATTN",
    "--num-scheduler-steps 8", "-0.5", "--", "-O", "--kernel-config.moe_backend=cutlass", "--moe-backend triton",
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6), st.sampled_from(["0.19.1", "0.25.1", "0.33.0"]))
def test_edits_fit_the_line_and_mend_what_they_are_for(pieces: list[str], release: str) -> None:
    words = ["vllm", "serve", "Qwen/Qwen3-8B", *(word for piece in pieces for word in piece.split())]
    report = check(words, Context(release=release))
    for one in report.diagnostics:
        edits = [edit for edit in one.edits if isinstance(edit, TokenEdit)]
        if not edits or not one.code.startswith(("CG905", "CG92", "CG93", "CG94")):
            continue
        assert edits == sorted(edits)
        assert all(a.end <= b.start for a, b in pairwise(edits))
        after = list(words)
        for edit in reversed(edits):
            assert 2 <= edit.start <= edit.end <= len(words)
            after[edit.start : edit.end] = edit.texts
        assert after != words
        again = [(left.code, left.message, left.at and left.at.span.start) for left in
                 check(after, Context(release=release)).diagnostics]  # fmt: skip
        assert (one.code, one.message, one.at and one.at.span.start) not in again


def test_false_of_a_switch_that_turns_something_off() -> None:
    [one] = [one for one in with_config("disable-dbo: false\nport: 1\n") if one.code == "CG930"]
    assert (one.severity, one.flag) == ("error", "enable-dbo: true")


def test_an_abbreviated_key_of_the_file_keeps_its_list() -> None:
    [one] = [one for one in with_config("cudagraph-capture-siz: [1, 2]\n") if one.code == "CG926"]
    assert one.edits == (ConfigEdit("cudagraph-capture-siz", 1, "cudagraph-capture-sizes", [1, 2]),)


def test_the_only_setting_of_a_file_is_not_taken_out() -> None:
    [alone] = [one for one in with_config("disable-cascade-attn: true\n") if one.code == "CG937"]
    assert alone.edits == ()
    [beside] = [one for one in with_config("disable-cascade-attn: true\nport: 1\n") if one.code == "CG937"]
    assert beside.edits == (ConfigEdit("disable-cascade-attn", 1),)


def test_a_model_flag_for_an_image_is_quiet() -> None:
    """Its arguments are put behind `vllm serve`, and --model has named the model there for years."""
    for image in ("vllm/vllm-openai:v0.33.0",):
        reported = check(f"docker run --gpus all {image} --model Qwen/Qwen3-8B --max-num-seqs 8")
        assert [one.code for one in reported.diagnostics] == []
