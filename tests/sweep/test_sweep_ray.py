"""The same chunks on a local Ray of two workers; one of them is ended midway, and nothing is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from sweep_helpers import BASE, grid

from cgplan.errors import InputError
from cgplan.sweep import on_ray
from cgplan.sweep.evaluate import Evaluator

DOCUMENT = {"base": BASE, "grid": {"max_num_seqs": list(range(1, 601)), "tp": [1, 2]}}


def workers_of(root: int) -> list[int]:
    """Processes of Ray that work on tasks, among the descendants of a process."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                names[int(entry.name)] = (entry / "cmdline").read_text(errors="replace")
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue

    def descends(pid: int) -> bool:
        while pid in parents:
            pid = parents[pid]
            if pid == root:
                return True
        return False

    return [pid for pid, name in names.items() if name.startswith("ray::work_on") and descends(pid)]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_worker_that_is_ended_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="ray is not installed: pip install 'cgplan[ray]'")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    found = grid(DOCUMENT)
    numbers = list(found.numbers())
    chunks = [numbers[at : at + 25] for at in range(0, len(numbers), 25)]
    lines: list[str] = []
    ended: list[int] = []
    for some in on_ray.run_on_ray(found, chunks, "local", 2):
        lines += some
        if not ended:
            ended = workers_of(os.getpid())[:1]
            for pid in ended:
                os.kill(pid, signal.SIGKILL)
    assert ended, "no worker was at work"
    assert sorted(lines) == sorted(Evaluator(found).lines(numbers))


def test_without_ray_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(InputError) as caught:
        list(on_ray.run_on_ray(grid(DOCUMENT), [[0]], "local", 2))
    assert (caught.value.code, caught.value.fix) == ("CG738", "pip install 'cgplan[ray]'")


def test_an_address_of_nobody() -> None:
    pytest.importorskip("ray", reason="ray is not installed: pip install 'cgplan[ray]'")
    with pytest.raises(InputError) as caught:
        list(on_ray.run_on_ray(grid(DOCUMENT), [[0]], "127.0.0.1:1", 2))
    assert caught.value.code == "CG738"
