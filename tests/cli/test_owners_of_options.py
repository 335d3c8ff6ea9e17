"""Options that are asked of the wrong command, of vLLM's line, of another release, and engines of Python programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
SHAPE = ("Qwen/Qwen3-8B", "--gpu", "h100")


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (("plan", *SHAPE, "--explain"), "cgplan resolve --explain"),
        (("resolve", *SHAPE, "--what-if", "max-num-seqs=8"), "cgplan plan takes --what-if"),
        (("resolve", *SHAPE, "--kv-bytes", "10G"), "cgplan plan and report take --kv-bytes"),
        (("tune", *SHAPE, "--batch", "8"), "cgplan resolve takes --batch"),
        (("models", "--gpu", "h100"), "and 6 other commands take --gpu"),
        (("resolve", *SHAPE, "--cudagraph-metrics"), "cgplan resolve -- vllm serve MODEL --cudagraph-metrics"),
        (("logs", "x.log", "--cudagraph-metrics"), "cgplan check -- vllm serve MODEL --cudagraph-metrics"),
        (("plan", *SHAPE, "--max-num-seq", "5"), "did you mean --max-num-seqs?"),
        (("plan", *SHAPE, "--zzz"), "no command has it"),
        (("plan", "a", "b"), "cgplan plan -- vllm serve MODEL"),
        (("sweep", "a", "b"), "drop what is too many"),
        (("sweep",), "cgplan sweep GRID"),
        (("plan", *SHAPE, "--enforce-eager=1"), "write --enforce-eager alone"),
    ],
)
def test_an_option_that_a_command_lacks_leads_to_the_one_that_has_it(
    cgplan: Run, words: tuple[str, ...], fix: str
) -> None:
    status, out, err = cgplan(*words)
    assert (status, out) == (2, "")
    assert fix in err.partition("fix: ")[2]
    assert "fix: see " not in err


def _check(cgplan: Run, *words: str) -> dict[str, list[dict[str, str]]]:
    document = json.loads(cgplan("check", "--json", *words)[1])
    found: dict[str, list[dict[str, str]]] = {}
    launches = [launch for file in document["files"] for launch in file["launches"]]
    for one in (finding for launch in launches for finding in launch["diagnostics"]):
        found.setdefault(one["code"], []).append(one)
    return found


@pytest.mark.parametrize("mode", [("--cudagraph-mode", "PIECEWISE"), ("--cudagraph-mode=PIECEWISE",)])
def test_the_mode_as_cgplan_spells_it_leads_to_vllms_form(cgplan: Run, mode: tuple[str, ...]) -> None:
    line = ("--", "vllm", "serve", "Qwen/Qwen3-8B")
    found = _check(cgplan, *line, *mode)
    assert "-cc.cudagraph_mode=PIECEWISE" in str(found["CG905"])
    assert "CG243" in found  # what holds of the mode that is meant
    assert "vllm serve Qwen/Qwen3-8B -cc.cudagraph_mode=PIECEWISE\n" in cgplan("check", "--fix", *line, *mode)[1]
    assert "CG905" not in _check(cgplan, *line, "-cc.cudagraph_mode=PIECEWISE")


DRAFTS = ("--spec-method", "mtp", "--spec-tokens", "3")


def test_drafts_of_later_releases_are_spelled_as_the_older_one_does(cgplan: Run) -> None:
    line = ("--vllm", "0.20.2", "--gpu", "h100", "--", "vllm", "serve", "Qwen/Qwen3.6-27B")
    found = _check(cgplan, *line, *DRAFTS, "--attention-backend", "FLASHINFER")
    assert len(found["CG905"]) == 2
    assert "CG333" in found  # what the drafts cost is said all the same
    out = cgplan("check", "--fix", *line, *DRAFTS)[1]
    assert "--speculative-config.method mtp --speculative-config.num_speculative_tokens 3" in out
    newer = _check(cgplan, *("0.22.1" if word == "0.20.2" else word for word in line), *DRAFTS)
    assert "CG905" not in newer


def test_drafts_without_a_method_are_refused_in_the_older_form_too(cgplan: Run) -> None:
    line = ("--vllm", "0.20.2", "--gpu", "h100", "--", "vllm", "serve", "Qwen/Qwen3.6-27B", "--spec-tokens", "3")
    assert "it is refused too" in str(_check(cgplan, *line)["CG905"])


PROGRAM = """from vllm import LLM
llm = LLM(
    model="Qwen/Qwen3-8B", max_num_seqs=64, gpu_memory_utilization=0.85,
    hf_token="hf_aaaaaaaaaaaaaaaaaaaa",
)
"""


LIMITS = "--max-num-seqs 64 --gpu-memory-utilization 0.85"


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        (
            PROGRAM,
            "cgplan plan Qwen/Qwen3-8B --max-num-seqs 64 --gpu-memory-utilization 0.85 --usage-context LLM_CLASS",
        ),
        ('from vllm import LLM\nllm = LLM("Qwen/Qwen3-8B")\n', "cgplan plan Qwen/Qwen3-8B --usage-context LLM_CLASS"),
        ("import vllm\nllm = LLM(model=name)\n", "cgplan plan MODEL --usage-context LLM_CLASS"),
        ('import vllm\nEngine(AsyncEngineArgs(model="a/b"))\n', "cgplan plan a/b --usage-context ENGINE_CONTEXT"),
    ],
)
def test_a_python_program_gets_the_command_that_answers(cgplan: Run, tmp_path: Path, text: str, fix: str) -> None:
    file = tmp_path / "llm.py"
    file.write_text(text)
    status, _, err = cgplan("plan", str(file))
    assert status == 2
    assert f"fix: {fix} answers for" in err
    assert "hf_aaaa" not in err
    assert fix in " ".join(cgplan("check", str(file))[1:])


def test_the_command_for_a_python_program_runs(cgplan: Run, tmp_path: Path) -> None:
    file = tmp_path / "llm.py"
    file.write_text(PROGRAM)
    command = cgplan("plan", str(file))[2].partition("fix: cgplan ")[2].partition(" answers for")[0]
    assert cgplan(*command.split(), "--gpu", "h100")[0] == 0


def test_a_python_program_without_an_engine_gets_no_command(cgplan: Run, tmp_path: Path) -> None:
    file = tmp_path / "tool.py"
    file.write_text("import vllm\nprint(vllm.__version__)\n")
    assert "answers for" not in cgplan("plan", str(file))[2]
