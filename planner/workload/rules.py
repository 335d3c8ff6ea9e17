"""Rules of workloads: why a step ran without the graph that was wanted for it, and what a source cannot say."""

from __future__ import annotations

from ..input_rules import OWN
from ..trace import Rule

NO_GRAPH_FOR_KIND = Rule(
    "CG711",
    title="The mode has no graph for batches of this kind.",
    why="FULL_DECODE_ONLY keeps graphs for decode batches only, PIECEWISE has none of FULL, NONE has none at all.",
    example="-cc.cudagraph_mode=FULL_DECODE_ONLY: every step with a prefill is launched kernel by kernel.",
    instead="Ask for FULL_AND_PIECEWISE, or accept it: a long prefill gains little from a graph.",
    source="vllm/v1/cudagraph_dispatcher.py:184-230",
)
SEEN_OTHERWISE = Rule(
    "CG712",
    title="The server says of a batch another mode, or another padded size, than the resolution.",
    why="Then the deployment that was resolved is not the one that ran, or something that cgplan does not follow had a "
    "say: ranks that agree on a size, an encoder's output, adapters.",
    example="The table has 40 tokens that ran PIECEWISE as 40; resolved, they run FULL as 48.",
    instead="Compare the flags of the log with those that were resolved.",
    source="vllm/v1/worker/gpu_model_runner.py:3771-3779",
)
OTHER_SIZES = Rule(
    "CG713",
    title="The settings above a table are not those of the resolution.",
    why="The frontend prints the mode and the sizes that it started with.",
    example="Capture sizes up to 256 above the table, up to 512 in the resolution.",
    instead="Give the flags that the server of the log was started with.",
    source="vllm/compilation/cuda_graph.py:51-63",
)
BEYOND_LIMITS = Rule(
    "CG714",
    title="The traffic has batches that the deployment does not let in.",
    why="A step has at most max_num_batched_tokens tokens, and at most max_num_seqs requests.",
    example="Decode batches of 300 requests, held against --max-num-seqs 256.",
    instead="Give the limits of the server that the traffic is from, or read the shares with care.",
    source="vllm/config/scheduler.py",
)
MANY_MISSED = Rule(
    "CG715",
    title="A considerable share of the steps missed its graph.",
    why="Each such step is launched kernel by kernel, or in pieces.",
    example="8.2% of the steps ran without a graph: decode batches above 256 requests.",
    instead="See the code of the reason beside the batches that missed.",
    source=OWN,
)
BUCKETS = Rule(
    "CG716",
    title="A histogram of /metrics knows steps by bucket only, so shares are bounds.",
    why="vllm:iteration_tokens_total has buckets 1, 8, 16, 32 to 16384. It counts a step when its requests give tokens "
    "out: a step that ends a prefill counts the whole prompt, one that only goes on with a prefill is not counted, and "
    "of draft tokens only those accepted are.",
    example="512 steps of 9 to 16 tokens: between 0 and 44% of each is padding, by the sizes of the grid.",
    instead="Start the server with --cudagraph-metrics and give its log: that counts every step by its exact size.",
    source="vllm/v1/metrics/loggers.py:1273-1276",
)
TRAFFIC_PADDING = Rule(
    "CG717",
    title="Padding takes a considerable share of what the traffic's steps compute.",
    why="A batch runs at the next captured size; where traffic gathers just above one, most of the step is padding.",
    example="Half of all steps have 33 requests and run as 40: 17.5% of their tokens are padding.",
    instead="Name the sizes that the traffic uses in --cudagraph-capture-sizes.",
    source="vllm/v1/cudagraph_dispatcher.py:71-108",
)
UNREADABLE_STEPS = Rule(
    "CG718",
    title="A source of steps cannot be read.",
    why="Half-read counts would give shares that are wrong.",
    example="A line of /metrics without a number; a CSV file without a column `tokens`.",
    instead="Save /metrics as it is served; `cgplan schema workload` prints the form of a file of your own.",
    source=OWN,
)
ADDRESS = Rule(
    "CG719",
    title="An address of --metrics does not answer with text of metrics.",
    why="It is asked once, only where you give it, for a few seconds and a few MiB; redirects are not followed.",
    example="--metrics http://localhost:8000: connection refused.",
    instead="Give the server's own address, or save the text: curl -s ADDRESS/metrics > metrics.txt.",
    source=OWN,
)
