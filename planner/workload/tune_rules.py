"""Rules of `cgplan tune`: what it refuses, and what an operator should know before the list is used."""

from __future__ import annotations

from ..input_rules import OWN
from ..trace import Rule

NOTHING_TO_CHOOSE = Rule(
    "CG720",
    title="There is nothing to choose: no batch of the traffic could have a graph.",
    why="Sizes matter for batches that run in a graph. With graphs switched off, or batches above them all, none does.",
    example="--enforce-eager; or traffic of prefills of 8,192 tokens alone.",
    instead="Switch graphs on, or give traffic of steps that may have one.",
    source=OWN,
)
LIMITS_TOO_TIGHT = Rule(
    "CG721",
    title="No list of sizes keeps to the limits.",
    why="Every list has the fixed sizes: the largest graph of today, the fullest decode batch, and those of --must.",
    example="--max-graphs 1 with FULL_AND_PIECEWISE: two sizes are four graphs.",
    instead="Raise the limit that is named, or fix fewer sizes: a lower --max-num-seqs, fewer of --must.",
    source=OWN,
)
NOT_KEPT = Rule(
    "CG722",
    title="vLLM would not keep a list of sizes as it was chosen, so it is not offered.",
    why="Each list goes through vLLM's own rules again: sizes may be rounded or dropped, and the mode may change.",
    example="A size above max_num_batched_tokens is dropped in silence.",
    instead="Nothing to do: the other lists were resolved to what is promised.",
    source="vllm/config/vllm.py:2565-2588",
)
NO_TIMES = Rule(
    "CG723",
    title="The profile has no times by size.",
    why="Without them seconds cannot be the cost.",
    example="cgplan profile --times none; or no eager times where the traffic has batches without a graph.",
    instead="Measure with `cgplan profile --times 1,8,64,256`, or leave --profile out: the cost is then tokens.",
    source=OWN,
)
ABOVE_ALL_SIZES = Rule(
    "CG724",
    title="Decode batches of the traffic are above the largest capture size.",
    why="A list of sizes is chosen up to today's largest one, so that graphs do not grow unasked.",
    example="Decode batches of 600 requests, and sizes up to 512: such steps run eager.",
    instead="Ask again with a largest size that reaches the widest decode batch; the finding names one that was tried.",
    source="vllm/v1/cudagraph_dispatcher.py:250-256",
)
NO_STEPS = Rule(
    "CG725",
    title="A file of --workload tells of no steps.",
    why="A log has steps only where vLLM was started with --cudagraph-metrics or --enable-logging-iteration-details.",
    example="A log of the start alone.",
    instead="Start the server with --cudagraph-metrics, or give the text of /metrics, CSV or JSON.",
    source=OWN,
)
