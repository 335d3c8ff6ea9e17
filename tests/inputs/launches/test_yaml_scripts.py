"""Shell scripts within YAML of any kind."""

from __future__ import annotations

import pytest

from cgplan.inputs.launches.launch import Reading, Source
from cgplan.inputs.launches.yaml_nodes import documents
from cgplan.inputs.launches.yaml_scripts import MAX_SCRIPTS, fits, launches

TEXT = """\
jobs:
  test:
    steps:
      - name: vllm serve is started
        run: |
          export A=1
          vllm serve acme/m \\
            --max-num-seqs 4 &
      - run: echo done
"""


def read(text: str) -> Reading:
    source = Source("f.yaml", text)
    found, _ = documents(source)
    return launches(found, source)


def test_a_step_of_a_workflow() -> None:
    (launch,) = read(TEXT).launches
    assert (launch.kind, launch.label) == ("task", "jobs.test.steps[0].run")
    assert (launch.texts, launch.environment) == (["vllm", "serve", "acme/m", "--max-num-seqs", "4"], {"A": "1"})
    assert [TEXT[token.span.start : token.span.end] for token in launch.tokens] == launch.texts
    assert launch.tokens[0].span.line == 7


@pytest.mark.parametrize("key", ["run", "customCommand", "start_script", "shell", "cmd", "ENTRYPOINT"])
def test_keys_whose_value_a_shell_runs(key: str) -> None:
    assert fits(documents(Source("f", f"a:\n  - {key}: vllm serve m\n"))[0])
    assert len(read(f"a:\n  - {key}:\n      - vllm serve m\n").launches) == 1


@pytest.mark.parametrize("key", ["description", "help", "title", "a"])
def test_prose_is_no_script(key: str) -> None:
    text = f"a:\n  - {key}: vllm serve m\n"
    assert not fits(documents(Source("f", text))[0])
    assert read(text).launches == ()


def test_servers_of_one_script_are_told_apart_and_come_in_the_order_of_the_text() -> None:
    reading = read("cmd: |\n  vllm serve a &\n  vllm serve b\nrun: vllm serve c\n")
    assert [launch.label for launch in reading.launches] == ["cmd, line 2", "cmd, line 3", "run"]


def test_the_number_of_scripts_is_bounded() -> None:
    text = "".join(f"- run: vllm serve m{i}\n" for i in range(MAX_SCRIPTS + 50))
    assert len(read(text).launches) == MAX_SCRIPTS
