"""Which GPUs a log may be of: by its memory, and by what it shows of their compute capability."""

from __future__ import annotations

from dataclasses import replace

import pytest
from startup_helpers import GIB, on, rank, size, start

from cgplan.startup.against_plan import compare
from cgplan.startup.deployment import gpus_of, served
from cgplan.startup.record import Start

MEMORY = size(21.9), size(22.1)


def shown(**more: object) -> set[str]:
    one = start(rank(), **more)
    return set(gpus_of(*MEMORY, one))


def test_by_the_memory_alone() -> None:
    assert {"a10", "l4"} <= shown()


@pytest.mark.parametrize(
    ("more", "gone"),
    [
        ({"arguments": {"kv_cache_dtype": "nvfp4"}}, {"a10", "l4"}),
        ({"said": {"kv_cache_dtype": "nvfp4"}}, {"a10", "l4"}),
        ({"flash_version": 3}, {"a10", "l4"}),
    ],
)
def test_not_of_another_capability(more: dict[str, object], gone: set[str]) -> None:
    assert not gone & shown(**more)


def test_what_runs_on_all_of_them_rules_none_out() -> None:
    assert {"a10", "l4"} <= shown(flash_version=2, arguments={"kv_cache_dtype": "fp8"})


def test_by_an_attention_backend() -> None:
    def of(backend: str) -> Start:
        return start(replace(rank(), attention_backends=(backend,)))

    both = size(79.0), size(79.3)
    assert {"h100", "a100"} <= set(gpus_of(*both, of("TRITON_ATTN")))
    assert "a100" not in gpus_of(*both, of("FLASH_ATTN_MLA"))
    assert "h100" in gpus_of(*both, of("FLASH_ATTN_MLA"))


def test_a_variant_is_named_with_its_bytes() -> None:
    one = start(rank(total=22.36), arguments={"model_tag": "Qwen/Qwen3-8B"}, flash_version=3)
    found = compare(one, served(one, on("rtx5090")))
    (finding,) = (finding for finding in found.findings if finding.code == "CG538")
    assert f"--gpu-memory-bytes {round(22.36 * GIB)}" in str(finding.fix)
    assert "none has that memory and what the log shows" in str(finding.fix)
    assert "a10" not in str(finding.fix)


def test_memory_that_is_shared_differs_from_machine_to_machine() -> None:
    def codes(total: float, card: str) -> set[str]:
        one = start(rank(total=total), arguments={"model_tag": "Qwen/Qwen3-8B"})
        return {finding.code for finding in compare(one, served(one, on(card))).findings}

    assert "CG538" not in codes(121.63, "gb10")
    assert "CG538" in codes(128.0, "gb10")
    assert "CG538" in codes(82.0, "h100")


def test_of_what_shows_nothing_the_memory_tells() -> None:
    one = start(rank(total=22.06), arguments={"model_tag": "Qwen/Qwen3-8B"})
    (finding,) = (one for one in compare(one, served(one, on("rtx5090"))).findings if one.code == "CG538")
    assert "a10" in str(finding.fix)
