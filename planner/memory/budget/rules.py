"""Rules of the memory budget, and of why a server does not start for lack of memory."""

from __future__ import annotations

from ...input_rules import OWN
from ...trace import Rule

FREE_MEMORY = Rule(
    "CG504",
    title="The memory that vLLM asks for must be free when it starts.",
    why="--gpu-memory-utilization is a share of the whole GPU, and what CUDA, NCCL and others hold is not free.",
    example="0.99 on an H100 with two ranks: 78.4 GiB are asked for and 77.7 GiB are free; it does not start.",
    instead="Lower --gpu-memory-utilization to what is free, or stop the other processes on the GPU.",
    source="vllm/v1/worker/utils.py:716-772",
)
BUDGET = Rule(
    "CG505",
    title="The KV cache gets what the weights, the profile run and its libraries leave of the memory asked for.",
    why="Until 0.26 vLLM adds up weights, torch's peak and what is not torch's; since 0.27 it reads what the GPU lost,"
    " so the buffers of the runner count, too.",
    example="Llama 3.1 8B on an H100 at 0.95: 75.23 - 14.99 - 1.89 - 0.25 = 58.11 GiB.",
    instead="Lower --max-num-batched-tokens or --max-num-seqs, which set the peak of the profile run.",
    source="vllm/v1/worker/gpu_worker.py:753-757",
    history="--gpu-memory-utilization is 0.92 by default since 0.20.2, 0.9 before",
)
NOT_COUNTED = Rule(
    "CG506",
    title="The buffers of runner V2 are not in the budget of this release.",
    why="A count of the vocabulary for each of --max-num-seqs rows is allocated before the profile run, and the sum of"
    " three terms leaves it out.",
    example="0.25.1 with --max-num-seqs 1024 and 128,256 entries: 0.5 GiB come on top of --gpu-memory-utilization.",
    instead="Lower --max-num-seqs, or leave more of the GPU outside --gpu-memory-utilization.",
    source="vllm/v1/worker/gpu/sample/penalties.py:32-45",
    until="0.26.0",
    release="0.25.1",
)
NO_ROOM_TO_CAPTURE = Rule(
    "CG507",
    title="What stays free beside the KV cache must hold the CUDA graphs.",
    why="They are captured after the KV cache has taken its memory; CUDA runs out of memory where they do not fit.",
    example="0.99 on 0.19.1, which keeps nothing back for graphs: 1.1 GiB stay free, and 166 graphs need 1.8 GiB.",
    instead="Lower --gpu-memory-utilization, or capture fewer sizes.",
    source="vllm/v1/worker/gpu_worker.py:707-757",
)
MANUAL = Rule(
    "CG508",
    title="--kv-cache-memory-bytes sets the KV cache whatever is left.",
    why="Nothing is measured then, and --gpu-memory-utilization only decides whether the start is refused.",
    example="--kv-cache-memory-bytes 60G on a GPU with 55 GiB left runs out of memory when the cache is allocated.",
    instead="Give at most what the budget leaves, less what the graphs take.",
    source="vllm/v1/worker/gpu_worker.py:656-681",
)
WARM_UP = Rule(
    "CG509",
    title="After capture the sampler is warmed up with --max-num-seqs rows of logits, beside a full KV cache.",
    why="It needs 14 bytes for each row and entry of the vocabulary again, and capture has left the free memory in"
    " pieces.",
    example="gpt-oss-20b on an H100 with 0.19.0, 0.95 and 1,024 rows runs out of memory here, after 40 s of capture.",
    instead="Lower --max-num-seqs, or --gpu-memory-utilization.",
    source="vllm/v1/worker/gpu_worker.py:996-1068",
)
WEIGHTS = Rule(
    "CG597",
    title="The weights of each GPU must fit into its memory.",
    why="They are loaded first. What does not fit ends the start with CUDA out of memory, whatever the share is that"
    " vLLM may take.",
    example="Llama 3.3 70B in bfloat16 has 131 GiB; an H100 has 79 GiB, so four share them.",
    instead="Spread the model over more GPUs, or take a quantised checkpoint; --weights-bytes tells `plan` how large"
    " the weights of one are on a GPU, where its name is not known here.",
    source="vllm/v1/worker/gpu_worker.py:594-612",
)
THIN_MARGIN = Rule(
    "CG598",
    title="Less stays free beside the KV cache and the graphs than the estimate of the graphs may be off by.",
    why="The start holds by every bound, and what is not modelled, such as another backend's workspace or a kernel that"
    " is compiled, has to fit into the rest.",
    example="A 27B hybrid on a 32 GB GPU with 0.19: 86 graphs on top of the share, and 0.47 GiB surely stay free.",
    instead="Lower --max-num-seqs or capture fewer sizes, or lower --gpu-memory-utilization.",
    source=OWN,
)
NOT_THE_MODELS = Rule(
    "CG917",
    title="The tensors of --weights do not look like those of the model.",
    why="Layers are missing, or the bytes are far from what the model's shape says, so the budget is that of something"
    " else.",
    example="--weights with the folder of an adapter, or of a smaller model.",
    instead="Give the folder with all weights of this model.",
    source=OWN,
)
WEIGHTS_UNKNOWN = Rule(
    "CG916",
    title="The weights of the model cannot be worked out from its config.json.",
    why="Its layers are of a kind whose matrices cgplan does not know, and a guess would be worth nothing.",
    example="A hybrid model of a class that is not modelled.",
    instead="Give the bytes of the weights, or the folder with its safetensors files.",
    source=OWN,
)
