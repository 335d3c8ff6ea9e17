"""Builds between releases of vLLM, and releases that are not known: every command says whose rules hold."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable

import pytest

from cgplan.errors import InputError
from cgplan.releases import SUPPORTED, stand_in

Run = Callable[..., tuple[int, str, str]]
BUILD = "0.29.1rc1.dev339"


@pytest.mark.parametrize(
    ("release", "known", "is_said"),
    [
        (BUILD, "0.29.0", True),
        ("v0.23.1rc1.dev1302+gabc", "0.23.0", True),
        ("0.25.0rc2", "0.25.1", True),
        ("0.28.0.post1", "0.28.0", True),
        ("0.22.0", "0.22.1", True),
        ("0.22.7", "0.22.1", True),
        ("v0.26.1", "0.26.0", True),
        ("0.19.0", "0.19.1", True),
        ("0.33.4", "0.33.0", True),
        ("0.29.0+cu130", "0.29.0", False),
        ("0.29", "0.29.0", False),
        ("0.33.0", "0.33.0", False),
    ],
)
def test_a_build_goes_by_the_nearest_release(release: str, known: str, is_said: bool) -> None:
    found, said = stand_in(release)
    assert found == known
    assert (said is not None) is is_said
    assert not is_said or (release in str(said) and known in str(said))


@pytest.mark.parametrize(
    "release",
    ["0.10.2", "0.18.2", "0.34.0", "1.22.0", "0.18.1rc1.dev3", "0.34.0rc1", "nightly", "", "0.29.1rc" + "1" * 99],
)
def test_what_is_of_no_known_minor_version_is_refused(release: str) -> None:
    with pytest.raises(InputError) as caught:
        stand_in(release)
    assert caught.value.code == "CG801"


@pytest.mark.parametrize(("patch", "known"), [("0.22.0", "0.22.1"), ("0.26.1", "0.26.0")])
@pytest.mark.parametrize("command", ["resolve", "backends", "plan"])
def test_commands_take_another_patch(cgplan: Run, command: str, patch: str, known: str) -> None:
    document = json.loads(cgplan(command, "Qwen/Qwen3-8B", "--gpu", "h100", "--vllm", patch, "--json")[1])
    assert document["vllm_version"] == known
    assert sum(f"{patch} goes by the rules of {known}" in text for text in document["assumptions"]) == 1


def test_ends_of_diff_take_another_patch_and_say_so(cgplan: Run) -> None:
    shape = ("--model", "Qwen/Qwen3-8B", "--gpu", "h100")
    status, out, _ = cgplan("diff", "--from", "0.25.0", "--to", "0.26.1", *shape, "--json")
    document = json.loads(out)
    assert (status, document["from"], document["to"]) == (0, "0.25.1", "0.26.0")
    said = [text for text in document["assumptions"] if "goes by the rules of" in text]
    assert [text.split()[0] for text in said] == ["--from:", "--to:"]
    known = json.loads(cgplan("diff", "--from", "0.25.1", "--to", "0.26", *shape, "--json")[1])
    assert not [text for text in known["assumptions"] if "goes by the rules of" in text]
    assert known["changes"] == document["changes"]


def test_rules_and_changes_without_a_deployment_say_it_beside_the_list(cgplan: Run) -> None:
    assert "0.22.0 goes by the rules of 0.22.1" in cgplan("rules", "--vllm", "0.22.0", "CG111")[2]
    assert "0.19.0 goes by the rules of 0.19.1" in cgplan("diff", "--from", "0.19.0", "--to", "0.20")[2]
    assert cgplan("diff", "--from", "0.19", "--to", "0.20")[2] == ""


def test_values_of_what_if_take_another_patch_and_say_so(cgplan: Run) -> None:
    line = ("plan", "Qwen/Qwen3-8B", "--gpu", "h100", "--what-if")
    assert "0.22.0 goes by the rules of 0.22.1" in cgplan(*line, "vllm=0.22.0,0.33")[2]
    assert cgplan(*line, "vllm=0.22.1,0.33")[2] == ""


@pytest.mark.parametrize("place", [("--from", "0.12"), ("--from=0.12",)])
def test_an_end_of_diff_that_is_not_known_is_refused_with_the_command(cgplan: Run, place: tuple[str, ...]) -> None:
    status, _, err = cgplan("diff", *place, "--to", "0.20", "--", "vllm", "serve", "Qwen/Qwen3-8B")
    assert status == 2
    command = err.partition("fix: ")[2].partition("; give one of")[0]
    assert cgplan(*shlex.split(command)[1:])[0] == 0


def test_a_refusal_of_an_older_release_says_what_differs_for_memory(cgplan: Run) -> None:
    words = "before 0.20.2 the graphs come on top of --gpu-memory-utilization"
    assert words in cgplan("plan", "Qwen/Qwen3-8B", "--gpu", "h100", "--vllm", "0.10.2")[2]
    assert words in cgplan("diff", "--from", "0.18.1", "--to", "0.33")[2]
    assert words not in cgplan("plan", "Qwen/Qwen3-8B", "--gpu", "h100", "--vllm", "0.40.0")[2]


@pytest.mark.parametrize("command", ["resolve", "backends", "plan"])
def test_commands_take_a_build(cgplan: Run, command: str) -> None:
    status, out, _ = cgplan(command, "Qwen/Qwen3-8B", "--gpu", "h100", "--vllm", BUILD, "--json")
    document = json.loads(out)
    assert status == 0
    assert document["vllm_version"] == "0.29.0"
    assert sum(BUILD in text for text in document["assumptions"]) == 1


def test_check_tells_it_as_an_information(cgplan: Run) -> None:
    line = ("--", "vllm", "serve", "Qwen/Qwen3-8B", "--max-num-seqs", "64")
    status, out, _ = cgplan("check", "--vllm", BUILD, *line)
    assert status == 0
    assert f"info CG955 vLLM {BUILD} is not known to cgplan; the line is read by the rules of 0.29.0" in out
    assert "CG955" not in cgplan("check", "--vllm", "0.29", *line)[1]


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "Qwen/Qwen3-8B", "--gpu", "h100", "--vllm", "0.10.2"),
        ("check", "--vllm", "0.10.2", "--", "vllm", "serve", "Qwen/Qwen3-8B", "--max-num-seqs", "64"),
    ],
)
def test_an_older_release_is_refused_with_the_command_that_answers(cgplan: Run, words: tuple[str, ...]) -> None:
    status, out, err = cgplan(*words)
    assert (status, out) == (2, "")
    command = err.partition("fix: ")[2].partition(", which answers by its rules")[0]
    assert command.startswith(f"cgplan {words[0]} ")
    assert cgplan(*shlex.split(command)[1:])[0] == 0
    assert f"--assume-release {SUPPORTED[0]}" in command
    assert ("--json" in words) is False


def test_no_command_is_offered_where_the_option_is_not_taken(cgplan: Run) -> None:
    assert "--assume-release" not in cgplan("rules", "--vllm", "0.10.2")[2]
    given = cgplan("resolve", "--vllm", "0.10.2", "--assume-release", "0.10.2")[2]
    assert "which answers by its rules" not in given


def test_drafts_of_a_model_that_is_not_named(cgplan: Run) -> None:
    status, _, err = cgplan("resolve", "--gpu", "h100", "--spec-method", "mtp", "--spec-tokens", "2")
    assert status == 2
    assert "no model is named" in err
    assert "--model" in err
    assert (
        "no model is named" not in cgplan("resolve", "Qwen/Qwen3-8B", "--spec-method", "mtp", "--spec-tokens", "2")[2]
    )
