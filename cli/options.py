"""The options of every command that needs a deployment, named as vLLM's flags, declared once.

`decorate.py` gives them to a command; `request.py` makes the Deployment of them. Every start reads the annotations, so
they are not postponed: each would be compiled on its own.
"""

from typing import Annotated, Any, Optional

import typer


def flag(*names: str, panel: str, help: str, **more: Any) -> Any:
    """An option in a panel of the help, without its default."""
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=False, **more)


def _model(*names: str, help: str, **more: Any) -> Any:
    return flag(*names, panel="Model", help=help, **more)


def _machine(*names: str, help: str, **more: Any) -> Any:
    return flag(*names, panel="Machine and release", help=help, **more)


def _batch(*names: str, help: str, **more: Any) -> Any:
    return flag(*names, panel="Batches", help=help, **more)


def _graph(*names: str, help: str, **more: Any) -> Any:
    return flag(*names, panel="Compilation and CUDA graphs", help=help, **more)


def _attention(*names: str, help: str, **more: Any) -> Any:
    return flag(*names, panel="Attention and KV cache", help=help, **more)


def _parallel(*names: str, help: str, **more: Any) -> Any:
    return flag(*names, panel="Parallelism", help=help, **more)


def _draft(*names: str, help: str, **more: Any) -> Any:
    return flag(*names, panel="Speculative decoding and LoRA", help=help, **more)


def _media(*names: str, help: str, **more: Any) -> Any:
    return flag(*names, panel="Images, video and audio", help=help, **more)


def _offload(*names: str, help: str, **more: Any) -> Any:
    return flag(*names, panel="Weights on the CPU", help=help, **more)


# Python 3.10 and typer read `X | None` well, but `Optional` keeps the lines below short.
_Text = Optional[str]  # noqa: UP045
_Bool = Optional[bool]  # noqa: UP045
_Texts = Optional[list[str]]  # noqa: UP045

LaunchOption = Annotated[
    _Text,
    _model("--launch", metavar="N", help="Which server of a file that starts several: its number or label."),
]
"""Of the commands that take a file of launches in the place of MODEL."""


class DeploymentOptions:
    """What was given; None where nothing was."""

    def __init__(self) -> None:
        # The launch that the options are laid over, a launches.asked.Asked. Not annotated in the class: no option.
        self.asked: Any = None

    model_tag: Annotated[
        _Text,
        typer.Argument(
            metavar="MODEL|FILE|-",
            help="As --model; or a file that starts a server, - for stdin; or -- and a `vllm serve` line.",
            show_default=False,
            rich_help_panel="Model",
        ),
    ] = None
    model: Annotated[
        _Text,
        _model(
            "--model",
            metavar="MODEL",
            help="Directory, config.json or id of `cgplan models`. Default: the file's, else a dense 8B decoder.",
        ),
    ] = None
    runner: Annotated[_Text, _model("--runner", metavar="KIND", help="auto, generate, pooling or draft.")] = None
    dtype: Annotated[_Text, _model("--dtype", metavar="TYPE", help="auto, bfloat16, float16 or float32.")] = None
    quantization: Annotated[_Text, _model("--quantization", "-q", metavar="METHOD", help="Quantisation method.")] = None
    max_model_len: Annotated[
        _Text, _model("--max-model-len", metavar="N", help="Longest sequence, tokens; 1k, 1K, 25.6k and auto are read.")
    ] = None

    gpu: Annotated[
        _Text,
        _machine(
            "--gpu",
            metavar="NAME",
            help="GPU of every rank, see `cgplan gpus`. Default: the file's or the one here, else H100 80GB.",
        ),
    ] = None
    gpu_memory_bytes: Annotated[
        _Text, _machine("--gpu-memory-bytes", metavar="N", help="Its memory as CUDA has it, where it differs.")
    ] = None
    gpus_per_node: Annotated[
        _Text, _machine("--gpus-per-node", metavar="N", help="GPUs that a node shows to vLLM.")
    ] = None
    vllm: Annotated[
        _Text,
        _machine(
            "--vllm",
            metavar="RELEASE",
            help="Release of vLLM, 0.28 or 0.25.1. Default: that of the file's image, else the newest known.",
        ),
    ] = None
    assume_release: Annotated[
        _Text, _machine("--assume-release", metavar="RELEASE", help="Answer by its rules, where --vllm is not known.")
    ] = None
    usage_context: Annotated[
        _Text,
        _machine(
            "--usage-context",
            metavar="NAME",
            help="Who starts the engine: OPENAI_API_SERVER (vllm serve), LLM_CLASS, ...",
        ),
    ] = None
    env: Annotated[
        _Texts, _machine("--env", metavar="NAME=VALUE", help="Environment variable that vLLM would see. Repeatable.")
    ] = None
    software: Annotated[
        _Texts, _machine("--software", metavar="NAME=VALUE", help="What is installed: flashinfer=false. Repeatable.")
    ] = None

    max_num_seqs: Annotated[_Text, _batch("--max-num-seqs", metavar="N", help="Most requests of a step.")] = None
    max_num_batched_tokens: Annotated[
        _Text, _batch("--max-num-batched-tokens", metavar="N", help="Most tokens of a step.")
    ] = None
    max_num_scheduled_tokens: Annotated[
        _Text, _batch("--max-num-scheduled-tokens", metavar="N", help="Most tokens scheduled a step, drafts left out.")
    ] = None
    max_num_active_seqs: Annotated[
        _Text, _batch("--max-num-active-seqs", metavar="N", help="Most active requests.")
    ] = None
    long_prefill_token_threshold: Annotated[
        _Text, _batch("--long-prefill-token-threshold", metavar="N", help="Above it a prompt counts as long, tokens.")
    ] = None
    enable_chunked_prefill: Annotated[
        _Bool, _batch("--enable-chunked-prefill/--no-enable-chunked-prefill", help="Split long prompts over steps.")
    ] = None
    enable_prefix_caching: Annotated[
        _Bool, _batch("--enable-prefix-caching/--no-enable-prefix-caching", help="Share prefixes in the KV cache.")
    ] = None
    async_scheduling: Annotated[
        _Bool, _batch("--async-scheduling/--no-async-scheduling", help="Prepare the next step meanwhile.")
    ] = None
    performance_mode: Annotated[
        _Text, _batch("--performance-mode", metavar="MODE", help="balanced, interactivity or throughput.")
    ] = None

    optimization_level: Annotated[
        _Text, _graph("--optimization-level", "-O", metavar="0-3", help="Optimisation level; -O3 and -O 3 alike.")
    ] = None
    enforce_eager: Annotated[
        _Bool, _graph("--enforce-eager/--no-enforce-eager", help="No compilation, no CUDA graphs.")
    ] = None
    cudagraph_mode: Annotated[
        _Text,
        _graph(
            "--cudagraph-mode",
            metavar="MODE",
            help="NONE, PIECEWISE, FULL, FULL_DECODE_ONLY or FULL_AND_PIECEWISE; short for -cc.cudagraph_mode.",
        ),
    ] = None
    cudagraph_capture_sizes: Annotated[
        _Text, _graph("--cudagraph-capture-sizes", metavar="N ...", help="Sizes to capture, tokens: 1 2 4 or 1,2,4.")
    ] = None
    max_cudagraph_capture_size: Annotated[
        _Text, _graph("--max-cudagraph-capture-size", metavar="N", help="Largest size to capture, tokens.")
    ] = None
    compilation_config: Annotated[
        _Texts, _graph("--compilation-config", "-cc", metavar="JSON", help="JSON, or one key: -cc.mode=3.")
    ] = None

    attention_backend: Annotated[
        _Text,
        _attention("--attention-backend", "--backend", metavar="NAME", help="FLASH_ATTN, FLASHINFER, ...; any case."),
    ] = None
    attention_config: Annotated[
        _Texts, _attention("--attention-config", "-ac", metavar="JSON", help="JSON, or one key: -ac.backend=...")
    ] = None
    attention_support: Annotated[
        _Text,
        _attention(
            "--attention-support",
            metavar="LEVEL",
            help="Level of a backend of your own: NEVER, UNIFORM_SINGLE_TOKEN_DECODE, UNIFORM_BATCH or ALWAYS.",
        ),
    ] = None
    kv_cache_dtype: Annotated[
        _Text, _attention("--kv-cache-dtype", metavar="TYPE", help="auto, bfloat16, fp8, fp8_e4m3, ...")
    ] = None
    block_size: Annotated[_Text, _attention("--block-size", metavar="N", help="Tokens of a KV cache block.")] = None
    num_gpu_blocks: Annotated[
        _Text, _attention("--num-gpu-blocks", metavar="N", help="KV cache blocks, where known.")
    ] = None
    num_gpu_blocks_override: Annotated[
        _Text, _attention("--num-gpu-blocks-override", metavar="N", help="KV cache blocks, whatever the memory.")
    ] = None
    kv_cache_dtype_skip_layers: Annotated[
        _Text,
        _attention("--kv-cache-dtype-skip-layers", metavar="LAYER ...", help="Layers that keep the model's type: 0,1."),
    ] = None
    disable_hybrid_kv_cache_manager: Annotated[
        _Bool,
        _attention(
            "--disable-hybrid-kv-cache-manager/--no-disable-hybrid-kv-cache-manager",
            help="One block table for all layers.",
        ),
    ] = None
    mamba_block_size: Annotated[
        _Text, _attention("--mamba-block-size", metavar="N", help="Tokens of a block of states.")
    ] = None
    mamba_cache_dtype: Annotated[
        _Text, _attention("--mamba-cache-dtype", metavar="TYPE", help="Type of Mamba's states.")
    ] = None
    mamba_ssm_cache_dtype: Annotated[
        _Text, _attention("--mamba-ssm-cache-dtype", metavar="TYPE", help="Type of the SSM part of Mamba's states.")
    ] = None
    mamba_cache_mode: Annotated[_Text, _attention("--mamba-cache-mode", metavar="MODE", help="none, align or all.")] = (
        None
    )
    kv_transfer_config: Annotated[_Texts, _attention("--kv-transfer-config", metavar="JSON", help="KV connector.")] = (
        None
    )

    tensor_parallel_size: Annotated[
        _Text, _parallel("--tensor-parallel-size", "-tp", metavar="N", help="Tensor parallel.")
    ] = None
    pipeline_parallel_size: Annotated[
        _Text, _parallel("--pipeline-parallel-size", "-pp", metavar="N", help="Pipeline stages.")
    ] = None
    data_parallel_size: Annotated[
        _Text, _parallel("--data-parallel-size", "-dp", metavar="N", help="Data parallel.")
    ] = None
    decode_context_parallel_size: Annotated[
        _Text, _parallel("--decode-context-parallel-size", "-dcp", metavar="N", help="Decode context parallel.")
    ] = None
    prefill_context_parallel_size: Annotated[
        _Text, _parallel("--prefill-context-parallel-size", "-pcp", metavar="N", help="Prefill context parallel.")
    ] = None
    nnodes: Annotated[_Text, _parallel("--nnodes", "-n", metavar="N", help="Nodes.")] = None
    distributed_executor_backend: Annotated[
        _Text, _parallel("--distributed-executor-backend", metavar="NAME", help="mp, ray, uni or external_launcher.")
    ] = None
    enable_expert_parallel: Annotated[
        _Bool,
        _parallel("--enable-expert-parallel/--no-enable-expert-parallel", "-ep", help="Experts over ranks."),
    ] = None
    all2all_backend: Annotated[
        _Text, _parallel("--all2all-backend", metavar="NAME", help="How experts exchange tokens.")
    ] = None
    enable_dbo: Annotated[_Bool, _parallel("--enable-dbo/--no-enable-dbo", help="Dual batch overlap.")] = None
    ubatch_size: Annotated[_Text, _parallel("--ubatch-size", metavar="N", help="Microbatches of a step.")] = None
    dbo_decode_token_threshold: Annotated[
        _Text, _parallel("--dbo-decode-token-threshold", metavar="N", help="Least tokens of a decode step to split.")
    ] = None
    dbo_prefill_token_threshold: Annotated[
        _Text, _parallel("--dbo-prefill-token-threshold", metavar="N", help="Least tokens of a prefill step to split.")
    ] = None

    speculative_config: Annotated[
        _Texts, _draft("--speculative-config", "-sc", metavar="JSON", help="JSON, or one key: -sc.method=ngram.")
    ] = None
    spec_method: Annotated[
        _Text, _draft("--spec-method", metavar="METHOD", help="ngram, eagle, eagle3, mtp, draft_model, ...")
    ] = None
    spec_tokens: Annotated[_Text, _draft("--spec-tokens", metavar="N", help="Draft tokens a request and step.")] = None
    spec_model: Annotated[_Text, _draft("--spec-model", metavar="MODEL", help="Draft model, given as --model.")] = None
    enable_lora: Annotated[_Bool, _draft("--enable-lora/--no-enable-lora", help="Serve LoRA adapters.")] = None
    max_loras: Annotated[_Text, _draft("--max-loras", metavar="N", help="Most adapters in one batch.")] = None
    max_lora_rank: Annotated[_Text, _draft("--max-lora-rank", metavar="N", help="Largest rank of an adapter.")] = None
    specialize_active_lora: Annotated[
        _Bool,
        _draft("--specialize-active-lora/--no-specialize-active-lora", help="A graph for each number of adapters."),
    ] = None

    limit_mm_per_prompt: Annotated[
        _Texts,
        _media("--limit-mm-per-prompt", metavar="JSON", help='Most items of a prompt: {"image": 0}.'),
    ] = None
    language_model_only: Annotated[
        _Bool, _media("--language-model-only/--no-language-model-only", help="Text alone: no encoder is loaded.")
    ] = None
    mm_encoder_only: Annotated[
        _Bool, _media("--mm-encoder-only/--no-mm-encoder-only", help="The encoder alone: no language model is loaded.")
    ] = None
    mm_encoder_tp_mode: Annotated[
        _Text,
        _media(
            "--mm-encoder-tp-mode", metavar="MODE", help="weights: ranks share the encoder; data: each has all of it."
        ),
    ] = None
    mm_processor_kwargs: Annotated[
        _Texts, _media("--mm-processor-kwargs", metavar="JSON", help='Of the processor: {"max_pixels": 1003520}.')
    ] = None
    skip_mm_profiling: Annotated[
        _Bool, _media("--skip-mm-profiling/--no-skip-mm-profiling", help="Profile without the encoder.")
    ] = None

    cpu_offload_gb: Annotated[
        _Text, _offload("--cpu-offload-gb", metavar="GIB", help="Weights of each GPU that stay on the CPU, GiB.")
    ] = None
    cpu_offload_params: Annotated[
        _Text, _offload("--cpu-offload-params", metavar="NAME ...", help="Of them, names to keep there: experts,mlp.")
    ] = None
    offload_backend: Annotated[_Text, _offload("--offload-backend", metavar="NAME", help="auto, uva or prefetch.")] = (
        None
    )
    offload_group_size: Annotated[
        _Text, _offload("--offload-group-size", metavar="N", help="Layers of a group; its last ones stay on the CPU.")
    ] = None
    offload_num_in_group: Annotated[
        _Text, _offload("--offload-num-in-group", metavar="N", help="Layers of each group on the CPU.")
    ] = None
    offload_prefetch_step: Annotated[
        _Text, _offload("--offload-prefetch-step", metavar="N", help="Layers fetched ahead.")
    ] = None
    offload_params: Annotated[
        _Text, _offload("--offload-params", metavar="NAME ...", help="Of a layer, names to keep on the CPU.")
    ] = None
