from __future__ import annotations

from asked_lines import codes, mended, told

M = "Qwen/Qwen3-8B --enable-lora"


def test_more_adapters_than_requests() -> None:
    line = f"{M} --max-loras 8 --max-num-seqs 1 --specialize-active-lora"
    one = told(line, "CG450")
    assert one is not None
    assert one.message.startswith("12 of 18 graphs are captured for 2, 4, 8 and 9 active adapters (9 is max_loras + 1)")
    assert [related.message for related in one.related if not related.message] == []
    assert codes(line) == ["CG450 warning"]
    assert mended(line, "CG450") == f"{M} --max-loras 8 --max-num-seqs 1"


def test_as_many_requests_as_adapters() -> None:
    assert codes(f"{M} --max-loras 8 --max-num-seqs 64 --specialize-active-lora") == ["CG451 info"]


def test_plain_lora_is_quiet() -> None:
    assert codes(f"{M} --max-loras 8 --max-num-seqs 64") == []
    assert told("Qwen/Qwen3-8B --max-num-seqs 1", "CG450") is None


def test_how_many_sets() -> None:
    one = told(f"{M} --max-loras 4 --max-num-seqs 64 --specialize-active-lora", "CG451")
    assert one is not None
    assert "1, 2, 4 and 5 active adapters" in one.message
