"""Stand-ins for what a source distribution lacks: compiled extensions and packages that need a GPU.

Everything here answers as an official CUDA wheel would be asked about, never as it would compute: a call of a
stand-in is an error.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import re
import sys
import types
from collections.abc import Sequence
from typing import Any

MISSING = re.compile(
    r"vllm\.(vllm_flash_attn\.)?_\w*C(_stable_libtorch)?"  # compiled extensions
    r"|vllm\.third_party\.flashmla(\.\w+)*"
    r"|flashinfer(\..+)?"
    r"|diskcache"  # 0.19 imports it for a cache that is never filled here
)

# A few extensions are asked at configuration time what the GPU can do; the first capability that can.
CAN_DO = {
    "cutlass_scaled_mm_supports_fp8": 89,
    "cutlass_scaled_mm_supports_block_fp8": 90,
    "cutlass_group_gemm_supported": 90,
    "cutlass_scaled_mm_supports_fp4": 100,
    "mxfp4_experts_quant_supported": 100,
}

OP_NAMESPACES = {"_C", "_C_cache_ops", "_moe_C", "_C_custom_ar"}


def _refuse(name: str) -> Any:
    def called(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"stand-in {name} was called")

    return called


class _AnyMethod(type):
    """Classes whose every attribute exists; vLLM looks at them and calls none."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _refuse(f"{cls.__name__}.{name}")


def _attribute(module: types.ModuleType, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    made = _AnyMethod(name, (), {}) if name[0].isupper() else _refuse(f"{module.__name__}.{name}")
    setattr(module, name, made)
    return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes the missing modules; it stands last, so that a real one wins."""

    def __init__(self) -> None:
        self.made: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if MISSING.fullmatch(fullname):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        module.__path__ = []
        self.made.add(spec.name)
        if not spec.name.startswith("vllm.") or "flashmla" in spec.name:
            module.__getattr__ = lambda name: _attribute(module, name)  # type: ignore[method-assign]
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run."""


class _Op:
    """An op of an extension; only its identity is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _Op(f"{self._name}.{name}")
        setattr(self, name, made)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"stand-in op {self._name} was called")


def install_modules() -> Finder:
    """Stand-in modules, from now on."""
    finder = Finder()
    sys.meta_path.append(finder)
    return finder


def install_capability_ops(torch: Any) -> list[Any]:
    """The ops that answer by compute capability. The libraries returned must be kept alive."""
    compiled = torch.library.Library("_C", "FRAGMENT")
    for name, first in CAN_DO.items():
        compiled.define(f"{name}(int cuda_device_capability) -> bool")
        compiled.impl(name, lambda capability, first=first: capability >= first, "CompositeExplicitAutograd")
    # Importing torchvision registers against an op that a CPU build of another torch may not have.
    vision = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        vision.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return [compiled, vision]


def install_missing_ops() -> None:
    """Inert ops for the rest. Only after vLLM's modules are imported: some of them ask whether an op exists."""
    from torch import _ops

    namespace: Any = _ops._OpNamespace
    found = namespace.__getattr__

    def attribute(self: Any, name: str) -> Any:
        try:
            return found(self, name)
        except AttributeError:
            if name.startswith("__") or self.name not in OP_NAMESPACES:
                raise
            made = _Op(f"{self.name}.{name}")
            setattr(self, name, made)
            return made

    namespace.__getattr__ = attribute
