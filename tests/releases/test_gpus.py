"""The GPU catalogue."""

from __future__ import annotations

import sys
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from cgplan import Gpu
from cgplan.errors import InputError
from cgplan.inputs import devices
from cgplan.memory.budget.non_torch import total_bytes
from cgplan.releases.gpus import (
    as_assumed,
    capability_of,
    gpu,
    gpu_names,
    gpu_of_capability,
    instead_of,
    known_as,
    records,
)

GIB = 2**30


@pytest.mark.parametrize(
    ("name", "driver_name", "capability", "gib", "sm_count"),
    [
        ("t4", "Tesla T4", (7, 5), 15, 40),
        ("v100-16", "Tesla V100-SXM2-16GB", (7, 0), 16, 80),
        ("v100-32", "Tesla V100-SXM2-32GB", (7, 0), 32, 80),
        ("a10", "NVIDIA A10", (8, 6), 22.5, 72),
        ("a10g", "NVIDIA A10G", (8, 6), 22.5, 80),
        ("a30", "NVIDIA A30", (8, 0), 24, 56),
        ("a40", "NVIDIA A40", (8, 6), 45, 84),
        ("a6000", "NVIDIA RTX A6000", (8, 6), 48, 84),
        ("l4", "NVIDIA L4", (8, 9), 22.5, 58),
        ("l40", "NVIDIA L40", (8, 9), 45, 142),
        ("l40s", "NVIDIA L40S", (8, 9), 45, 142),
        ("a100-40", "NVIDIA A100-SXM4-40GB", (8, 0), 40, 108),
        ("a100", "NVIDIA A100-SXM4-80GB", (8, 0), 80, 108),
        ("a100-pcie", "NVIDIA A100 80GB PCIe", (8, 0), 80, 108),
        ("a800", "NVIDIA A800-SXM4-80GB", (8, 0), 80, 108),
        ("rtx3090", "NVIDIA GeForce RTX 3090", (8, 6), 24, 82),
        ("rtx4090", "NVIDIA GeForce RTX 4090", (8, 9), 24, 128),
        ("rtx5090", "NVIDIA GeForce RTX 5090", (12, 0), 31.8, 170),
        ("rtx4090-laptop", "NVIDIA GeForce RTX 4090 Laptop GPU", (8, 9), 16, 76),
        ("rtx5080-laptop", "NVIDIA GeForce RTX 5080 Laptop GPU", (12, 0), 15.9, 60),
        ("rtx5090-laptop", "NVIDIA GeForce RTX 5090 Laptop GPU", (12, 0), 23.9, 82),
        ("rtx-pro-4500", "NVIDIA RTX PRO 4500 Blackwell", (12, 0), 31.9, 82),
        ("rtx6000-ada", "NVIDIA RTX 6000 Ada Generation", (8, 9), 48, 142),
        ("rtx-pro-6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition", (12, 0), 95.6, 188),
        ("h20", "NVIDIA H20", (9, 0), 95.6, 78),
        ("h100", "NVIDIA H100 80GB HBM3", (9, 0), 79.6, 132),
        ("h100-pcie", "NVIDIA H100 PCIe", (9, 0), 79.6, 114),
        ("h100-nvl", "NVIDIA H100 NVL", (9, 0), 93.6, 132),
        ("h800", "NVIDIA H800", (9, 0), 79.6, 132),
        ("h200", "NVIDIA H200", (9, 0), 140.4, 132),
        ("gh200", "NVIDIA GH200 480GB", (9, 0), 95.6, 132),
        ("b200", "NVIDIA B200", (10, 0), 179.1, 148),
        ("b300", "NVIDIA B300 SXM6 AC", (10, 3), 268.6, 148),
        ("gb200", "NVIDIA GB200", (10, 0), 185, 152),
        ("gb300", "NVIDIA GB300", (10, 3), 277.5, 152),
        ("gb10", "NVIDIA GB10", (12, 1), 119.7, 48),
    ],
)
def test_gpu(name: str, driver_name: str, capability: tuple[int, int], gib: float, sm_count: int) -> None:
    found = gpu(name)
    assert (found.name, found.capability, found.sm_count) == (driver_name, capability, sm_count)
    assert found.memory_bytes / GIB == pytest.approx(gib, abs=0.06)
    assert found.integrated is (name == "gb10")


def test_the_default_gpu_is_in_the_catalogue() -> None:
    assert gpu("h100") == Gpu()


@pytest.mark.parametrize("name", ["H100", "h-100", "nvidia h100", "NVIDIA H100 80GB HBM3", "h100 sxm", "H100_80GB"])
def test_spelling_does_not_count(name: str) -> None:
    assert gpu(name) == Gpu()


@pytest.mark.parametrize(
    ("name", "near"),
    [("h1000", "h100"), ("a1oo", "a100"), ("", "`cgplan gpus` lists"), ("zzzzzz", "`cgplan gpus` lists")],
)
def test_an_unknown_gpu_is_refused_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(InputError) as caught:
        gpu(name)
    assert caught.value.code == "CG904"
    assert near in (caught.value.fix or "")


def test_names_are_unique_and_the_entries_complete() -> None:
    entries = records()
    names = [name for entry in entries for name in (entry["name"], *entry["aliases"])]
    assert len({n.casefold() for n in names}) == len(names)
    assert [entry["aliases"][0] for entry in entries] == gpu_names()
    for entry in entries:
        assert entry["memory_source"]
        assert entry.get("cuda_memory_bytes", 0) <= entry["memory_bytes"]
        assert known_as(entry["name"]) == gpu(entry["aliases"][0])


def test_a_laptop_is_not_the_card_of_its_name() -> None:
    laptop, card = gpu("NVIDIA GeForce RTX 5090 Laptop GPU"), gpu("rtx5090")
    assert laptop.name != card.name
    assert laptop.memory_bytes < card.memory_bytes
    assert total_bytes(laptop).best / GIB == pytest.approx(22.36, abs=0.005)
    unseen = {entry["aliases"][0] for entry in records() if entry["memory_source"].startswith("by analogy")}
    assert {"rtx4090-laptop", "rtx5080-laptop", "rtx5090-laptop"} <= unseen
    assert "rtx5090" not in unseen


def test_vllm_finds_a100_in_the_names_of_a100() -> None:
    """vLLM's default limits look for "a100" in the device's name."""
    assert {e["aliases"][0] for e in records() if "a100" in e["name"].lower()} == {
        "a100-40",
        "a100-pcie-40",
        "a100",
        "a100-pcie",
    }


class _NvmlError(Exception):
    pass


def _nvml(**more: Any) -> ModuleType:
    """A driver with two L4."""
    module = ModuleType("pynvml")
    answers = {
        "NVMLError": _NvmlError,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda handle: "NVIDIA L4",
        "nvmlDeviceGetCudaComputeCapability": lambda handle: (8, 9),
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=24152899584),
        "nvmlDeviceGetNumGpuCores": lambda handle: 7424,
        **more,
    }
    for name, answer in answers.items():
        setattr(module, name, answer)
    return module


def _fail(*_: Any) -> Any:
    raise _NvmlError


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "DRIVER_NODES", ("/dev",))


def test_no_driver_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "DRIVER_NODES", ("/dev/no-such-node",))
    monkeypatch.setitem(sys.modules, "pynvml", _nvml())
    assert devices.detect() is None


def test_detect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", _nvml())
    assert devices.detect() == (gpu("l4"), 2)


def test_detect_asks_the_catalogue_for_what_nvml_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    unified = _nvml(
        nvmlDeviceGetName=lambda handle: b"NVIDIA GB10",
        nvmlDeviceGetCudaComputeCapability=lambda handle: (12, 1),
        nvmlDeviceGetMemoryInfo=_fail,
        nvmlDeviceGetNumGpuCores=_fail,
    )
    monkeypatch.setitem(sys.modules, "pynvml", unified)
    assert devices.detect() == (gpu("gb10"), 2)


@pytest.mark.parametrize(
    "broken", [{"nvmlInit": _fail}, {"nvmlDeviceGetCount": lambda: 0}, {"nvmlDeviceGetName": _fail}]
)
def test_no_driver_is_no_error(monkeypatch: pytest.MonkeyPatch, broken: dict[str, Any]) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", _nvml(**broken))
    assert devices.detect() is None


def test_no_pynvml_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert devices.detect() is None


def test_nobody_waits_for_a_sleeping_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "MOST_SECONDS", 0.05)
    monkeypatch.setitem(sys.modules, "pynvml", _nvml(nvmlInit=lambda: time.sleep(0.5)))
    start = time.perf_counter()
    assert devices.detect() is None
    assert time.perf_counter() - start < 0.4


class TestOfCapability:
    @pytest.mark.parametrize(
        ("name", "found"),
        [("sm90", (9, 0)), ("SM_120", (12, 0)), ("sm_90a", (9, 0)), ("9.0", (9, 0)), ("cc 8.9", (8, 9)),
         ("h100", None), ("90", None), ("sm", None), ("a100", None), ("l4", None)],
    )  # fmt: skip
    def test_names_that_are_capabilities(self, name: str, found: tuple[int, int] | None) -> None:
        assert capability_of(name) == found

    def test_the_nearest_by_memory_lends_its_multiprocessors(self) -> None:
        found = gpu_of_capability((12, 0), 24 * GIB)
        assert (found.capability, found.memory_bytes, found.integrated) == ((12, 0), 24 * GIB, False)
        assert found.sm_count == gpu("rtx5090-laptop").sm_count
        assert gpu_of_capability((12, 0), 96 * GIB).sm_count == gpu("rtx-pro-6000").sm_count

    def test_its_memory_is_taken_as_given(self) -> None:
        assert total_bytes(gpu_of_capability((9, 0), 48 * GIB)).best == 48 * GIB

    def test_what_is_assumed_is_said(self) -> None:
        assert "132 multiprocessors" in as_assumed(gpu_of_capability((9, 0), 48 * GIB))
        assert as_assumed(gpu("h100")) == ""

    def test_an_unknown_capability_is_refused(self) -> None:
        with pytest.raises(InputError, match=r"9\.1") as caught:
            gpu_of_capability((9, 1), GIB)
        assert "sm90" in str(caught.value.fix)

    @pytest.mark.parametrize(
        ("name", "size"), [("mi300x", "192GiB"), ("AMD Instinct MI325X", "256GiB"), ("mi355x", "288GiB")]
    )
    def test_amds_get_the_next_command(self, name: str, size: str) -> None:
        assert f"--gpu sm90 --gpu-memory-bytes {size}" in instead_of(name)
        assert "--gpu sm90 with --gpu-memory-bytes" in instead_of("gfx1100")
