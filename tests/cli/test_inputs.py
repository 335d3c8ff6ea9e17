"""`resolve`, `diff` and `backends` take a line behind `--`, a file or standard input, with options over it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cgplan.cli import launched
from cgplan.cli.app import run

Run = Callable[..., tuple[int, str, str]]


POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: {name}
spec:
  containers:
    - name: server
      image: vllm/vllm-openai:v{release}
      command: [sh, -c]
      args:
        - |
          vllm serve Qwen/Qwen3-8B {line}
"""


def pod(name: str = "quail", release: str = "0.28.0", line: str = "--max-num-seqs 300") -> str:
    return POD.format(name=name, release=release, line=line)


@pytest.fixture
def cgplan(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command line in an empty folder: (exit status, stdout, stderr)."""
    monkeypatch.setattr("cgplan.inputs.devices.detect", lambda: None)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)

    def call(line: str, stdin: str | None = None) -> tuple[int, str, str]:
        if stdin is not None:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        status = run(line.split())
        out, err = capsys.readouterr()
        return status, out, err

    return call


# A line behind --


def test_a_line_says_what_the_same_options_say(cgplan: Run) -> None:
    lines = [
        "resolve Qwen/Qwen3-8B -tp 2 --max-num-seqs 300 --gpu h100 --json",
        "resolve --gpu h100 --json -- vllm serve Qwen/Qwen3-8B -tp 2 --max-num-seqs 300",
        "resolve --json --gpu h100 -- env vllm serve Qwen/Qwen3-8B -tp=2 --max_num_seqs 300",
    ]
    documents = []
    for line in lines:
        status, out, err = cgplan(line)
        assert (status, err) == (0, "")
        documents.append(json.loads(out))
    for document in documents:
        document.pop("assumptions")
    assert documents[0] == documents[1] == documents[2]
    assert documents[0]["max_num_seqs"] == 300


@pytest.mark.parametrize("command", ["resolve", "backends", "diff --from 0.28"])
def test_every_command_takes_a_line(cgplan: Run, command: str) -> None:
    status, out, err = cgplan(f"{command} --gpu h100 --json -- vllm serve Qwen/Qwen3-8B --max-num-seqs 300")
    assert (status, err) == (0, "")
    assert json.loads(out)["schema_version"] == 1


def test_nothing_and_no_server_behind_the_dashes(cgplan: Run) -> None:
    status, out, err = cgplan("resolve --")
    assert (status, out) == (2, "")
    assert "nothing stands behind --" in err
    status, _, err = cgplan("resolve -- ls -l")
    assert status == 2
    assert "does not start a vLLM server" in err
    assert "(vLLM" not in err


def test_variables_of_a_line_count(cgplan: Run) -> None:
    _, out, _ = cgplan("resolve --json -- VLLM_USE_V2_MODEL_RUNNER=0 vllm serve Qwen/Qwen3-8B")
    assert json.loads(out)["runner"] == "V1"
    _, out, _ = cgplan("resolve --json --env VLLM_USE_V2_MODEL_RUNNER=1 -- VLLM_USE_V2_MODEL_RUNNER=0 vllm serve x/y")
    assert json.loads(out)["runner"] == "V2"


def test_json_behind_the_dashes_is_not_ours(cgplan: Run) -> None:
    """A `--json` of the line is not the one of the command."""
    status, out, _ = cgplan("resolve -- vllm serve Qwen/Qwen3-8B --json")
    assert (status, out) == (2, "")


# Files


def test_a_manifest(cgplan: Run) -> None:
    Path("deploy.yaml").write_text(pod())
    status, out, err = cgplan("resolve deploy.yaml --gpu h100 --json")
    assert (status, err) == (0, "")
    document = json.loads(out)
    assert (document["vllm_version"], document["max_num_seqs"]) == ("0.28.0", 300)
    assert "deploy.yaml:12" in document["assumptions"][0]
    status, out, _ = cgplan("resolve deploy.yaml --vllm 0.33.0 --max-num-seqs 64 --json")
    assert (json.loads(out)["vllm_version"], json.loads(out)["max_num_seqs"]) == ("0.33.0", 64)


def test_standard_input(cgplan: Run) -> None:
    status, out, err = cgplan("resolve - --json", stdin=pod())
    assert (status, err) == (0, "")
    assert json.loads(out)["max_num_seqs"] == 300
    assert json.loads(out)["assumptions"][0].startswith("Read: stdin:12")


@pytest.mark.parametrize(("which", "seqs"), [("1", 8), ("2", 16), ("heron", 16), ("QUAIL", 8)])
def test_one_of_several_servers(cgplan: Run, which: str, seqs: int) -> None:
    Path("two.yaml").write_text(
        pod("quail", line="--max-num-seqs 8") + "---\n" + pod("heron", line="--max-num-seqs 16")
    )
    _, out, err = cgplan(f"resolve two.yaml --json --launch {which}")
    assert err == ""
    assert json.loads(out)["max_num_seqs"] == seqs


def test_several_servers_are_listed(cgplan: Run) -> None:
    Path("two.yaml").write_text(pod("quail") + "---\n" + pod("heron"))
    for line in (
        "resolve two.yaml",
        "resolve two.yaml --launch 3",
        "resolve two.yaml --launch 9",
        "resolve two.yaml --launch o",
    ):
        status, out, err = cgplan(line)
        assert (status, out) == (2, "")
        assert len(err.splitlines()) == 1
        assert "quail" in err
        assert "heron" in err
    assert "starts 2 servers" in cgplan("resolve two.yaml")[2]


def test_launch_needs_a_file(cgplan: Run) -> None:
    status, _, err = cgplan("resolve --launch 2")
    assert status == 2
    assert "no file is given" in err
    Path("deploy.yaml").write_text(pod())
    status, _, err = cgplan("resolve deploy.yaml -- vllm serve x/y")
    assert status == 2
    assert "two launches" in err


def test_a_file_without_a_server(cgplan: Run) -> None:
    Path("other.yaml").write_text("apiVersion: v1\nkind: ConfigMap\ndata:\n  a: b\n")
    status, out, err = cgplan("resolve other.yaml")
    assert (status, out) == (2, "")
    assert "other.yaml starts no vLLM server" in err


def test_a_refusal_has_its_place(cgplan: Run) -> None:
    Path("deploy.yaml").write_text(pod(line="--max-num-seq 8 --max-num-batched 9 --nonsense"))
    status, out, err = cgplan("resolve deploy.yaml --json")
    assert status == 2
    error = json.loads(out)["error"]
    assert error["where"].startswith("deploy.yaml:12:")
    assert "0.28.0" in error["message"]
    assert "deploy.yaml:12:" in err
    column = int(error["where"].rpartition(":")[2])
    assert Path("deploy.yaml").read_text().splitlines()[11][column - 1 :].startswith("--nonsense")


def test_a_configuration_error_has_its_place(cgplan: Run) -> None:
    """What the configuration refuses stands in the file, unless the user typed it."""
    Path("deploy.yaml").write_text(pod(line="--max-num-seqs 300 --max-num-batched-tokens 200"))
    status, out, _ = cgplan("resolve deploy.yaml --json")
    assert status == 2
    assert json.loads(out)["error"]["where"].startswith("deploy.yaml:12:")
    _, out, _ = cgplan("resolve deploy.yaml --json --max-num-batched-tokens 100")
    assert json.loads(out)["error"]["where"] == "--max-num-batched-tokens"


def test_backends_of_a_manifest(cgplan: Run) -> None:
    Path("deploy.yaml").write_text(pod(line="--kv-cache-dtype fp8"))
    status, out, err = cgplan("backends deploy.yaml --json")
    assert (status, err) == (0, "")
    assert json.loads(out)["vllm_version"] == "0.28.0"


# Two releases


def test_diff_starts_from_the_image(cgplan: Run) -> None:
    Path("deploy.yaml").write_text(pod(release="0.25.1"))
    status, out, err = cgplan("diff deploy.yaml --to 0.33.0 --json")
    assert (status, err) == (0, "")
    assert (json.loads(out)["from"], json.loads(out)["to"]) == ("0.25.1", "0.33.0")
    _, out, _ = cgplan("diff deploy.yaml --from 0.28 --to 0.33.0 --json")
    assert json.loads(out)["from"] == "0.28.0"


def test_diff_needs_a_release_to_start_from(cgplan: Run) -> None:
    for line in ("diff", "diff -- vllm serve x/y"):
        status, out, err = cgplan(line)
        assert (status, out) == (2, "")
        assert "--from" in err
        assert "0.33.0" in err


@pytest.mark.parametrize(("first", "last"), [("0.33.0", "0.30.0"), ("0.30.0", "0.33.0")])
def test_a_line_that_one_release_does_not_take(cgplan: Run, first: str, last: str) -> None:
    status, out, err = cgplan(
        f"diff --from {first} --to {last} --json -- vllm serve Qwen/Qwen3-8B --max-num-active-seqs 9"
    )
    assert (status, err) == (0, "")
    document = json.loads(out)
    starts = {side["release"]: side["starts"] for side in document["releases"]}
    assert starts == {"0.30.0": False, "0.31.0": True, "0.32.0": True, "0.33.0": True}
    assert [change["field"] for change in document["changes"]] == ["startup"]


def test_a_line_that_no_release_takes(cgplan: Run) -> None:
    status, out, err = cgplan("diff --from 0.32 --to 0.33 -- vllm serve x/y --max-num-seqs 1.5")
    assert (status, out) == (2, "")
    assert "whole number" in err


# Which word is a file


@pytest.mark.parametrize(
    ("name", "content", "is_one"),
    [
        ("deploy.yaml", "a: b", True),
        ("serve.sh", "vllm serve x", True),
        ("Dockerfile", "FROM x", True),
        ("config.json", '{"architectures": ["A"], "model_type": "a"}', False),
        ("shape.cfg", '  {"architectures": ["A"]}', False),
        ("cut.json", '{"architectures": [', False),
        ("pod.json", '{"apiVersion": "v1", "kind": "Pod"}', True),
        ("list.json", "[]", True),
        ("chart.yaml", "{{ if .Values.on }}\na: b\n{{ end }}", True),
    ],
)
def test_files_of_launches_and_of_models(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, content: str, is_one: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(content)
    assert launched.is_launch_file(name) is is_one


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "./nowhere", "nowhere.json", "x" * 5000, "a\0b", "."])
def test_other_words_are_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert not launched.is_launch_file(name)


@pytest.mark.parametrize(
    ("name", "near"), [("deply.yaml", "deploy.yaml"), ("deploy.yml", "deploy.yaml"), ("k8s/serv.sh", "serve.sh")]
)
def test_a_missing_file_names_its_neighbour(cgplan: Run, name: str, near: str) -> None:
    Path("deploy.yaml").write_text(pod())
    Path("k8s").mkdir()
    Path("k8s/serve.sh").write_text("vllm serve x/y\n")
    for command in ("resolve", "backends", "diff", "check"):
        status, _, err = cgplan(f"{command} {name}")
        assert status == 2
        assert "no such file" in err
        assert name in err
        assert f"did you mean {near}?" in err


def test_a_missing_file_without_neighbours(cgplan: Run) -> None:
    status, _, err = cgplan("resolve nowhere/deploy.yaml")
    assert status == 2
    assert "- for stdin" in err


def test_a_list_of_numbers_ends_at_a_file(cgplan: Run) -> None:
    Path("deploy.yaml").write_text(pod())
    status, out, err = cgplan("resolve --json --batch 7 100 deploy.yaml")
    assert (status, err) == (0, "")
    assert [batch["size"] for batch in json.loads(out)["batches"]][:2] in ([7, 7], [7, 100])
