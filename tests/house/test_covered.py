"""The share of the core that tests run, as `.ci/coverage` reads it off a report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from house import core, covered, imports


def file(run: int, lines: int, branches_run: int = 0, branches: int = 0) -> dict[str, Any]:
    return {
        "summary": {
            "covered_lines": run,
            "num_statements": lines,
            "covered_branches": branches_run,
            "num_branches": branches,
        }
    }


def report(**shares: tuple[int, int, int, int]) -> dict[str, Any]:
    """A report with the same share for each module of the core, and others by path."""
    names = {imports.modules()[module].relative_to(imports.ROOT).as_posix() for module in core.counted()}
    of_core = shares.pop("core")
    return {"files": {name: file(*of_core) for name in names} | {"cli/app.py": file(0, 1000, 0, 100)}}


@pytest.mark.parametrize(
    ("share", "status"),
    [((95, 100, 90, 100), 0), ((94, 100, 100, 100), 1), ((100, 100, 89, 100), 1), ((100, 100, 0, 0), 0)],
)
def test_the_core_is_held_to_both_limits_and_nothing_else_is(
    tmp_path: Path, share: tuple[int, int, int, int], status: int
) -> None:
    path = tmp_path / "coverage.json"
    path.write_text(json.dumps(report(core=share)))
    assert covered.main([str(path)]) == status


def test_a_report_without_the_core_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "coverage.json"
    path.write_text(json.dumps({"files": {"cli/app.py": file(1, 1)}}))
    assert covered.main([str(path)]) == 1


def test_the_core_holds_the_rules_and_no_module_that_drives_a_gpu() -> None:
    counted = set(core.counted())
    assert {"cgplan.resolve.settle", "cgplan.memory.plan", "cgplan.check.sizes", "cgplan.errors"} <= counted
    assert not counted & {
        "cgplan.memory.profile.measure",
        "cgplan.sweep.on_ray",
        "cgplan.cli.app",
        "cgplan.report.text",
    }
