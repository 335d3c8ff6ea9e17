"""What the fuzzer found, each with the answer that is right."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cgplan import (
    CompilationOptions,
    Deployment,
    InputError,
    KVTransferOptions,
    MemoryFlags,
    ModelShape,
    SpeculativeOptions,
    StartupError,
    gpu,
    load_model,
    plan,
    resolve,
)  # fmt: skip
from cgplan.check import check
from cgplan.inputs.hf_config import shape_of
from cgplan.inputs.serve_args import parse_serve
from cgplan.inputs.settings import _as_regex, load, matches
from cgplan.inputs.vllm_logs import read_log
from cgplan.memory.budget.budget import reserve_of
from cgplan.memory.kv_dtypes import dtype_bytes
from cgplan.model_shape import MOST_LAYERS
from cgplan.releases import canonical
from cgplan.startup.reprs import parse_dict
from cgplan.sweep.grid_file import grid_of
from cgplan.sweep.options import read_value
from cgplan.sweep.record_file import RecordFile
from cgplan.vocabulary import CUDAGraphMode
from cgplan.workload.histogram import Batches, Range
from cgplan.workload.sources.metrics import Snapshot, gathered
from cgplan.workload.sources.sources import read_text

Run = Callable[..., tuple[int, str, str]]

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
    "num_hidden_layers": 32, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 4096,
}  # fmt: skip
GLM: dict[str, Any] = {**LLAMA, "architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe"}


def refused(call: Callable[[], object]) -> InputError | StartupError:
    """The one clear error of a call: with a code, a place and a fix."""
    with pytest.raises((InputError, StartupError)) as caught:
        call()
    error = caught.value
    assert error.code.startswith("CG")
    assert error.where
    assert error.fix
    assert len(error.message) < 1000
    return error


class TestModels:
    @pytest.mark.parametrize("key", ["num_hidden_layers", "num_nextn_predict_layers"])
    @pytest.mark.parametrize("layers", [MOST_LAYERS + 1, 500_000.0, 2**31 - 1])
    def test_a_count_of_layers_is_not_any_number(self, key: str, layers: float) -> None:
        """Each layer has its own entry: 2**31 of them filled the memory."""
        error = refused(lambda: shape_of({**GLM, key: layers}))
        assert (error.code, error.where) == ("CG912", f"config.json: {key}")

    def test_the_most_layers_are_taken_quickly(self) -> None:
        shape = shape_of({**LLAMA, "num_hidden_layers": MOST_LAYERS})
        assert shape.num_hidden_layers == MOST_LAYERS
        assert refused(lambda: ModelShape(num_hidden_layers=MOST_LAYERS + 1)).code == "CG903"

    def test_a_state_of_an_unknown_type(self) -> None:
        assert dtype_bytes("float32") == 4
        assert refused(lambda: dtype_bytes("float3\r\n2")).code == "CG912"

    def test_more_pipeline_stages_than_layers(self) -> None:
        deployment = Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"), pipeline_parallel_size=37, nnodes=8)
        made = plan(deployment)
        assert not made.fits
        assert any(finding.code == "CG542" for finding in made.findings)
        assert plan(deployment.model_copy(update={"pipeline_parallel_size": 36})).fits


class TestMemoryOfTheFrontEnd:
    @pytest.mark.parametrize("given", ["nan", "inf", "-1", "1e999"])
    def test_it_is_a_number(self, cgplan: Run, given: str) -> None:
        line = ("vllm", "serve", "Qwen/Qwen3-VL-8B-Instruct", f"--mm-ipc-gpu-memory-gb={given}")
        for command in ("plan", "check"):
            status, out, err = cgplan(command, "--gpu", "h100", "--", *line)
            assert status in (1, 2)
            assert "--mm-ipc-gpu-memory-gb" in out + err
            assert "CG903" in out + err

    def test_a_number_is_taken_off(self) -> None:
        assert reserve_of(2) == 2 << 30
        assert reserve_of(None) == 0
        assert refused(lambda: reserve_of("many")).code == "CG903"


class TestConnectors:
    @pytest.mark.parametrize("inner", ["text", ["a"], 7, {"connectors": 7}])
    def test_the_settings_of_an_inner_connector_are_anything(self, inner: Any) -> None:
        child = {"kv_connector": "LMCacheConnectorV1", "kv_connector_extra_config": inner}
        for connectors in ([child], [[child]], ["LMCacheConnectorV1"]):
            options = KVTransferOptions(
                kv_connector="MultiConnector", kv_role="kv_both", kv_connector_extra_config={"connectors": connectors}
            )
            found = resolve(Deployment(kv_transfer_config=options))
            assert isinstance(found.cudagraph_mode, CUDAGraphMode)


class TestPythonValues:
    @pytest.mark.parametrize(
        ("make", "where"),
        [
            (lambda: SpeculativeOptions(model="a name"), "model"),
            (lambda: CompilationOptions(cudagraph_capture_sizes=1.5), "cudagraph_capture_sizes"),
            (lambda: ModelShape(hidden_size="wide"), "hidden_size"),
            (lambda: Deployment(compilation_config={"cudagraph_capture_sizes": 1.5}),
             "compilation_config.cudagraph_capture_sizes"),
        ],
    )  # fmt: skip
    def test_a_part_refuses_as_the_whole_does(self, make: Callable[[], object], where: str) -> None:
        error = refused(make)
        assert (error.code, error.where) == ("CG903", where)

    @pytest.mark.parametrize("name", [7, None, [], 1.5])
    def test_names_that_are_no_text(self, name: Any) -> None:
        assert refused(lambda: gpu(name)).code == "CG904"
        assert refused(lambda: canonical(name)).code == "CG801"
        assert refused(lambda: load_model(name)).code == "CG915"

    @pytest.mark.parametrize("size", [[1], "1", True, 1.5])
    def test_sizes_that_are_no_number(self, size: Any) -> None:
        deployment = Deployment(model=load_model("Qwen/Qwen3-8B"))
        assert refused(lambda: plan(deployment, kv_bytes=size)).where == "--kv-bytes"

    @pytest.mark.parametrize("value", ["9" * 5000, list(range(2000)), "x" * 20_000])
    def test_a_long_value_is_shown_in_short(self, value: Any) -> None:
        assert len(refused(lambda: MemoryFlags(value)).message) < 200
        assert len(refused(lambda: MemoryFlags(None, value)).message) < 200

    def test_a_long_dtype_is_shown_in_short(self) -> None:
        error = refused(lambda: resolve(Deployment(model=ModelShape(dtype="9" * 5000))))
        assert error.code == "CG303"
        assert len(error.fix or "") < 1000

    @pytest.mark.parametrize("count", [10**400, math.nan, math.inf, -1, 0])
    def test_counts_that_are_none(self, count: Any) -> None:
        assert refused(lambda: Batches("decode", Range(1, 1), count)).where == "count"


class TestPlaces:
    @pytest.mark.parametrize(
        ("line", "where"),
        [
            ("vllm serve m --config a.yaml --config b.yaml", "--config"),
            ("vllm serve m --model", "--model"),
            ("vllm serve m ''", "''"),
            ("vllm serve m --max-num-seqs 8 9", "9"),
        ],
    )
    def test_a_refusal_points_at_a_word(self, line: str, where: str) -> None:
        import shlex

        found = refused_by(lambda: parse_serve(shlex.split(line), "0.33.0"))
        assert found.where == where

    @pytest.mark.parametrize("line", ["ls -l", "", "vllm serve a; vllm serve b"])
    def test_a_line_that_starts_no_server(self, line: str) -> None:
        assert refused(lambda: check(line)).where == "the line"

    def test_no_backend_fits(self) -> None:
        model = load_model("deepseek-ai/DeepSeek-V3.2")
        error = refused(lambda: resolve(Deployment(model=model, gpu=gpu("l4"))))
        assert (error.code, error.where) == ("CG303", "--attention-backend")

    @pytest.mark.parametrize("value", [[], 1.5, "", True])
    def test_a_value_of_a_grid(self, value: Any) -> None:
        document = {"base": {"model": "Qwen/Qwen3-8B", "gpu": "h100"}, "grid": {"max_num_seqs": [value]}}
        assert "grid.max_num_seqs" in str(refused(lambda: grid_of(document)).where)

    def test_a_key_of_two_lines_is_shown_in_one(self) -> None:
        base = {"model": "Qwen/Qwen3-8B", "gpu": "h100", "speculative_config": {"a\nb": 1}}
        error = refused(lambda: grid_of({"base": base, "grid": {"max_num_seqs": [8]}}))
        assert error.where == "grid: base.speculative_config.a b"
        assert "\n" not in error.message


def refused_by(call: Callable[[], object]) -> StartupError:
    with pytest.raises(StartupError) as caught:
        call()
    return caught.value


class TestFiles:
    def test_a_log_without_a_name_has_no_address(self) -> None:
        error = refused(lambda: read_log(io.BytesIO(b"\0\1\2" * 500)))
        assert error.where == "the log"

    def test_half_a_character_in_a_record(self, tmp_path: Path) -> None:
        path = tmp_path / "records.jsonl"
        path.write_bytes(b'{"key":"\xed\xa0\x80","starts":"yes"}\n{"key":"b","starts":"yes"}\n')
        with RecordFile(str(path)) as file, pytest.raises(InputError, match="line 1 is no record"):
            list(file.records())

    @pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
    def test_a_record_with_what_is_no_json(self, tmp_path: Path, number: str) -> None:
        path = tmp_path / "records.jsonl"
        path.write_text(f'{{"key":"a","starts":"yes","kv_tokens":{number}}}\n{{"key":"b","starts":"yes"}}\n')
        with RecordFile(str(path)) as file, pytest.raises(InputError, match="line 1 is no record"):
            list(file.records())

    def test_a_table_of_records_with_half_a_character(self, cgplan: Run, tmp_path: Path) -> None:
        grid, kept, table = (str(tmp_path / name) for name in ("grid.toml", "records.jsonl", "records.csv"))
        Path(grid).write_text('[base]\nmodel = "Qwen/Qwen3-8B"\ngpu = "h100"\n[grid]\nmax_num_seqs = [16, 256]\n')
        assert cgplan("sweep", grid, "--jobs", "1", "--output", kept)[0] == 0
        lines = Path(kept).read_text().splitlines()
        first = {**json.loads(lines[0]), "message": "\ud800"}
        Path(kept).write_text("\n".join([json.dumps(first, separators=(",", ":")), *lines[1:]]) + "\n")
        status, _, err = cgplan("sweep", grid, "--jobs", "1", "--output", kept, "--csv", table)
        assert (status, Path(table).read_text(encoding="utf-8").count("\n")) == (0, 3), err

    @pytest.mark.parametrize("model", ["x" * 5000, "a\\u0000b"])
    def test_a_model_of_the_settings_is_no_path(self, tmp_path: Path, model: str) -> None:
        path = tmp_path / "cgplan.toml"
        path.write_text(f'model = "{model}"\n')
        assert len(load(str(path)).model or "") == (5000 if model[0] == "x" else 3)


class TestPatterns:
    @pytest.mark.parametrize(
        ("pattern", "path", "fits"),
        [
            ("[a--z].sh", "b.sh", False),
            ("x[--a].sh", "x-.sh", True),
            ("[!--a].sh", "b.sh", True),
            ("[a-c].sh", "b.sh", True),
        ],
    )
    def test_two_dashes_are_no_set(self, recwarn: pytest.WarningsRecorder, pattern: str, path: str, fits: bool) -> None:
        _as_regex.cache_clear()
        assert matches(pattern, path, Path.cwd()) is fits
        assert not recwarn.list


class TestMetrics:
    TEXT = """\
vllm:iteration_tokens_total_bucket{engine="0",le="1.0"} 3
vllm:iteration_tokens_total_bucket{engine="0",le="+Inf"} 9
vllm:spec_decode_num_drafts_total{engine="0"} DRAFTS
vllm:spec_decode_num_draft_tokens_total{engine="0"} TOKENS
"""

    @pytest.mark.parametrize(("drafts", "tokens"), [("3", "+Inf"), ("+Inf", "6"), ("1e-300", "1e308")])
    def test_figures_that_are_none_are_left_out(self, drafts: str, tokens: str) -> None:
        read = read_text(self.TEXT.replace("DRAFTS", drafts).replace("TOKENS", tokens), "metrics.txt")
        assert isinstance(read, Snapshot)
        found = gathered(read)
        assert all(math.isfinite(value) for part in found.parts for value in part.facts.values())
        assert found.parts[0].workload.steps == 9

    def test_a_long_name_is_shown_in_short(self) -> None:
        text = self.TEXT.partition("vllm:spec")[0].replace('le="+Inf"', 'le="4.0"').replace('"0"', f'"{"x" * 5000}"')
        assert len(refused(lambda: read_text(text, "metrics.txt")).message) < 400

    def test_figures_that_are_some_count(self) -> None:
        read = read_text(self.TEXT.replace("DRAFTS", "3").replace("TOKENS", "6"), "metrics.txt")
        assert isinstance(read, Snapshot)
        assert gathered(read).parts[0].facts["draft_tokens"] == 6


class TestNumbersThatAreTooLarge:
    def test_one_that_no_float_holds_is_text(self) -> None:
        assert parse_dict("{'max_model_len': 1e999, 'seed': -1E999, 'x': 1.5e3}") == {
            "max_model_len": "1e999",
            "seed": "-1E999",
            "x": 1500.0,
        }

    def test_settings_with_more_digits_than_python_reads(self, tmp_path: Path) -> None:
        path = tmp_path / "cgplan.toml"
        path.write_text(f"max = {'9' * 5000}\n")
        assert "is not TOML" in refused(lambda: load(str(path))).message


def test_half_a_character_in_the_name_of_a_model_of_a_grid() -> None:
    def load_shape(name: str) -> ModelShape:
        return load_model("Qwen/Qwen3-8B").model_copy(update={"name": name})

    value = read_value("model", "\ud800/Qwen3-8B", "base.model", load_shape)
    assert json.loads(value[1])["name"] == "\ud800/Qwen3-8B"
