"""Images by their names."""

from __future__ import annotations

import pytest

from cgplan.inputs.launches.image import MODULE, SERVE, entrypoint_of, is_official, is_vllm_image, release_of


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("vllm/vllm-openai:v0.19.1", "0.19.1"),
        ("docker.io/vllm/vllm-openai:0.19.1-x86_64", "0.19.1"),
        ("vllm/vllm-openai-rocm:v0.20.2", "0.20.2"),
        ("public.ecr.aws/q9t3s3a7/vllm-release-repo:v0.21.0", "0.21.0"),
        ("registry:5000/vllm/vllm-openai:v0.22.1@sha256:abc", "0.22.1"),
        ("rocm/vllm:rocm7.0_ubuntu22.04_vllm_0.11.0", "0.11.0"),
        ("lmcache/vllm-openai:latest", None),
        ("vllm/vllm-openai:nightly", None),
        ("vllm/vllm-openai", None),
        ("registry:5000/vllm", None),
        ("ghcr.io/llm-d/llm-d-cuda:v0.4.0", None),
        ("nvcr.io/nvidia/vllm:25.09-py3", None),
        ("registry.example/scaler-vllm:1.1", None),
        ("registry.corp/ml/vllm:1.4.2-cuda", None),
        ("vllm/vllm-openai:v1.0.0", "1.0.0"),
        ("registry.corp/ml/vllm:0.30.0", "0.30.0"),
    ],
)
def test_releases(image: str, release: str | None) -> None:
    assert is_vllm_image(image)
    assert release_of(image) == release


@pytest.mark.parametrize(
    "image", ["redis", "python:3.11", "vllm/router:v1", "x/vllm-router:v1", "a/llm-d-inference-sim"]
)
def test_other_images(image: str) -> None:
    assert not is_vllm_image(image)
    assert release_of(image) is None
    assert entrypoint_of(image, None) == ()


def test_entrypoints() -> None:
    assert entrypoint_of("vllm/vllm-openai:v0.33.0", "0.33.0") == SERVE
    assert entrypoint_of("vllm/vllm-openai", None) == SERVE
    assert entrypoint_of("vllm/vllm-openai:v0.10.0", "0.10.0") == MODULE
    assert entrypoint_of("ghcr.io/llm-d/llm-d-cuda:v0.4.0", None) == ()


def test_official() -> None:
    assert is_official("vllm/vllm-openai-rocm:v0.20.2")
    assert not is_official("lmcache/vllm-openai:latest")
