"""One deployment planned at several releases."""

from __future__ import annotations

from typing import Any

import pytest

from cgplan import Deployment, ModelShape, load_model
from cgplan.errors import InputError
from cgplan.memory.budget.budget import MemoryFlags
from cgplan.memory.by_release import memory_moves, moves_document
from cgplan.memory.plan import plan_of
from cgplan.memory.request import MemoryRequest
from cgplan.releases.gpus import gpu

NEMOTRON = "nvidia/NVIDIA-Nemotron-Nano-9B-v2"
HALF = MemoryRequest(MemoryFlags(0.5))


def deployment(model: str = "Qwen/Qwen3-8B", **more: Any) -> Deployment:
    return Deployment(model=load_model(model), gpu=gpu("h100"), **more)


def test_an_upgrade_that_ends_the_start() -> None:
    found = memory_moves(deployment(NEMOTRON), HALF, ("0.19.1", "0.20.2"))
    assert found is not None
    assert (found.first.fits, found.last.fits) == (True, False)
    assert [one.code for one in found.new] == ["CG501"]
    assert "--max-num-seqs" in (found.new[0].fix or "")
    assert "starts" in found.changed
    assert found.releases("starts") == ("0.20.2",)
    back = memory_moves(deployment(NEMOTRON), HALF, ("0.20.2", "0.19.1"))
    assert back is not None
    assert (back.changed, [one.code for one in back.gone]) == (found.changed, ["CG501"])
    assert back.releases("starts") == ("0.20.2",)
    enough = memory_moves(deployment(NEMOTRON), MemoryRequest(MemoryFlags(0.9)), ("0.19.1", "0.20.2"))
    assert enough is not None
    assert (enough.last.fits, "starts" in enough.changed) == (True, False)


def test_the_sides_say_what_a_plan_says() -> None:
    found = memory_moves(deployment(), MemoryRequest(), ("0.25.1", "0.26.0", "0.33.0"))
    assert found is not None
    for side in found.sides:
        made = plan_of(deployment(vllm=side.release), MemoryRequest())
        assert made.best.plan is not None
        assert made.budget is not None
        assert (side.starts, side.kv_tokens, side.block_size) == (
            made.starts, made.best.plan.tokens, made.best.plan.block_size
        )  # fmt: skip
        assert side.deducted_bytes == made.budget.tightest.deducted.best
        is_end = side.release != "0.26.0"
        assert side.max_num_seqs_that_fits == (made.max_num_seqs_that_fits if is_end else None)
    assert found.releases("max_num_seqs_that_fits") == ()


def test_a_release_and_itself() -> None:
    found = memory_moves(deployment(), MemoryRequest(), ("0.33.0",))
    assert found is not None
    assert (found.changed, found.new, found.gone) == ((), (), ())


def test_what_cannot_be_planned() -> None:
    path = ("0.32.0", "0.33.0")
    assert memory_moves(Deployment(model=ModelShape()), MemoryRequest(), path) is None
    cpu = deployment().model_copy(update={"gpu": gpu("h100").model_copy(update={"platform": "cpu"})})
    assert memory_moves(cpu, MemoryRequest(), path) is None


def test_a_release_that_refuses_the_line_is_a_finding() -> None:
    error = InputError("no such option", code="CG902", where="--x", fix="drop it")
    found = memory_moves(deployment(), MemoryRequest(), ("0.32.0", "0.33.0"), {"0.32.0": error})
    assert found is not None
    assert (found.first.starts, [one.code for one in found.gone]) == ("no", ["CG902"])
    assert found.last.fits


@pytest.mark.parametrize("auto_fit", [False, True])
def test_the_document(auto_fit: bool) -> None:
    length = {} if auto_fit else {"max_model_len": 4096}
    request = MemoryRequest(auto_fit=auto_fit)
    found = memory_moves(deployment(**length), request, ("0.28.0", "0.29.0"))
    assert found is not None
    written = moves_document(found)
    assert list(written) == ["from", "to", "changes", "causes", "new", "gone"]
    assert [one["field"] for one in written["changes"]] == list(found.changed)
    deducted = next(one for one in written["changes"] if one["field"] == "deducted_bytes")
    assert (deducted["before"], deducted["releases"]) == (0, ["0.29.0"])
    assert deducted["after"] > 0


def test_a_start_that_both_ends_refuse() -> None:
    found = memory_moves(deployment(NEMOTRON), MemoryRequest(MemoryFlags(0.4)), ("0.23.0", "0.24.0"))
    assert found is not None
    assert (found.ends_both, found.changed) == (("CG501",), ())
    half = memory_moves(deployment(NEMOTRON), HALF, ("0.19.1", "0.20.2"))
    assert half is not None
    assert half.ends_both == ()


def test_fewer_blocks_than_sequences_before_they_were_looked_at() -> None:
    found = memory_moves(deployment(NEMOTRON), HALF, ("0.19.1", "0.20.2"))
    assert found is not None
    assert found.first.made is not None
    assert found.first.made.best.plan is not None
    assert found.unchecked_blocks == found.first.made.best.plan.num_blocks
    for share, path in ((0.9, ("0.19.1", "0.20.2")), (0.4, ("0.20.2", "0.21.0"))):
        other = memory_moves(deployment(NEMOTRON), MemoryRequest(MemoryFlags(share)), path)
        assert other is not None
        assert other.unchecked_blocks is None


def test_tokens_are_counted_alike_at_both_ends() -> None:
    """The log of 0.19 has the tokens of one group of layers; laid beside those of 0.20 they would be a gain."""
    found = memory_moves(deployment(NEMOTRON), MemoryRequest(MemoryFlags(0.9)), ("0.19.1", "0.20.2"))
    assert found is not None
    first, last = found.first, found.last
    assert (first.counts_one_group, last.counts_one_group) == (True, False)
    assert first.kv_tokens is not None
    assert last.kv_tokens is not None
    assert first.full_length_tokens is not None
    assert first.kv_tokens < last.kv_tokens / 4
    assert first.full_length_tokens > last.kv_tokens == last.full_length_tokens
    assert found.codes_of("kv_tokens")[-1] == "CG581"
    dense = memory_moves(deployment(), MemoryRequest(), ("0.19.1", "0.20.2"))
    assert dense is not None
    assert not dense.first.counts_one_group
    assert "CG581" not in dense.codes_of("kv_tokens")


@pytest.mark.parametrize(
    ("flags", "keeps"),
    [
        (MemoryFlags(), "--gpu-memory-utilization 0.9"),
        (MemoryFlags(0.9), None),
        (MemoryFlags(None, 20 << 30), None),
    ],
)
def test_the_flag_that_keeps_the_share(flags: MemoryFlags, keeps: str | None) -> None:
    found = memory_moves(deployment(), MemoryRequest(flags), ("0.19.1", "0.20.2"))
    assert found is not None
    assert found.keeps == keeps
    written = {one["field"]: one["restore"] for one in moves_document(found)["changes"]}
    assert written.get("gpu_memory_utilization") == keeps


def test_what_ends_a_larger_number_of_sequences() -> None:
    found = memory_moves(deployment(NEMOTRON), HALF, ("0.19.1", "0.20.2"))
    assert found is not None
    assert found.last.max_num_seqs_that_fits is not None
    assert found.codes_of("max_num_seqs_that_fits") == ("CG501",)
