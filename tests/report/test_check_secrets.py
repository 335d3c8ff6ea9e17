"""Keys and passwords are found by name and by shape; other words stay."""

from __future__ import annotations

from dataclasses import replace

import pytest
from check_helpers import Source, launch_in

from cgplan.inputs.launches import ConfigText, EnvVariable, launch_of, read
from cgplan.inputs.launches.secret_names import is_secret_name
from cgplan.inputs.serve_args_flags import flag_table
from cgplan.releases import SUPPORTED
from cgplan.releases.env_variables import readers
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
    line = "vllm serve m --hf_overrides=a --hf_config_path=/x"
    assert masked(line) == line
    mask = secrets_of(launch_of(["vllm"]).source, []).mask
    assert mask("the JSON of hf_overrides does not count") == "the JSON of hf_overrides does not count"
    assert mask("the word hf_overridesX1 does not count") == "the word *** does not count"


def test_of_the_names_of_vllm_only_those_of_secrets_are() -> None:
    options = {option for release in SUPPORTED for option in flag_table(release).by_option}
    names = {name for release in SUPPORTED for name in readers(release)}
    assert {one for one in options if is_secret_name(one)} == {"--api-key", "--hf-token"}
    secret = {one for one in names if is_secret_name(one)}
    assert secret == {"VLLM_API_KEY", "S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY"}


@pytest.mark.parametrize("name", ["--api-keyy", "--ap-key", "--hf-tokne", "VLLM_API_KEYS", "--apikey", "MY_PASSWD",
                                  "--kv-transfer-config.token", "GITHUB_TOKEN"])  # fmt: skip
def test_misspelt_and_unknown_names(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["--max-token", "eos_token", "--tokens", "TOKENIZERS_PARALLELISM", "--pass-config"])
def test_other_names(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("line", "hidden"),
    [
        ('vllm serve m --default-chat-template-kwargs {"password":"jsonpass5"}', "jsonpass5"),
        ('vllm serve m --kv-transfer-config={"kv_connector":"X","token":"kvtok8"}', "kvtok8"),
        ("vllm serve m --middleware https://u:urlpw99@host/x", "urlpw99"),
        ("VLLM_HTTP_PROXY=http://u:proxypass88@proxy vllm serve m", "proxypass88"),
        ("vllm serve m --api-keyy=hunter3", "hunter3"),
        ("VLLM_API_KEYS=apisecret10 vllm serve m", "apisecret10"),
        ("vllm serve m --kv-transfer-config.token=kvtok8", "kvtok8"),
    ],
)
def test_secrets_in_json_in_addresses_and_behind_slips(line: str, hidden: str) -> None:
    assert hidden in line
    assert hidden not in masked(line)
    launch = launch_of(line.split())
    found = secrets_of(launch.source, [launch]).within(launch.source, 0, len(launch.source.text))
    at = launch.source.text.index(hidden)
    assert any(start <= at and at + len(hidden) <= end for start, end in found)


def test_an_option_and_a_key_in_one_token() -> None:
    launch = launch_of(["vllm", "serve", "m", "--api-key oneword77"])
    assert "oneword77" not in secrets_of(launch.source, [launch]).mask(launch.source.text)


def test_a_key_over_two_lines_is_hidden_line_by_line() -> None:
    source = Source("f.sh", 'vllm serve m --api-key="abc\nmulti777"')
    mask = secrets_of(source, read(source).launches).mask
    assert mask('+multi777" --x', in_file=True) == '+***" --x'
    assert mask('-vllm serve m --api-key="abc', in_file=True) == '-vllm serve m --api-key="***'


@pytest.mark.parametrize(
    "message",
    [
        "the first --api-key does not count: its list is lost",
        "--hf-token is given 2 times; the last counts",
        "an address such as https://host:8000/v1 or s3://bucket/model",
        'the JSON of --override-generation-config has "eos_token": "x"',
    ],
)
def test_words_of_messages_stay(message: str) -> None:
    assert secrets_of(Source("f", ""), []).mask(message) == message


def test_a_secret_that_a_message_cuts() -> None:
    launch = launch_of(["vllm", "serve", "m", "--api-key", "a-long-key-of-mine"])
    assert secrets_of(launch.source, [launch]).mask("'x a-long-ke…' is odd") == "'x ***…' is odd"


def test_the_quotes_around_a_key_stay() -> None:
    source = Source("f", 'args: ["--api-key=abc-77", "--api-key", "def-88"]')
    launch = launch_in(source, ("--api-key=abc-77", "--api-key", "def-88"))
    found = secrets_of(source, [launch]).within(source, 0, len(source.text))
    assert [source.text[start:end] for start, end in found] == ["abc-77", "def-88"]
