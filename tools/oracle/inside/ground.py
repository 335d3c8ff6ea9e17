"""What every process of a release shares: environment variables, stand-ins, and packages that know of no GPU.

Importing vLLM's dependencies takes three quarters of a start. They are imported once; the process is then copied for
each compute capability, and only the copies import vLLM itself.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from pathlib import Path
from typing import Any

from oracle.inside.stand_ins import install_capability_ops, install_modules

# The slowest of what vLLM imports. One that a release does not need, or that is not installed, does no harm.
SLOW = (
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "torch._inductor.lowering",
    "torch.distributed.tensor",
    "torchvision",
    "transformers",
    "transformers.modeling_utils",
    "transformers.models.auto.modeling_auto",
    "transformers.processing_utils",
    "triton",
    "triton.language",
    "openai.types.chat",
    "openai.types.responses",
    "openai_harmony",
    "aiohttp",
    "fastapi",
    "xgrammar",
    "cv2",
    "networkx",
    "sympy",
    "scipy.optimize",
    "numba",
    "gguf",
)


class Ground:
    """A process that is ready to import vLLM."""

    def __init__(self, sources: Path, release: str, workdir: Path) -> None:
        self.release = release
        self.workdir = workdir
        _set_environment(workdir, release)
        sys.path[:0] = [str(sources), str(_distribution(workdir, release))]
        self.finder = install_modules()
        import torch

        self.torch: Any = torch
        self._libraries = install_capability_ops(torch)
        for name in SLOW:
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def _set_environment(workdir: Path, release: str) -> None:
    for name in [name for name in os.environ if name.startswith("VLLM_")]:
        del os.environ[name]
    os.environ.update(
        CUDA_VISIBLE_DEVICES="",  # with no driver at all, vLLM would switch Triton off
        VLLM_HAS_FLASHINFER_CUBIN="1",
        VLLM_CONFIGURE_LOGGING="0",
        VLLM_NO_USAGE_STATS="1",
        DO_NOT_TRACK="1",
        HF_HUB_OFFLINE="1",
        TRANSFORMERS_OFFLINE="1",
        TOKENIZERS_PARALLELISM="false",
        VLLM_CACHE_ROOT=str(workdir / f"cache-{release}"),
        HF_HOME=str(workdir / "hf-home"),
    )


def _distribution(workdir: Path, release: str) -> Path:
    """A folder with metadata of an installed vLLM; the sources are only unpacked."""
    folder = workdir / f"metadata-{release}"
    info = folder / f"vllm-{release}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {release}\n", encoding="utf-8")
    return folder
