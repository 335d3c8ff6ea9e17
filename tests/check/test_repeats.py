"""Settings given more than once: what is said to be lost, and what the joined option holds."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest

from cgplan.check import Context, Diagnostic, TokenEdit, check, check_launch
from cgplan.inputs.launches import ConfigText, launch_of
from cgplan.inputs.launches.asked import ask

SERVE = "vllm serve Qwen/Qwen3-8B"


def found(line: str, code: str) -> list[Diagnostic]:
    return [one for one in check(line).diagnostics if one.code == code]


def with_config(text: str, line: str) -> list[Diagnostic]:
    pytest.importorskip("yaml")
    files = {"c.yaml": ConfigText(text, tuple(range(1, text.count("\n") + 2)))}
    launch = replace(launch_of(shlex.split(f"{SERVE} --config c.yaml {line}")), files=files)
    return list(check_launch(ask(launch, Context())).diagnostics)


def joined(one: Diagnostic) -> dict[str, object]:
    assert one.flag is not None
    document: dict[str, object] = json.loads(shlex.split(one.flag)[-1])
    return document


def test_json_and_dotted_keys_are_joined_into_json() -> None:
    [one] = found(
        f"{SERVE} -cc '{{\"mode\": 3}}' -cc.pass_config.fuse_norm_quant=true -cc.cudagraph_mode FULL", "CG920"
    )
    assert joined(one) == {"mode": 3, "pass_config": {"fuse_norm_quant": True}, "cudagraph_mode": "FULL"}
    assert one.safe
    assert one.at is not None
    assert one.at.source.text[one.at.span.start :].startswith("-cc ")
    assert [related.message for related in one.related] == ["this one counts alone"]


def test_a_contradiction_is_not_joined_unasked() -> None:
    [one] = found(f'{SERVE} -cc \'{{"mode": 3, "cudagraph_num_of_warmups": 2}}\' -cc.mode=0', "CG920")
    assert not one.safe
    assert "cudagraph_num_of_warmups" in one.message
    assert "mode," not in one.message


def test_spellings_keep_dotted_keys() -> None:
    [one] = found(f"{SERVE} --compilation-config.mode=3 -cc.cudagraph_mode=FULL", "CG921")
    assert one.edits == (TokenEdit(4, 5, ("--compilation-config.cudagraph_mode=FULL",)),)


def test_the_files_block_goes_into_the_line_and_gives_way_there() -> None:
    text = "compilation-config:\n  mode: 3\n  cudagraph_mode: NONE\n"
    [one] = [one for one in with_config(text, "-cc.cudagraph_mode=FULL") if one.code == "CG922"]
    assert joined(one) == {"mode": 3, "cudagraph_mode": "FULL"}
    assert one.safe
    assert one.at is not None
    assert one.at.span.line == 1


def test_nothing_lost_is_no_error() -> None:
    assert not found(f"{SERVE} -cc '{{\"mode\": 0}}' -cc.mode=3 ", "CG920")
    [one] = found(f"{SERVE} -cc '{{\"mode\": 0}}' -cc.mode=3", "CG924")
    assert one.severity == "warning"


def test_the_same_value_twice_is_information() -> None:
    assert [one.severity for one in found(f"{SERVE} -tp 2 --tensor-parallel-size 2", "CG924")] == ["info"]
    assert [one.severity for one in found(f"{SERVE} -tp 2 --tensor-parallel-size 4", "CG924")] == ["warning"]
    assert [one.severity for one in found(f"{SERVE} -cc.mode=3 -cc.mode=3", "CG925")] == ["info"]


def test_options_that_add_up_are_not_repeats() -> None:
    assert not found(f"{SERVE} --middleware a --middleware b", "CG924")


def test_secrets_stay_where_they_are() -> None:
    report = check(f"{SERVE} --api-key hush1 --api-key hush2 --api-ky hush3 --hf-token hush4 --hf_token hush5")
    for one in report.diagnostics:
        assert "hush" not in " ".join([one.message, one.fix or "", one.flag or ""])
    assert "CG923" in [one.code for one in report.diagnostics]


def test_a_setting_replaced_by_an_object_or_within_one_is_not_lost() -> None:
    text = 'limit-mm-per-prompt: {"image": {"count": 1, "width": 512}}\n'
    assert not [one for one in with_config(text, "--limit-mm-per-prompt.image=2") if one.code == "CG922"]
    assert [one for one in with_config(text, "--limit-mm-per-prompt.video=2") if one.code == "CG922"]


def test_an_edit_that_brings_back_what_is_refused_is_not_safe() -> None:
    line = "-cc '{\"max_cudagraph_capture_size\": 64}' -cc.mode=3 --max-cudagraph-capture-size 64"
    [one] = found(f"{SERVE} {line}", "CG920")
    assert not one.safe
    [one] = found(f"{SERVE} -cc '{{\"max_cudagraph_capture_size\": 64}}' -cc.mode=3", "CG920")
    assert one.safe
