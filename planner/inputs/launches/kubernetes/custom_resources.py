"""Resources whose controllers make the command: KubeAI's Model, Ray's RayService, the production stack's runtime."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ....releases.gpus import known_as
from ..launch import EnvVariable, Hints, Remark, Source
from ..shell.word import made
from ..yaml_nodes import Mapping, Node, Scalar
from .config_maps import ConfigMaps
from .container import Container
from .container_words import MODULE_COMMAND, environment, words_of
from .gpu_hints import image_of
from .kserve import inference_service, kserve_template, llm_inference_service
from .pod_container import container_of
from .pod_templates import containers, label_of, name_of
from .production_stack_values import vllm_runtime

Reader = Callable[[Mapping, Sequence[Mapping], ConfigMaps, Source], "list[Container] | None"]


def kubeai_model(
    resource: Mapping, resources: Sequence[Mapping], maps: ConfigMaps, source: Source
) -> list[Container] | None:
    """KubeAI's Model with the engine VLLM."""
    spec, engine, url = resource.get("spec"), resource.at("spec", "engine"), resource.at("spec", "url")
    if not isinstance(spec, Mapping) or not isinstance(engine, Scalar) or not isinstance(url, Scalar):
        return None
    if engine.text.upper() != "VLLM":
        return []
    remarks: list[Remark] = []
    scheme, _, reference = url.text.partition("://")
    model = {"hf": reference.partition("?")[0], "s3": url.text}.get(scheme, "/model")
    words = [made(word, engine.span) for word in MODULE_COMMAND]
    words += [made(f"--model={model}", url.span), made(f"--served-model-name={name_of(resource)}", engine.span)]
    if scheme == "s3":
        words.append(made("--load-format=runai_streamer", url.span))
    words += words_of(spec.get("args"), "args", remarks)
    env = environment(spec, maps, remarks)
    adapters = spec.get("adapters")
    if adapters is not None:
        words.append(made("--enable-lora", adapters.span))
        env.append(EnvVariable("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "True", adapters.span))
    hints, notes = _kubeai_hints(spec.get("resourceProfile"))
    image = image_of(spec.get("image"))
    if image is not None:
        hints = hints._replace(image=image.name, release=image.release, release_span=image.release_span)
    return [Container(source, "kubernetes", label_of(resource), words, env, hints, [*remarks, *notes])]


def _kubeai_hints(profile: Node | None) -> tuple[Hints, list[Remark]]:
    """What `resourceProfile: nvidia-gpu-h100:2` says, by the profiles that KubeAI comes with."""
    if not isinstance(profile, Scalar):
        return Hints(), []
    name, _, count = profile.text.partition(":")
    for front, what in (("amd-", "AMD GPUs"), ("google-tpu", "TPUs"), ("cpu", "the CPU"), ("intel-", "Intel GPUs")):
        if name.startswith(front):
            message = f"runs on {what}; what is said here holds for NVIDIA GPUs"
            return Hints(), [Remark("not_nvidia", message, profile.span)]
    gpus = int(count) if count.isascii() and count.isdigit() and 0 < len(count) < 4 else None
    known = known_as(name.removeprefix("nvidia-gpu-")) if name.startswith("nvidia-gpu-") else None
    gpu = known.name if known is not None else None
    return Hints(
        gpu=gpu, gpus=gpus, gpu_span=profile.span if gpu else None, gpus_span=profile.span if gpus else None
    ), []


def ray_service(
    resource: Mapping, resources: Sequence[Mapping], maps: ConfigMaps, source: Source
) -> list[Container] | None:
    """A RayService: its application is Python, whose settings of vLLM are no command; its containers are read."""
    config = resource.at("spec", "serveConfigV2")
    if not isinstance(config, Scalar) or not re.search("vllm|engine_kwargs|ray.serve.llm", config.text[:100_000]):
        return None
    message = "is an application of Ray Serve, which starts vLLM from Python; its settings are not read"
    first = Container(
        source, "kubernetes", label_of(resource), remarks=[Remark("not_read", message, config.span_of(0, 0))]
    )
    return [first, *(container_of(one, maps, source) for one in containers(resource))]


READERS: dict[str, Reader] = {
    "InferenceService": inference_service,
    "LLMInferenceService": llm_inference_service,
    "LLMInferenceServiceConfig": kserve_template,
    "Model": kubeai_model,
    "RayService": ray_service,
    "VLLMRuntime": vllm_runtime,
}
"""By kind. None from a reader: the resource is read like any other."""
