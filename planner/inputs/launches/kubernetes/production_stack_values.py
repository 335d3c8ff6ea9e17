"""Values of the chart of vLLM's production stack: each modelSpec as the chart's template makes a command of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from collections.abc import Sequence as Items

from ..image import release_of
from ..launch import EnvVariable, Hints, Remark, Source, Span
from ..shell.word import Word, made
from ..yaml_nodes import Mapping, Node, Scalar, Sequence
from .config_maps import ConfigMaps
from .container import Container
from .container_words import environment, words_of
from .gpu_hints import Image, hints_of, image_of, number
from .pod_templates import label_of

_LMCACHE_IMAGE = "lmcache/vllm-openai"
_OPTIONS = (
    ("maxModelLen", "--max-model-len"),
    ("dtype", "--dtype"),
    ("tensorParallelSize", "--tensor-parallel-size"),
    ("maxNumSeqs", "--max-num-seqs"),
    ("gpuMemoryUtilization", "--gpu_memory_utilization"),
    ("maxLoras", "--max_loras"),
    ("runner", "--runner"),
    ("convert", "--convert"),
)
"""Fields of vllmConfig, and the options that the chart writes for them, in its order."""
_KNOWN = {key for key, _ in _OPTIONS} | {
    "enableChunkedPrefill", "enablePrefixCaching", "extraArgs", "v0", "v1", "prometheusMultiprocDir",
}  # fmt: skip


def fits(node: Mapping) -> bool:
    """Whether these are the values of that chart."""
    return isinstance(node.at("servingEngineSpec", "modelSpec"), Sequence)


def containers(values: Mapping, source: Source) -> Iterator[Container]:
    """One container a model."""
    engine = values.get("servingEngineSpec")
    specs = values.at("servingEngineSpec", "modelSpec")
    if not isinstance(engine, Mapping) or not isinstance(specs, Sequence) or _is(engine.get("enableEngine"), False):
        return
    for spec in specs.items:
        if isinstance(spec, Mapping) and not _is(spec.get("enabled"), False):
            yield _container(spec, engine, source)


def _container(spec: Mapping, engine: Mapping, source: Source) -> Container:
    remarks: list[Remark] = []
    image = _image(spec)
    words = [*_command(spec, engine, image, remarks), *_lmcache(spec), *_after(spec)]
    env = [*environment(engine, {}, remarks), *environment(spec, {}, remarks)]
    ray = _ray(spec)
    head = ray.get("headNode") if ray is not None else spec
    asked = head if isinstance(head, Mapping) else spec
    hints, notes = hints_of(image, asked.get("resources"), [spec])
    if hints.gpus is None and asked.get("resources") is None:
        hints, notes = _requested(asked, hints, notes)
    name = spec.get("name")
    label = f"modelSpec {name.text}" if isinstance(name, Scalar) else "modelSpec"
    return Container(source, "helm", label, words, [*env, *_lmcache_env(spec)], hints, [*remarks, *notes])


def _image(spec: Mapping) -> Image | None:
    repository, tag = spec.get("repository"), spec.get("tag")
    if not isinstance(repository, Scalar):
        return None
    if not isinstance(tag, Scalar):
        return Image(repository.text, repository.span)
    name = f"{repository.text}:{tag.text}"
    release = release_of(name)
    return Image(name, repository.span, release, tag.span if release else None)


def _command(spec: Mapping, engine: Mapping, image: Image | None, remarks: list[Remark]) -> Iterator[Word]:
    model = spec.get("modelURL")
    span = model.span if isinstance(model, Scalar) else spec.span
    lmcache = image is not None and image.name.partition(":")[0] == _LMCACHE_IMAGE
    yield from (made("/opt/venv/bin/vllm" if lmcache else "vllm", span), made("serve", span))
    if isinstance(model, Scalar) and model.text:
        yield made(model.text, span)
    else:
        remarks.append(Remark("not_read", "the model has no modelURL", span, "name it: modelURL: ..."))
    port = engine.get("containerPort")
    yield from (made(word, span) for word in ("--host", "0.0.0.0", "--port"))
    yield made(port.text if isinstance(port, Scalar) and port.text else "8000", port.span if port is not None else span)
    yield from _switch(spec, "enableLoRA", "--enable-lora")
    yield from _switch(spec, "enableTool", "--enable-auto-tool-choice")
    yield from _pair(spec, "toolCallParser", "--tool-call-parser")
    config = spec.get("vllmConfig")
    if isinstance(config, Mapping) and config.items:
        yield from _config(config, _ray(spec), remarks)


def _ray(spec: Mapping) -> Mapping | None:
    """The settings of a model that runs on Ray, which another template of the chart starts; None: it does not."""
    ray = spec.get("raySpec")
    return ray if isinstance(ray, Mapping) and _truthy(ray.get("enabled")) else None


def _config(config: Mapping, ray: Mapping | None, remarks: list[Remark]) -> Iterator[Word]:
    chunked = config.get("enableChunkedPrefill")
    if chunked is not None:
        yield made("--enable-chunked-prefill" if _truthy(chunked) else "--no-enable-chunked-prefill", chunked.span)
    caching = config.get("enablePrefixCaching")
    span = caching.span if caching is not None else config.span
    if _truthy(caching):
        yield made("--enable-prefix-caching", span)
    elif ray is None:  # switched off where it is not named, although vLLM's default is on
        yield made("--no-enable-prefix-caching", span)
    for field, option in _OPTIONS:
        yield from _pair(config, field, option)
    yield from words_of(config.get("extraArgs"), "extraArgs", [])
    if ray is not None:
        yield from (made(word, ray.span) for word in ("--distributed-executor-backend", "ray"))
        yield from _pair(config, "pipelineParallelSize", "--pipeline-parallel-size")
    for key, _ in config.items:
        if key.text not in _KNOWN and not (ray is not None and key.text == "pipelineParallelSize"):
            message = f"`{key.text[:60]}` of vllmConfig is no field that the chart takes; it changes nothing"
            remarks.append(Remark("ignored_key", message, key.span, "put the option into extraArgs"))


def _lmcache(spec: Mapping) -> Iterator[Word]:
    config = spec.get("lmcacheConfig")
    if not isinstance(config, Mapping) or not _truthy(config.get("enabled")):
        return
    role = config.get("kvRole")
    transfer: dict[str, object] = {
        "kv_connector": "LMCacheConnectorV1",
        "kv_role": role.text if isinstance(role, Scalar) and role.text else "kv_both",
    }
    nixl = config.get("nixlRole")
    if config.get("enablePD") is not None and isinstance(nixl, Scalar):
        transfer["kv_connector_extra_config"] = {"discard_partial_chunks": False, "lmcache_rpc_port": nixl.text}
    yield made("--kv-transfer-config", config.span)
    yield made(json.dumps(transfer), config.span)


def _lmcache_env(spec: Mapping) -> list[EnvVariable]:
    config = spec.get("lmcacheConfig")
    if not isinstance(config, Mapping) or not _truthy(config.get("enabled")):
        return []
    return [EnvVariable("VLLM_RPC_TIMEOUT", "1000000", config.span)]


def _after(spec: Mapping) -> Iterator[Word]:
    yield from _pair(spec, "modelRevision", "--revision")
    template = spec.get("chatTemplate")
    if isinstance(template, Scalar) and template.text:
        yield made("--chat-template", template.span)
        yield made(f"/templates/{template.text}", template.span)


def _pair(node: Mapping, key: str, option: str) -> Iterator[Word]:
    name, value = node.key(key), node.get(key)
    if name is not None and isinstance(value, Scalar) and value.text:
        yield made(option, name.span)
        yield made(_shown(value), value.span)


def _switch(node: Mapping, key: str, option: str) -> Iterator[Word]:
    value = node.get(key)
    if value is not None and _truthy(value):
        yield made(option, value.span)


def _shown(value: Scalar) -> str:
    """A value as Helm quotes it: numbers as numbers, 1e3 as 1000."""
    number = value.value
    if isinstance(number, bool):
        return "true" if number else "false"
    if isinstance(number, int):
        return str(number)
    return value.text


def _requested(spec: Mapping, hints: Hints, notes: list[Remark]) -> tuple[Hints, list[Remark]]:
    """requestGPU and requestGPUType, of which the chart makes the resources."""
    count, kind = spec.get("requestGPU"), spec.get("requestGPUType")
    if not isinstance(count, Scalar):
        return hints, notes
    resource = kind.text if isinstance(kind, Scalar) and kind.text else "nvidia.com/gpu"
    if resource == "nvidia.com/gpu":
        return hints._replace(gpus=number(count), gpus_span=count.span), notes
    if resource.startswith("nvidia.com/mig"):
        return hints, [*notes, _sliced(kind.span if kind is not None else count.span)]
    message = f"runs on {resource[:60]}; what is said here holds for NVIDIA GPUs"
    return hints, [*notes, Remark("not_nvidia", message, kind.span if kind is not None else count.span)]


def _sliced(span: Span) -> Remark:
    message = "gets a slice of a GPU; its memory and its multiprocessors are not known here"
    return Remark("not_read", message, span, "say its memory with --gpu-memory-bytes")


def _is(node: Node | None, value: bool) -> bool:
    return isinstance(node, Scalar) and node.value is value


def _truthy(node: Node | None) -> bool:
    """As Helm's `if` takes it."""
    if isinstance(node, Scalar):
        return bool(node.value)
    return bool(getattr(node, "items", ()))


def vllm_runtime(
    resource: Mapping, resources: Items[Mapping], maps: ConfigMaps, source: Source
) -> list[Container] | None:
    """The VLLMRuntime of the stack's operator; before it had `vllmConfig`, its fields stood in `spec` itself."""
    spec, model = resource.get("spec"), resource.at("spec", "model")
    if not isinstance(spec, Mapping) or not isinstance(model, Mapping):
        return None
    url = model.get("modelURL")
    if not isinstance(url, Scalar):
        return None
    nested = spec.get("vllmConfig")
    config = nested if isinstance(nested, Mapping) else spec
    remarks: list[Remark] = []
    words = [made(word, url.span) for word in ("/opt/venv/bin/vllm", "serve", url.text, "--host", "0.0.0.0")]
    words += [*_pair(config, "port", "--port"), *_switch(model, "enableLoRA", "--enable-lora")]
    words += [*_switch(model, "enableTool", "--enable-auto-tool-choice")]
    words += _pair(model, "toolCallParser", "--tool-call-parser")
    for key, option in (
        ("enableChunkedPrefill", "enable-chunked-prefill"),
        ("enablePrefixCaching", "enable-prefix-caching"),
    ):
        value = config.get(key)
        span = value.span if value is not None else url.span
        words.append(made(f"--{option}" if _truthy(value) else f"--no-{option}", span))
    for node, key, option in (
        (model, "maxModelLen", "--max-model-len"),
        (model, "dtype", "--dtype"),
        (config, "tensorParallelSize", "--tensor-parallel-size"),
        (model, "maxNumSeqs", "--max-num-seqs"),
        (config, "gpuMemoryUtilization", "--gpu_memory_utilization"),
        (config, "maxLoras", "--max_loras"),
    ):
        words += _pair(node, key, option)
    words += words_of(config.get("extraArgs"), "extraArgs", remarks)
    env = environment(spec, {}, remarks)
    deployment = spec.get("deploymentConfig")
    place = deployment if isinstance(deployment, Mapping) else spec
    name, gpu = place.at("image", "name"), place.at("resources", "gpu")
    image = image_of(name)
    hints, notes = hints_of(image, None, [place])
    if isinstance(gpu, Scalar):
        hints = hints._replace(gpus=number(gpu), gpus_span=gpu.span)
    return [Container(source, "kubernetes", label_of(resource), words, env, hints, [*remarks, *notes])]
