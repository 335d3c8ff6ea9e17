"""tools/accuracy reads what `cgplan logs --save` writes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from cgplan.cli.app import run

FOLDER = ROOT / "tools" / "accuracy"


def test_a_saved_record_is_held_against_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("runs", "kv_cache", "components", "page"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    path = tmp_path / "measured.json"
    assert run(["logs", str(ROOT / "fixtures" / "logs" / "A01.txt"), "--gpu", "h100", "--save", str(path)]) == 0
    from components import COMPONENTS, errors  # type: ignore[import-not-found]
    from runs import own_run  # type: ignore[import-not-found]

    own = own_run(path)
    assert own.record["weights"] == json.loads(path.read_text(encoding="utf-8"))["measured"]["weights_bytes"]
    found = {one.name: errors(one, [own]) for one in COMPONENTS}
    assert len(found["weights"]) == 1
    assert abs(found["weights"][0].error) < 0.01
    assert abs(found["CUDA graphs, what capture takes"][0].error) < 0.1
    assert found["KV cache"] == []
    capsys.readouterr()
