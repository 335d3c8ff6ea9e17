"""Container images of vLLM: which release their tag names, and the command they start."""

from __future__ import annotations

import re

SERVE = ("vllm", "serve")
MODULE = ("python3", "-m", "vllm.entrypoints.openai.api_server")

MAX_NAME = 1000
"""Characters of a name that are looked at; registries take some 300."""
SERVE_SINCE = (0, 11, 1)
"""First release whose image starts `vllm serve`; those before start the module."""

_TAG = re.compile(r"(?:^|[-_])v?(\d{1,3})\.(\d{1,3})(?:\.(\d{1,3}))?(?:\.?post\d+|rc\d+)?(?=$|[-_+])")
_NUMBERED_AS_VLLM = re.compile(
    r"vllm(?:[-_](?:openai|dev|cuda|rocm|cpu|gpu|xpu|tpu|serve|server|arm64|nightly|release))*(?:-repo)?"
)
"""Last parts of names whose tags are those of vLLM; `scaler-vllm` has a number of its own."""
_NO_ENTRYPOINT = ("llm-d", "rocm/vllm", "nvcr.io", "intelanalytics", "aibrix")
"""Parts of the names of images that start no server by themselves."""

_LLM_D = ("cuda", "aws", "gb200", "hpu", "rocm", "xpu", "cpu")
_OTHERS = (
    "router", "exporter", "benchmark", "bench", "stack", "simulator", "sim", "proxy", "gateway", "dynamo", "operator",
)  # fmt: skip
"""Last parts of names of images that run beside vLLM, not as it."""


def is_vllm_image(image: str) -> bool:
    """Whether the image holds vLLM, by its name: its last part has "vllm", or it is one of llm-d."""
    name = _name(image)
    last = name.rpartition("/")[2]
    words = re.split(r"[-_.]", last)
    if any(word in _OTHERS for word in words):
        return False
    return "vllm" in last or (last.startswith("llm-d-") and words[-1] in _LLM_D)


def is_official(image: str) -> bool:
    """Whether it is an image that vLLM itself publishes."""
    return re.search(r"(?:^|/)vllm/vllm-openai(?:-[a-z0-9]+)*$|(?:^|/)q9t3s3a7/vllm-", _name(image)) is not None


def release_of(image: str) -> str | None:
    """The release of vLLM that the tag names, "0.19.1"; None for `latest`, a commit, and other people's numbers."""
    if not is_vllm_image(image):
        return None
    name = _name(image)
    last = name.rpartition("/")[2]
    tag = _tag(image)
    if last.startswith("llm-d-") or "nvcr.io" in name:
        return None  # numbered by themselves
    named = re.search(r"vllm[-_]?v?(\d+\.\d+\.\d+)", tag)
    if named is not None:
        return named[1]
    found = _TAG.search(tag) if _NUMBERED_AS_VLLM.fullmatch(last) else None
    if found is None:
        return None
    release = f"{found[1]}.{found[2]}.{found[3] or '0'}"
    # 25.06-py3 is a month; 1.4.2 of one's own image is a number of its own, as vLLM has had no 1.x.
    return release if int(found[1]) < (20 if is_official(image) else 1) else None


def entrypoint_of(image: str, release: str | None) -> tuple[str, ...]:
    """The words that the image puts before its arguments; () where it starts no server by itself."""
    name = _name(image)
    if not is_vllm_image(image) or any(part in name for part in _NO_ENTRYPOINT):
        return ()
    if release is not None:
        numbers = tuple(int(part) for part in release.split(".")[:3] if part.isdigit())
        if len(numbers) == 3 and numbers < SERVE_SINCE:
            return MODULE
    return SERVE


def _name(image: str) -> str:
    """The image without tag and digest."""
    name = image[:MAX_NAME].partition("@")[0]
    head, colon, tail = name.rpartition(":")
    return (head if colon and "/" not in tail else name).lower()


def _tag(image: str) -> str:
    name = image[:MAX_NAME].partition("@")[0]
    _, colon, tail = name.rpartition(":")
    return tail if colon and "/" not in tail else ""
