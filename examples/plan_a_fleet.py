"""Which model starts on which GPU, and how many tokens of KV cache it gets there.

    python examples/plan_a_fleet.py

A row a model and a number of GPUs, a column a kind of GPU; requests are of 8,192 tokens.
"""

from __future__ import annotations

from cgplan import Deployment, MemoryFlags, StartupError, gpu, load_model, plan

MODELS = {"Qwen/Qwen3-8B": (1, 2), "Qwen/Qwen3-32B": (1, 2, 4), "meta-llama/Llama-3.3-70B-Instruct": (2, 4)}
"""By model, the numbers of GPUs that share it."""

GPUS = ("l40s", "h100", "h200", "b200")
LENGTH = 8192


def cell(model: str, gpus: int, kind: str) -> str:
    """Requests that fit at once, or why there are none."""
    deployment = Deployment(
        model=load_model(model),
        gpu=gpu(kind),
        tensor_parallel_size=gpus,
        gpus_per_node=8,
        max_model_len=LENGTH,
        max_num_seqs=256,
    )
    try:
        found = plan(deployment, MemoryFlags(utilization=0.92))
    except StartupError as error:
        return error.code
    if not found.fits or found.best.plan is None:
        return "no"
    sure = "" if found.starts == "yes" else "?"
    return f"{found.best.plan.max_concurrency:,.0f}{sure}"


def main() -> None:
    print(f"{'Requests of 8,192 tokens':<38}{''.join(f'{kind:>8}' for kind in GPUS)}")
    for model, numbers in MODELS.items():
        for gpus in numbers:
            row = "".join(f"{cell(model, gpus, kind):>8}" for kind in GPUS)
            print(f"{model:<36}{gpus:>2}{row}")


if __name__ == "__main__":
    main()
