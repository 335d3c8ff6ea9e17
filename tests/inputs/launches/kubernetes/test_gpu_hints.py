"""Labels, resources and tags as hints, and only where they leave no doubt."""

from __future__ import annotations

import pytest

from cgplan.inputs.launches.kubernetes.gpu_hints import hints_of, image_of, label_gpu
from cgplan.inputs.launches.kubernetes.gpu_labels import (
    _ACCELERATORS,
    _FAMILIES,
    _GPU_NAMES,
    _INSTANCES,
    _PRODUCTS,
    gpu_of_label,
)
from cgplan.inputs.launches.launch import Source
from cgplan.inputs.launches.yaml_nodes import Mapping, Node, documents
from cgplan.releases.gpus import known_as


def node(text: str) -> Node:
    return documents(Source("f", text))[0][0]


def part(text: str, key: str) -> Node | None:
    found = node(text)
    assert isinstance(found, Mapping)
    return found.get(key)


PRODUCT, INSTANCE = "nvidia.com/gpu.product", "node.kubernetes.io/instance-type"


@pytest.mark.parametrize(
    ("key", "value", "gpu"),
    [
        (PRODUCT, "NVIDIA-H100-80GB-HBM3", "NVIDIA H100 80GB HBM3"),
        (PRODUCT, "NVIDIA-A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"),
        (PRODUCT, "A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB"),
        (PRODUCT, "NVIDIA-A10G-SHARED", "NVIDIA A10G"),
        (PRODUCT, "Tesla-T4", "Tesla T4"),
        (PRODUCT, "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", None),
        (PRODUCT, "NVIDIA-X1", None),
        (PRODUCT, "A100", None),
        ("gpu.nvidia.com/class", "A100_NVLINK_80GB", "NVIDIA A100-SXM4-80GB"),
        ("gpu.nvidia.com/class", "H200", "NVIDIA H200"),
        ("cloud.google.com/gke-accelerator", "nvidia-tesla-a100", "NVIDIA A100-SXM4-40GB"),
        ("cloud.google.com/gke-accelerator", "nvidia-l4", "NVIDIA L4"),
        ("cloud.google.com/gke-accelerator", "nvidia-tesla-p4", None),
        ("karpenter.k8s.aws/instance-gpu-name", "l40s", "NVIDIA L40S"),
        ("karpenter.k8s.aws/instance-gpu-name", "a100", None),
        ("karpenter.k8s.aws/instance-family", "p5en", "NVIDIA H200"),
        (INSTANCE, "p5.48xlarge", "NVIDIA H100 80GB HBM3"),
        (INSTANCE, "p4d.24xlarge", "NVIDIA A100-SXM4-40GB"),
        (INSTANCE, "g6f.xlarge", None),
        (INSTANCE, "m5.large", None),
        (INSTANCE, "a3-highgpu-8g", "NVIDIA H100 80GB HBM3"),
        (INSTANCE, "Standard_ND96isr_H100_v5", "NVIDIA H100 80GB HBM3"),
        (INSTANCE, "Standard_NC40ads_H100_v5", "NVIDIA H100 NVL"),
        (INSTANCE, "Standard_NC80adis_H100_v5", "NVIDIA H100 NVL"),
        (INSTANCE, "Standard_NV6ads_A10_v5", None),
        (INSTANCE, "Standard_ND96isr_MI300X_v5", None),
        ("color", "NVIDIA-L4", None),
        (INSTANCE, "g5." + "x" * 5000, None),
    ],
)
def test_labels(key: str, value: str, gpu: str | None) -> None:
    assert gpu_of_label(key, value) == gpu


def test_every_name_of_the_tables_is_in_the_catalogue() -> None:
    names = [*_ACCELERATORS.values(), *_FAMILIES.values(), *_GPU_NAMES.values(), *_PRODUCTS.values()]
    names += [gpu for _, gpu in _INSTANCES]
    assert [name for name in names if known_as(name) is None] == []


def terms(*values: str) -> str:
    text = "".join(f"- matchExpressions: [{{key: {PRODUCT}, operator: In, values: {one}}}]\n" for one in values)
    lines = "".join(f"      {line}\n" for line in text.splitlines())
    return (
        f"affinity:\n  nodeAffinity:\n    requiredDuringSchedulingIgnoredDuringExecution:\n"
        f"      nodeSelectorTerms:\n{lines}"
    )


@pytest.mark.parametrize(
    ("pod", "gpu"),
    [
        (f"nodeSelector: {{{PRODUCT}: NVIDIA-L4, zone: a}}", "NVIDIA L4"),
        (f"nodeSelector: {{{PRODUCT}: NVIDIA-L4, {INSTANCE}: g6.xlarge}}", "NVIDIA L4"),
        (f"nodeSelector: {{{PRODUCT}: NVIDIA-L4, {INSTANCE}: g5.xlarge}}", None),
        (terms("[NVIDIA-L4]"), "NVIDIA L4"),
        (terms("[NVIDIA-L4, NVIDIA-L40S]"), None),
        (terms("[NVIDIA-L4]", "[NVIDIA-L4]"), "NVIDIA L4"),
        (terms("[NVIDIA-L4]", "[NVIDIA-L40S]"), None),
        (terms("[NVIDIA-L4]", "[unknown]"), None),
        (terms("[NVIDIA-L4]").replace("In,", "NotIn,"), None),
        (terms("[NVIDIA-L4]").replace("required", "preferred"), None),
        ("a: 1", None),
    ],
)
def test_the_gpu_of_a_pod(pod: str, gpu: str | None) -> None:
    hints, _ = hints_of(None, None, [node(pod)])
    assert hints.gpu == gpu
    assert (hints.gpu_span is None) == (gpu is None)


@pytest.mark.parametrize(
    ("resources", "gpus", "kinds"),
    [
        ("limits: {nvidia.com/gpu: 4}", 4, []),
        ("limits: {nvidia.com/gpu: '8'}", 8, []),
        ("requests: {nvidia.com/gpu: 2}", 2, []),
        ("nvidia.com/gpu: 1", 1, []),
        ("limits: {nvidia.com/gpu: 0}", None, []),
        ("limits: {nvidia.com/gpu: x}", None, []),
        ("limits: {cpu: 4}", None, []),
        ("limits: {nvidia.com/mig-1g.10gb: 1}", None, ["not_read"]),
        ("limits: {amd.com/gpu: 1}", None, ["not_nvidia"]),
        ("limits: {google.com/tpu: '4'}\nrequests: {google.com/tpu: '4'}", None, ["not_nvidia"]),
    ],
)
def test_gpus_and_other_devices(resources: str, gpus: int | None, kinds: list[str]) -> None:
    hints, remarks = hints_of(None, node(resources), [])
    assert hints.gpus == gpus
    assert [one.kind for one in remarks] == kinds


@pytest.mark.parametrize(
    ("image", "name", "release", "written"),
    [
        ("vllm/vllm-openai:v0.25.1", "vllm/vllm-openai:v0.25.1", "0.25.1", "v0.25.1"),
        ("r.test:5000/vllm/vllm:v0.25.1@sha256:ab", "r.test:5000/vllm/vllm:v0.25.1@sha256:ab", "0.25.1", "v0.25.1"),
        ("vllm/vllm-openai", "vllm/vllm-openai", None, None),
        ("nginx:v1.2.3", "nginx:v1.2.3", None, None),
        ("{repository: vllm/vllm-openai, tag: v0.25.1}", "vllm/vllm-openai:v0.25.1", "0.25.1", "v0.25.1"),
        ("{registry: r.test, repository: a/vllm, tag: '0.25.1'}", "r.test/a/vllm:0.25.1", "0.25.1", "'0.25.1'"),
        ("{repository: a/vllm}", "a/vllm", None, None),
    ],
)
def test_images(image: str, name: str, release: str | None, written: str | None) -> None:
    text = f"image: {image}"
    found = image_of(part(text, "image"))
    assert found is not None
    assert (found.name, found.release) == (name, release)
    if written is not None:
        assert found.release_span is not None
        assert text[found.release_span.start : found.release_span.end] == written


def test_no_image() -> None:
    for text in ("image:", "image: {}", "image: [a]", "image: {tag: x}", "other: x"):
        assert image_of(part(text, "image")) is None


def test_labels_of_a_chart() -> None:
    text = "labelKey: nvidia.com/gpu.product\nlabelValues: [NVIDIA-L4]\nboth: [NVIDIA-L4, NVIDIA-L40S]\n"
    found = label_gpu(part(text, "labelKey"), part(text, "labelValues"))
    assert found is not None
    assert found[0] == "NVIDIA L4"
    assert label_gpu(part(text, "labelKey"), part(text, "both")) is None
    assert label_gpu(None, None) is None
