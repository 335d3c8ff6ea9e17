"""Labels by which clouds and Kubernetes name a GPU, as names of the GPU catalogue.

Only labels that leave no doubt: an instance type that is sold with two kinds of GPU, or with a slice of one, is not
here.
"""

from __future__ import annotations

import re

from ....releases.gpus import known_as

_PRODUCT = ("nvidia.com/gpu.product", "nvidia.com/gpu.model", "gpu.nvidia.com/model", "gpu.nvidia.com/class")
_ACCELERATOR = ("cloud.google.com/gke-accelerator", "run.googleapis.com/accelerator", "k8s.amazonaws.com/accelerator")
_INSTANCE = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "karpenter.k8s.aws/instance-type")
_FAMILY = ("karpenter.k8s.aws/instance-family", "cloud.google.com/machine-family", "eks.amazonaws.com/instance-family")
_GPU_NAME = ("karpenter.k8s.aws/instance-gpu-name", "eks.amazonaws.com/instance-gpu-name")

_PRODUCTS = {
    "h100nvlink80gb": "h100",
    "a100nvlink80gb": "a100-80",
    "a100nvlink": "a100-40",
    "a100pcie40gb": "a100-pcie-40",
    "a100pcie80gb": "a100-pcie",
    "rtxa6000": "a6000",
    "h100hbm3": "h100",
}
"""Values of product labels besides the names of the catalogue, folded."""

_DOUBTFUL = ("a100", "v100", "nvidia-a100", "nvidia-v100", "tesla-v100")
"""Names that stand for memories of two sizes."""

_ACCELERATORS = {
    "nvidia-tesla-t4": "t4",
    "nvidia-tesla-v100": "v100-16",
    "nvidia-tesla-a100": "a100-40",
    "nvidia-a100-80gb": "a100-80",
    "nvidia-l4": "l4",
    "nvidia-h100-80gb": "h100",
    "nvidia-h100-mega-80gb": "h100",
    "nvidia-h200-141gb": "h200",
    "nvidia-b200": "b200",
    "nvidia-gb200": "gb200",
    "nvidia-rtx-pro-6000": "rtx-pro-6000",
}

_GPU_NAMES = {"t4": "t4", "a10g": "a10g", "l4": "l4", "l40s": "l40s", "h100": "h100", "h200": "h200", "b200": "b200"}
"""As Karpenter says them; its a100 and v100 come with memories of two sizes."""

_INSTANCES = tuple(
    (re.compile(pattern, re.IGNORECASE), gpu)
    for pattern, gpu in (
        # AWS
        (r"p3\.(2|8|16)xlarge", "v100-16"),
        (r"p3dn\.24xlarge", "v100-32"),
        (r"p4d\.24xlarge", "a100-40"),
        (r"p4de\.24xlarge", "a100-80"),
        (r"p5\.(4|48)xlarge", "h100"),
        (r"p5en?\.48xlarge", "h200"),
        (r"p6-b200\.48xlarge", "b200"),
        (r"p6-b300\.48xlarge", "b300"),
        (r"p6e-gb200\.36xlarge", "gb200"),
        (r"g4dn\.\w+", "t4"),
        (r"g5\.\w+", "a10g"),
        (r"g6\.\w+", "l4"),
        (r"gr6\.\w+", "l4"),
        (r"g6e\.\w+", "l40s"),
        (r"g7e\.\w+", "rtx-pro-6000"),
        # Google Cloud
        (r"a2-(high|mega)gpu-\d+g", "a100-40"),
        (r"a2-ultragpu-\d+g", "a100-80"),
        (r"a3-(high|mega|edge)gpu-\d+g(-nolssd)?", "h100"),
        (r"a3-ultragpu-\d+g(-nolssd)?", "h200"),
        (r"a4-highgpu-\d+g", "b200"),
        (r"a4x-highgpu-\d+g", "gb200"),
        (r"g2-standard-\d+", "l4"),
        # Azure
        (r"Standard_NC\d+as_T4_v3", "t4"),
        (r"Standard_NC\d+ads_A100_v4", "a100-pcie"),
        (r"Standard_ND96asr_v4", "a100-40"),
        (r"Standard_ND96amsr_A100_v4", "a100-80"),
        (r"Standard_NCC?\d+adi?s_H100_v5", "h100-nvl"),
        (r"Standard_ND96isr_H100_v5", "h100"),
        (r"Standard_ND96isr_H200_v5", "h200"),
        (r"Standard_ND128isr_(NDR_)?GB200_v6", "gb200"),
        (r"Standard_ND128isr_(NDR_)?GB300_v6", "gb300"),
        # Oracle
        (r"(BM|VM)\.GPU\.A10\.\d", "a10"),
        (r"BM\.GPU4\.8", "a100-40"),
        (r"BM\.GPU\.A100-v2\.8", "a100-80"),
        (r"BM\.GPU\.L40S\.4", "l40s"),
        (r"BM\.GPU\.H100\.8", "h100"),
        (r"BM\.GPU\.H200\.8", "h200"),
        (r"BM\.GPU\.B200\.8", "b200"),
        (r"BM\.GPU\.GB200\.4", "gb200"),
    )
)

_FAMILIES = {
    "p4d": "a100-40",
    "p4de": "a100-80",
    "p5": "h100",
    "p5e": "h200",
    "p5en": "h200",
    "p6-b200": "b200",
    "g4dn": "t4",
    "g5": "a10g",
    "g6": "l4",
    "g6e": "l40s",
    "g2": "l4",
}

_MAX_VALUE = 100


def gpu_of_label(key: str, value: str) -> str | None:
    """The catalogue's name of the GPU that a node with this label has; None where the label leaves doubt."""
    if len(value) > _MAX_VALUE:
        return None
    if key in _PRODUCT:
        return _product(value)
    if key in _ACCELERATOR:
        return _named(_ACCELERATORS.get(value.lower()))
    if key in _GPU_NAME:
        return _named(_GPU_NAMES.get(value.lower()))
    if key in _INSTANCE:
        return _named(next((gpu for pattern, gpu in _INSTANCES if pattern.fullmatch(value)), None))
    if key in _FAMILY:
        return _named(_FAMILIES.get(value.lower()))
    return None


def _product(value: str) -> str | None:
    if "mig" in value.lower().replace("-", "_").split("_"):
        return None
    plain = re.sub(r"-SHARED$", "", value, flags=re.IGNORECASE)
    known = known_as(plain)
    if known is not None and plain.lower() not in _DOUBTFUL:
        return known.name
    return _named(_PRODUCTS.get(re.sub(r"[-_ ]|nvidia", "", plain.lower())))


def _named(alias: str | None) -> str | None:
    known = known_as(alias) if alias is not None else None
    return known.name if known is not None else None
