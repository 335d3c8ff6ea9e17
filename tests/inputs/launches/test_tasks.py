"""Task files of SkyPilot and dstack."""

from __future__ import annotations

import pytest

from cgplan.inputs.launches.launch import Launch, Reading, Source
from cgplan.inputs.launches.tasks import fits, launches
from cgplan.inputs.launches.yaml_nodes import documents


def read(text: str) -> Reading:
    source = Source("task.yaml", text)
    found, _ = documents(source)
    assert fits(found)
    return launches(found, source)


def one(text: str) -> Launch:
    (launch,) = read(text).launches
    return launch


SKY = """\
resources: {accelerators: H100:8}
envs:
  M: acme/m
  N:
setup: pip install vllm
run: |
  vllm serve $M \\
    --max-num-seqs 4 --api-key $N
"""


def test_the_script_of_a_skypilot_task() -> None:
    launch = one(SKY)
    assert launch.texts == ["vllm", "serve", "acme/m", "--max-num-seqs", "4"]
    assert (launch.kind, launch.label, launch.environment) == ("task", "task", {"M": "acme/m"})
    written = [SKY[token.span.start : token.span.end] for token in launch.tokens]
    assert written == ["vllm", "serve", "$M", "--max-num-seqs", "4"]
    assert launch.tokens[-1].span.line == 8


def test_several_servers_of_a_task_are_told_apart() -> None:
    reading = read("name: t\nresources: {}\nnum_nodes: 1\nrun: |\n  vllm serve a &\n  vllm serve b\n")
    assert [launch.label for launch in reading.launches] == ["task t, line 5", "task t, line 6"]


DSTACK = """\
type: service
name: s
image: vllm/vllm-openai:v0.30.0
env:
  - TOKEN
  - M=acme/m
commands:
  - nvidia-smi
  - vllm serve $M --config own.yaml
resources: {gpu: H200:4}
"""


def test_the_commands_of_a_dstack_task() -> None:
    launch = one(DSTACK)
    assert (launch.label, launch.texts) == ("task s", ["vllm", "serve", "acme/m"])
    assert [(variable.name, variable.value) for variable in launch.env] == [("TOKEN", None), ("M", "acme/m")]
    assert (launch.hints.release, launch.hints.gpus) == ("0.30.0", 4)
    assert [remark.kind for remark in launch.remarks] == ["unknown_value"]


GPUS = {
    "H100": ("NVIDIA H100 80GB HBM3", 1),
    "H100:8": ("NVIDIA H100 80GB HBM3", 8),
    "{H100: 8}": ("NVIDIA H100 80GB HBM3", 8),
    "{H100:8}": ("NVIDIA H100 80GB HBM3", 8),
    "[H100:8, H200:8]": (None, 8),
    "[H100:8, H100:4]": ("NVIDIA H100 80GB HBM3", None),
    "A100:2": ("NVIDIA A100-SXM4-40GB", 2),
    "A100-80GB:2": ("NVIDIA A100-SXM4-80GB", 2),
    "A100:80GB:2": ("NVIDIA A100-SXM4-80GB", 2),
    "{name: H100, count: 2}": ("NVIDIA H100 80GB HBM3", 2),
    "H1000:2": (None, 2),
    "24GB": (None, None),
    "null": (None, None),
    "8": (None, None),
    "MI300X:8": (None, None),
}


@pytest.mark.parametrize("written", GPUS)
def test_the_gpus(written: str) -> None:
    launch = one(SKY.replace("H100:8", written))
    assert (launch.hints.gpu, launch.hints.gpus) == GPUS[written]
    assert [remark.kind for remark in launch.remarks] == (["not_nvidia"] if written.startswith("MI") else [])


@pytest.mark.parametrize(
    "text",
    [
        "run: vllm serve m\n",
        "type: other\ncommands: [vllm serve m]\n",
        "type: service\n",
        "apiVersion: v1\nrun: vllm serve m\nsetup: x\n",
        "- run: vllm serve m\n  setup: x\n",
        "setup: x\nrun: [vllm serve m]\n",
    ],
)
def test_what_is_no_task(text: str) -> None:
    assert not fits(documents(Source("f.yaml", text))[0])


@pytest.mark.parametrize("value", ["null", "1", "[]", "[[a], {b: c}]", "{a: null}", "''", "[null]", "a:b:c:d"])
@pytest.mark.parametrize("key", ["resources", "envs", "env", "secrets", "image", "commands", "name"])
def test_odd_values_are_no_crash(key: str, value: str) -> None:
    assert len(read(f"setup: x\nrun: vllm serve m\n{key}: {value}\nnum_nodes: 1\n").launches) == 1
