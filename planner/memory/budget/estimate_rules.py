"""Rules of vLLM's own figures about its CUDA graphs: estimates that mislead, and the KV cache that its log suggests."""

from __future__ import annotations

from ...input_rules import OWN
from ...trace import Rule

IMPLAUSIBLE = Rule(
    "CG590",
    title="An estimate of the graphs below 0, or far above what capture takes, is a fault of the profile run.",
    why="It is a difference of free memory, so all else that changed is in it; the KV cache pays or gains it.",
    example="-20.5 GiB on a GB10: the KV cache is 20.5 GiB larger than --gpu-memory-utilization allows.",
    instead="Set --kv-cache-memory-bytes, or VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0 with a lower utilization.",
    source="vllm/v1/worker/gpu_worker.py:707-757",
)
SUGGESTED_TWICE = Rule(
    "CG525",
    title="The --kv-cache-memory value that vLLM's log suggests takes the graphs off twice.",
    why="The peak in its sum holds the estimate already, and what capture took is taken off as well.",
    example="178 GiB with graphs of 64 GiB: -20.83 GiB is suggested, 36.62 GiB are right.",
    instead="Use the value that `cgplan plan` gives, or that of the line `Available KV cache memory`, or add what the"
    " graphs took and 0.15 GiB.",
    source="vllm/v1/worker/gpu_worker.py:1013-1068",
    since="0.27.1",
)
LATER_DEDUCTED = Rule(
    "CG599",
    title="From 0.20.2 on the KV cache gives the graphs' estimate up: a full cache becomes smaller with the release.",
    why="Until 0.19.1 the estimate is printed, and the graphs come on top of --gpu-memory-utilization.",
    example="6.9 GiB of KV cache hold 1.36 requests of the full length; less an estimate of 1.6 GiB they hold 1.04.",
    instead="Raise --gpu-memory-utilization by that release's estimate, which is another than the one printed now, or"
    " lower --max-model-len.",
    source="vllm/v1/worker/gpu_worker.py:447-470",
    until="0.19.1",
)
SHARED_MEMORY = Rule(
    "CG592",
    title="On a GPU that shares its memory with the CPU the graphs' estimate and what capture took are not reliable.",
    why="Both are differences of free memory, and the rest of the machine changes that as well.",
    example="A GB10: -20.5 GiB estimated for graphs that took 0.73 GiB; another printed -0.19 GiB for capture.",
    instead="Set --kv-cache-memory-bytes to what the plan gives.",
    source="vllm/utils/mem_utils.py:131-161",
)
FROM_TWO_SIZES = Rule(
    "CG593",
    title="vLLM takes the second largest FULL graph for the cost of every smaller one.",
    why="With a list of few sizes that graph may be the first to need a workspace, which all others share.",
    example="gpt-oss with powers of two up to 1024: 1024 requests are not split, 512 are; 256 MiB count ten times.",
    instead="Lower --max-cudagraph-capture-size so that the largest size needs the workspace, or capture more sizes.",
    source="vllm/v1/worker/gpu/cudagraph_utils.py:1026-1036",
)
GATED_DELTA = Rule(
    "CG529",
    title="Transient memory of gated delta layers is taken for graphs.",
    why="Reports show an estimate that grows with --max-num-batched-tokens, by 16 bytes a token and element of the"
    " value heads, and graphs that do not. Which step takes it is not known.",
    example="0.26.0, a 122B model and 29,818 batched tokens: 4.2 GiB are estimated, and graphs take 0.6.",
    instead="Lower --max-num-batched-tokens, or switch the estimate off where the utilization leaves room.",
    source="vllm/v1/worker/gpu_model_runner.py, profile_cudagraph_memory",
    since="0.26.0",
    until="0.28.0",
    release="0.28.0",
)
GDN_PREFILL = Rule(
    "CG552",
    title="The prefill of a gated delta layer takes memory that vLLM does not profile.",
    why="The profile run has no attention metadata, so the layer returns after a warm-up of 64 tokens. In a real"
    " prefill the convolution's output, q, k, v, w, u, the states of all chunks of 64, the new v and the output stand"
    " at once; the KV cache was sized as if they did not.",
    example="48 value and 16 key heads of 128 and 8192 batched tokens: up to 0.93 GiB in one layer.",
    instead="Lower --max-num-batched-tokens, or leave more memory outside --gpu-memory-utilization.",
    source="vllm/model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py:1052-1068,1228-1232,1405-1560, "
    "vllm/third_party/flash_linear_attention/ops/chunk.py:25-85, chunk_delta_h.py:352-357",
    release="0.28.0",
)
STORED_BY_NAME = Rule(
    "CG596",
    title="How the weights are stored is taken from the model's name.",
    why="ModelOpt writes it into hf_quant_config.json, and the catalogue has config.json alone; which layers are left"
    " as they were is not known, so the weights are 15% either way.",
    example="nvidia/Llama-3.1-70B-Instruct-FP8: a byte a weight is counted.",
    instead="Give the model's folder, --weights with its safetensors files, or --weights-bytes with those of one GPU.",
    source="cgplan",
)
ENCODER_GRAPHS = Rule(
    "CG594",
    title="Graphs of the vision encoder come on top of the plan, and of the estimate of older releases.",
    why="They have a pool of their own; runner V1 counts them in the estimate since 0.23, runner V2 since 0.29.",
    example="18 encoder graphs: 7.46 GiB of graphs where 0.58 GiB were estimated.",
    instead="Leave cudagraph_mm_encoder off, or lower --gpu-memory-utilization by some GiB.",
    source="vllm/v1/worker/gpu_model_runner.py:6268-6414",
)
SYSTEM_MEMORY = Rule(
    "CG589",
    title="On a GPU that shares its memory with the CPU the operating system and every process take part of it.",
    why="--gpu-memory-utilization is a share of the whole memory, and vLLM goes by what the system calls available:"
    " CUDA's own figure leaves out what the page cache would give back.",
    example="Two GB10s of 121.6 GiB that served nothing else had 113.2 and 101.3 to 102.2 GiB free: 0.93 and 0.83.",
    instead="Give --free-bytes, the column `available` of `free -b`, and keep the share below it.",
    source="vllm/utils/mem_utils.py:140-161",
)
UNMEASURED = Rule(
    "CG553",
    title="No capture of this attention, GPU family or layout of ranks was measured.",
    why="What the graphs take is then read off the source and scaled from other GPUs; memory that is set up after"
    " vLLM's profile run is in neither figure.",
    example="Eight GPUs of a family never measured: 1.3 GiB estimated, and 4.7 to 16.9 once the estimate was mended.",
    instead="Leave a few GiB outside --gpu-memory-utilization for the first start, and measure it.",
    source=OWN,
)
