"""Rules of what a log shows of memory: beyond the budget, between ranks, and against the plan."""

from __future__ import annotations

from ..input_rules import OWN
from ..trace import Rule

BEYOND_BUDGET = Rule(
    "CG530",
    title="More memory is in use than vLLM asked for, and it is not the CUDA graphs.",
    why="NCCL, workspaces of attention and experts, and pieces that torch keeps grow after the profile run, which is"
    " all that the budget knows.",
    example="8 x 32 GiB: 29.81 GiB asked for, 31.18 in use at the failure, 62 MiB of it graphs.",
    instead="Set --kv-cache-memory-bytes to 2 GiB less than the KV cache that the log names.",
    source="vllm/v1/worker/gpu_worker.py:753-757",
)
NOT_MOVED = Rule(
    "CG531",
    title="Memory runs out by the same amount whatever --gpu-memory-utilization is.",
    why="What is missing is taken after the KV cache has been sized, so a smaller share does not help as it should.",
    example="8 GPUs of 256 GiB at 0.89, 0.88 and 0.87: 248 GiB are in use each time.",
    instead="Set --kv-cache-memory-bytes, to 2 GiB less than the KV cache that the log names.",
    source=OWN,
)
RANKS_DIFFER = Rule(
    "CG532",
    title="Ranks of an engine print different values; the one with the least KV cache decides for all of them.",
    why="Stages of a pipeline hold different layers, and GPUs may have other processes on them.",
    example="4 stages: 3.28 GiB of weights in the middle, 4.26 at the ends; 69.80 and 68.89 GiB are left.",
    instead="Look at the rank with the least KV cache; VLLM_PP_LAYER_PARTITION moves layers between pipeline stages.",
    source="vllm/v1/core/kv_cache_planning.py:1461-1605",
)
OUTSIDE_BOUNDS = Rule(
    "CG533",
    title="The log has a value that lies outside the bounds of the plan.",
    why="Something of the deployment is not as it was assumed, or the model of the memory does not hold for it.",
    example="Planned 1.6 to 2.2 GiB of activations, and the log has 5.6.",
    instead="Keep the log's values with --save, and plan with --profile.",
    source=OWN,
)
DIFFERENT_GRAPHS = Rule(
    "CG534",
    title="The log has another CUDA graph mode, or other sizes, than the plan.",
    why="Another release, a backend that was chosen otherwise, or a setting that the log does not show.",
    example="Planned FULL_AND_PIECEWISE; the log says PIECEWISE, for FlashInfer was used.",
    instead="Give what the log does not show: --attention-backend, --env, --software.",
    source=OWN,
)
TAKES_MORE = Rule(
    "CG535",
    title="Capture took more memory than was kept back for it.",
    why="vLLM's estimate takes two sizes of a mode for all; what is set up at other sizes is missed.",
    example="1.3 GiB estimated on a MI355X, and 4.7 to 16.9 GiB taken.",
    instead="Lower --gpu-memory-utilization by the difference, or set --kv-cache-memory-bytes.",
    source="vllm/v1/worker/gpu_model_runner.py:6268-6414",
)
TOKENS_OF_HYBRID = Rule(
    "CG536",
    title="The KV cache line of older releases counts tokens of one group; the concurrency is the figure to use.",
    why="For models with several kinds of layers the number of tokens was that of one group of layers.",
    example="290,864 tokens beside 33.04x for 32,768: there is room for 1,082,655 tokens of full requests.",
    instead="Multiply the concurrency by the length it is said for.",
    source="vllm/v1/core/kv_cache_utils.py:1319-1330",
    until="0.20.2",
    release="0.19.1",
)
OUTSIDE_THE_BUDGET = Rule(
    "CG537",
    title="The graphs are not in the budget of this start, and what is free beside it is little.",
    why="The release keeps nothing back for them, runner V2 estimated 0, or the estimate is switched off.",
    example="0.19 at 0.98: 1.2 GiB stay free, of which the graphs take 0.9.",
    instead="Lower --gpu-memory-utilization until half a GiB more than the graphs take stays free.",
    source="vllm/v1/worker/gpu_worker.py:719-757",
)
OTHER_GPU = Rule(
    "CG538",
    title="The log's GPU has another memory than the one that was named.",
    why="What vLLM asks for is a share of it, so the plan is that of another machine.",
    example="--gpu l40s with a log that has 79.19 GiB.",
    instead="Name the GPU of the log; of a part of one (MIG), give its memory with --gpu-memory-bytes.",
    source=OWN,
)
OTHER_REQUESTS = Rule(
    "CG539",
    title="The graphs of the log come of other requests, or of more tokens a request, than the command has.",
    why="Sizes go up to twice --max-num-seqs times the tokens of a request in a decode step, FULL ones to once, and"
    " runner V1 rounds them up to whole requests: so the number of graphs tells both.",
    example="41 PIECEWISE graphs up to 384 and 25 FULL up to 192: 48 or 49 requests of 4 tokens (3 drafts).",
    instead="Give --max-num-seqs and --spec-tokens as the server was started.",
    source="vllm/config/vllm.py:1664-1730",
    release="0.23.0",
)
MISSING_KIND = Rule(
    "CG832",
    title="The plan has CUDA graphs of a kind of which the log has none.",
    why="A mode that was asked for, an attention backend that cannot do it, drafts, a pooling model or the runner"
    " leaves a whole kind out; the plan knows none of these where the log does not show them.",
    example="16 FULL and 16 PIECEWISE planned; the log says `Profiling CUDA graph memory: PIECEWISE=16`.",
    instead="Give what the log does not show: -cc.cudagraph_mode, --attention-backend, --speculative-config.",
    source="vllm/v1/worker/gpu_model_runner.py:6268-6304",
)
FAR_OFF = Rule(
    "CG833",
    title="vLLM's estimate of the graphs is off by half of what capture took, or by a quarter and half a GiB.",
    why="Two graphs of a kind stand for all of it, and what was set up for the estimate is not set up again.",
    example="0.58 GiB kept back for graphs that took 0.24: +142%, and the KV cache lacks 59,283 tokens, 2.6%.",
    instead="Set --kv-cache-memory-bytes, or move --gpu-memory-utilization by the difference.",
    source="vllm/v1/worker/gpu_model_runner.py:6268-6414",
)
PLUGIN = Rule(
    "CG831",
    title="The platform is one of a plugin, which has rules of its own.",
    why="A platform plugin may change the mode, the attention backend and what is measured of the memory; cgplan has"
    " the rules of CUDA, and on AMD's GPUs those of ROCm.",
    example="A plugin that switched graphs off for every server with data parallelism.",
    instead="Go by the values of the log; the plugin's own documents say what it changes.",
    source="vllm/platforms/__init__.py:271-281",
)
NO_START = Rule(
    "CG985",
    title="A log has no line of a start of vLLM.",
    why="Only what vLLM prints when it starts says how memory and graphs came about.",
    example="A log that begins when the server has been serving for hours.",
    instead="Give what vLLM printed from its beginning, of all processes, at level INFO or DEBUG.",
    source=OWN,
)
PART_OF_A_LOG = Rule(
    "CG834",
    title="A few lines of a log are read by themselves.",
    why="What one line says of graphs and memory can be told without the others; how the start ended, and what the"
    " model takes, cannot.",
    example="`Estimated CUDA graph memory: 1.69 GiB total` alone: the KV cache gets that much less since 0.20.2.",
    instead="Give the whole log, or plan the command before the start with `cgplan plan`.",
    source=OWN,
)
ADVICE = Rule(
    "CG835",
    title="vLLM's advice on --gpu-memory-utilization is higher than capture needs.",
    why="It adds the estimate of the graphs to the share, whatever capture takes later.",
    example="0.95 to 0.9714 for an estimate of 1.69 GiB, where capture took 0.76 GiB: 0.9596 are in use.",
    instead="Go by what capture took, and leave half a GiB or 2% of the GPU free.",
    source="vllm/v1/worker/gpu_worker.py:719-757",
)
FEWER_FIT = Rule(
    "CG836",
    title="Fewer requests of the full length fit into the KV cache than --max-num-seqs lets run.",
    why="The others wait, or are preempted when they grow. Of a model with a state (Mamba, gated delta) each request"
    " takes its state however short it is.",
    example="137.80 requests of 1,024 tokens fit, and --max-num-seqs is 256.",
    instead="Nothing, where requests are shorter than --max-model-len; else lower --max-num-seqs, or give the KV cache"
    " more memory.",
    source="vllm/v1/core/kv_cache_utils.py:1061-1155",
)
NOT_CAPTURE = Rule(
    "CG837",
    title="The start is long for another reason than the CUDA graphs.",
    why="Loading, compilation and the warm-up and autotuning of kernels take most of it; fewer sizes save at most what"
    " capture took.",
    example="Capture took 24 s of 787 s, and 727 s lie between the KV cache and capture.",
    instead="Look at the longest part: weights on a faster disk, a kept compilation cache, kernels autotuned once.",
    source=OWN,
)
MOST_OF_THE_START = Rule(
    "CG838",
    title="Most of the start is taken by the CUDA graphs: their estimate, and capture.",
    why="The estimate captures two graphs of each kind after a warm-up, and capture takes all of them.",
    example="32 s for the estimate of a model of 0.6 billion parameters, in a start of about a minute.",
    instead="Fewer --cudagraph-capture-sizes; --kv-cache-memory-bytes leaves the profile run and the estimate out.",
    source="vllm/v1/worker/gpu_model_runner.py:6268-6414",
)
AFTER_AN_UPGRADE = Rule(
    "CG845",
    title="The estimate of the graphs is printed and not taken off the KV cache, which later releases do.",
    why="Until 0.19.1 it is taken off only where VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1 asks for it; since 0.20.2"
    " it is by default, so an upgrade makes the KV cache smaller by that much.",
    example="6.90 GiB and an estimate of 1.62: 5.28 GiB after an upgrade, and 1.36 requests become about 1.04.",
    instead="Give --kv-cache-memory-bytes, or the utilization that the log names, where so much is free.",
    source="vllm/v1/worker/gpu_worker.py:719-757",
    until="0.19.1",
    release="0.19.1",
)
SLOW_CAPTURE = Rule(
    "CG846",
    title="Each CUDA graph took long to capture.",
    why="Each graph is run before it is captured. With LoRA every run sets up adapters, up to --max-loras of them, and"
    " graphs are captured with and without them; older releases set more up for each; kernels that are compiled when"
    " they first run are compiled then.",
    example="65 s for 67 graphs of a model of 7 billion parameters with LoRA: 0.97 s each.",
    instead="Capture fewer sizes: the time goes with their number. Without any graph decode is slower.",
    source="vllm/v1/worker/gpu_model_runner.py:6571-6619",
)
