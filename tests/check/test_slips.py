"""Slips of everyday lines: what is said of them, and what the change makes of them."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from cgplan.check import ConfigEdit, Diagnostic, TokenEdit, check, check_launch
from cgplan.inputs.launches import ConfigText, Source, launch_of, read
from cgplan.inputs.launches.asked import ask
from cgplan.releases import SUPPORTED

SERVE = "vllm serve Qwen/Qwen3-8B"


def found(line: str, code: str) -> list[Diagnostic]:
    return [one for one in check(line).diagnostics if one.code == code]


def with_config(text: str, line: str = "vllm serve --config c.yaml") -> list[Diagnostic]:
    files = {"c.yaml": ConfigText(text, tuple(range(1, text.count("\n") + 2)))}
    return list(check_launch(ask(replace(launch_of(shlex.split(line)), files=files))).diagnostics)


def in_manifest(text: str, code: str) -> list[Diagnostic]:
    launches = read(Source("m.yaml", text)).launches
    return [one for launch in launches for one in check_launch(ask(launch)).diagnostics if one.code == code]


POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a, image: IMAGE, args: [m]}]}\n"


class TestValues:
    def test_a_removed_option_that_is_short_for_others(self) -> None:
        (one,) = found(f"{SERVE} --device cuda", "CG905")
        assert "was removed" in one.message
        assert one.fix == "leave it out; nothing took its place"
        assert (one.edits, one.safe) == ((TokenEdit(3, 5),), False)
        (other,) = found(f"{SERVE} --data-parallel 2", "CG905")
        assert "removed" not in other.message

    def test_of_several_near_values_none_is_written(self) -> None:
        (one,) = found(f"{SERVE} --dtype bfloat", "CG902")
        assert one.fix == "did you mean one of bfloat16, float, float32?"
        assert one.edits == ()
        (two,) = found(f"{SERVE} --scheduling-policy priorty", "CG902")
        assert two.edits == (TokenEdit(3, 5, ("--scheduling-policy", "priority")),)

    @pytest.mark.parametrize(("value", "edit"), [("17", "32"), ("2", "8"), ("900", None)])
    def test_of_numbers_the_next_one_up(self, value: str, edit: str | None) -> None:
        (one,) = found(f"{SERVE} --enable-lora --max-lora-rank {value}", "CG902")
        assert one.edits == ((TokenEdit(4, 6, ("--max-lora-rank", edit)),) if edit else ())
        assert "did you mean" not in str(one.fix)

    def test_none_is_left_out(self) -> None:
        (one,) = found(f"{SERVE} --quantization none", "CG139")
        assert str(one.fix).startswith("leave it out")

    @pytest.mark.parametrize("text", ["{'mode': 3}", "{mode: 3}", "{'mode': 3,}"])
    def test_what_was_meant_as_json(self, text: str) -> None:
        (one,) = found(f'{SERVE} -cc "{text}"', "CG903")
        assert one.fix == "write --compilation-config '{\"mode\":3}'"

    def test_a_typographic_dash(self) -> None:
        report = check(f"{SERVE} \u2014max-num-seqs 100 \u2013tp 2")
        said = [one for one in report.diagnostics if one.code == "CG905"]
        assert [one.edits for one in said] == [(TokenEdit(3, 4, ("--max-num-seqs",)),), (TokenEdit(5, 6, ("-tp",)),)]
        assert report.asked.args is not None
        assert report.asked.args.get("max_num_seqs") == 100

    def test_the_model_stays_beside_a_value_too_many(self) -> None:
        args = check("vllm serve --model A B").asked.args
        assert args is not None
        assert args.model == "A"


class TestConfigFile:
    def test_a_switch_with_a_text(self) -> None:
        diagnostics = with_config('model: Qwen/Qwen3-8B\nmax-num-seqs: 8\nenable-prefix-caching: "true"\n')
        (one,) = [one for one in diagnostics if one.severity == "error"]
        assert one.code == "CG956"
        assert one.edits == (ConfigEdit("enable-prefix-caching", 3, "enable-prefix-caching", True),)
        assert "CG936" not in [one.code for one in diagnostics]

    def test_off_is_said_by_the_opposite(self) -> None:
        (one,) = [one for one in with_config('model: m\nenable-prefix-caching: "false"\n') if one.code == "CG956"]
        assert one.edits == (ConfigEdit("enable-prefix-caching", 2, "no-enable-prefix-caching", True),)

    @pytest.mark.parametrize("value", ["true", "false  # why"])
    def test_a_switch_without_one(self, value: str) -> None:
        codes = [one.code for one in with_config(f"model: m\nenable-prefix-caching: {value}\n")]
        assert "CG956" not in codes

    def test_beside_a_model_on_the_line(self) -> None:
        codes = [one.code for one in with_config("enforce-eager: 1\n", f"{SERVE} --config c.yaml")]
        assert "CG956" in codes
        assert "CG905" not in codes

    def test_settings_below_a_key(self) -> None:
        diagnostics = with_config("serve:\n  max-num-seqs: 8\n", f"{SERVE} --config c.yaml")
        assert "CG957" in [one.code for one in diagnostics if one.severity == "error"]
        assert "CG926" not in [one.code for one in diagnostics]
        fine = with_config("compilation-config:\n  mode: 3\n", f"{SERVE} --config c.yaml")
        assert "CG957" not in [one.code for one in fine]


class TestManifests:
    @pytest.mark.parametrize(("tag", "rules"), [("v0.10.2", SUPPORTED[0]), ("v0.40.0", SUPPORTED[-1])])
    def test_an_image_of_an_unknown_release(self, tag: str, rules: str) -> None:
        (one,) = in_manifest(POD.replace("IMAGE", f'"vllm/vllm-openai:{tag}"'), "CG955")
        assert one.severity == "info"
        assert f"rules of {rules}" in one.message

    @pytest.mark.parametrize("image", ["vllm/vllm-openai:v0.30.0", "vllm/vllm-openai", "corp/ml/vllm:1.4.2-cuda"])
    def test_other_images(self, image: str) -> None:
        assert in_manifest(POD.replace("IMAGE", f'"{image}"'), "CG955") == []

    SERVED = POD.replace("IMAGE", "vllm/vllm-openai")
    SERVICE = "---\napiVersion: v1\nkind: Service\nmetadata: {name: vllm}\nspec: {ports: [{port: 8000}]}\n"

    def test_a_service_named_vllm(self) -> None:
        (one,) = in_manifest(self.SERVED + self.SERVICE, "CG815")
        assert one.severity == "error"
        assert one.at is not None
        assert one.at.span.line == 8

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("name: vllm}", "name: vllm-api}"),
            ("{ports:", "{clusterIP: None, ports:"),
            ("name: vllm}", "name: vllm, namespace: b}"),
            ("{name: p}", "{name: p, namespace: a}"),
            ("args: [m]}", "args: [m], env: [{name: VLLM_PORT, value: '9000'}]}"),
            ("spec: {containers", "spec: {enableServiceLinks: false, containers"),
        ],
    )
    def test_services_that_do_no_harm(self, old: str, new: str) -> None:
        text = self.SERVED + self.SERVICE
        if "namespace: b" in new:
            text = text.replace("{name: p}", "{name: p, namespace: a}")
        if "namespace: a" in new:
            text = text.replace("{name: vllm}", "{name: vllm, namespace: b}")
        assert old in text
        assert in_manifest(text.replace(old, new), "CG815") == []


def test_a_variable_that_asks_for_what_there_is_is_an_info() -> None:
    assert [one.severity for one in found(f"VLLM_USE_V1=1 {SERVE}", "CG811")] == ["info"]
    assert [one.severity for one in found(f"VLLM_USE_V1=0 {SERVE}", "CG811")] == ["warning"]


@pytest.mark.parametrize("option", ["--wrap ", "--wrap="])
def test_a_batch_job_of_one_line(option: str) -> None:
    launches = read(Source("j.sh", f'#!/bin/sh\nsbatch {option}"{SERVE} --max-num-seqs 8"\n')).launches
    assert [launch.texts[-1] for launch in launches] == ["8"]
    assert launches[0].tokens[-1].span.line == 2
