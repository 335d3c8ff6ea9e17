"""Docker compose files: services that start a server, as compose itself reads them."""

from __future__ import annotations

import pytest

from cgplan.errors import InputError
from cgplan.inputs.launches.compose.services import fits, launches
from cgplan.inputs.launches.launch import Launch, Reading, Source
from cgplan.inputs.launches.yaml_nodes import documents


def read(text: str) -> Reading:
    source = Source("compose.yaml", text)
    found, _ = documents(source)
    assert fits(found)
    return launches(found, source)


def one(text: str) -> Launch:
    reading = read(text)
    assert reading.remarks == ()
    (launch,) = reading.launches
    return launch


def service(body: str, image: str = "vllm/vllm-openai:v0.30.0") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"services:\n  a:\n    image: {image}\n{lines}"


def written(launch: Launch) -> list[str]:
    text = launch.source.text
    return [text[token.span.start : token.span.end] for token in launch.tokens]


def kinds(launch: Launch) -> list[str]:
    return [remark.kind for remark in launch.remarks]


COMMANDS = {
    "text": ("command: --model m --dtype auto", ["--model", "m", "--dtype", "auto"]),
    "folded": ("command: >\n  --model m\n  --dtype auto", ["--model", "m", "--dtype", "auto"]),
    "literal": ("command: |\n  --model m\n  --dtype auto\n", ["--model", "m", "--dtype", "auto"]),
    "quoted": ("command: \"--model 'a b' -O3\"", ["--model", "a b", "-O3"]),
    "plain over lines": ("command: --model m\n  --dtype auto", ["--model", "m", "--dtype", "auto"]),
    "items": ('command:\n  - --model\n  - "m"', ["--model", "m"]),
    "flow": ("command: ['--model', m,]", ["--model", "m"]),
    "json in quotes": ("command: >\n  --cc '{\"mode\": 3}'", ["--cc", '{"mode": 3}']),
    "json without": ('command: --cc {"mode":3}', ["--cc", "{mode:3}"]),
    "quotes within a word": ("command: --a=\"b c\"'d'", ["--a=b cd"]),
    "escaped blank in quotes": ('command: --a "b\\ c"', ["--a", "b c"]),
    "empty text": ("command: --a ''", ["--a", ""]),
    "default": ("command: --model ${M:-m} -tp ${T-2}", ["--model", "m", "-tp", "2"]),
    "default in a default": ("command: --model ${M:-${N:-m}}", ["--model", "m"]),
    "default of two words": ('command: --model m ${MORE:---dtype "auto"}', ["--model", "m", "--dtype", "auto"]),
    "empty default within a word": ("command: --model a${MORE:-}b", ["--model", "ab"]),
    "empty default": ("command: --model m ${MORE:-} -O3", ["--model", "m", "-O3"]),
    "default of two words in quotes": ('command: --model "${M:-a b}"', ["--model", "a b"]),
    "dollar": ("command: --model a$$b", ["--model", "a$b"]),
    "whole command given": ("command: vllm serve m", ["serve", "m"]),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command(name: str) -> None:
    body, expected = COMMANDS[name]
    expected = [word.strip('"') for word in expected] if name == "default of two words" else expected
    launch = one(service(body)) if name != "whole command given" else one(service(body, "house/own:1"))
    assert launch.texts[:2] == ["vllm", "serve"]
    assert launch.texts[2:] == (expected[1:] if name == "whole command given" else expected)
    assert launch.kind == "compose"
    assert launch.label == "service a"


def test_spans_are_those_of_the_words_as_written() -> None:
    launch = one(service("command: >\n  --model 'a b'\n  -O3 --cc=\"{}\"\n"))
    assert written(launch)[2:] == ["--model", "'a b'", "-O3", '--cc="{}"']
    assert [token.style for token in launch.tokens] == ["made", "made", "word", "word", "word", "word"]
    assert [token.literal for token in launch.tokens] == [False, False, True, True, True, True]


def test_what_was_put_in_stands_where_its_variable_stands_and_cannot_be_rewritten() -> None:
    launch = one(service("command: --model ${M:-m} ${MORE:---a 1}"))
    assert written(launch)[3:] == ["${M:-m}", "${MORE:---a 1}", "${MORE:---a 1}"]
    assert [token.literal for token in launch.tokens[2:]] == [True, False, False, False]


@pytest.mark.parametrize(("quote", "inner"), [('"', "double"), ("'", "single"), ("", "")])
def test_the_quotes_around_a_command_are_known(quote: str, inner: str) -> None:
    launch = one(service(f"command: {quote}--model m{quote}"))
    assert {token.inner for token in launch.tokens if token.style == "word"} == {inner}


def test_variables_come_from_outside_never_from_the_service() -> None:
    body = "environment: {M: m}\ncommand: --model ${M} --max-num-seqs $N"
    launch = one(service(body))
    assert launch.texts == ["vllm", "serve", "--model", "${M}"]
    assert kinds(launch) == ["unknown_value", "unknown_value"]


def test_a_shell_in_the_service_does_see_its_environment() -> None:
    body = "environment: {M: m}\nentrypoint: [sh, -c]\ncommand: ['vllm serve $$M']"
    assert one(service(body)).texts == ["vllm", "serve", "m"]


def test_the_image_puts_its_command_before_the_arguments() -> None:
    assert one(service("command: --model m", "vllm/vllm-openai:v0.10.0")).texts[:3] == [
        "python3", "-m", "vllm.entrypoints.openai.api_server",
    ]  # fmt: skip
    assert one(service("command: --model m")).texts[:2] == ["vllm", "serve"]


def test_an_entrypoint_takes_the_place_of_that_of_the_image() -> None:
    launch = one(service("entrypoint: [vllm, serve]\ncommand: m"))
    assert launch.texts == ["vllm", "serve", "m"]
    assert written(launch) == ["vllm", "serve", "m"]
    assert one(service("entrypoint: []\ncommand: vllm serve m")).texts == ["vllm", "serve", "m"]
    assert one(service("entrypoint: null\ncommand: m")).texts == ["vllm", "serve", "m"]


def test_without_a_command_there_is_no_server() -> None:
    assert read(service("ipc: host")) == Reading()
    assert read(service("command: null")) == Reading()
    assert one(service("entrypoint: [vllm, serve]")).texts == ["vllm", "serve"]


def test_a_service_of_another_program_is_none() -> None:
    reading = read(service("command: --model-id x --port 80", "house/embeddings:1"))
    assert reading == Reading()


def test_options_of_vllm_for_an_unknown_image_are_named() -> None:
    reading = read(service("command: --model m --max-model-len 4096", "house/own:1"))
    assert reading.launches == ()
    assert [remark.kind for remark in reading.remarks] == ["not_read"]
    assert read("services:\n  a:\n    build: .\n    command: [--max-num-seqs, '4']\n").remarks[0].kind == "not_read"


def test_a_backslash_joins_no_lines() -> None:
    stray = one(service("command: |\n  --model m \\\n  --max-num-seqs 4 \\\n  --dtype auto\n"))
    assert stray.texts[2:] == ["--model", "m", "--max-num-seqs", "4", "--dtype", "auto"]
    assert kinds(stray) == ["stray_backslash"]
    assert kinds(one(service("command: |\n  --model m\n  --max-num-seqs 4\n"))) == []


@pytest.mark.parametrize("end", [";", "&&", "|", ">", "<"])
def test_a_text_is_no_shell_line(end: str) -> None:
    cut = one(service(f"command: --model m {end} --dtype auto"))
    assert cut.texts[2:] == ["--model", "m"]
    assert kinds(cut) == ["cut_off"]
    kept = one(service(f"command: --model 'm {end} n'"))
    assert kept.texts[2:] == ["--model", f"m {end} n"]
    assert kinds(kept) == []


def test_a_quote_that_is_not_closed_is_named() -> None:
    assert kinds(one(service("command: --model 'm"))) == ["not_read"]


def test_numbers_in_a_list_are_no_texts() -> None:
    assert kinds(one(service("command: [--max-num-seqs, 4, --enforce-eager]"))) == ["not_text"]
    assert kinds(one(service("command: [--max-num-seqs, '4', [a]]"))) == ["not_read"]
    assert kinds(one(service("command: [--max-num-seqs, '4']"))) == []


def test_a_command_of_any_length_is_refused() -> None:
    with pytest.raises(InputError, match="5000 words") as refused:
        read(service("command: >\n" + "  --a b\n" * 200_000))
    assert refused.value.code == "CG914"
    assert len(read(service("command: >\n" + "  --a b\n" * 2000)).launches) == 1


ENVIRONMENTS = {
    "mapping": ("environment:\n  A: 1\n  B: ${X:-b}\n  C: ${X}\n  D:\n", {"A": "1", "B": "b"}, ["A", "B", "C", "D"]),
    "list": ("environment:\n  - A=1\n  - B=${X:-b}\n  - C=$X\n  - D\n", {"A": "1", "B": "b"}, ["A", "B", "C", "D"]),
    "empty value": ("environment: ['A=']", {"A": ""}, ["A"]),
    "equals in a value": ("environment: [A=b=c]", {"A": "b=c"}, ["A"]),
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_environment(name: str) -> None:
    body, known, names = ENVIRONMENTS[name]
    launch = one(service(f"{body}\ncommand: m"))
    assert launch.environment == known
    assert [variable.name for variable in launch.env] == names
    assert all(variable.span is not None for variable in launch.env)


def test_a_file_of_variables_is_not_read() -> None:
    assert kinds(one(service("env_file: .env\ncommand: m"))) == ["not_read"]


GPUS = {
    "count": ("deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 4, capabilities: [gpu]}]}}}", 4),
    "count as text": ("deploy: {resources: {reservations: {devices: [{count: '4', capabilities: [gpu]}]}}}", 4),
    "all": ("deploy: {resources: {reservations: {devices: [{count: all, capabilities: [gpu]}]}}}", None),
    "no count": ("deploy: {resources: {reservations: {devices: [{capabilities: [gpu]}]}}}", None),
    "ids": ("deploy: {resources: {reservations: {devices: [{device_ids: ['0', '3'], capabilities: [gpu]}]}}}", 2),
    "unknown id": ("deploy: {resources: {reservations: {devices: [{device_ids: ['$G'], capabilities: [gpu]}]}}}", None),
    "other driver": ("deploy: {resources: {reservations: {devices: [{driver: cdi, count: 4}]}}}", None),
    "other device": ("deploy: {resources: {reservations: {devices: [{count: 4, capabilities: [tpu]}]}}}", None),
    "short": ("gpus: 2", 2),
    "short, all": ("gpus: all", None),
    "short, list": ("gpus:\n  - driver: nvidia\n    count: 3", 3),
    "by name": ("devices: [nvidia.com/gpu=0, nvidia.com/gpu=1]", 2),
    "by name, all": ("devices: [nvidia.com/gpu=all]", None),
    "visible": ("environment: {CUDA_VISIBLE_DEVICES: '0,1,2'}", 3),
    "visible, all": ("environment: {NVIDIA_VISIBLE_DEVICES: all}", None),
    "fewer visible": ("gpus: 4\nenvironment: [CUDA_VISIBLE_DEVICES=1]", 1),
    "none": ("ipc: host", None),
}


@pytest.mark.parametrize("name", GPUS)
def test_the_number_of_gpus(name: str) -> None:
    body, expected = GPUS[name]
    hints = one(service(f"{body}\ncommand: m")).hints
    assert hints.gpus == expected
    assert (hints.gpus_span is None) == (expected is None)


def test_gpus_of_amd_are_named() -> None:
    assert kinds(one(service("devices: [/dev/kfd, /dev/dri]\ncommand: m"))) == ["not_nvidia"]
    assert kinds(one(service("devices: [/dev/dri]\ncommand: m"))) == []


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("vllm/vllm-openai:v0.27.1", "0.27.1"),
        ("${IMAGE:-vllm/vllm-openai:v0.27.1}", "0.27.1"),
        ("vllm/vllm-openai:${TAG:-v0.27.1}", "0.27.1"),
        ("vllm/vllm-openai:latest", None),
    ],
)
def test_the_release_of_the_image(image: str, release: str | None) -> None:
    launch = one(service("command: m", image))
    assert launch.hints.release == release
    span = launch.hints.release_span
    assert (span and launch.source.text[span.start : span.end]) == (image if release else None)


def test_an_image_that_is_not_known_leaves_the_command() -> None:
    launch = one(service("command: vllm serve m", "$IMAGE"))
    assert (launch.texts, launch.hints.image) == (["vllm", "serve", "m"], None)


def test_anchors_and_merges() -> None:
    text = """
x-base: &base
  image: vllm/vllm-openai:v0.30.0
  environment: &env {A: "1", B: "2"}
services:
  a:
    <<: *base
    environment: {<<: *env, B: "3"}
    command: m
  b: {<<: *base, command: n}
"""
    first, second = read(text).launches
    assert first.environment == {"A": "1", "B": "3"}
    assert second.environment == {"A": "1", "B": "2"}
    assert [launch.label for launch in (first, second)] == ["service a", "service b"]


def test_a_service_builds_upon_another_of_the_file() -> None:
    text = """
services:
  base:
    image: vllm/vllm-openai:v0.30.0
    environment: {A: "1", B: "2"}
    command: --model m
    profiles: [never]
  a:
    extends: {service: base}
    environment: [B=3]
  b:
    extends: base
    command: --model n
"""
    base, a, b = read(text).launches
    assert (a.texts, b.texts) == (base.texts, ["vllm", "serve", "--model", "n"])
    assert (a.environment, b.environment) == ({"A": "1", "B": "3"}, {"A": "1", "B": "2"})


def test_a_service_of_another_file_is_not_looked_for() -> None:
    launch = one(service("extends: {file: other.yml, service: x}\ncommand: m"))
    assert kinds(launch) == ["not_read"]


@pytest.mark.parametrize(
    "text", ["a: {extends: b, image: vllm/vllm-openai}\n  b: {extends: a}", "a: {extends: a, image: x}"]
)
def test_services_that_build_upon_each_other_end(text: str) -> None:
    assert len(read(f"services:\n  {text}\n").launches) <= 2


CONFIG = """
services:
  a:
    image: vllm/vllm-openai:v0.30.0
    command: --config /etc/vllm.yaml --max-num-seqs 4
    configs:
      - source: settings
        target: /etc/vllm.yaml
configs:
  settings:
    content: |
      model: m
      max-model-len: 4096
"""


def test_a_config_whose_content_is_in_the_file() -> None:
    launch = one(CONFIG)
    assert launch.texts[2:4] == ["--config", "/etc/vllm.yaml"]
    config = launch.files["/etc/vllm.yaml"]
    assert config.text == "model: m\nmax-model-len: 4096\n"
    assert config.lines[:2] == (12, 13)


def test_a_config_of_the_container_is_not_looked_for_here() -> None:
    launch = one(CONFIG.replace("content: |", "file: |"))
    assert launch.texts == ["vllm", "serve", "--max-num-seqs", "4"]
    assert kinds(launch) == ["unknown_value"]


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\n",
        "services: {}\n",
        "services:\n  - a\n",
        "services: {a: 1, b: null}\n",
        "services: {a: {x: 1}}\n",
        "apiVersion: v1\nkind: X\nservices: {a: {image: x}}\n",
        "- services: {a: {image: x}}\n",
    ],
)
def test_what_is_no_compose_file(text: str) -> None:
    found, _ = documents(Source("f.yaml", text))
    assert not fits(found)
    assert launches(found, Source("f.yaml", text)) == Reading()


@pytest.mark.parametrize("value", ["null", "1", "[[a]]", "{a: b}", "[null]", "''", '"${"', "[{a: 1}]"])
@pytest.mark.parametrize(
    "key", ["command", "entrypoint", "environment", "deploy", "gpus", "devices", "image", "configs", "extends"]
)
def test_odd_values_are_no_crash(key: str, value: str) -> None:
    read(f"services:\n  a:\n    command: vllm serve m\n    {key}: {value}\n  b: {{image: x}}\n")
