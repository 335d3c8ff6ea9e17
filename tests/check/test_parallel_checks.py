from __future__ import annotations

from asked_lines import codes, mended, report, told

from cgplan.inputs.launches.launch import Hints

M = "Qwen/Qwen3-8B --max-num-seqs 64"


def test_idle_gpus() -> None:
    found = report(f"{M} -tp 2", hints=Hints(gpus=8)).diagnostics
    assert [(one.code, one.severity, one.message, one.flag) for one in found] == [
        ("CG650", "warning", "the container gets 8 GPUs and 2 are used", "--tensor-parallel-size 8")
    ]


def test_all_gpus_are_used() -> None:
    assert report(f"{M} -tp 8", hints=Hints(gpus=8)).diagnostics == ()
    assert report(f"{M} -tp 2 -dp 4", hints=Hints(gpus=8)).diagnostics == ()
    assert codes(M) == []


def test_too_few_gpus_do_not_start() -> None:
    found = report(f"{M} -tp 4", hints=Hints(gpus=2)).diagnostics
    assert [(one.code, one.severity, one.flag) for one in found] == [("CG605", "error", "--tensor-parallel-size 2")]
    assert (
        found[0].fix
        == "set --tensor-parallel-size 2, or give the server 4 GPUs; where more nodes take part, set --nnodes"
    )


def test_the_vocabulary_does_not_divide() -> None:
    line = "Qwen/Qwen3-14B --max-num-seqs 64 -tp 5"
    one = told(line, "CG615")
    assert one is not None
    assert (one.severity, one.flag) == ("error", "--tensor-parallel-size 4")
    assert codes(mended(line, "CG615")) == []
