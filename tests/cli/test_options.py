"""Every field of a deployment can be reached, and the flags are vLLM's."""

from __future__ import annotations

import json
from typing import Annotated, Any, Optional

import pytest

from cgplan import Deployment, ModelShape
from cgplan.cli import settings
from cgplan.cli.argv import normalise
from cgplan.cli.decorate import annotated, with_deployment
from cgplan.cli.options import DeploymentOptions
from cgplan.cli.request import Asked, deployment_of
from cgplan.errors import CgplanError


def asked(line: str | list[str]) -> Asked:
    """What a command line asks for."""
    import typer

    found: list[Asked] = []

    @with_deployment
    def command(options: DeploymentOptions) -> int:
        found.append(deployment_of(options))
        return 0

    app = typer.Typer(add_completion=False)
    app.command()(command)
    argv = normalise(line.split() if isinstance(line, str) else line)
    typer.main.get_command(app).main(argv, standalone_mode=False)
    return found[0]


@pytest.mark.parametrize(
    ("line", "path", "value"),
    [
        ("--max-num-seqs 64", "max_num_seqs", 64),
        ("--max_num_seqs 64", "max_num_seqs", 64),
        ("--max-num-batched-tokens 16k", "max_num_batched_tokens", 16000),
        ("--max-num-scheduled-tokens 2K", "max_num_scheduled_tokens", 2048),
        ("--max-num-active-seqs 9", "max_num_active_seqs", 9),
        ("--max-model-len 25.6k", "max_model_len", 25600),
        ("--max-model-len auto", "max_model_len", None),
        ("--long-prefill-token-threshold 9", "long_prefill_token_threshold", 9),
        ("--enable-chunked-prefill", "enable_chunked_prefill", True),
        ("--no-enable-chunked-prefill", "enable_chunked_prefill", False),
        ("", "enable_chunked_prefill", None),
        ("--no-enable-prefix-caching", "enable_prefix_caching", False),
        ("--no-async-scheduling", "async_scheduling", False),
        ("--performance-mode interactivity", "performance_mode", "interactivity"),
        ("-O1", "optimization_level", 1),
        ("--optimization-level O3", "optimization_level", 3),
        ("--enforce-eager", "enforce_eager", True),
        ("--cudagraph-mode full", "compilation_config.cudagraph_mode", "FULL"),
        ("-cc.cudagraph_mode=FULL", "compilation_config.cudagraph_mode", "FULL"),
        ('-cc {"mode":3}', "compilation_config.mode", "VLLM_COMPILE"),
        ("-cc.mode=3 -cc.use_inductor_graph_partition=true", "compilation_config.use_inductor_graph_partition", True),
        ("--cudagraph-capture-sizes 1 2 4", "cudagraph_capture_sizes", (1, 2, 4)),
        ("--cudagraph-capture-sizes 1,2,4", "cudagraph_capture_sizes", (1, 2, 4)),
        ("--max-cudagraph-capture-size 128", "max_cudagraph_capture_size", 128),
        ("--attention-backend FLASHINFER", "attention_backend", "FLASHINFER"),
        ("--backend flashinfer", "attention_backend", "flashinfer"),
        ("-ac.flash_attn_version=2", "attention_config.flash_attn_version", 2),
        ("--attention-support NEVER", "attention_support", 0),
        ("--kv-cache-dtype fp8", "kv_cache_dtype", "fp8"),
        ("--block-size 32", "block_size", 32),
        ("--num-gpu-blocks-override 100", "num_gpu_blocks", 100),
        ("--num-gpu-blocks-override 100", "num_gpu_blocks_override", 100),
        ("--num-gpu-blocks 100", "num_gpu_blocks_override", None),
        ("--kv-cache-dtype-skip-layers 0,3", "kv_cache_dtype_skip_layers", ("0", "3")),
        ("--cpu-offload-params experts,mlp", "cpu_offload_params", ("experts", "mlp")),
        ("--cpu-offload-gb 7.5", "cpu_offload_gb", 7.5),
        ("--offload-group-size 8", "offload_group_size", 8),
        ("--language-model-only", "language_model_only", True),
        ('--limit-mm-per-prompt {"image":0}', "limit_mm_per_prompt", {"image": 0}),
        ("--disable-hybrid-kv-cache-manager", "disable_hybrid_kv_cache_manager", True),
        ("--mamba-block-size 64", "mamba_block_size", 64),
        ("--mamba-cache-dtype float32", "mamba_cache_dtype", "float32"),
        ("--mamba-ssm-cache-dtype float16", "mamba_ssm_cache_dtype", "float16"),
        ("--mamba-cache-mode align", "mamba_cache_mode", "align"),
        (
            '--kv-transfer-config {"kv_connector":"P2pNcclConnector"}',
            "kv_transfer_config.kv_connector",
            "P2pNcclConnector",
        ),
        ("-tp 2", "tensor_parallel_size", 2),
        ("-pp 2", "pipeline_parallel_size", 2),
        ("-dp 2", "data_parallel_size", 2),
        ("-dcp 2", "decode_context_parallel_size", 2),
        ("-pcp 2", "prefill_context_parallel_size", 2),
        ("-n 2", "nnodes", 2),
        ("--distributed-executor-backend ray", "distributed_executor_backend", "ray"),
        ("-ep", "enable_expert_parallel", True),
        ("--all2all-backend pplx", "all2all_backend", "pplx"),
        ("--enable-dbo", "enable_dbo", True),
        ("--ubatch-size 2", "ubatch_size", 2),
        ("--dbo-decode-token-threshold 3", "dbo_decode_token_threshold", 3),
        ("--dbo-prefill-token-threshold 3", "dbo_prefill_token_threshold", 3),
        ("--spec-method ngram --spec-tokens 3", "speculative_config.num_speculative_tokens", 3),
        ('-sc {"method":"ngram","num_speculative_tokens":2}', "speculative_config.method", "ngram"),
        ("--spec-model Qwen/Qwen3-0.6B --spec-tokens 2", "speculative_config.model.name", "Qwen/Qwen3-0.6B"),
        ("--enable-lora", "enable_lora", True),
        ("--max-loras 4", "max_loras", 4),
        ("--max-lora-rank 64", "max_lora_rank", 64),
        ("--specialize-active-lora", "specialize_active_lora", True),
        ("--env A=1 --env B=2 --env A=1", "env", {"A": "1", "B": "2"}),
        ("--software flashinfer=false", "software.flashinfer", False),
        ("--software packages=b12x,ray", "software.packages", ("b12x", "ray")),
        ("--software torch_version=2.11.0", "software.torch_version", "2.11.0"),
        ("--gpu h200", "gpu.name", "NVIDIA H200"),
        ("--gpu h200 --gpu-memory-bytes 100G", "gpu.memory_bytes", 100 * 2**30),
        ("--gpus-per-node 4", "gpus_per_node", 4),
        ("--model Qwen/Qwen3-0.6B", "model.name", "Qwen/Qwen3-0.6B"),
        ("Qwen/Qwen3-0.6B", "model.name", "Qwen/Qwen3-0.6B"),
        ("--vllm 0.33.0", "vllm", "0.33.0"),
        ("--usage-context llm_class", "usage_context", "LLM_CLASS"),
        ("--runner pooling", "runner", "pooling"),
        ("--dtype half", "dtype", "half"),
        ("-q fp8", "quantization", "fp8"),
    ],
)
def test_flag_reaches_the_field(line: str, path: str, value: Any) -> None:
    found: Any = asked(line).deployment
    for name in path.split("."):
        found = getattr(found, name)
    assert found == value


def test_every_field_is_reachable() -> None:
    """A new field of Deployment needs an option; those of vLLM's JSON flags come through the flag."""
    assert set(Deployment.model_fields) <= set(DeploymentOptions.__annotations__)


def test_every_plain_option_is_passed_on() -> None:
    elsewhere = {
        "model_tag", "model", "gpu", "gpu_memory_bytes", "env", "software", "max_model_len", "optimization_level",
        "cudagraph_mode", "cudagraph_capture_sizes", "compilation_config", "attention_config", "kv_transfer_config",
        "speculative_config", "spec_method", "spec_tokens", "spec_model",
        "assume_release", "cpu_offload_gb",
    }  # fmt: skip
    passed_on = (*settings.PASSED_ON, *settings.HUMAN, *settings.WHOLE, *settings.NAMES, *settings.OBJECTS)
    assert set(DeploymentOptions.__annotations__) == elsewhere | set(passed_on)


def test_what_is_not_said_is_assumed() -> None:
    texts = " ".join(asked("").assumptions)
    for word in ("GPU", "8B decoder", "FlashInfer", "vllm serve"):
        assert word in texts


def test_what_is_said_is_not_assumed() -> None:
    line = "--gpu h100 --model Qwen/Qwen3-0.6B --software triton=true --usage-context LLM_CLASS"
    assert asked(f"{line} --env VLLM_BATCH_INVARIANT=0").assumptions == ()


def test_settings_that_are_not_modelled_are_listed() -> None:
    found = asked("-cc.cache_dir=/x -ac.flex_attn_block_m=16")
    assert len(found.ignored) == 2
    assert found.ignored[0].startswith("compilation_config.cache_dir")


def test_ngram_in_the_place_of_a_model() -> None:
    found = asked(["-sc", json.dumps({"model": "ngram", "method": "ngram", "num_speculative_tokens": 2})])
    assert found.deployment.speculative_config is not None
    assert found.deployment.speculative_config.model is None


@pytest.mark.parametrize(
    ("line", "code", "where"),
    [
        ("--cudagraph-mode FULL -cc.cudagraph_mode=NONE", "CG907", "--cudagraph-mode"),
        ("--spec-tokens 3 -sc.num_speculative_tokens=2", "CG907", "--spec-tokens"),
        ("a --model b", "CG907", "--model"),
        ("--cudagraph-mode FUL", "CG902", "--cudagraph-mode"),
        ("-cc.cudagraph_mode=FUL", "CG902", "-cc.cudagraph_mode"),
        ("--max-num-seqs 0", "CG903", "--max-num-seqs"),
        ("--gpu h1000", "CG904", "--gpu"),
        ("--gpu-memory-bytes 0", "CG903", "--gpu-memory-bytes"),
        ("--software x=1", "CG901", "--software"),
        ("--software triton=maybe", "CG906", "--software"),
        ("--model nobody/nothing", "CG915", "--model"),
        ("--spec-model nobody/nothing", "CG915", "--spec-model"),
    ],
)
def test_errors_name_the_flag(line: str, code: str, where: str) -> None:
    with pytest.raises(CgplanError) as caught:
        asked(line)
    assert (caught.value.code, caught.value.where) == (code, where)


def test_the_default_is_the_default_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgplan.inputs.devices.detect", lambda: None)
    assert asked("").deployment == Deployment()
    assert asked("").deployment.model == ModelShape()


def test_a_hint_is_taken_as_it_was_written() -> None:
    """Python 3.10 wraps the hint of a parameter whose default is None once more, which hides the option from typer."""
    written = Annotated[Optional[str], "option"]  # noqa: UP045
    assert annotated(Optional[written]) == written  # noqa: UP045
    assert annotated(written) == written
    assert annotated(int) is int
