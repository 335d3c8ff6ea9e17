"""KServe: InferenceService, ServingRuntime and LLMInferenceService, whose controllers make the command."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..launch import Remark, Source, Span
from ..shell.word import Word, made
from ..yaml_nodes import Mapping, Node, Scalar
from ..yaml_nodes import Sequence as Items
from .config_maps import ConfigMaps
from .container import Container
from .container_words import MODULE_COMMAND, environment, program_of, words_of
from .gpu_hints import hints_of, image_of
from .pod_templates import kind_of, label_of, name_of

_RUNTIMES = ("ServingRuntime", "ClusterServingRuntime")
_MOUNTED = "/mnt/models"
_ADDITIONAL = "VLLM_ADDITIONAL_ARGS"


def referred(resources: Sequence[Mapping]) -> set[int]:
    """The id of each serving runtime that a service of the same text runs: it is read with the service."""
    found = set()
    for resource in resources:
        if kind_of(resource) == "InferenceService":
            runtime = _runtime(resource, resources)
            if runtime is not None:
                found.add(id(runtime))
    return found


def _runtime(service: Mapping, resources: Sequence[Mapping]) -> Mapping | None:
    name = service.at("spec", "predictor", "model", "runtime")
    if not isinstance(name, Scalar):
        return None
    return next((one for one in resources if kind_of(one) in _RUNTIMES and name_of(one) == name.text), None)


def inference_service(
    resource: Mapping, resources: Sequence[Mapping], maps: ConfigMaps, source: Source
) -> list[Container] | None:
    """KServe's InferenceService with `predictor.model`: the runtime's container, with the arguments of the model."""
    model = resource.at("spec", "predictor", "model")
    predictor = resource.at("spec", "predictor")
    if not isinstance(model, Mapping) or not isinstance(predictor, Mapping):
        return None
    runtime = _runtime(resource, resources)
    remarks: list[Remark] = []
    container = _served_by(runtime) if runtime is not None else None
    words = _runtime_words(container, remarks) if container is not None else _assumed(model, remarks)
    if words is None:
        return [Container(source, "kubernetes", label_of(resource), remarks=remarks)]
    nodes = [model] if container is None else [container, model]
    image = next((image_of(one.get("image")) for one in reversed(nodes) if one.get("image") is not None), None)
    limits = next((one.get("resources") for one in reversed(nodes) if one.get("resources") is not None), None)
    hints, notes = hints_of(image, limits, [predictor, runtime.get("spec") if runtime is not None else None])
    return [
        Container(
            source=source,
            kind="kubernetes",
            label=label_of(resource),
            words=[*words, *words_of(model.get("args"), "args", remarks)],
            env=[variable for one in nodes for variable in environment(one, maps, remarks)],
            hints=hints,
            remarks=[*remarks, *notes],
        )
    ]


def _served_by(runtime: Mapping) -> Mapping | None:
    found = runtime.at("spec", "containers")
    nodes = [one for one in found.items if isinstance(one, Mapping)] if isinstance(found, Items) else []
    named = [one for one in nodes if isinstance(name := one.get("name"), Scalar) and name.text == "kserve-container"]
    return next(iter([*named, *nodes]), None)


def _runtime_words(container: Mapping, remarks: list[Remark]) -> list[Word]:
    command = words_of(container.get("command"), "command", remarks)
    args = words_of(container.get("args"), "args", remarks)
    return program_of(image_of(container.get("image")), command, args)


def _assumed(model: Mapping, remarks: list[Remark]) -> list[Word] | None:
    """The command of a runtime that is not in the text: vLLM where the format of the model says so."""
    format_name = model.at("modelFormat", "name")
    runtime = model.get("runtime")
    named = " ".join(one.text for one in (format_name, runtime) if isinstance(one, Scalar)).lower()
    if "vllm" in named:
        at = format_name if isinstance(format_name, Scalar) else model
        uri = model.get("storageUri")
        name, span = _model_of(uri) if isinstance(uri, Scalar) else (_MOUNTED, at.span)
        if isinstance(runtime, Scalar):
            message = f"its serving runtime {runtime.text[:60]} is not in this file; vLLM's usual command is assumed"
            remarks.append(Remark("not_in_file", message, runtime.span, "pass both as one text to cgplan check -"))
        return [made(word, at.span) for word in MODULE_COMMAND] + [made("--model", span), made(name, span)]
    if "huggingface" in named and isinstance(format_name, Scalar):
        message = "is run by KServe's Hugging Face server, which takes options of vLLM but is no `vllm serve`"
        remarks.append(Remark("not_read", message, format_name.span))
    return None


def _model_of(uri: Scalar) -> tuple[str, Span]:
    """The model that a URI means, where the server sees it by its name; else where it is mounted."""
    found = re.fullmatch(r"hf://([\w.-]+/[\w.-]+)(:[\w.-]+)?", uri.text)
    return (found[1] if found else _MOUNTED), uri.span


def llm_inference_service(
    resource: Mapping, resources: Sequence[Mapping], maps: ConfigMaps, source: Source
) -> list[Container] | None:
    """KServe's LLMInferenceService: `vllm serve MODEL`, for decode and, where there is one, for prefill."""
    spec = resource.get("spec")
    if not isinstance(spec, Mapping):
        return None
    found = []
    parts: list[tuple[str, Node | None]] = [("", spec), ("prefill", spec.get("prefill"))]
    for role, part in parts:
        if not isinstance(part, Mapping) or (not role and part.get("model") is None):
            continue
        for worker, template in ((role, part.get("template")), (f"{role} worker".strip(), part.get("worker"))):
            if isinstance(template, Mapping) or worker == role:
                container = _llm_container(resource, spec, part, worker, template, maps, source)
                found += [container] if container is not None else []
    return found


def _llm_container(
    resource: Mapping, spec: Mapping, part: Mapping, role: str, template: Node | None, maps: ConfigMaps, source: Source
) -> Container | None:
    held = template.get("containers") if isinstance(template, Mapping) else None
    nodes = [one for one in held.items if isinstance(one, Mapping)] if isinstance(held, Items) else []
    named = [one for one in nodes if isinstance(name := one.get("name"), Scalar) and name.text == "main"]
    node = next(iter([*named, *nodes]), None)
    uri = spec.at("model", "uri")
    remarks: list[Remark] = []
    env = environment(node, maps, remarks) if node is not None else []
    words = words_of(node.get("command"), "command", remarks) if node is not None else []
    if not words:
        if not isinstance(uri, Scalar):
            return None
        model, span = _model_of(uri)
        words = [made("vllm", span), made("serve", span), made(model, span), *_parallel(part), *_additional(node)]
        env = [variable for variable in env if variable.name != _ADDITIONAL]
    if node is not None:
        words += words_of(node.get("args"), "args", remarks)
    image = image_of(node.get("image")) if node is not None else None
    hints, notes = hints_of(image, node.get("resources") if node is not None else None, [template])
    label = f"{label_of(resource)} {role}".strip()
    return Container(source, "kubernetes", label, words, env, hints, [*remarks, *notes])


def _parallel(part: Mapping) -> list[Word]:
    tensor = part.at("parallelism", "tensor")
    if not isinstance(tensor, Scalar) or not tensor.text:
        return []
    return [made("--tensor-parallel-size", tensor.span), made(tensor.text, tensor.span)]


def _additional(node: Mapping | None) -> list[Word]:
    """VLLM_ADDITIONAL_ARGS, which the controller's script puts behind its own options."""
    items = node.get("env") if node is not None else None
    for one in items.items if isinstance(items, Items) else ():
        name, value = (one.get("name"), one.get("value")) if isinstance(one, Mapping) else (None, None)
        if isinstance(name, Scalar) and name.text == _ADDITIONAL and isinstance(value, Scalar):
            return words_of(value, "value", [])
    return []


def kserve_template(
    resource: Mapping, resources: Sequence[Mapping], maps: ConfigMaps, source: Source
) -> list[Container]:
    """KServe's own LLMInferenceServiceConfig: the controller fills in its templates; there is no command yet."""
    message = "is a template that KServe fills in for each LLMInferenceService; it is not read"
    remark = Remark("not_read", message, resource.span, "check the pods: kubectl get pods -o yaml | cgplan check -")
    return [Container(source, "kubernetes", label_of(resource), remarks=[remark])]
