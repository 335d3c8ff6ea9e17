"""Keys and passwords are found by name and by shape; other words stay."""

from __future__ import annotations

from dataclasses import replace

import pytest
from check_helpers import Source, launch_in

from cgplan.inputs.launches import ConfigText, EnvVariable, launch_of
from cgplan.report.check_secrets import secrets_of


def masked(line: str) -> str:
    launch = launch_of(line.split())
    return secrets_of(launch.source, [launch]).mask(launch.source.text)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("vllm serve m --api-key abc-def-1", "vllm serve m --api-key ***"),
        ("vllm serve m --api_key=abc-def-1", "vllm serve m --api_key=***"),
        ("vllm serve m --api-key abc-def-1 xyz-777-2 --port 1", "vllm serve m --api-key *** *** --port 1"),
        ("vllm serve m --hf-token hf_0123456789", "vllm serve m --hf-token ***"),
        ("HF_TOKEN=whatever1 vllm serve m", "HF_TOKEN=*** vllm serve m"),
        ("AWS_SECRET_ACCESS_KEY=a/b+c1234 vllm serve m", "AWS_SECRET_ACCESS_KEY=*** vllm serve m"),
        ("vllm serve m --x sk-0123456789abcdef", "vllm serve m --x ***"),
        ("vllm serve m --x hf_abcdefghijklmnop", "vllm serve m --x ***"),
    ],
)
def test_hidden(line: str, shown: str) -> None:
    assert masked(line) == shown


@pytest.mark.parametrize(
    "line",
    [
        "vllm serve m --max-num-batched-tokens 8192",
        "vllm serve m --long-prefill-token-threshold 100000",
        "vllm serve m --tokenizer some/tokenizer",
        "TOKENIZERS_PARALLELISM=false vllm serve m",
        "vllm serve desk-chair/hf_model",
    ],
)
def test_not_hidden(line: str) -> None:
    assert masked(line) == line


def test_references_are_no_secrets() -> None:
    source = Source("f", "- vllm\n- serve\n- --api-key\n- $(HF_TOKEN)\n")
    launch = launch_in(source, ("vllm", "serve", "--api-key", "$(HF_TOKEN)"))
    assert secrets_of(source, [launch]).within(source, 0, len(source.text)) == []


def test_a_key_on_its_own_line_is_hidden_there() -> None:
    source = Source("f", "- vllm\n- serve\n- --api-key\n- abc\n- abc-model\n")
    launch = launch_in(source, ("vllm", "serve", "--api-key", "abc"))
    at = source.text.index("abc")
    assert secrets_of(source, [launch]).within(source, 0, len(source.text)) == [(at, at + 3)]


def test_a_variable_of_a_manifest_is_hidden_by_its_value() -> None:
    source = Source("f", "- name: HF_TOKEN\n  value: topsecret\n")
    launch = launch_in(source, (), env=[EnvVariable("HF_TOKEN", "topsecret", None)])
    at = source.text.index("topsecret")
    assert secrets_of(source, [launch]).within(source, at - 5, len(source.text)) == [(at, at + 9)]


@pytest.mark.parametrize(
    "text",
    [
        "api-key: my-own-key",
        "api_key: [my-own-key, 'more-own-key']",
        "port: 1\napi-key:\n- my-own-key\n- more-own-key\nhost: h",
    ],
)
def test_keys_in_a_file_of_config(text: str) -> None:
    launch = launch_in(Source("f", ""), ())
    launch = replace(launch, files={"c.yaml": ConfigText(text, (1, 2, 3, 4, 5))})
    secrets = secrets_of(launch.source, [launch])
    assert set(secrets.values) <= {"my-own-key", "more-own-key"}
    assert "own-key" not in secrets.mask("no my-own-key and no more-own-key") or "more" not in text
    assert secrets.mask("my-own-key") == "***"
    assert "own-key" not in secrets.mask("api-key: other-own-key", in_file=True)


def test_a_message_may_speak_of_a_variable() -> None:
    source = Source("f", "")
    secrets = secrets_of(source, [])
    assert secrets.mask("VLLM_API_KEY: set it elsewhere") == "VLLM_API_KEY: set it elsewhere"
    assert secrets.mask("VLLM_API_KEY: set it elsewhere", in_file=True) == "VLLM_API_KEY: *** it elsewhere"


def test_the_name_of_an_option_is_no_secret() -> None:
    line = "vllm serve m --hf_overrides={} --hf_config_path=/x"
    assert masked(line) == line
    mask = secrets_of(launch_of(["vllm"]).source, []).mask
    assert mask("the JSON of hf_overrides does not count") == "the JSON of hf_overrides does not count"
    assert mask("the word hf_overridesX1 does not count") == "the word *** does not count"
