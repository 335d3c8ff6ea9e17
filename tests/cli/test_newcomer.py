"""What a person meets who tries things: twice, empty, misspelt, without effect."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import cgplan
from cgplan.cli import environment
from cgplan.cli.app import run

Answer = tuple[int, str, str]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    """Run `cgplan resolve` with these arguments: (exit status, stdout, stderr)."""
    monkeypatch.setattr("cgplan.inputs.devices.detect", lambda: None)
    monkeypatch.setenv("COLUMNS", "120")
    for name in environment.READ:
        monkeypatch.delenv(name, raising=False)

    def call(*argv: str) -> Answer:
        status = run(["resolve", *argv])
        out, err = capsys.readouterr()
        return status, out, err

    return call


def assumed(answer: Answer) -> list[str]:
    found: list[str] = json.loads(answer[1])["assumptions"]
    return found


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--gpu h100 --gpu a100", "--gpu is given twice: h100 and a100"),
        ("--backend flashinfer --attention-backend triton_attn", "--backend flashinfer and --attention-backend triton"),
        ("-tp 2 --tensor-parallel-size 4", "-tp 2 and --tensor-parallel-size 4 are one setting"),
        ("--enforce-eager --no-enforce-eager", "--enforce-eager and --no-enforce-eager contradict each other"),
        ("-O3 -O0", "is given twice: 3 and 0"),
        ("--cudagraph-capture-sizes 1 2 --cudagraph-capture-sizes 4", "is given twice: 1,2 and 4"),
        ("-cc.mode=3 -cc.mode=0", "-cc.mode is given twice: 3 and 0"),
        ("--env A=1 --env A=0", "--env A is given twice: 1 and 0"),
        ("--software triton=1 --software triton=0", "--software triton is given twice: 1 and 0"),
        ("--spec-method ngram --spec-tokens 3 -sc.num_speculative_tokens=2", "--spec-tokens 3 and -sc.num_spec"),
        ("--cudagraph-mode FULL -cc.cudagraph_mode=NONE", "--cudagraph-mode FULL and -cc.cudagraph_mode NONE are one"),
        ("--fail-on info --fail-on error", "--fail-on is given twice: info and error"),
    ],
)
def test_two_values_are_refused(ask: Callable[..., Answer], line: str, message: str) -> None:
    status, out, err = ask(*line.split())
    assert (status, out) == (2, "")
    assert err.startswith("error[CG907]: ")
    assert message in err
    assert "fix: drop one of the two" in err


@pytest.mark.parametrize(
    "line",
    [
        "--gpu h100 --gpu h100",
        "-tp 2 --tensor-parallel-size 2",
        "--enforce-eager --enforce-eager",
        "-cc.mode=3 -cc.mode=3",
        "--env VLLM_BATCH_INVARIANT=0 --env VLLM_BATCH_INVARIANT=0",
        "--spec-method ngram --spec-tokens 3 -sc.num_speculative_tokens=3",
        "--cudagraph-mode full -cc.cudagraph_mode=FULL",
        "--json --json",
    ],
)
def test_the_same_twice_is_fine(ask: Callable[..., Answer], line: str) -> None:
    assert ask(*line.split())[0] == 0


def test_batches_add_up(ask: Callable[..., Answer]) -> None:
    found = json.loads(ask("--json", "--batch", "100", "1", "5,7", "--batch", "9", "100")[1])["batches"]
    assert [answer["size"] for answer in found[::2]] == [100, 1, 5, 7, 9]


OPTIONS_WITH_TEXT = (
    "--model", "--runner", "--dtype", "--quantization", "--max-model-len", "--gpu", "--vllm", "--usage-context",
    "--env",
    "--software", "--max-num-seqs", "--performance-mode", "-O", "--cudagraph-mode", "--cudagraph-capture-sizes", "-cc",
    "--backend", "--attention-support", "--kv-cache-dtype", "--block-size", "-tp", "--distributed-executor-backend",
    "--all2all-backend", "--spec-method", "--spec-model", "--spec-tokens", "--batch", "--fail-on",
)  # fmt: skip


@pytest.mark.parametrize("option", OPTIONS_WITH_TEXT)
@pytest.mark.parametrize("blank", ["", " "])
def test_an_empty_value_is_refused(ask: Callable[..., Answer], option: str, blank: str) -> None:
    status, _, err = ask(option, blank)
    assert status == 2
    assert err.startswith("error[CG906]: the value of -")
    assert "is empty; fix: " in err


@pytest.mark.parametrize("line", ["-ac.backend=", "-sc.method=", "-cc.cudagraph_mode=", "-cc.backend="])
def test_an_empty_key_is_refused(ask: Callable[..., Answer], line: str) -> None:
    assert f"the value of {line[:-1]} is empty" in ask(line)[2]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ('{"": 1}', "a key of the JSON is empty"),
        ('{"cudagraph_mode": ""}', "the value of -cc.cudagraph_mode is empty"),
        ('{"pass_config": {"x": 1}}', "-cc.pass_config has no field x [-cc.pass_config.x]"),
        ('{"modus": 1}', "-cc has no field modus [-cc.modus]"),
        ('{"mode": 99}', "unknown compilation mode 99 [-cc.mode]; fix: give one of NONE, STOCK_TORCH_COMPILE"),
        ('{"cudagraph_mode": [1]}', "unknown CUDA graph mode [1] [-cc.cudagraph_mode]"),
        ('{"custom_ops": 3}', "input should be a list, got 3 [-cc.custom_ops]"),
        ('{"pass_config": 3}', "input should be a JSON object, got 3 [-cc.pass_config]"),
        ('{"compile_sizes": [1.5]}', "a valid integer, got 1.5 [-cc.compile_sizes.0]"),
    ],
)
def test_json_keys_are_named_as_typed(ask: Callable[..., Answer], config: str, message: str) -> None:
    status, _, err = ask("-cc", config)
    assert status == 2
    assert message in err
    assert not re.search(r"CompilationConfig|instance of|constrained", err)


def test_an_empty_backend_of_the_compiler_is_its_default(ask: Callable[..., Answer]) -> None:
    assert ask("-cc", '{"backend": ""}')[0] == 0


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("-tp 0", "-tp"),
        ("--tensor-parallel-size 0", "--tensor-parallel-size"),
        ("--num-gpu-blocks-override -1", "--num-gpu-blocks-override"),
        ("--num-gpu-blocks -1", "--num-gpu-blocks"),
        ("--spec-method ngram --spec-tokens -1", "--spec-tokens"),
        ("-sc.method=ngram -sc.num_speculative_tokens=-1", "-sc.num_speculative_tokens"),
        ("--backend bogus", "--backend"),
        ("--attention-backend bogus", "--attention-backend"),
        ("-ac.backend=bogus", "-ac.backend"),
        ("--cudagraph-mode bogus", "--cudagraph-mode"),
        ("-cc.cudagraph_mode=bogus", "-cc.cudagraph_mode"),
        ("--env VLLM_USE_V2_MODEL_RUNNER=x", "--env VLLM_USE_V2_MODEL_RUNNER"),
        ("-q=nothing-known -tp x", "-tp"),
    ],
)
def test_where_is_the_option_that_was_typed(ask: Callable[..., Answer], line: str, where: str) -> None:
    status, out, _ = ask("--json", *line.split())
    assert status == 2
    assert json.loads(out)["error"]["where"] == where


WHOLE = ("-tp", "-dp", "-pp", "-n", "--spec-tokens", "--block-size", "--max-loras", "--ubatch-size", "--max-num-seqs")


@pytest.mark.parametrize("option", WHOLE)
@pytest.mark.parametrize("text", ["bogus", "1.5", "٣"])
def test_numbers_are_refused_alike(ask: Callable[..., Answer], option: str, text: str) -> None:
    status, _, err = ask(option, text)
    assert status == 2
    assert err.startswith(f"error[CG906]: {text!r} is not a whole number [{option}]; fix: give a whole")


@pytest.mark.parametrize(
    ("line", "code", "hint"),
    [
        ("--distributed-executor-backend bogus", "CG902", "mp, ray, uni, external_launcher"),
        ("--distributed-executor-backend rey", "CG902", "did you mean ray?"),
        ("-sc {}", "CG903", "--spec-method ngram"),
        ("--spec-tokens 3", "CG903", "--spec-method ngram"),
        ("--env VLLM_USE_V2_MODEL_RUNER=0", "CG901", "did you mean VLLM_USE_V2_MODEL_RUNNER?"),
        ("--env vllm_batch_invariant=1", "CG901", "did you mean VLLM_BATCH_INVARIANT?"),
        ("--gpu mi300x", "CG904", "--gpu sm90 --gpu-memory-bytes 192GiB"),
        ("--gpu sm90", "CG904", "--gpu sm90 --gpu-memory-bytes 80GiB"),
        ("--software packages=b12y", "CG901", "did you mean b12x?"),
        ("--software packages=b12x,", "CG901", "give one of aiter"),
        ("--software torch_version=x", "CG906", "torch_version=2.11.0"),
        ("--backend x", "CG305", "`cgplan backends` lists all"),
        ("--model bogus", "CG915", "cgplan models"),
        ("--max-model-len 1000000", "CG129", "--env VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"),
    ],
)
def test_unknown_names_are_refused(ask: Callable[..., Answer], line: str, code: str, hint: str) -> None:
    status, _, err = ask(*line.split())
    assert status == 2
    assert err.startswith(f"error[{code}]")
    assert hint in err
    assert "ROCM" not in err
    assert max(len(text) for text in err.splitlines()) < 200


def test_the_path_of_an_executor_is_taken(ask: Callable[..., Answer]) -> None:
    assert ask("--distributed-executor-backend", "package.module.Executor")[0] == 0


def test_every_variable_of_the_source_is_known() -> None:
    """A rule that reads a new variable must not find it called unread; `profile` sets some of the vLLM it starts."""
    assert cgplan.__file__ is not None
    found: set[str] = set()
    top = Path(cgplan.__file__).parent
    for path in top.rglob("*.py"):
        folders = path.relative_to(top).parts[:-1]
        if not {"cli", "check", "launches", "profile"} & set(folders) and "serve_args" not in path.name:
            found |= set(re.findall(r"""["'](VLLM_[A-Z0-9_]+)["']""", path.read_text(encoding="utf-8")))
    assert found - {"VLLM_COMPILE"} <= set(environment.READ)


def test_the_shell_is_not_read_and_that_is_said(ask: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line for line in assumed(ask("--json")) if line.startswith("Environment")]
    assert lines == ["Environment: none of vLLM's variables is set; --env sets one, this shell's are not read."]
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "0")
    document = json.loads(ask("--json")[1])
    assert document["runner"] == "V2"
    said = "Environment: VLLM_USE_V2_MODEL_RUNNER is of this shell and not read; --env sets a variable."
    assert said in document["assumptions"]
    assert said not in assumed(ask("--json", "--env", "VLLM_USE_V2_MODEL_RUNNER=1"))


def test_variables_that_are_not_looked_at_are_named(ask: Callable[..., Answer]) -> None:
    lines = assumed(ask("--json", "--env", "VLLM_LOGGING_LEVEL=DEBUG", "--env", "VLLM_BATCH_INVARIANT=0"))
    assert "Environment: VLLM_LOGGING_LEVEL is not looked at; it is taken to leave CUDA graphs alone." in lines


@pytest.mark.parametrize(
    ("release", "name", "ignored"),
    [
        ("0.28.0", "VLLM_ATTENTION_BACKEND", True),
        ("0.33.0", "VLLM_USE_TRITON_FLASH_ATTN", True),
        ("0.33.0", "VLLM_LOGGING_LEVEL", False),
        ("0.33.0", "MY_OWN", False),
    ],
)
def test_a_variable_that_the_release_ignores_is_told_as_check_tells_it(
    release: str, name: str, ignored: bool, cgplan: Callable[..., Answer], tmp_path: Path
) -> None:
    said = f"Environment: {name} is set; vLLM {release} ignores it (CG811)."
    lines = assumed(cgplan("resolve", "--json", "--vllm", release, "--env", f"{name}=FLASHINFER"))
    assert (said in lines) is ignored
    assert any(f"{name} is not looked at" in line for line in lines) is not ignored
    script = tmp_path / "run.sh"
    script.write_text(f"export {name}=FLASHINFER\nvllm serve Qwen/Qwen3-8B\n")
    assert ("CG811" in cgplan("check", "--vllm", release, str(script))[1]) is ignored
    for command in ("resolve", "plan", "tune"):
        line = ["--json", "--vllm", release, "--gpu", "h100", *(["--shape", "low"] if command == "tune" else [])]
        document = json.loads(cgplan(command, *line, str(script))[1])
        assert (said in document["assumptions"]) is ignored, command


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("--max-loras 4 --max-lora-rank 8", "--max-loras, --max-lora-rank: no effect without --enable-lora."),
        ("--specialize-active-lora", "--specialize-active-lora: no effect without --enable-lora."),
        ("--all2all-backend naive", "--all2all-backend: no effect on a model without experts."),
        ("--dbo-decode-token-threshold 3", "--dbo-decode-token-threshold: no effect without --enable-dbo."),
    ],
)
def test_options_without_effect_are_named(ask: Callable[..., Answer], line: str, note: str) -> None:
    assert note in assumed(ask("--json", *line.split()))


def test_options_with_effect_are_not(ask: Callable[..., Answer]) -> None:
    assert not [line for line in assumed(ask("--json", "--enable-lora", "--max-loras", "4")) if "no effect" in line]


def test_a_data_type_that_falls_back_is_assumed(ask: Callable[..., Answer]) -> None:
    assert any("float16 in the place of bfloat16" in line for line in assumed(ask("--json", "--gpu", "t4")))
    assert not any("Data type" in line for line in assumed(ask("--json", "--gpu", "h100")))


@pytest.mark.parametrize("line", ["", "--max-model-len auto", "--assume-release 0.28", "-cc.cache_dir=/x", "--gpu t4"])
def test_what_is_assumed_is_a_sentence(ask: Callable[..., Answer], line: str) -> None:
    document = json.loads(ask("--json", *line.split())[1])
    for text in (*document["assumptions"], *document["not_modelled"]):
        assert text.endswith(".")
        assert re.match(r"[A-Z-]|vLLM|[a-z]+_", text)


def test_fixes_have_one_style(ask: Callable[..., Answer]) -> None:
    argv = (
        "--model",
        "Qwen/Qwen3-30B-A3B",
        "-dp",
        "8",
        "-ep",
        "--all2all-backend",
        "deepep_high_throughput",
        "--gpu",
        "h100",
    )
    for finding in json.loads(ask("--json", *argv)[1])["findings"]:
        assert finding["fix"] is None or re.match(r"[a-z-]|[A-Z]{2}", finding["fix"])
        assert not (finding["fix"] or "").endswith(".")
    assert "fix: use deepep_low_latency" in ask(*argv)[1]


def test_the_padding_table_is_in_the_document(ask: Callable[..., Answer]) -> None:
    table = json.loads(ask("--json", "--table", "--max-num-seqs", "4")[1])["padding_table"]
    assert table[:3] == [
        {"from": 1, "to": 1, "padded": 1},
        {"from": 2, "to": 2, "padded": 2},
        {"from": 3, "to": 4, "padded": 4},
    ]
    assert "padding_table" not in json.loads(ask("--json")[1])
    assert json.loads(ask("--json", "--table", "--enforce-eager")[1])["padding_table"] == []


def test_the_first_line_shows_the_layout(ask: Callable[..., Answer]) -> None:
    first = ask("--gpu", "h100", "-tp", "2", "-dp", "8", "--nnodes", "2")[1].splitlines()[0]
    assert " · tp 2 dp 8 nodes 2 · " in first
    assert "tp" not in ask("--gpu", "h100")[1].splitlines()[0]


@pytest.mark.parametrize("columns", ["1", "20", "80"])
def test_no_line_ends_in_blanks_or_is_cut_to_pieces(
    ask: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    out = ask("--gpu", "h100", "--table", "--explain", "--batch", "1", "5")[1]
    assert not [line for line in out.splitlines() if line != line.rstrip()]
    assert "Decode batches" in out
    assert max(len(line) for line in out.splitlines()) >= 38


def test_the_list_of_gpus_says_how_to_ask_for_another(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gpus"]) == 0
    assert "Deployment(gpu=Gpu(platform='rocm', ...))" in capsys.readouterr().out
    found = cgplan.resolve(cgplan.Deployment(gpu=cgplan.Gpu(platform="rocm", capability=(9, 4))))
    assert found.backend.name == "ROCM_ATTN"
    assert found.not_modelled


@pytest.mark.parametrize("line", ["models qwen3-8b", "models nothing-of-that-name", "gpus", "schema error"])
def test_small_commands_have_no_trailing_blanks(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(line.split())
    assert not [text for text in capsys.readouterr().out.splitlines() if text != text.rstrip()]
