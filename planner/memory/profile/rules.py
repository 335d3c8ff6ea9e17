"""Rules of the on-device profile: why it does not run, or not to its end."""

from __future__ import annotations

from ...trace import Rule

OWN = "cgplan"

NO_TORCH = Rule(
    "CG990",
    title="torch is not installed, or cannot be loaded.",
    why="Graphs are captured with torch; nothing of a GPU can be measured without it.",
    example="cgplan profile in an environment made by `pip install cgplan`.",
    instead="pip install 'cgplan[profile]', or --dry-run, which needs no torch.",
    source=OWN,
)
NO_GPU = Rule(
    "CG991",
    title="There is no GPU that torch can use.",
    why="No driver, a driver older than torch's CUDA, a torch without CUDA, or an index past the last GPU.",
    example="--device 1 on a machine with one GPU.",
    instead="Run it on a machine with an NVIDIA GPU, with a torch built for its driver.",
    source=OWN,
)
NO_ROOM = Rule(
    "CG992",
    title="The GPU has too little memory, or too little of it is free.",
    why="The decoder's weights, its cache and the largest step are known before anything is allocated, and of vLLM "
    "what a start takes. --dry-run says so of the GPU that --gpu names.",
    example="A decoder of 70B parameters on a GPU of 80 GiB.",
    instead="Stop what else runs on the GPU, spread the model with --tensor-parallel-size, or take another GPU; for "
    "vLLM a shorter --max-model-len.",
    source=OWN,
)
NOT_BUILT = Rule(
    "CG993",
    title="The synthetic engine cannot build a decoder of this shape.",
    why="It builds dense and mixture-of-experts decoders with attention over keys and values. A latent, a state or an "
    "encoder needs kernels that torch does not have, and others would measure something else.",
    example="DeepSeek V3 (latent attention), Mamba, T5.",
    instead="--engine vllm runs the model itself.",
    source=OWN,
)
RANK_FAILED = Rule(
    "CG994",
    title="A rank of the tensor-parallel profile failed, or their number is wrong.",
    why="All ranks wait for each other in every step; where one ends, the others are ended, too.",
    example="-tp 2 on a machine with one GPU.",
    instead="Choose -tp by the GPUs that are free.",
    source=OWN,
)
NO_VLLM = Rule(
    "CG995",
    title="The installed vLLM cannot be profiled.",
    why="Its captures are read through its own methods, which have this shape from 0.23.0 to 0.33.0 only.",
    example="--engine vllm where vLLM is not installed; several GPUs.",
    instead="--engine synthetic, or another release of vLLM; --dry-run needs none.",
    source=OWN,
)
BAD_TARGET = Rule(
    "CG996",
    title="The factory of --engine callable cannot be used.",
    why="MODULE:FACTORY names a function that returns the step, or a pair of a module and a function to its inputs.",
    example="--target mymodule, without a name after the colon.",
    instead="--target mymodule:make_step, run where `import mymodule` works.",
    source=OWN,
)
NOT_CAPTURABLE = Rule(
    "CG997",
    title="The step does something that no CUDA graph can hold.",
    why="A graph is a list of GPU work with fixed shapes and addresses. A step that waits for the GPU, makes shapes of "
    "values, or allocates elsewhere cannot be replayed.",
    example="x.item() or x.nonzero() in the step.",
    instead="Keep the value on the GPU; run that part eagerly between two graphs, as PIECEWISE does.",
    source=OWN,
)
NO_GRAPHS = Rule(
    "CG998",
    title="These options capture no CUDA graphs.",
    why="A profile captures what `cgplan resolve` finds.",
    example="--enforce-eager.",
    instead="Leave that option out.",
    source=OWN,
)
