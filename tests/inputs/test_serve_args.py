"""vLLM's command line: values, places, notes, and what a refusal says."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan.errors import InputError
from cgplan.inputs.serve_args import ServeArgs, parse_serve
from cgplan.inputs.serve_args_errors import CODES, ArgumentRefused
from cgplan.inputs.serve_args_flags import flag_table, releases_with
from cgplan.inputs.serve_args_numbers import expand_in_json, human_int, human_int_or_auto
from cgplan.inputs.serve_args_rewrite import merge
from cgplan.releases import SUPPORTED


def serve(*tokens: str, release: str = "0.33.0") -> ServeArgs:
    return parse_serve(["vllm", "serve", "m", *tokens], release)


def refused(*tokens: str, release: str = "0.33.0") -> ArgumentRefused:
    with pytest.raises(ArgumentRefused) as caught:
        serve(*tokens, release=release)
    return caught.value


@pytest.mark.parametrize(
    ("tokens", "dest", "value"),
    [
        (["--max-num-seqs", "256"], "max_num_seqs", 256),
        (["--max_num_seqs=256"], "max_num_seqs", 256),
        (["-tp", "2"], "tensor_parallel_size", 2),
        (["-tp=2"], "tensor_parallel_size", 2),
        (["--max-num-batched-tokens", "8k"], "max_num_batched_tokens", 8000),
        (["--max-num-batched-tokens", "8K"], "max_num_batched_tokens", 8192),
        (["--max-model-len", "25.6k"], "max_model_len", 25600),
        (["--max-model-len", "auto"], "max_model_len", -1),
        (["--kv-cache-memory-bytes", "80g"], "kv_cache_memory_bytes", 80 * 10**9),
        (["-O3"], "optimization_level", "3"),
        (["-O", "3"], "optimization_level", "3"),
        (["-O=3"], "optimization_level", "3"),
        (["-cc.cudagraph_mode=full"], "compilation_config", {"cudagraph_mode": "FULL"}),
        (["-cc.mode", "3"], "compilation_config", {"mode": "VLLM_COMPILE"}),
        (["-cc", '{"mode": 3}'], "compilation_config", {"mode": "VLLM_COMPILE"}),
        (["--compilation-config.pass_config.fuse_norm_quant=true"], "compilation_config",
         {"pass_config": {"fuse_norm_quant": True}}),
        (["-cc.cudagraph_capture_sizes+=1", "-cc.cudagraph_capture_sizes+=2,4"], "compilation_config",
         {"cudagraph_capture_sizes": [1, 2, 4]}),
        (["-ac.backend=flashinfer"], "attention_config", {"backend": "FLASHINFER"}),
        (["-sc.num_speculative_tokens=1k"], "speculative_config", {"num_speculative_tokens": 1000}),
        (["--no-enable-prefix-caching"], "enable_prefix_caching", False),
        (["--disable-prefix-caching"], "enable_prefix_caching", False),
        (["--cudagraph-capture-sizes", "1", "2", "4"], "cudagraph_capture_sizes", [1, 2, 4]),
        (["--hf-overrides", '{"a": 1}'], "hf_overrides", {"a": 1}),
        (["--hf-overrides", "module.function"], "hf_overrides", "module.function"),
        (["-q", "fp8"], "quantization", "fp8"),
        (["-qfp8"], "quantization", "fp8"),
    ],
)  # fmt: skip
def test_values(tokens: list[str], dest: str, value: object) -> None:
    assert serve(*tokens).values == {dest: value}


def test_the_three_ways_to_start() -> None:
    tokens = ["--model", "m", "--port", "1"]
    by_module = parse_serve(["python3", "-m", "vllm.entrypoints.openai.api_server", *tokens], "0.33")
    assert (by_module.style, by_module.model, by_module.model_flag) == ("module", "m", "m")
    for start in (["vllm"], ["/opt/bin/vllm"], ["python", "-u", "-m", "vllm.entrypoints.cli.main"]):
        found = parse_serve([*start, "serve", *tokens], "0.33.0")
        assert (found.style, found.model, found.model_tag) == ("serve", "m", "m")
        assert [note.kind for note in found.notes] == ["model_flag"]


def test_places_point_at_the_tokens_given() -> None:
    found = parse_serve(["vllm", "serve", "--max-num-seqs", "8", "--model", "m", "-cc.mode", "3", "-tp=2"], "0.33.0")
    places = {one.dest: (one.place.token, [place.token for place in one.values]) for one in found.given}
    assert places == {"max_num_seqs": (2, [3]), "tensor_parallel_size": (8, [8]), "compilation_config": (6, [6])}
    assert found.get("max_num_seqs") == 8
    assert found.get("port") == 8000
    place = found.place_of("tensor_parallel_size")
    assert place is not None
    assert place.token == 8


@pytest.mark.parametrize(
    ("tokens", "kind", "said"),
    [
        (["--port", "1", "--port", "2"], "repeated", "the last one counts"),
        (["--cudagraph-capture-sizes", "1", "--cudagraph-capture-sizes", "2"], "list_replaced", "not joined"),
        (["-cc.mode=3", "--compilation-config.backend=eager"], "bucket_lost", "do not merge"),
        (["-cc", "{}", "-cc.mode=3"], "bucket_lost", "do not merge"),
        (["-cc.mode=3", "-cc.mode=0"], "duplicate_key", "-cc.mode is given more than once"),
        (["--max-num-b", "8"], "abbreviation", "--max-num-b is taken for --max-num-batched-tokens"),
        (["-O4"], "odd_level", "named '4'"),
        (["-O.mode=3"], "odd_level", "-cc.KEY"),
        (["--config=x.yaml"], "config_unread", "never read"),
        (["--disable-cascade-attn"], "deprecated", "no effect"),
        (["--seed", "1", "-0.5", "3", "--seed=4"], None, "is taken as a dotted key"),
    ],
)
def test_what_happens_in_silence_is_noted(tokens: list[str], kind: str | None, said: str) -> None:
    if kind is None:
        assert said in refused(*tokens).message
        return
    notes = [note for note in serve(*tokens).notes if note.kind == kind]
    assert len(notes) == 1
    assert said in notes[0].message
    assert notes[0].place.token >= 3


def test_a_later_release_finds_an_abbreviation_ambiguous() -> None:
    found = serve("--long-prefill", "2", release="0.25.1")
    assert "0.31.0 finds it ambiguous" in found.notes[0].message
    assert refused("--long-prefill", "2").kind == "ambiguous"


def test_the_module_form_ignores_a_model_by_position() -> None:
    found = parse_serve(["python", "-m", "vllm.entrypoints.openai.api_server", "m"], "0.33.0")
    assert found.model is None
    assert found.model_tag == "m"
    assert found.notes[0].kind == "model_ignored"


@pytest.mark.parametrize(
    ("tokens", "kind", "said", "fix"),
    [
        (["--max-num-sequs", "3"], "unrecognized", "no option --max-num-sequs", "--max-num-seqs"),
        (["-tp2"], "unrecognized", "no option -tp2", "-tp 2"),
        (["-O", "4"], "unrecognized", "-O takes a level", "-O3"),
        (["n"], "unrecognized", "one value too many", "quotes"),
        (["--", "--port", "1"], "unrecognized", "behind `--`", "leave out"),
        (["--task", "embed"], "unrecognized", "removed from vLLM before", "--runner pooling"),
        (["--max-num-partial-prefills", "2"], "unrecognized", "removed from vLLM by 0.27.1", "leave it out"),
        (["--max-n", "3"], "ambiguous", "--max-num-seqs", "in full"),
        (["--port"], "missing_value", "needs one argument", "--port VALUE"),
        (["--enforce-eager=true"], "flag_takes_no_value", "takes no value", "--no-enforce-eager"),
        (["--dtype", "fp16"], "invalid_choice", "'fp16'", "float16"),
        (["--max-num-seqs", "1k"], "invalid_value", "'1k' is not a whole number", "--max-num-seqs"),
        (["--max-model-len", "25.6K"], "invalid_value", "25.6k may have one", None),
        (["-cc.cudagraph_mod=FULL"], "config_invalid", "unknown key", "cudagraph_mode"),
        (["-cc", "3"], "config_invalid", "not a JSON object", None),
        (["-cc.cudagraph_mode=FUL"], "uncaught", "KeyError", "FULL"),
        (["-ac.backend=FLASH"], "config_invalid", "FLASH_ATTN", None),
        (["--lora-modules", "x"], "lora_modules", "NAME=PATH", "NAME=PATH"),
        (["--enable-auto-tool-choice"], "validate", "needs --tool-call-parser", None),
        (["--help"], "help", "prints and ends", None),
        (["-cc.mode"], "uncaught", "IndexError", "-cc.mode=VALUE"),
    ],
)
def test_refusals(tokens: list[str], kind: str, said: str, fix: str | None) -> None:
    error = refused(*tokens)
    assert error.kind == kind
    assert said in error.message
    assert fix is None or fix in (error.fix or "")
    assert error.code == CODES[kind]
    assert "\n" not in error.message


def test_other_releases_are_named() -> None:
    assert "exists since vLLM 0.33.0" in refused("--watchdog-config", "{}", release="0.25.1").message
    error = refused("--disable-log-requests", release="0.25.1")
    assert error.fix == "use --no-enable-log-requests"
    assert [release for release, _ in releases_with("--calculate-kv-scales")][-1] == "0.27.1"


def test_a_refusal_keeps_the_notes() -> None:
    error = refused("-O4", "--unknown")
    assert [note.kind for note in error.notes] == ["odd_level"]
    assert error.place is not None
    assert error.place.token == 4


@pytest.mark.parametrize("tokens", [[], ["ls"], ["python"], ["python", "-m", "vllm"], ["docker", "run"]])
def test_what_starts_no_server(tokens: list[str]) -> None:
    with pytest.raises(InputError, match="does not start a vLLM server"):
        parse_serve(tokens, "0.33.0")


def test_the_environment_counts() -> None:
    tokens = ["vllm", "serve", "m", "--grpc-port", "5000"]
    assert parse_serve(tokens, "0.33.0", env={"VLLM_USE_RUST_FRONTEND": "1"}).values == {"grpc_port": 5000}
    with pytest.raises(ArgumentRefused, match="VLLM_USE_RUST_FRONTEND"):
        parse_serve(tokens, "0.33.0")


def test_missing_files_matter_only_where_all_are_known() -> None:
    tokens = ["vllm", "serve", "m", "--chat-template", "x.jinja"]
    assert parse_serve(tokens, "0.33.0").values == {"chat_template": "x.jinja"}
    assert parse_serve(tokens, "0.33.0", files={"x.jinja": ""}).values == {"chat_template": "x.jinja"}
    with pytest.raises(ArgumentRefused, match="neither a file nor a template"):
        parse_serve(tokens, "0.33.0", files={})


@pytest.mark.parametrize("release", SUPPORTED)
def test_every_option_of_a_release_is_known(release: str) -> None:
    table = flag_table(release)
    assert len(table.flags) > 150
    switches = [(one, option) for one in table.flags if one.kind in ("bool", "store_true") for option in one.options]
    for flag, option in switches:
        underscored = option if option.count("-") < 3 else "--" + option[2:].replace("-", "_")
        try:
            found = serve(underscored, release=release)
        except ArgumentRefused as error:
            assert error.kind == "validate"  # noqa: PT017
        else:
            assert found.values.keys() == {flag.dest}


@given(st.integers(0, 10**9), st.sampled_from("kmgtKMGT"))
def test_units(number: int, unit: str) -> None:
    base = 1024 if unit.isupper() else 1000
    expected = number * base ** ("kmgt".index(unit.lower()) + 1)
    found = human_int(f"{number}{unit}")
    assert found == expected if unit.isupper() else abs(found - expected) <= expected // 2**52


@given(st.text())
def test_texts_in_json_stay(text: str) -> None:
    import json

    document = json.dumps({text: text})
    assert expand_in_json(document) == document


def test_numbers_in_json() -> None:
    assert expand_in_json('{"a": 1k, "1k": "2k"}') == '{"a": 1000, "1k": "2k"}'
    assert human_int_or_auto(" AUTO ") == -1


def test_merging() -> None:
    into = {"a": {"b": 1}, "l": [1]}
    assert merge(into, {"a": {"b": 2, "c": 3}, "l": [2]}) == {"a.b"}
    assert into == {"a": {"b": 2, "c": 3}, "l": [1, 2]}


def test_import_is_light() -> None:
    code = (
        "import sys\nfrom cgplan.inputs.serve_args import parse_serve\n"
        "parse_serve(['vllm', 'serve', 'm', '--max-num-seqs', '8'], '0.33.0')\n"
        "print([m for m in ('yaml', 'pydantic', 'pydantic_core', 'rich', 'typer', 'argparse') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
