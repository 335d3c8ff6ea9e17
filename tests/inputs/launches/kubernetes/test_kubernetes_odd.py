"""Manifests that are odd, broken or hostile."""

from __future__ import annotations

import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from manifest_cases import read

from cgplan.errors import InputError
from cgplan.inputs.launches.kubernetes import manifests
from cgplan.inputs.launches.kubernetes.custom_resources import READERS
from cgplan.inputs.launches.launch import Source
from cgplan.inputs.launches.yaml_nodes import documents

ODD = ["null", "[]", "{}", "x", "7", "[null]", "[[a]]", "[{}]", "{a: null}"]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    "text",
    [
        "spec: ODD",
        "metadata: ODD\nspec: {containers: [{args: [x]}]}",
        "spec: {containers: ODD}",
        "spec: {containers: [{image: ODD, args: [--max-model-len=1]}]}",
        "spec: {containers: [{command: ODD}]}",
        ("spec: {containers: [{image: vllm/vllm-openai, args: ODD}]}"),
        "spec: {containers: [{env: ODD, command: [vllm, serve]}]}",
        "spec: {containers: [{envFrom: ODD, command: [vllm, serve]}]}",
        ("spec: {containers: [{resources: ODD, command: [vllm, serve]}]}"),
        (
            "spec: {nodeSelector: ODD, affinity: ODD, volumes: ODD, containers: "
            "[{volumeMounts: ODD, command: [vllm, serve, --config, x]}]}"
        ),
        "spec: {predictor: ODD}",
        "spec: {predictor: {model: ODD}}",
        "spec: {model: ODD, template: ODD, prefill: ODD}",
        "spec: {model: {uri: ODD}, template: {containers: ODD}, parallelism: ODD}",
        "spec: {engine: VLLM, url: ODD, args: ODD, env: ODD, adapters: ODD, resourceProfile: ODD}",
        ("spec: {model: {modelURL: x, maxModelLen: ODD}, vllmConfig: ODD, image: ODD, resources: ODD}"),
        "data: ODD",
        "items: ODD",
    ],
)
def test_nothing_odd_gives_a_traceback(text: str, odd: str) -> None:
    named = "" if "metadata" in text else "metadata: {name: x}\n"
    for kind in (*READERS, "Pod", "ConfigMap", "List", "Template"):
        read(f"apiVersion: v1\nkind: {kind}\n{named}{text.replace('ODD', odd)}")


KEYS = [
    "containers",
    "args",
    "command",
    "image",
    "env",
    "name",
    "value",
    "spec",
    "model",
    "data",
    "items",
    "runner",
    "template",
]


NODE = st.recursive(
    st.sampled_from(["x", "vllm", "serve", "--model", "", None, 1, True, "vllm/vllm-openai:v0.1.2", "sh", "-c"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(
    spec=NODE, kind=st.sampled_from(["Pod", "InferenceService", "LLMInferenceService", "Model", "ConfigMap", "List"])
)
def test_no_manifest_gives_a_traceback(spec: object, kind: str) -> None:
    text = yaml.safe_dump({"apiVersion": "v1", "kind": kind, "spec": spec, "data": spec, "items": spec})
    try:
        for launch in read(text).launches:
            assert all(0 <= token.span.start <= token.span.end <= len(text) for token in launch.tokens)
    except InputError as error:
        pytest.fail(f"not a fault of the text: {error}")


def test_what_is_no_manifest_does_not_fit() -> None:
    for text in ("a: 1", "services: {a: {image: b}}", "- kind: Pod", "kind: Pod", ""):
        assert not manifests.fits(documents(Source("f", text))[0])


def test_hostile_manifests_take_bounded_time() -> None:
    front = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n"
    server = "  - image: vllm/vllm-openai\n"
    texts = [
        front + "  - {image: vllm/vllm-openai, args: [x]}\n" * 5_000,
        front + server + "    args:\n" + "    - --max-num-seqs=1\n" * 40_000,
        front + server + '    args: "' + "--a 1 " * 50_000 + '"\n',
        front
        + server
        + "    env:\n"
        + "".join(f"    - {{name: A{n}, value: ab$(A{n - 1})$(A{n - 1})}}\n" for n in range(5_000)),
    ]
    for text in texts:
        begun = time.perf_counter()
        launches = read(text).launches
        assert time.perf_counter() - begun < 4
        assert 1 <= len(launches) <= manifests.MAX_SERVERS
        assert all(len(launch.tokens) < 20_010 for launch in launches)
