"""Keys, tokens and passwords of every kind of input are in nothing that any command prints or writes.

Every secret that is planted has the word CANARY in it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]

VARIABLES = {
    "HF_TOKEN": "hf_CANARYaaaaaaaaaaaaaaaa",
    "AWS_SECRET_ACCESS_KEY": "wJalrCANARYbbb/K7MDENG",
    "AWS_ACCESS_KEY_ID": "AKIACANARY0123456789",
    "VLLM_API_KEY": "CANARYplain1",
    "MY_PASSWORD": "CANARYplain2",
    "HTTPS_PROXY": "http://user:CANARYproxy@proxy:3128",
}
KEY = "CANARYplain3"
LINE = (
    f"vllm serve Qwen/Qwen3-8B --max-num-seqs 300 --api-key {KEY} --hf-token hf_CANARYcccccccccccc"
    """ --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both","""
    """"kv_connector_extra_config":{"token":"CANARYkv"}}'"""
)
WRONG = {
    "as it should be": LINE,
    "a key for a number": LINE.replace("300", KEY),
    "a key too many": f"{LINE} {KEY}",
    "a misspelt option": LINE.replace("--api-key ", "--api-kye="),
    "a key behind an unknown option": f"{LINE} --authentication Bearer CANARYbearer99",
    "a key for JSON": f"{LINE} --compilation-config '{{\"mode\": {KEY}'",
    "a key for a model": LINE.replace("Qwen/Qwen3-8B", "https://user:CANARYpw@host/models/x?token=CANARYquery"),
    "a token for a model": LINE.replace("Qwen/Qwen3-8B", "hf_CANARYdddddddddddd"),
    "a key for a choice": f"{LINE} --kv-cache-dtype {KEY}",
    "a key for a file": f"{LINE} --config {KEY}",
}
"""Lines, of which all but the first are refused, or serve a model that nobody knows."""
DEPLOYED = (
    "resolve", "resolve --explain", "resolve --json", "plan", "plan --json", "plan --markdown", "diff --from 0.30.0",
    "diff --from 0.30.0 --json", "diff --from 0.30.0 --markdown", "backends", "backends --json", "backends --markdown",
    "tune --shape steady", "tune --shape steady --json", "tune --shape steady --markdown", "report --markdown",
    "profile --dry-run",
)  # fmt: skip
CHECKED = ("check", "check -v", "check --json", "check -f sarif", "check -f markdown", "check -f github",
           "check -f concise", "check --fix", "check --fix --unsafe-fixes")  # fmt: skip


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CGPLAN_DEBUG", "1")
    return tmp_path


def pod(line: str) -> str:
    container = {
        "name": "c",
        "image": "vllm/vllm-openai:v0.33.0",
        "command": ["sh", "-c"],
        "args": [line],
        "env": [{"name": name, "value": value} for name, value in VARIABLES.items()],
    }
    kind = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    return json.dumps(kind, indent=2)


def clean(told: tuple[int, str, str]) -> None:
    """Nothing of it is shown, and what is said is an answer or one error."""
    status, out, err = told
    assert status in (0, 1, 2), err
    for text in (out, err):
        at = text.upper().find("CANARY")
        assert at < 0, text[max(0, at - 200) : at + 60]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("command", [*DEPLOYED, *CHECKED])
def test_a_manifest(cgplan: Run, here: Path, command: str, wrong: str) -> None:
    Path("pod.json").write_text(pod(WRONG[wrong]))
    words = command.split()
    clean(cgplan(words[0], "pod.json", *words[1:], *(() if words[0] == "check" else ("--gpu", "h100"))))


@pytest.mark.parametrize("wrong", ["as it should be", "a key for a number", "a token for a model"])
@pytest.mark.parametrize("command", ["resolve", "check", "check --json", "plan --json"])
@pytest.mark.parametrize("kind", ["compose.yaml", "Dockerfile", "a.service", "a.sh", "a.md", "values.yaml", "a.sbatch"])
def test_other_files(cgplan: Run, here: Path, kind: str, command: str, wrong: str) -> None:
    Path(kind).write_text(text_of(kind, WRONG[wrong]))
    clean(cgplan(*command.split(), kind))


def text_of(kind: str, line: str) -> str:
    """A file of that kind with the line and the variables."""
    pairs = [f"{name}={value}" for name, value in VARIABLES.items()]
    behind = line.partition("serve ")[2]
    exports = "".join(f"export {pair}\n" for pair in pairs)
    return {
        "compose.yaml": json.dumps({"services": {"s": {"image": "vllm/vllm-openai:v0.33.0", "environment": pairs,
                                                       "command": f"--model {behind}"}}}),
        "Dockerfile": "FROM vllm/vllm-openai:v0.33.0\n" + "".join(f"ENV {pair}\n" for pair in pairs) + f"CMD {line}\n",
        "a.service": "[Service]\n" + "".join(f"Environment={pair}\n" for pair in pairs) + f"ExecStart=/bin/{line}\n",
        "a.sh": f"#!/bin/sh\n{exports}{line}\n",
        "a.md": f"# t\n\n```bash\n{exports}{line}\n```\n",
        "values.yaml": json.dumps({"servingEngineSpec": {"modelSpec": [{
            "name": "m", "modelURL": behind.split()[0], "hf_token": VARIABLES["HF_TOKEN"],
            "env": [{"name": name, "value": value} for name, value in VARIABLES.items()],
            "vllmConfig": {"extraArgs": behind.split()[1:]}}]}}),
        "a.sbatch": f"#!/bin/bash\n#SBATCH --gpus=1\n{exports}{line}\n",
    }[kind]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize(
    "command", ["resolve --json", "plan", "check", "check --json", "diff --from 0.30.0", "tune --shape low"]
)
def test_a_line(cgplan: Run, here: Path, command: str, wrong: str) -> None:
    import shlex

    env = [f"{name}={value}" for name, value in VARIABLES.items()]
    words = shlex.split(WRONG[wrong].replace('{"mode": ', "{mode: "))
    clean(cgplan(*command.split(), "--", *env, *words))
    if command.startswith("plan"):
        clean(cgplan("plan", "--model", "Qwen/Qwen3-8B", "--gpu", "h100", "--compare-with", shlex.join([*env, *words])))


@pytest.mark.parametrize(
    "words",
    [
        ("--env", "VLLM_API_KEY=CANARYplain1"),
        ("--env=S3_SECRET_ACCESS_KEY=CANARYplain1",),
        ("--env", "HF_TOKEN=CANARYplain1"),
        ("--env", "VLLM_API_KEYY=CANARYplain1"),
        ("--api-key", "CANARYplain1"),
        ("--hf-token=CANARYplain1",),
        ("--max-num-seqs", "hf_CANARYcccccccccccc"),
        ("--kv-transfer-config", '{"kv_connector":"NixlConnector","kv_connector_extra_config":{"token":"CANARYkv1"}}'),
        ("--kv-transfer-config", '{"kv_connector":7,"kv_connector_extra_config":{"token":"CANARYkv1"}}'),
        ("--kv-transfer-config", '{"token":"CANARYkv1"}'),
        ("--model", "https://user:CANARYpw@host/x"),
        ("--model", "/models/hf_CANARYcccccccccccc/"),
        ("--model", "s3://AKIACANARY0123456789:CANARYpw@bucket/x"),
    ],
)
@pytest.mark.parametrize("command", ["resolve", "resolve --json", "plan --json", "report --markdown", "backends"])
def test_options(cgplan: Run, here: Path, command: str, words: tuple[str, ...]) -> None:
    model = () if "--model" in words else ("--model", "Qwen/Qwen3-8B")
    clean(cgplan(*command.split(), *model, "--gpu", "h100", *words))


def test_a_file_of_config(cgplan: Run, here: Path) -> None:
    Path("c.yaml").write_text(f"model: Qwen/Qwen3-8B\napi-key: {KEY}\nhf-token: CANARYplain4\nmax-num-seqs: {KEY}\n")
    for command in ("resolve", "resolve --json", "check", "check --json", "plan --json"):
        clean(cgplan(*command.split(), "--", "vllm", "serve", "--config", "c.yaml"))
        clean(cgplan(*command.split(), "c.yaml"))


LOG = """\
INFO 11-30 09:00:00 [utils.py:253] non-default args: {'model': 'Qwen/Qwen3-8B', 'api_key': ['CANARYplain1'], \
'hf_token': 'hf_CANARYaaaaaaaaaaaa', 'max_num_seqs': 300, 'kv_transfer_config': {'kv_connector_extra_config': \
{'token': 'CANARYkv1'}}}
INFO 11-30 09:00:01 [core.py:61] Initializing a V1 LLM engine (v0.33.0) with config: model='Qwen/Qwen3-8B', \
tokenizer='https://user:CANARYpw@host/x', max_seq_len=40960
WARNING 11-30 09:00:02 [envs.py:1] VLLM_API_KEY=CANARYplain2 is set; Authorization: Bearer CANARYbearer99
ERROR 11-30 09:00:03 [core.py:700] EngineCore failed to start.
ERROR 11-30 09:00:03 [core.py:700] Traceback (most recent call last):
ERROR 11-30 09:00:03 [core.py:700] ValueError: cannot reach https://user:CANARYpw@hub/?token=CANARYquery
"""


@pytest.mark.parametrize(
    "output", [(), ("--json",), ("--markdown",), ("--no-plan", "--json"), ("--save", "saved.json")]
)
def test_a_log(cgplan: Run, here: Path, output: tuple[str, ...]) -> None:
    Path("server.log").write_text(LOG)
    clean(cgplan("logs", "server.log", "--gpu", "h100", *output))
    assert all("CANARY" not in path.read_text() for path in here.glob("*.json"))


@pytest.mark.parametrize(
    "address",
    [
        "http://user:CANARYpw@127.0.0.1:9/metrics",
        "http://CANARYtoken1@127.0.0.1:9/",
        "http://127.0.0.1:9/metrics?token=CANARYquery",
        "http://127.0.0.1:9/metrics?api_key=CANARYquery&x=1",
        "http://user:CANARYpw@/metrics",
        "http://user:CANARYpw@127.0.0.1:x/metrics",
    ],
)
def test_addresses(cgplan: Run, here: Path, address: str) -> None:
    deployment = ("--model", "Qwen/Qwen3-8B", "--gpu", "h100")
    for words in (
        ("logs", "--metrics", address),
        ("logs", "--json", "--metrics", address),
        ("tune", *deployment, "--workload", address),
        ("report", *deployment, "--markdown", "--workload", address),
    ):
        clean(cgplan(*words))


METRICS = """\
vllm:iteration_tokens_total_bucket{engine="0",le="1.0",model_name="hf_CANARYaaaaaaaaaaaa"} 3
vllm:iteration_tokens_total_bucket{engine="0",le="+Inf",model_name="hf_CANARYaaaaaaaaaaaa"} 9
"""
TEXTS = {
    "a.txt": METRICS,
    "b.txt": METRICS + METRICS.replace('"0"', '"https://u:CANARYpw@host"'),
    "a.csv": "tokens,count\n3,hf_CANARYaaaaaaaaaaaa\n",
    "b.csv": "tokens,hf_CANARYaaaaaaaaaaaa\n3,1\n",
    "a.json": '{"schema_version":1,"source":"https://u:CANARYpw@host","batches":[{"kind":"decode","requests":3,"count":1}]}',
    "b.json": '{"schema_version":1,"batches":[{"kind":"hf_CANARYaaaaaaaaaaaa","requests":3,"count":1}]}',
}


@pytest.mark.parametrize("name", TEXTS)
def test_steps(cgplan: Run, here: Path, name: str) -> None:
    Path(name).write_text(TEXTS[name])
    deployment = ("--model", "Qwen/Qwen3-8B", "--gpu", "h100")
    for output in ((), ("--json",), ("--markdown",)):
        clean(cgplan("logs", "--metrics", name, *output))
        clean(cgplan("tune", *deployment, "--workload", name, *output))
    clean(cgplan("report", *deployment, "--markdown", "--workload", name))


RECORD = {
    "schema_version": 1,
    "source": "https://u:CANARYpw@host/profile?token=CANARYquery",
    "fingerprint": {"vllm_version": "0.33.0", "gpu": "hf_CANARYaaaaaaaaaaaa"},
    "measured": {"weights_bytes": 16059987968},
}


@pytest.mark.parametrize("changed", [{}, {"fingerprint": {"vllm_version": "0.33.0", "gpu": "NVIDIA H100 80GB HBM3"}},
                                     {"schema_version": "hf_CANARYaaaaaaaaaaaa"}])  # fmt: skip
def test_measured_records(cgplan: Run, here: Path, changed: dict[str, object]) -> None:
    Path("record.json").write_text(json.dumps({**RECORD, **changed}))
    given = ("--model", "Qwen/Qwen3-8B", "--gpu", "h100", "--profile", "record.json")
    for words in (
        ("plan",),
        ("plan", "--json"),
        ("plan", "--markdown"),
        ("report", "--markdown"),
        ("tune", "--shape", "low"),
    ):
        clean(cgplan(*words, *given))


GRID = """\
[base]
gpu = "h100"
model = "Qwen/Qwen3-8B"
env = { VLLM_API_KEY = "CANARYplain1", S3_SECRET_ACCESS_KEY = "CANARYplain2" }
[base.kv_transfer_config]
kv_connector = "NixlConnector"
kv_role = "kv_both"
kv_connector_extra_config = { token = "CANARYkv1" }
[grid]
max_num_seqs = [16, 256]
"""
GRIDS = {
    "as it should be": GRID,
    "two keys": GRID.replace("max_num_seqs = [16, 256]", '"env.VLLM_API_KEY" = ["CANARYplain3", "CANARYplain4"]')
    .replace('VLLM_API_KEY = "CANARYplain1", ', "").replace("env = {", "#"),
    "a variable that is none": GRID.replace("VLLM_API_KEY", "HF_TOKEN"),
    "a value that is none": GRID.replace("[16, 256]", '["hf_CANARYaaaaaaaaaaaa"]'),
    "a model": GRID.replace("Qwen/Qwen3-8B", "https://u:CANARYpw@host/x"),
    "no TOML": GRID + "token = CANARYplain5 CANARYplain6\n",
}  # fmt: skip


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("output", [(), ("--json",), ("--output", "records.jsonl", "--csv", "records.csv")])
def test_sweeps(cgplan: Run, here: Path, name: str, output: tuple[str, ...]) -> None:
    Path("grid.toml").write_text(GRIDS[name])
    clean(cgplan("sweep", "grid.toml", "--jobs", "1", *output))
    assert all("CANARY" not in path.read_text() for path in here.glob("records.*"))


def test_the_value_of_a_key_still_tells_two_deployments_apart(cgplan: Run, here: Path) -> None:
    Path("grid.toml").write_text(GRIDS["two keys"])
    status, out, _ = cgplan("sweep", "grid.toml", "--jobs", "1", "--json")
    records = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert len({record["key"] for record in records}) == 2


@pytest.mark.parametrize(
    "text",
    [
        'env = { HF_TOKEN = "CANARYplain1" }',
        'env = ["VLLM_API_KEY=CANARYplain1"]',
        'api_key = "CANARYplain1"',
        'model = "https://u:CANARYpw@host/x"',
        'vllm = "hf_CANARYaaaaaaaaaaaa"',
        'output = "hf_CANARYaaaaaaaaaaaa"',
        "token = CANARYplain1",
    ],
    ids=["env", "pairs", "unknown", "model", "release", "output", "no TOML"],
)
def test_settings(cgplan: Run, here: Path, text: str) -> None:
    Path("cgplan.toml").write_text(text + "\n")
    for output in ((), ("-v",), ("--json",)):
        clean(cgplan("check", *output, "--", "vllm", "serve", "Qwen/Qwen3-8B"))


@pytest.mark.parametrize(
    "config",
    [
        {"num_attention_heads": "hf_CANARYaaaaaaaaaaaa"},
        {"architectures": ["hf_CANARYaaaaaaaaaaaa"]},
        {"torch_dtype": "https://u:CANARYpw@host"},
        {"_name_or_path": "https://u:CANARYpw@host", "token": "CANARYplain1"},
    ],
)
def test_a_model_s_files(cgplan: Run, here: Path, config: dict[str, object]) -> None:
    whole = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
        "num_hidden_layers": 4, "intermediate_size": 9, "vocab_size": 99, "max_position_embeddings": 4096,
    }  # fmt: skip
    Path("config.json").write_text(json.dumps({**whole, **config}))
    for words in (("resolve",), ("resolve", "--json"), ("plan", "--json"), ("check", "-v")):
        line = ("--", "vllm", "serve", str(here)) if words[0] == "check" else ("--model", str(here))
        clean(cgplan(*words, "--gpu", "h100", *line))


def test_a_report_in_both_forms(cgplan: Run, here: Path) -> None:
    pytest.importorskip("pygal")
    Path("pod.json").write_text(pod(LINE))
    clean(cgplan("report", "pod.json", "--gpu", "h100", "--output", "r.html", "--output", "r.md"))
    assert "CANARY" not in Path("r.html").read_text() + Path("r.md").read_text()


def test_standard_input(cgplan: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ("resolve - --json", "check - --json", "check -"):
        text = pod(WRONG["a key for a number"]).encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text), encoding="utf-8"))
        clean(cgplan(*command.split()))
