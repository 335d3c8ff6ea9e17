"""From a command line to a Deployment."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgplan import CUDAGraphMode, Gpu, ModelShape, resolve
from cgplan.errors import StartupError
from cgplan.inputs.serve_args import parse_serve
from cgplan.inputs.serve_args_deployment import ServedDeployment, to_deployment


def asked(*tokens: str, release: str = "0.33.0", model: str = "Qwen/Qwen3-8B") -> ServedDeployment:
    return to_deployment(parse_serve(["vllm", "serve", model, *tokens], release), gpu=Gpu())


def test_settings_arrive() -> None:
    found = asked(
        "--max-num-seqs", "64", "--max-num-batched-tokens", "8k", "-tp", "2", "-O2", "-cc.cudagraph_mode=FULL",
        "-cc.pass_config.fuse_norm_quant=true", "-ac.backend=FLASHINFER", "--num-gpu-blocks-override", "100",
        "--no-async-scheduling", "--max-model-len", "4k", "--port", "1",
    )  # fmt: skip
    deployment = found.deployment
    assert deployment.max_num_seqs == 64
    assert deployment.max_num_batched_tokens == 8000
    assert deployment.tensor_parallel_size == 2
    assert deployment.optimization_level == 2
    assert deployment.compilation_config.cudagraph_mode is CUDAGraphMode.FULL
    assert deployment.compilation_config.pass_config.fuse_norm_quant is True
    assert deployment.attention_config.backend == "FLASHINFER"
    assert deployment.num_gpu_blocks == 100
    assert deployment.async_scheduling is False
    assert deployment.model.name == "Qwen/Qwen3-8B"
    assert not found.assumptions
    assert not found.ignored
    assert resolve(deployment).cudagraph_mode is not None


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--cpu-offload-gb", "10"), []),
        (("--offload-group-size", "8"), []),
        (("--kv-offloading-size", "8"), ["kv_offloading_size"]),
        (("--cpu-offload-gb", "0"), []),
    ],
)
def test_memory_of_the_cpu_is_not_modelled(flags: tuple[str, ...], named: list[str]) -> None:
    assert [line.partition(":")[0] for line in asked(*flags).ignored] == named


def test_what_is_assumed_and_what_is_not_modelled_is_said() -> None:
    found = asked("-cc.cache_dir=/c", "--hf-overrides", '{"a": 1}', "--max-model-len", "auto", model="org/unknown")
    assert [line.partition(":")[0] for line in found.ignored] == ["compilation_config.cache_dir", "hf_overrides"]
    assert any("org/unknown" in line for line in found.assumptions)
    assert any("max_model_len auto" in line for line in found.assumptions)
    bare = to_deployment(parse_serve(["vllm", "serve"], "0.33.0"))
    assert any("vLLM's default" in line for line in bare.assumptions)


def test_speculative_decoding() -> None:
    found = asked("--spec-tokens", "3", "-sc.method=ngram", "-sc.prompt-lookup-max=4")
    section = found.deployment.speculative_config
    assert section is not None
    assert (section.method, section.num_speculative_tokens, section.prompt_lookup_max) == ("ngram", 3, 4)
    with pytest.raises(StartupError, match="exclude each other"):
        asked("--spec-tokens", "3", "-sc.num_speculative_tokens=3")
    with pytest.raises(StartupError, match="not a JSON object"):
        asked("-sc", "[]")


@pytest.mark.parametrize("level", ["-O4", "-O.mode=3", "-Ofast"])
def test_levels_that_vllm_refuses_later(level: str) -> None:
    with pytest.raises(StartupError, match="no optimisation level"):
        asked(level)


def test_a_shape_of_ones_own(tmp_path: Path) -> None:
    args = parse_serve(["vllm", "serve", "~nobody/m"], "0.25.1")
    found = to_deployment(args, model=ModelShape(num_hidden_layers=3), env={"VLLM_X": "1"}, gpus_per_node=4)
    assert found.deployment.model.num_hidden_layers == 3
    assert found.deployment.env == {"VLLM_X": "1"}
    assert (found.deployment.gpus_per_node, found.deployment.vllm) == (4, "0.25.1")
    assert to_deployment(args).deployment.model.num_hidden_layers == 32


def test_a_model_named_ngram_is_the_method() -> None:
    args = parse_serve(
        ["vllm", "serve", "m", "-sc.model=ngram", "-sc.num_speculative_tokens=3", "-sc.prompt_lookup_max=4"], "0.33.0"
    )
    drafts = to_deployment(args, model=ModelShape()).deployment.speculative_config
    assert drafts is not None
    assert (drafts.method, drafts.model) == ("ngram", None)
