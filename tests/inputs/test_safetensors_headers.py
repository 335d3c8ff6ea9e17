"""Safetensors headers of a local folder, good and bad, and what of them lies on a rank."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan import Deployment, InputError
from cgplan.inputs.hf_config import shape_of
from cgplan.inputs.safetensors_headers import INDEX, MAX_HEADER, read_tensors
from cgplan.memory.budget.tensors import weights_of
from cgplan.memory.budget.weights import estimate_weights
from cgplan.model_shape import ModelShape

SIZES = {"BF16": 2, "F32": 4, "F8_E4M3": 1, "I32": 4}
Entries = dict[str, tuple[str, list[int]]]


def packed(entries: Entries) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, shape) in entries.items():
        size = SIZES[dtype]
        for number in shape:
            size *= number
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(at)


def with_header(header: bytes, data: bytes = b"", length: int | None = None) -> bytes:
    return (len(header) if length is None else length).to_bytes(8, "little") + header + data


HUGE = json.dumps({"a": {"dtype": "I32", "shape": [2**62] * 16, "data_offsets": [0, 4]}}).encode()


def refused(place: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        read_tensors(place)
    assert "\n" not in caught.value.message
    assert caught.value.fix
    return caught.value


class TestReading:
    def test_one_file(self, tmp_path: Path) -> None:
        (tmp_path / "model.safetensors").write_bytes(packed({"a.weight": ("BF16", [4, 8]), "b": ("F32", [])}))
        tensors = read_tensors(tmp_path)
        assert [(t.name, t.dtype, t.shape, t.size) for t in tensors] == [
            ("a.weight", "BF16", (4, 8), 64),
            ("b", "F32", (), 4),
        ]
        assert read_tensors(tmp_path / "model.safetensors") == tensors

    def test_an_index_says_which_files_and_tensors_count(self, tmp_path: Path) -> None:
        (tmp_path / "x-1.safetensors").write_bytes(packed({"a": ("BF16", [4]), "old": ("BF16", [4])}))
        (tmp_path / "x-2.safetensors").write_bytes(packed({"b": ("BF16", [2])}))
        (tmp_path / "stray.safetensors").write_bytes(b"not one")
        table = {"weight_map": {"a": "x-1.safetensors", "b": "x-2.safetensors"}}
        (tmp_path / INDEX).write_text(json.dumps(table))
        assert [tensor.name for tensor in read_tensors(tmp_path)] == ["a", "b"]

    def test_a_second_copy_in_one_file_is_left_out(self, tmp_path: Path) -> None:
        for name in ("model-00001-of-00001.safetensors", "consolidated.safetensors"):
            (tmp_path / name).write_bytes(packed({"a": ("BF16", [4])}))
        assert len(read_tensors(tmp_path)) == 1


class TestBadFiles:
    @pytest.mark.parametrize(
        ("data", "code"),
        [
            (b"", "CG911"),
            (b"\x01", "CG911"),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "CG911"),
            (with_header(b"[1]"), "CG911"),
            (with_header(b"{nonsense"), "CG911"),
            (with_header(b"{}", length=1 << 62), "CG911"),
            (with_header(b'{"a": 1}'), "CG911"),
            (with_header(b'{"a": {"dtype": "XX", "shape": [1], "data_offsets": [0, 1]}}', b"0"), "CG911"),
            (with_header(b'{"a": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}'), "CG911"),
            (with_header(b'{"a": {"dtype": "BF16", "shape": [9], "data_offsets": [0, 2]}}', b"00"), "CG911"),
            (with_header(b'{"a": {"dtype": "BF16", "shape": [-1], "data_offsets": [0, 2]}}', b"00"), "CG911"),
            (with_header(b'{"a": {"dtype": "BF16", "shape": [true], "data_offsets": [0, 2]}}', b"00"), "CG911"),
            (with_header(b'{"a": {"dtype": "BF16", "shape": [1], "data_offsets": [2, 0]}}', b"00"), "CG911"),
            (
                with_header(
                    json.dumps({"a": {"dtype": "I32", "shape": [2**62] * 16, "data_offsets": [0, 4]}}).encode(), b"0000"
                ),
                "CG911",
            ),
        ],
    )
    def test_a_file_that_is_not_what_it_says(self, tmp_path: Path, data: bytes, code: str) -> None:
        (tmp_path / "model.safetensors").write_bytes(data)
        assert refused(tmp_path).code == code

    def test_a_header_that_is_too_long(self, tmp_path: Path) -> None:
        file = tmp_path / "model.safetensors"
        file.write_bytes((MAX_HEADER + 1).to_bytes(8, "little"))
        os.truncate(file, MAX_HEADER + 64)  # a sparse file: nothing is written
        assert refused(tmp_path).code == "CG914"

    def test_nothing_to_read(self, tmp_path: Path) -> None:
        assert refused(tmp_path).code == "CG910"
        assert refused(tmp_path / "nowhere").code == "CG910"

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs on this platform")
    def test_a_fifo_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "model.safetensors")
        assert refused(tmp_path).code == "CG910"

    @pytest.mark.parametrize(
        "table",
        [
            {},
            {"weight_map": []},
            {"weight_map": {"a": 3}},
            {"weight_map": {"a": "../outside.safetensors"}},
            {"weight_map": {"a": "/etc/passwd"}},
            {"weight_map": {"missing": "model.safetensors"}},
        ],
    )
    def test_a_bad_index(self, tmp_path: Path, table: dict[str, Any]) -> None:
        (tmp_path / "model.safetensors").write_bytes(packed({"a": ("BF16", [4])}))
        (tmp_path / INDEX).write_text(json.dumps(table))
        assert refused(tmp_path).code == "CG911"

    def test_parts_that_are_missing(self, tmp_path: Path) -> None:
        (tmp_path / "model-00001-of-00002.safetensors").write_bytes(packed({"a": ("BF16", [4])}))
        error = refused(tmp_path)
        assert error.code == "CG910"
        assert "holds 1 of 2 parts: model-00002-of-00002.safetensors is missing" in error.message
        assert "one of 2 parts" in refused(tmp_path / "model-00001-of-00002.safetensors").message
        (tmp_path / "model-00002-of-00002.safetensors").write_bytes(packed({"b": ("BF16", [4])}))
        assert len(read_tensors(tmp_path)) == 2

    def test_a_file_of_the_index_that_is_missing(self, tmp_path: Path) -> None:
        names = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
        (tmp_path / names["a"]).write_bytes(packed({"a": ("BF16", [4])}))
        (tmp_path / INDEX).write_text(json.dumps({"weight_map": names}))
        error = refused(tmp_path)
        assert error.code == "CG910"
        assert names["b"] in error.message

    def test_a_tensor_in_two_files(self, tmp_path: Path) -> None:
        for name in ("model-1.safetensors", "model-2.safetensors"):
            (tmp_path / name).write_bytes(packed({"a": ("BF16", [4])}))
        assert "two files" in refused(tmp_path).message

    @given(data=st.binary(max_size=200))
    def test_noise_is_an_input_error_or_empty(self, data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
        file = tmp_path_factory.mktemp("noise") / "model.safetensors"
        file.write_bytes(data)
        with contextlib.suppress(InputError):
            assert read_tensors(file) == ()


CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def llama(**changes: Any) -> ModelShape:
    return shape_of({**CONFIG, **changes})


def checkpoint(layers: int = 4, dtype: str = "BF16") -> Entries:
    """What a checkpoint of CONFIG holds."""
    found: Entries = {
        "model.embed_tokens.weight": (dtype, [1000, 256]),
        "lm_head.weight": (dtype, [1000, 256]),
        "model.norm.weight": (dtype, [256]),
    }
    for i in range(layers):
        at = f"model.layers.{i}"
        for name, shape in {
            "self_attn.q_proj": [256, 256],
            "self_attn.k_proj": [64, 256],
            "self_attn.v_proj": [64, 256],
            "self_attn.o_proj": [256, 256],
            "mlp.gate_proj": [512, 256],
            "mlp.up_proj": [512, 256],
            "mlp.down_proj": [256, 512],
            "input_layernorm": [256],
            "post_attention_layernorm": [256],
        }.items():
            found[f"{at}.{name}.weight"] = (dtype, shape)
    return found


def tensors_in(tmp_path: Path, entries: Entries) -> Any:
    (tmp_path / "model.safetensors").write_bytes(packed(entries))
    return read_tensors(tmp_path)


class TestRanks:
    @pytest.mark.parametrize(
        "fields", [{}, {"tensor_parallel_size": 2}, {"tensor_parallel_size": 4}, {"pipeline_parallel_size": 2}]
    )
    def test_files_and_shape_agree(self, tmp_path: Path, fields: dict[str, int]) -> None:
        """Two ways to the same bytes: the tables of the rotary embedding, which no file holds, come on top."""
        deployment = Deployment(model=llama(), **fields)
        by_file = weights_of(deployment, tensors_in(tmp_path, checkpoint()), "files").stages
        by_shape = estimate_weights(deployment).stages
        for files, shape in zip(by_file, by_shape, strict=True):
            assert files.total.is_exact
            assert files.total.best == shape.total.best - shape.parts["rope"]

    def test_tensors_of_the_model_leave_no_doubt(self, tmp_path: Path) -> None:
        assert weights_of(Deployment(model=llama()), tensors_in(tmp_path, checkpoint()), "files").doubt == ""

    def test_layers_that_are_missing_are_a_doubt(self, tmp_path: Path) -> None:
        doubt = weights_of(Deployment(model=llama()), tensors_in(tmp_path, checkpoint(layers=3)), "files").doubt
        assert doubt.startswith("1 of 4 layers of the model have no tensor")

    def test_bytes_far_from_the_shape_are_a_doubt(self, tmp_path: Path) -> None:
        tensors = tensors_in(tmp_path, {"lm_head.weight": ("BF16", [10, 10])})
        assert "the model's shape says" in weights_of(Deployment(model=llama()), tensors, "files").doubt

    def test_a_tied_head_in_the_file_is_not_loaded(self, tmp_path: Path) -> None:
        tensors = tensors_in(tmp_path, checkpoint())
        tied, untied = (
            weights_of(Deployment(model=llama(tie_word_embeddings=tie)), tensors, "files").heaviest.best
            for tie in (True, False)
        )
        assert untied - tied == 1024 * 256 * 2

    def test_layers_past_the_last_are_draft_modules(self, tmp_path: Path) -> None:
        five = weights_of(Deployment(model=llama()), tensors_in(tmp_path, checkpoint(layers=5)), "files")
        four = weights_of(Deployment(model=llama()), tensors_in(tmp_path, checkpoint()), "files")
        assert five.heaviest.best == four.heaviest.best

    def test_floats_are_converted(self, tmp_path: Path) -> None:
        single = weights_of(Deployment(model=llama()), tensors_in(tmp_path, checkpoint(dtype="F32")), "files")
        half = weights_of(Deployment(model=llama()), tensors_in(tmp_path, checkpoint()), "files")
        assert single.heaviest.best == half.heaviest.best

    def test_a_name_that_no_rule_knows_widens_the_bounds(self, tmp_path: Path) -> None:
        entries = checkpoint() | {"model.layers.0.novelty.weight": ("BF16", [1024, 1024])}
        tensors = tensors_in(tmp_path, entries)
        cut = weights_of(Deployment(model=llama(), tensor_parallel_size=2), tensors, "files").heaviest
        assert cut.high - cut.low == 1024 * 1024
        assert weights_of(Deployment(model=llama()), tensors, "files").heaviest.is_exact
