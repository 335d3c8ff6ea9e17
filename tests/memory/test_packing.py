"""Bytes of a token by `--kv-cache-dtype`: the table of the reference, head size 128."""

from __future__ import annotations

import pytest

from cgplan.memory.kv_dtypes import dtype_bytes, packed_bytes, quant_mode, torch_dtype
from cgplan.memory.layers.packing import Packing, packing, packing_by_class


@pytest.mark.parametrize(
    ("kv_dtype", "stored", "mode"),
    [
        ("auto", "bfloat16", "NONE"),
        ("float16", "float16", "NONE"),
        ("fp8", "uint8", "FP8_PER_TENSOR"),
        ("fp8_e5m2", "uint8", "FP8_PER_TENSOR"),
        ("fp8_ds_mla", "uint8", "FP8_PER_TENSOR"),
        ("int8_per_token_head", "int8", "INT8_PER_TOKEN_HEAD"),
        ("fp8_per_token_head", "uint8", "FP8_PER_TOKEN_HEAD"),
        ("nvfp4_4over6", "uint8", "NVFP4"),
        ("nvfp4_ds_mla", "uint8", "NVFP4_DS_MLA"),
        ("turboquant_k8v4", "uint8", "TURBOQUANT_K8V4"),
    ],
)
def test_what_is_stored(kv_dtype: str, stored: str, mode: str) -> None:
    assert torch_dtype(kv_dtype, "bfloat16") == stored
    assert quant_mode(kv_dtype) == mode
    assert dtype_bytes(stored) in (1, 2)


@pytest.mark.parametrize(
    ("kv_dtype", "size"),
    [
        ("auto", None),
        ("fp8", None),
        ("turboquant_k8v4", 196),
        ("turboquant_4bit_nc", 134),
        ("turboquant_k3v4_nc", 118),
        ("turboquant_3bit_nc", 102),
        ("int8_per_token_head", 264),
        ("int4_per_token_head", 136),
        ("nvfp4", 72),
    ],
)
def test_packed_bytes(kv_dtype: str, size: int | None) -> None:
    assert packed_bytes(kv_dtype, 128, 128) == size


def test_a_packed_slot_is_even() -> None:
    assert packed_bytes("turboquant_3bit_nc", 10, 10) == 14  # 4 + 2 for the key, 4 + 4 for the value


def test_the_backend_packs() -> None:
    assert packing("nvfp4", 128, 128, 4, "FLASHINFER") == Packing(8, 72)
    assert packing("nvfp4", 128, 128, 4, "TRITON_ATTN") == Packing()
    assert packing("turboquant_k8v4", 128, 128, 4, "TURBOQUANT") == Packing(None, 196)
    assert packing("turboquant_k8v4", 128, 128, 4, "FLASH_ATTN") == Packing()
    assert packing("fp8", 128, 128, 4, "FLASHINFER") == Packing()


def test_the_class_packed_before() -> None:
    assert packing_by_class("nvfp4", 128, 128, sliding=False, full=True) == Packing(None, 144)
    assert packing_by_class("int4_per_token_head", 128, 128, sliding=False, full=True) == Packing(None, 136)
    assert packing_by_class("int4_per_token_head", 128, 128, sliding=True, full=False) == Packing(None, 264)
    assert packing_by_class("turboquant_k8v4", 128, 128, sliding=True, full=False) == Packing()
