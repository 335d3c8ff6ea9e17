"""Shapes and types of states on one rank."""

from __future__ import annotations

import pytest

from cgplan import StartupError
from cgplan.cache_layers import CacheLayers, LayerKind, StateSizes
from cgplan.memory.layers.mamba_states import state_dtypes, state_shapes

GDN = StateSizes(conv_kernel=4, num_heads=32, head_size=128, num_key_heads=16, key_head_size=128)
MAMBA2 = StateSizes(width=8192, conv_kernel=4, num_heads=128, head_size=64, n_groups=8, state_size=128)
MAMBA1 = StateSizes(width=8192, conv_kernel=4, state_size=16)
KDA = StateSizes(conv_kernel=4, num_heads=96, head_size=128)


def layers(kind: LayerKind, state: StateSizes) -> CacheLayers:
    return CacheLayers(name="{}", layers=(0,), kind=kind, state=state)


def test_gated_delta_net() -> None:
    assert state_shapes(layers("gdn", GDN), 1, 0) == ((3, 8192), (32, 128, 128))
    assert state_shapes(layers("gdn", GDN), 2, 3) == ((6, 4096), (16, 128, 128))


def test_the_convolution_may_be_stored_channels_first() -> None:
    assert state_shapes(layers("gdn", GDN), 2, 3, channels_first=True)[0] == (4096, 6)


def test_mamba2_gives_every_rank_a_whole_group() -> None:
    assert state_shapes(layers("mamba2", MAMBA2), 1, 0) == ((3, 10240), (128, 64, 128))
    assert state_shapes(layers("mamba2", MAMBA2), 4, 0)[0] == (3, 2560)
    # Sixteen ranks share eight groups, so each has one of its own.
    assert state_shapes(layers("mamba2", MAMBA2), 16, 1)[0] == (4, (8192 + 2 * 16 * 128) // 16)


def test_mamba1_keeps_no_drafts() -> None:
    assert state_shapes(layers("mamba1", MAMBA1), 1, 5) == ((3, 8192), (8192, 16))


def test_other_kinds() -> None:
    assert state_shapes(layers("kda", KDA), 8, 0) == ((3, 4608), (12, 128, 128))
    assert state_shapes(layers("linear", KDA), 8, 0) == ((12, 128, 128),)
    assert state_shapes(layers("short_conv", MAMBA1), 2, 1) == ((4, 4096),)


def test_what_does_not_divide_does_not_load() -> None:
    with pytest.raises(StartupError) as error:
        state_shapes(layers("gdn", GDN), 6, 0)
    assert (error.value.code, error.value.stage, error.value.raised_as) == ("CG540", "load_model", "AssertionError")


@pytest.mark.parametrize(
    ("kind", "cache", "ssm", "dtypes"),
    [
        ("gdn", "auto", "auto", ("bfloat16", "bfloat16")),
        ("gdn", "auto", "float32", ("bfloat16", "float32")),
        ("gdn", "float16", "auto", ("float16", "float16")),
        ("kda", "auto", "auto", ("bfloat16", "float32")),
        ("kda", "auto", "bfloat16", ("bfloat16", "bfloat16")),
        ("linear", "float32", "auto", ("float32",)),
    ],
)
def test_types(kind: LayerKind, cache: str, ssm: str, dtypes: tuple[str, ...]) -> None:
    assert state_dtypes(layers(kind, KDA), "bfloat16", cache, ssm) == dtypes


def test_kda_refuses_float16() -> None:
    with pytest.raises(StartupError, match="float16") as error:
        state_dtypes(layers("kda", KDA), "bfloat16", "auto", "float16")
    assert error.value.code == "CG541"
