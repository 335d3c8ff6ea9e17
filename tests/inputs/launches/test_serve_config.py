"""Files for `vllm serve --config`: what is taken for one, and where its settings stand."""

from __future__ import annotations

import pytest

from cgplan.inputs.launches.asked import Asked, ask
from cgplan.inputs.launches.launch import Reading, Source
from cgplan.inputs.launches.serve_config import fits, launches
from cgplan.inputs.launches.yaml_nodes import documents

TEXT = """\
# settings
model: acme/m

max-num-seqs: 4
compilation-config: '{"cudagraph_mode": "FULL"}'
enforce-eager: false
"""


def read(text: str, name: str = "conf.yaml") -> Reading:
    source = Source(name, text)
    found, _ = documents(source)
    assert fits(found)
    return launches(found, source)


def asked(text: str, name: str = "conf.yaml") -> Asked:
    (launch,) = read(text, name).launches
    return ask(launch)


def test_the_file_is_a_server_of_its_own() -> None:
    (launch,) = read(TEXT).launches
    assert launch.texts == ["vllm", "serve", "--config", "conf.yaml"]
    assert (launch.kind, launch.label) == ("config", "")
    assert {token.style for token in launch.tokens} == {"made"}
    assert launch.files["conf.yaml"].source == launch.source


@pytest.mark.parametrize("text", [TEXT, "\ufeff" + TEXT, TEXT.replace("\n", "\r\n")], ids=["", "BOM", "CRLF"])
def test_a_setting_is_where_it_stands(text: str) -> None:
    found = asked(text)
    assert found.args is not None
    assert found.args.values["max_num_seqs"] == 4
    place = found.where_is("max_num_seqs")
    assert place is not None
    assert place.source.text[place.span.start : place.span.end] == "max-num-seqs: 4"
    assert (place.span.line, place.span.column) == (4, 1)


def test_a_false_that_is_passed_over_is_noted_at_its_line() -> None:
    found = asked(TEXT)
    assert found.args is not None
    assert [(note.kind, note.place.line) for note in found.args.notes] == [("yaml_false", 6)]


def test_a_fault_is_at_its_line() -> None:
    found = asked(TEXT + "max-model-length: 5\n")
    (place,) = found.refused_at
    assert place is not None
    assert place.span.line == 7
    assert asked(TEXT + "max-model-len: 5\n").refused == ()


@pytest.mark.parametrize(
    ("name", "passed"),
    [("a/b.yml", "a/b.yml"), ("-", "config.yaml"), ("", "config.yaml"), ("conf.json", "config.yaml")],
)
def test_vllm_takes_names_of_yaml_files_alone(name: str, passed: str) -> None:
    (launch,) = read(TEXT, name).launches
    assert launch.texts[-1] == passed
    assert list(launch.files) == [passed]
    assert ask(launch).refused == ()


FITTING = {
    "dashes": "model: m\nmax-model-len: 1\n",
    "underscores": "gpu_memory_utilization: 0.5\n",
    "both": "port: 1\ntensor-parallel-size: 1\ntrust_remote_code: true\n",
    "a nested option": "compilation-config: {mode: 3}\nmodel: m\n",
    "dotted": "compilation_config.mode: 3\n",
    "switched off": "no-enable-prefix-caching: true\n",
    "of the oldest release alone": "calculate-kv-scales: true\n",
    "of no release that is known": "cuda-graph-sizes: [1, 2]\nswap_space: 4\n",
    "some that are misspelt": "max-num-seqs: 4\nmax-model-len: 3\nmax-model-length: 5\n",
}
OTHERS = {
    "one word each": "model: m\nport: 80\nhost: h\nseed: 1\n",
    "few of many": "max-model-len: 1\na-b: 1\nc-d: 1\n",
    "settings one level down": "vllm:\n  max-model-len: 1\n",
    "values of a chart": "image: {repository: vllm/vllm-openai}\nreplicaCount: 1\n",
    "a list": "- max-model-len: 1\n",
    "two documents": "max-model-len: 1\n---\nmax-num-seqs: 1\n",
    "text": "max-model-len\n",
    "nothing": "",
    "a mapping of nothing": "{}\n",
}


@pytest.mark.parametrize("name", FITTING)
def test_what_is_taken_for_settings(name: str) -> None:
    assert fits(documents(Source("f.yaml", FITTING[name]))[0])


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not(name: str) -> None:
    assert not fits(documents(Source("f.yaml", OTHERS[name]))[0])
