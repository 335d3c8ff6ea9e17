"""Values files: the command that the chart makes of them, and where each part of it comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgplan.inputs.launches.kubernetes import helm_values
from cgplan.inputs.launches.launch import Launch, Reading, Source
from cgplan.inputs.launches.yaml_nodes import documents

FOLDER = Path(__file__).parents[4] / "fixtures" / "launches" / "helm"


def read(text: str) -> Reading:
    source = Source("values.yaml", text)
    found = documents(source)[0]
    assert helm_values.fits(found)
    return helm_values.launches(found, source)


def of_file(name: str) -> dict[str, Launch]:
    return {launch.label: launch for launch in read((FOLDER / name).read_text(encoding="utf-8")).launches}


def line(launch: Launch) -> str:
    return " ".join(launch.texts)


def written(launch: Launch, token: str) -> str:
    span = launch.tokens[launch.texts.index(token)].span
    return launch.source.text[span.start : span.end]


def modelservice(decode: str, more: str = "uri: hf://acme/x, name: x") -> Launch:
    text = f"modelArtifacts: {{{more}}}\ndecode:\n  containers:\n  - modelCommand: vllmServe\n    image: a/b\n{decode}"
    (launch,) = read(text).launches
    return launch


def production(spec: str) -> Launch:
    text = (
        f"servingEngineSpec:\n  modelSpec:\n  - name: n\n    repository: "
        f"vllm/vllm-openai\n    tag: v0.25.1\n    modelURL: acme/x\n{spec}"
    )
    (launch,) = read(text).launches
    return launch


def test_modelservice() -> None:
    found = of_file("modelservice.yaml")
    assert {label: line(launch) for label, launch in found.items()} == {
        "decode container vllm": "vllm serve acme/sprat-8b --port 8200 --tensor-parallel-size 4 --data-parallel-size 2"
        " --data-parallel-size-local 2 --served-model-name acme/sprat-8b --max-num-seqs 64",
        "prefill container vllm": "vllm serve --model acme/sprat-8b --port 9000 --served-model-name acme/sprat-8b"
        " --enforce-eager",
    }
    decode, prefill = found.values()
    assert (decode.hints.gpu, decode.hints.gpus) == ("NVIDIA H200", 8)
    assert prefill.hints.release == "0.23.0"
    assert decode.environment == {"VLLM_LOGGING_LEVEL": "DEBUG"}


def test_what_a_chart_makes_stands_at_its_key_and_is_not_literal() -> None:
    decode = of_file("modelservice.yaml")["decode container vllm"]
    assert written(decode, "4") == "4"
    assert written(decode, "--max-num-seqs") == '"--max-num-seqs"'
    by_text = {token.text: token for token in decode.tokens}
    assert [by_text[text].literal for text in ("vllm", "4", "--max-num-seqs", "64")] == [False, False, True, True]


@pytest.mark.parametrize(
    ("artifacts", "model"),
    [
        ("uri: hf://acme/x", "acme/x"),
        ("uri: 'hf://{{ .Values.modelArtifacts.name }}', name: acme/y", "acme/y"),
        ("name: acme/y", "acme/y"),
        ("uri: pvc://claim/models/z", "/model-cache/models/z"),
        ("uri: pvc://claim/z, mountPath: /m", "/m/z"),
        ("uri: pvc+hf://claim/hub/acme/z", "acme/z"),
        ("uri: oci://registry.test/z", None),
        ("uri: 'hf://{{ .Values.other }}'", None),
    ],
)
def test_the_model_of_modelservice(artifacts: str, model: str | None) -> None:
    texts = modelservice("", artifacts).texts
    assert texts[2] == (model if model is not None else "--port")


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ("{tensor: 1}", ""),
        ("{tensor: 2, dataLocal: 4}", "--tensor-parallel-size 2 --data-parallel-size 4 --data-parallel-size-local 4"),
        ("{data: 8, workers: 2}", "--data-parallel-size 8 --data-parallel-size-local 4"),
        ("{dataLocal: 4, workers: 2}", "--data-parallel-size 8 --data-parallel-size-local 4"),
        ("null", ""),
        ("{tensor: x}", ""),
    ],
)
def test_sizes_left_out_follow_from_the_others(sizes: str, expected: str) -> None:
    launch = modelservice(f"  parallelism: {sizes}\n")
    between = line(launch).removeprefix("vllm serve acme/x --port 8200").removesuffix("--served-model-name x").strip()
    assert between == expected


def test_a_custom_command_of_modelservice_is_taken_as_it_is() -> None:
    text = "modelArtifacts: {uri: hf://acme/x}\nprefill: {create: false, containers: [{command: [vllm, serve, b]}]}\n"
    text += (
        "decode: {parallelism: {tensor: 4}, containers: [{command: [vllm, serve, acme/y], args: [--dtype, half]}]}\n"
    )
    assert [line(launch) for launch in read(text).launches] == ["vllm serve acme/y --dtype half"]


def test_another_accelerator_is_remarked() -> None:
    text = (
        "modelArtifacts: {uri: hf://acme/x}\naccelerator: {type: TYPE}\n"
        "decode: {containers: [{command: [vllm, serve, b]}]}\n"
    )
    assert [one.kind for one in read(text.replace("TYPE", "amd")).launches[0].remarks] == ["not_nvidia"]
    assert read(text.replace("TYPE", "nvidia")).launches[0].remarks == ()


def test_production_stack() -> None:
    found = of_file("production-stack.yaml")
    assert {label: line(launch) for label, launch in found.items()} == {
        "modelSpec whiting": "vllm serve acme/whiting-3b --host 0.0.0.0 --port 8100 --no-enable-chunked-prefill"
        " --no-enable-prefix-caching --max-model-len 16384 --tensor-parallel-size 2 --gpu_memory_utilization 0.85"
        " --max-num-seqs 40",
        "modelSpec rays": "vllm serve acme/whiting-70b --host 0.0.0.0 --port 8100 --distributed-executor-backend ray"
        " --pipeline-parallel-size 2",
    }
    whiting = found["modelSpec whiting"]
    assert whiting.hints[1:4] == ("0.27.1", None, 2)
    assert found["modelSpec rays"].hints.gpus == 4
    assert written(whiting, "--max-model-len") == "maxModelLen"
    assert written(whiting, "16384") == "16384"
    assert written(whiting, "40") == "'40'"
    assert [(one.kind, one.span.line) for one in whiting.remarks if one.span] == [("ignored_key", 14)]
    assert found["modelSpec rays"].remarks == ()


def test_switches_of_the_production_stack() -> None:
    launch = production(
        "    enableLoRA: true\n    enableTool: false\n    toolCallParser: hermes\n"
        "    modelRevision: main\n    chatTemplate: t.jinja\n"
        "    vllmConfig: {enableChunkedPrefill: true, enablePrefixCaching: true, dtype: half, maxLoras: 4}\n"
    )
    assert line(launch).partition("8000 ")[2] == (
        "--enable-lora --tool-call-parser hermes --enable-chunked-prefill --enable-prefix-caching --dtype half"
        " --max_loras 4 --revision main --chat-template /templates/t.jinja"
    )


def test_lmcache_of_the_production_stack() -> None:
    launch = production("    lmcacheConfig: {enabled: true, kvRole: kv_producer}\n")
    assert launch.texts[-2:] == [
        "--kv-transfer-config", '{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_producer"}',
    ]  # fmt: skip
    assert launch.environment == {"VLLM_RPC_TIMEOUT": "1000000"}
    assert "--kv-transfer-config" not in production("    lmcacheConfig: {enabled: false}\n").texts


def test_gpus_of_another_maker_or_a_slice() -> None:
    assert [one.kind for one in production("    requestGPU: 1\n    requestGPUType: amd.com/gpu\n").remarks] == [
        "not_nvidia"
    ]
    assert [
        one.kind for one in production("    requestGPU: 1\n    requestGPUType: nvidia.com/mig-1g.10gb\n").remarks
    ] == ["not_read"]
    assert production("    requestGPU: 1\n    requestGPUType: nvidia.com/gpu\n").hints.gpus == 1


def test_any_chart_with_an_image_of_vllm() -> None:
    (launch,) = read((FOLDER / "generic.yaml").read_text(encoding="utf-8")).launches
    assert (launch.label, line(launch)) == ("server", "vllm serve --model=acme/dab-4b --max-num-seqs=16")
    assert launch.hints[:4] == ("vllm/vllm-openai:v0.26.0", "0.26.0", "NVIDIA L40S", 1)
    assert launch.hints.release_span is not None
    assert launch.hints.release_span.line == 5


def test_a_command_within_the_image_comes_once() -> None:
    text = "image:\n  repository: vllm/vllm-openai\n  tag: v0.25.1\n  command: [vllm, serve, acme/x]\n"
    assert [(launch.label, line(launch)) for launch in read(text).launches] == [("", "vllm serve acme/x")]


def test_what_holds_no_vllm_does_not_fit() -> None:
    for text in ("image: nginx\nargs: [a]", "a: 1", "- 1", "", "apiVersion: v1\nkind: Pod\nimage: vllm\nargs: [vllm]"):
        assert not helm_values.fits(documents(Source("f", text))[0])


def test_a_template_is_not_guessed_at() -> None:
    text = (FOLDER / "template.yaml").read_text(encoding="utf-8")
    reading = helm_values.template(Source("t.yaml", text))
    assert reading is not None
    assert reading.launches == ()
    assert [(one.kind, "helm template" in (one.fix or "")) for one in reading.remarks] == [("template", True)]
    assert helm_values.template(Source("t.yaml", "a: }}")) is None


ODD = ["null", "[]", "{}", "x", "7", "[null]", "[[a]]", "[{}]"]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    "text",
    [
        (
            "modelArtifacts: {uri: ODD, name: ODD}\ndecode: "
            "{parallelism: ODD, containers: [{modelCommand: vllmServe, args: ODD}]}"
        ),
        (
            "modelArtifacts: {}\nrouting: ODD\naccelerator: ODD\ndecode: "
            "{acceleratorTypes: ODD, containers: [{image: ODD, modelCommand: imageDefault}]}"
        ),
        (
            "modelArtifacts: {mountPath: ODD, uri: pvc://x}\ndecode: "
            "{create: ODD, containers: [{modelCommand: ODD, env: ODD, command: ODD}]}"
        ),
        "servingEngineSpec: {modelSpec: [{repository: ODD, tag: ODD, modelURL: ODD, vllmConfig: ODD}]}",
        (
            "servingEngineSpec: "
            "{containerPort: ODD, env: ODD, modelSpec: [{raySpec: ODD, lmcacheConfig: ODD, resources: ODD}]}"
        ),
        (
            "servingEngineSpec: "
            "{modelSpec: [ODD, {requestGPU: ODD, requestGPUType: ODD, vllmConfig: {extraArgs: ODD, dtype: ODD}}]}"
        ),
        "image: vllm/vllm-openai\nargs: [x]\nresources: ODD\nenv: ODD\nnodeSelector: ODD\ncommand: ODD",
    ],
)
def test_nothing_odd_gives_a_traceback(text: str, odd: str) -> None:
    source = Source("f", text.replace("ODD", odd))
    helm_values.launches(documents(source)[0], source)
