"""vLLM's spellings are turned into plain ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan.cli.argv import normalise
from cgplan.errors import InputError


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ("--max_num_seqs 8", ["--max-num-seqs", "8"]),
        ("--max_num_seqs=8", ["--max-num-seqs=8"]),
        ("-O3", ["--optimization-level=3"]),
        ("-O 3", ["--optimization-level=3"]),
        ("-O=3", ["--optimization-level=3"]),
        ("-O", ["--optimization-level"]),
        ("--optimization-level 2", ["--optimization-level", "2"]),
        ("-tp 2", ["-tp", "2"]),
        ("-tp=2", ["-tp=2"]),
        ("--cudagraph-capture-sizes 1 2 4 -tp 2", ["--cudagraph-capture-sizes=1,2,4", "-tp", "2"]),
        ("--cudagraph_capture_sizes 1,2 4", ["--cudagraph-capture-sizes=1,2,4"]),
        ("--cudagraph-capture-sizes=1,2 model", ["--cudagraph-capture-sizes=1,2", "model"]),
        ("--cudagraph-capture-sizes -1 2", ["--cudagraph-capture-sizes=-1,2"]),
        ("--batch 7 --json", ["--batch=7", "--json"]),
        ("--batch", ["--batch"]),
        ("--batch 7 100 deploy.yaml", ["--batch=7,100", "deploy.yaml"]),
        ("--batch 7 -", ["--batch=7", "-"]),
        ("--batch 7 x", ["--batch=7,x"]),
        ("--batch 25.6k 1.5", ["--batch=25.6k,1.5"]),
        ("-cc.mode=3", ['--compilation-config={"mode": 3}']),
        ("-cc.mode 3", ['--compilation-config={"mode": 3}']),
        ("--compilation-config.mode=3", ['--compilation-config={"mode": 3}']),
        ("--compilation_config.cudagraph_mode=FULL", ['--compilation-config={"cudagraph_mode": "FULL"}']),
        ("-cc.cudagraph_capture_sizes=[1,2]", ['--compilation-config={"cudagraph_capture_sizes": [1, 2]}']),
        (
            "-cc.pass_config.fuse_norm_quant=true",
            ['--compilation-config={"pass_config": {"fuse_norm_quant": true}}'],
        ),
        ("-cc.custom_ops+=none,+rms_norm", ['--compilation-config={"custom_ops+": ["none", "+rms_norm"]}']),
        ("-ac.backend=FLASHINFER", ['--attention-config={"backend": "FLASHINFER"}']),
        ("-sc.method ngram", ['--speculative-config={"method": "ngram"}']),
        ("--batch 1, 2 ,4", ["--batch=1,2,4"]),
        ("--batch 1,, 2", ["--batch=1,,2"]),
        ("--model a -- -O3", ["--model", "a", "--", "-O3"]),
        ("", []),
    ],
)
def test_spellings(given_: str, expected: list[str]) -> None:
    assert normalise(given_.split()) == expected


def test_a_value_with_an_equals_sign_stays_whole() -> None:
    assert normalise(["--env", "A=B=C", "--env=A=B"]) == ["--env", "A=B=C", "--env=A=B"]


@pytest.mark.parametrize(
    ("line", "code", "hint"),
    [
        ("-cc.mode", "CG905", "-cc.mode=VALUE"),
        ("-cc.mode --json", "CG905", "-cc.mode=VALUE"),
        ("-ac.backend=", "CG906", "drop -ac.backend"),
        ("-ccmode=3", "CG905", "did you mean -cc.mode?"),
        ("-scmethod ngram", "CG905", "did you mean -sc.method?"),
    ],
)
def test_half_written_keys_are_refused(line: str, code: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        normalise(line.split())
    assert caught.value.code == code
    assert hint in (caught.value.fix or "")


def test_endless_keys_are_refused() -> None:
    with pytest.raises(InputError, match="nested keys"):
        normalise(["-cc" + ".a" * 100_000 + "=1"])


@given(st.lists(st.text(max_size=12), max_size=8))
def test_is_idempotent_and_never_fails(argv: list[str]) -> None:
    try:
        once = normalise(argv)
    except InputError:
        return
    if "--" not in argv and not any(token.startswith("-O") for token in argv):
        assert normalise(once) == once
