"""Manifests: the right containers, the words they run, where each stands, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from manifest_cases import read

from cgplan.inputs.launches.launch import Launch, Reading

FOLDER = Path(__file__).parents[4] / "fixtures" / "launches" / "kubernetes"


def of_file(name: str) -> dict[str, Launch]:
    return {launch.label: launch for launch in read((FOLDER / name).read_text(encoding="utf-8")).launches}


def pod(container: str, kind: str = "Pod", more: str = "") -> str:
    lines = "\n".join(f"    {line}" for line in container.strip("\n").split("\n"))
    return f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: p}}\nspec:\n{more}  containers:\n  - name: c\n{lines}\n"


def only(text: str) -> Launch:
    (launch,) = read(text).launches
    return launch


def line(launch: Launch) -> str:
    return " ".join(launch.texts)


def kinds(launch: Launch) -> list[str]:
    return [remark.kind for remark in launch.remarks]


VLLM = "image: vllm/vllm-openai:v0.25.1\n"


def test_every_way_of_a_manifest() -> None:
    found = of_file("every-way.yaml")
    assert {label: line(launch) for label, launch in found.items()} == {
        "Deployment/as-lists container vllm": "vllm serve --model acme/herring-7b"
        ' --compilation-config={"cudagraph_mode":"FULL"} --max-model-len=4096',
        "StatefulSet/as-shell container server": "vllm serve acme/herring-7b --max-num-seqs 32"
        " --tensor-parallel-size 2",
        "CronJob/with-files container from-config": "vllm serve acme/herring-7b --config /etc/herring/serve.yaml",
        "CronJob/with-files container from-script": "vllm serve acme/herring-7b --max-num-seqs 96",
        "CronJob/with-files container elsewhere": "vllm serve acme/herring-7b --max-num-seqs 8",
    }


def test_each_word_stands_where_its_span_says() -> None:
    for launch in of_file("every-way.yaml").values():
        for token in launch.tokens:
            written = launch.source.text[token.span.start : token.span.end]
            if token.literal and token.style in ("item", "flow"):
                assert yaml.safe_load(written) == token.text
            elif token.literal:
                assert written.strip('"') == token.text


def test_words_of_a_variable_are_not_literal() -> None:
    launch = of_file("every-way.yaml")["Deployment/as-lists container vllm"]
    assert [token.literal for token in launch.tokens] == [False, False, True, True, True, False]
    assert [token.style for token in launch.tokens] == ["made", "made", "item", "item", "item", "item"]


def test_hints_of_a_container() -> None:
    hints = of_file("every-way.yaml")["Deployment/as-lists container vllm"].hints
    text = (FOLDER / "every-way.yaml").read_text(encoding="utf-8")
    assert hints[:4] == ("vllm/vllm-openai:v0.25.1", "0.25.1", "NVIDIA H100 80GB HBM3", 2)
    assert hints.release_span is not None
    assert hints.gpu_span is not None
    assert text[hints.release_span.start : hints.release_span.end] == "v0.25.1"
    assert text[hints.gpu_span.start : hints.gpu_span.end] == "NVIDIA-H100-80GB-HBM3"


def test_variables_of_a_container() -> None:
    launch = of_file("every-way.yaml")["Deployment/as-lists container vllm"]
    assert [(one.name, one.value) for one in launch.env] == [("BASE", "40"), ("CONTEXT", "4096"), ("SECRET", None)]
    assert [one.span.line for one in launch.env if one.span] == [40, 42, 44]


def test_a_config_of_the_same_file_is_read_with_its_lines() -> None:
    launch = of_file("every-way.yaml")["CronJob/with-files container from-config"]
    (config,) = launch.files.values()
    assert list(launch.files) == ["/etc/herring/serve.yaml"]
    assert yaml.safe_load(config.text) == {"max-num-seqs": 128, "enforce-eager": True}
    lines = launch.source.text.split("\n")
    assert [lines[number - 1].strip() for number in config.lines[:3]] == config.text.split("\n")[:3]


def test_a_config_that_is_elsewhere_is_left_out_and_said() -> None:
    launch = of_file("every-way.yaml")["CronJob/with-files container elsewhere"]
    assert kinds(launch) == ["unknown_value"]
    assert launch.files == {}


def test_a_script_that_no_container_runs_is_a_server_of_its_own() -> None:
    text = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n"
        "  run.sh: |\n    vllm serve acme/x\n  a.md: vllm serve y\n"
    )
    launch = only(text)
    assert (launch.label, line(launch)) == ("ConfigMap/m run.sh", "vllm serve acme/x")
    assert launch.tokens[0].span.line == 6


def test_kserve() -> None:
    found = of_file("kserve.yaml")
    assert {label: line(launch) for label, launch in found.items()} == {
        "InferenceService/smelt": "python -m vllm.entrypoints.openai.api_server --model=/mnt/models"
        " --served-model-name={{.Name}} --max-num-seqs=48",
        "InferenceService/alone": "python3 -m vllm.entrypoints.openai.api_server --model acme/smelt-1b --enforce-eager",
        "LLMInferenceService/wide": "vllm serve acme/smelt-70b --tensor-parallel-size 4 --max-num-seqs 24"
        " --no-enable-prefix-caching",
        "LLMInferenceService/wide prefill": "vllm serve /mnt/models --enforce-eager",
    }
    assert found["LLMInferenceService/wide"].env == ()
    assert found["InferenceService/smelt"].hints[1:4] == ("0.22.1", "NVIDIA L4", 1)
    assert kinds(found["InferenceService/alone"]) == ["not_in_file"]
    assert kinds(found["InferenceService/smelt"]) == []


def test_other_servers_that_take_options_of_vllm_are_named() -> None:
    remarks = read((FOLDER / "kserve.yaml").read_text(encoding="utf-8")).remarks
    assert [(one.kind, "Hugging Face" in one.message) for one in remarks] == [("not_read", True)]
    text = (
        "apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeployment\n"
        "metadata: {name: d}\nspec:\n  services:\n    W:\n"
    )
    text += "      extraPodSpec:\n        mainContainer:\n          image: x/vllm-runtime:1\n"
    worker = read(text + "          command: [python3, -m, dynamo.vllm]\n          args: [--model, x]\n")
    assert worker.launches == ()
    assert "Dynamo" in worker.remarks[0].message
    assert read(text) == Reading()


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Deployment", "template: {spec: POD}"),
        ("DaemonSet", "template: {spec: POD}"),
        ("ReplicaSet", "template: {spec: POD}"),
        ("Job", "template: {spec: POD}"),
        ("LeaderWorkerSet", "leaderWorkerTemplate: {size: 2, leaderTemplate: {spec: POD}}"),
        ("JobSet", "replicatedJobs: [{name: a, template: {spec: {template: {spec: POD}}}}]"),
        ("RayCluster", "headGroupSpec: {template: {spec: POD}}"),
        ("InferenceService", "predictor: POD"),
        ("ServingRuntime", "POD"),
        ("Service", "template: {spec: POD}"),
        ("Workflow", "templates: [{name: a, container: CONTAINER}]"),
        ("StormService", "template: {spec: {roles: [{template: {spec: POD}}]}}"),
        ("DynamoGraphDeployment", "services: {W: {extraPodSpec: {mainContainer: CONTAINER}}}"),
        ("ClusterServingRuntime", "engineConfig: {runner: CONTAINER}"),
        ("SomethingNew", "deep: {er: [{pods: POD}]}"),
    ],
)
def test_every_kind_with_containers(kind: str, spec: str) -> None:
    container = "{name: c, image: a/b, command: [vllm, serve, acme/x], args: [--max-num-seqs, '7']}"
    inner = spec.replace("POD", "{containers: [CONTAINER]}").replace("CONTAINER", container)
    inner = inner if inner.startswith("{") else f"{{{inner}}}"
    launch = only(f"apiVersion: x/v1\nkind: {kind}\nmetadata: {{name: n}}\nspec: {inner}\n")
    assert (launch.label, line(launch)) == (f"{kind}/n container c", "vllm serve acme/x --max-num-seqs 7")


def test_lists_json_and_openshift_templates() -> None:
    one = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "%s"}, "spec": {"containers": [%s]}}'
    container = '{"name": "c", "image": "a", "command": ["vllm", "serve", "m\\u00e9"]}'
    pods = ", ".join(one % (name, container) for name in "ab")
    text = f'{{"apiVersion": "v1", "kind": "List", "items": [{pods}]}}'
    assert [launch.label for launch in read(text).launches] == ["Pod/a container c", "Pod/b container c"]
    assert read(text).launches[0].texts == ["vllm", "serve", "mé"]
    template = f'{{"apiVersion": "t/v1", "kind": "Template", "metadata": {{"name": "t"}}, "objects": [{pods}]}}'
    assert [launch.label for launch in read(template).launches] == ["Pod/a container c", "Pod/b container c"]


def test_labels_that_are_alike_get_their_line() -> None:
    text = pod("command: [vllm, serve, a]") + "---\n" + pod("command: [vllm, serve, b]")
    assert [launch.label for launch in read(text).launches] == [
        "Pod/p container c, line 7",
        "Pod/p container c, line 15",
    ]


def test_arguments_without_a_command_go_to_the_program_of_the_image() -> None:
    assert line(only(pod(VLLM + "args: [acme/x]"))) == "vllm serve acme/x"
    old = only(pod("image: vllm/vllm-openai:v0.10.2\nargs: [--model, acme/x]"))
    assert line(old) == "python3 -m vllm.entrypoints.openai.api_server --model acme/x"
    assert read(pod("image: nginx\nargs: [acme/x]")).launches == ()


def test_options_of_vllm_for_an_image_unknown_are_remarked() -> None:
    reading = read(pod("args: [--max-model-len=1, --model=x]"))
    assert reading.launches == ()
    assert [one.kind for one in reading.remarks] == ["not_read"]
    assert "kustomize" in (reading.remarks[0].fix or "")
    assert read(pod("args: [--model=x]")).remarks == ()


def test_numbers_in_arguments_are_remarked_and_read_as_written() -> None:
    launch = only(pod(VLLM + "args:\n- acme/x\n- --port\n- 8000\n- --max-num-seqs\n- '8'"))
    assert line(launch) == "vllm serve acme/x --port 8000 --max-num-seqs 8"
    assert [(one.kind, one.span.line) for one in launch.remarks if one.span] == [("not_text", 11)]
    assert kinds(only(pod(VLLM + "args: [acme/x, --port, '8000']"))) == []


def test_a_mapping_in_arguments_is_remarked() -> None:
    launch = only(pod(VLLM + "args:\n- acme/x\n- --port: 1\n- [a]\n- {b: c}\n-"))
    assert kinds(launch) == ["not_text"] * 4
    assert launch.texts[2:] == ["acme/x", ""]


def test_arguments_as_one_text_are_split_and_remarked() -> None:
    launch = only(pod(VLLM + "args: acme/x --max-num-seqs '8' --foo \"a b\""))
    assert launch.texts[2:] == ["acme/x", "--max-num-seqs", "8", "--foo", "a b"]
    assert kinds(launch) == ["not_a_list"]
    text = launch.source.text
    assert [text[one.span.start : one.span.end] for one in launch.tokens[4:]] == ["'8'", "--foo", '"a b"']


def test_a_command_as_one_word_does_not_start() -> None:
    reading = read(pod('command: ["vllm serve acme/x"]'))
    assert reading.launches == ()
    assert "one word" in reading.remarks[0].message


def test_a_shell_text_in_double_quotes_keeps_its_places() -> None:
    text = pod('command: [sh, -c, "vllm serve \\"acme/x\\" --max-num-seqs\\t9"]')
    launch = only(text)
    assert line(launch) == "vllm serve acme/x --max-num-seqs 9"
    assert [text[one.span.start : one.span.end] for one in launch.tokens] == [
        "vllm", "serve", '\\"acme/x\\"', "--max-num-seqs", "9",
    ]  # fmt: skip
    assert {one.inner for one in launch.tokens} == {"double"}


@pytest.mark.parametrize("style", ["|", "|-", ">", ">-", "|2"])
def test_a_shell_text_in_a_block_keeps_its_places(style: str) -> None:
    text = pod(f"command: [sh, -c]\nargs:\n- {style}\n  vllm serve acme/x\n  --max-num-seqs 9\n")
    if style.startswith("|"):
        text = text.replace("acme/x\n", "acme/x \\\n")
    launch = only(text.replace("\n", "\r\n"))
    assert line(launch) == "vllm serve acme/x --max-num-seqs 9"
    written = launch.source.text
    assert [written[one.span.start : one.span.end] for one in launch.tokens] == launch.texts
    assert launch.tokens[-1].span.line == 11


def test_a_quote_that_is_not_closed_is_remarked_and_hides_nothing_else() -> None:
    text = pod('command: [sh, -c, "vllm serve \'acme"]') + "---\n" + pod("command: [vllm, serve, b]")
    reading = read(text)
    assert [line(launch) for launch in reading.launches][-1] == "vllm serve b"
    assert len(reading.launches) == 2 or reading.remarks[0].kind == "not_read"


def test_templates_in_arguments_leave_their_option_out() -> None:
    launch = only(
        pod(VLLM + "args: ['{{ .Values.model }}', --max-num-seqs, '{{ .n }}', '--dtype={{ .d }}', --enforce-eager]")
    )
    assert launch.texts[2:] == ["{{ .Values.model }}", "--enforce-eager"]
    assert kinds(launch) == ["template", "template"]
    named = only(pod(VLLM + "args: [--served-model-name, '{{.Name}}', '--served-model-name={{.Name}}']"))
    assert kinds(named) == []
    assert len(named.tokens) == 5


def test_variables_of_a_config_map_elsewhere_are_remarked() -> None:
    launch = only(pod(VLLM + "envFrom: [{configMapRef: {name: far}}, {secretRef: {name: s}}]\nargs: [acme/x]"))
    assert kinds(launch) == ["not_read"]


def test_the_value_of_an_unknown_variable_is_not_made_up() -> None:
    container = VLLM + (
        "env:\n- name: N\n  valueFrom: {fieldRef: {fieldPath: x}}\n- name: "
        "M\n  value: a$(N)\n- name: E\nargs: [acme/x, --max-num-seqs, $(N)]"
    )
    launch = only(pod(container))
    assert {one.name: one.value for one in launch.env} == {"N": None, "M": None, "E": ""}
    assert line(launch) == "vllm serve acme/x"
    assert kinds(launch) == ["unknown_value"]


def test_dollars_are_those_of_kubernetes() -> None:
    launch = only(pod(VLLM + "env: [{name: A, value: 'x$$(B)'}]\nargs: [acme/x, $(A), $$(A), $A]"))
    assert launch.environment == {"A": "x$(B)"}
    assert launch.texts[3:] == ["x$(B)", "$(A)", "$A"]


def test_other_accelerators_are_remarked() -> None:
    launch = only(pod(VLLM + "args: [acme/x]\nresources: {limits: {amd.com/gpu: 8}}"))
    assert (launch.hints.gpus, kinds(launch)) == (None, ["not_nvidia"])


def test_a_controller_that_gives_the_command_starts_no_default_model() -> None:
    assert read(pod(VLLM, kind="RayCluster")).launches == ()
    assert line(only(pod(VLLM))) == "vllm serve"


def test_kubeai_ray_and_the_runtime_of_the_production_stack() -> None:
    model = (
        "apiVersion: kubeai.org/v1\nkind: Model\nmetadata: {name: m}\n"
        "spec:\n  url: hf://acme/x\n  resourceProfile: nvidia-gpu-l4:2\n"
    )
    launch = only(model + "  engine: VLLM\n  args: [--max-num-seqs=9]\n  env: {A: b}\n")
    assert line(launch).endswith("api_server --model=acme/x --served-model-name=m --max-num-seqs=9")
    assert (launch.hints.gpu, launch.hints.gpus, launch.environment) == ("NVIDIA L4", 2, {"A": "b"})
    assert read(model + "  engine: OLlama\n").launches == ()
    ray = (
        "apiVersion: ray.io/v1\nkind: RayService\nmetadata: {name: r}\n"
        "spec:\n  serveConfigV2: |\n    import_path: ray.serve.llm:x\n"
    )
    assert [one.kind for one in read(ray).remarks] == ["not_read"]
    runtime = (
        "apiVersion: p/v1\nkind: VLLMRuntime\nmetadata: {name: v}\n"
        "spec:\n  model: {modelURL: acme/x, maxModelLen: 99}\n"
    )
    assert line(only(runtime + "  vllmConfig: {port: 1, extraArgs: [--enforce-eager]}\n")) == (
        "/opt/venv/bin/vllm serve acme/x --host 0.0.0.0 --port 1 --no-enable-chunked-prefill"
        " --no-enable-prefix-caching --max-model-len 99 --enforce-eager"
    )
