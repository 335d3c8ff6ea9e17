"""The peak of the profile run above the weights: one step of max_num_batched_tokens tokens, then the sampler.

Nothing is fitted. The peak is the highest of a few moments, and each is the sum of the tensors that are alive then:
the widest layer of the forward step, the sampler with max_num_seqs rows of logits, a kernel that is timed while it is
compiled, the vision encoder. Sources stand beside each moment.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ...deployment import Deployment
from ...env_switches import int_switch
from ...light_dataclass import dataclass
from ...model_shape import ModelShape
from ...releases import canonical, facts
from ...resolve import Resolution
from ...vocabulary import CompilationMode, Runner
from ...weight_shape import Matrix, WeightShape
from ..estimates import MIB, Interval, between, exactly
from ..layers.pipeline_stages import stage_ranges
from .encoder import EncoderStep, encoder_run, takes_media
from .weights import ITEM_BYTES

_HOPPER = 9
_BLACKWELL_CARDS = 12
SEEN_IN_REPORTS = "seen in reports"
_WIDE_LOGITS_ROWS = 8
"""Rows from which on the Triton sampler works, v1/sample/ops/topk_topp_sampler.py:190 @ 0.19.1."""


@dataclass(frozen=True)
class StageActivation:
    """The peak of one rank of a pipeline stage.

    Attributes:
        total: bytes above the weights.
        moment: what the peak is: "forward", "sampler", "compilation" or "encoder".
        terms: bytes of the tensors that are alive at the peak, by name.
        moments: bytes of every moment.
        sampler: bytes that the sampler takes and gives back, each time it runs with all rows.
    """

    total: Interval
    moment: str
    terms: dict[str, int] = field(default_factory=dict)
    moments: dict[str, int] = field(default_factory=dict)
    sampler: int = 0


@dataclass(frozen=True)
class Activation:
    """The peaks of all pipeline stages, first to last."""

    stages: tuple[StageActivation, ...]

    @property
    def highest(self) -> Interval:
        return max((stage.total for stage in self.stages), key=lambda total: total.best)


def measured(stage_bytes: list[int], source: str) -> Activation:
    """Peaks that are known, by pipeline stage."""
    return Activation(tuple(StageActivation(exactly(number, source), "measured") for number in stage_bytes))


def estimate_activation(deployment: Deployment, resolution: Resolution) -> Activation:
    """The peaks of `deployment`'s profile run.

    Args:
        resolution: of the same deployment.

    Raises:
        StartupError: CG542, the pipeline partition does not fit the layers.
    """
    stages = deployment.pipeline_parallel_size
    partition = deployment.env.get("VLLM_PP_LAYER_PARTITION")
    ranges = stage_ranges(deployment.model.num_hidden_layers, stages, partition)
    return Activation(
        tuple(
            _Step(deployment, resolution, layers, number == 0, number == stages - 1).peak()
            for number, layers in enumerate(ranges)
        )
    )


class _Step:
    """The profile run on one rank of a pipeline stage."""

    def __init__(self, deployment: Deployment, resolution: Resolution, layers: range, first: bool, last: bool) -> None:
        self.deployment = deployment
        self.resolution = resolution
        self.layers = layers
        self.first, self.last = first, last
        model: ModelShape = deployment.model
        self.model = model
        self.weights: WeightShape | None = model.weights
        self.facts: Any = facts("budget", canonical(deployment.vllm))["activation"]
        self.tokens = resolution.max_num_batched_tokens
        self.rows = min(resolution.max_num_seqs, self.tokens)
        dtype = model.dtype if deployment.dtype == "auto" else deployment.dtype
        self.item = ITEM_BYTES.get(dtype, 2)
        self.ranks = deployment.tensor_parallel_size
        self.hidden = self.tokens * model.hidden_size * self.item
        self.compiles = resolution.compilation_mode is CompilationMode.VLLM_COMPILE
        run = encoder_run(deployment, resolution, first)
        self.encoder = EncoderStep(deployment, run, self.item) if run is not None else None

    def peak(self) -> StageActivation:
        """The highest moment."""
        held = self._held()
        sampler = 0
        if self.deployment.mm_encoder_only:
            # gpu_model_runner.py, _dummy_run: the language model is not there.
            terms = (self.encoder.terms() if self.encoder is not None else {}) | {"cublas": held["cublas"]}
            total = sum(terms.values())
            sums = {"encoder": total}
            return StageActivation(self._interval(sums, {"encoder": terms}), "encoder", terms, sums)
        moments = {"forward": self._forward()}
        # A model that takes images embeds its tokens outside the compiled graph.
        if self.compiles and self.first and not takes_media(self.deployment):
            moments["compilation"] = self._compilation()
        if self.last and self.model.runner_type == "generate":
            moments["sampler"] = self._sampler()
            sampler = sum(size for name, size in moments["sampler"].items() if name != "sampler workspace")
        if self.encoder is not None:
            moments["encoder"] = self.encoder.terms() | {"cublas": held["cublas"]}
        for name in ("forward", "sampler"):
            if name in moments:
                moments[name].update(held)
        if "compilation" in moments:
            # Before the first matrix is multiplied: there is no workspace yet.
            moments["compilation"].update({k: v for k, v in held.items() if k not in ("cublas", "experts")})
        if moments["forward"].get("dense before experts"):
            moments["forward"].pop("experts")
        sums = {name: sum(terms.values()) for name, terms in moments.items()}
        moment = max(sums, key=lambda name: sums[name])
        terms = {name: size for name, size in moments[moment].items() if size}
        return StageActivation(self._interval(sums, moments), moment, terms, sums, sampler)

    def _interval(self, sums: dict[str, int], moments: dict[str, dict[str, int]]) -> Interval:
        """Low: kernels come from the compile cache, so none is timed. High: by what is known of the layers."""
        best = max(sums.values())
        without = {
            name: size - moments[name].get("timing", 0) - moments[name].get(SEEN_IN_REPORTS, 0)
            for name, size in sums.items()
            if name != "compilation"
        }
        spread = float(self.facts["spread"])
        weights = self.weights
        if weights is None or (weights.experts_per_token and "every layer" in weights.unsure):
            spread = float(self.facts["spread_encoder"])
        elif weights.experts_per_token or self.model.is_hybrid:
            spread = float(self.facts["spread_experts"])
        if self.encoder is not None:
            spread = float(self.facts["spread_encoder"])
        low = max(without.values()) * (1 - spread / 2)
        high = best * (1 + spread) + 32 * MIB
        unknown = weights is None or weights.vision is None
        if unknown and takes_media(self.deployment):
            high += int(self.facts["unknown_encoder_bytes"])
        source = "the tensors alive in the profile run"
        if best == sums.get("encoder"):
            source += ", in the vision encoder"
        return between(low, best, high, source)

    def _held(self) -> dict[str, int]:
        """What stays alive from one moment to the next: workspaces, a pipeline's tensors, the encoder's outputs."""
        workspace = self.facts["cublas_hopper_bytes" if self.deployment.gpu.major >= _HOPPER else "cublas_bytes"]
        held = {"cublas": int(workspace), "experts": self._expert_workspace()}
        if not self.first:
            held["pipeline"] = 2 * self.hidden
        if self.encoder is not None:
            held |= self.encoder.held()
        return held

    def _sampler(self) -> dict[str, int]:
        """v1/worker/gpu_model_runner.py, _dummy_sampler_run; runner V2: v1/worker/gpu/model_runner.py."""
        vocab, rows = self.model.vocab_size, self.rows
        is_v1 = self.resolution.runner is Runner.V1
        copies = int(self.facts["sampler_float32_copies_v1" if is_v1 else "sampler_float32_copies_v2"])
        logits = rows * vocab * self.item
        # Logits that are float32 already are not copied; V2 always copies.
        if self.item == 4 and is_v1:
            copies = max(0, copies - 1)
        terms = {
            "hidden states": self.hidden + 2 * rows * self.model.hidden_size * self.item,
            "logits": logits,
            "probabilities": copies * rows * vocab * 4,
        }
        if self.deployment.speculative_config is not None and is_v1:
            # Logits of as many draft tokens, and of the tokens after them, for the rejection sampler.
            terms["draft logits"] = 2 * logits
        if copies > 1 and not self._flashinfer_samples() and rows >= _WIDE_LOGITS_ROWS:
            programs = min(self.deployment.gpu.sm_count, 1 << (rows - 1).bit_length())
            terms["sampler workspace"] = programs * vocab * 4
        return terms

    def _flashinfer_samples(self) -> bool:
        given = int_switch(self.deployment.env, "VLLM_USE_FLASHINFER_SAMPLER")
        return self.deployment.software.flashinfer and (self.facts["flashinfer_sampler"] if given is None else given)

    def _compilation(self) -> dict[str, int]:
        """Inductor times the kernel of embedding and first norm on tensors of its own, the whole embedding too."""
        rows = -(-self.model.vocab_size // 64) * 64 // self.ranks
        return {"embedding": rows * self.model.hidden_size * self.item, "outputs": 2 * self.hidden}

    def _forward(self) -> dict[str, int]:
        """The widest layer of the step."""
        layers = self._layers() or {"mlp": self._residual() + self.tokens * 4 * self.model.hidden_size * self.item}
        workspace = self._expert_workspace()
        dense_first = workspace and self._is_dense_first()
        weight = {name: size + (0 if dense_first and name == "mlp" else workspace) for name, size in layers.items()}
        name = max(weight, key=lambda key: weight[key])
        label = "dense before experts" if dense_first and name == "mlp" else name
        terms = {label if label != "experts" else "expert layer": layers[name]}
        if self.compiles:
            terms["timing"] = self._l2_bytes()
        if self.deployment.gpu.major == _BLACKWELL_CARDS and self._is_nvfp4():
            terms[SEEN_IN_REPORTS] = int(self.facts["nvfp4_cards_bytes"])
        return terms

    def _is_nvfp4(self) -> bool:
        schemes = self.weights.schemes if self.weights is not None else ()
        return any(scheme.name.startswith("nvfp4") for scheme in schemes)

    def _residual(self) -> int:
        return self.hidden * int(self.facts["residual_copies"])

    def _is_dense_first(self) -> bool:
        """Dense layers come before those with experts, whose workspace is then not there yet."""
        assert self.weights is not None
        sparse = [i for m in self.weights.matrices if m.part == "experts" for i in m.layers if i in self.layers]
        dense = [i for m in self.weights.matrices if m.part == "mlp" for i in m.layers if i in self.layers]
        return bool(sparse) and bool(dense) and max(dense) < min(sparse)

    def _layers(self) -> dict[str, int]:
        """Bytes of the tensors that are alive in each kind of layer."""
        found: dict[str, int] = {}
        if self.weights is None:
            return found
        for matrix in self.weights.matrices:
            if any(layer in self.layers for layer in matrix.layers):
                found[matrix.part] = max(found.get(matrix.part, 0), self._layer(matrix))
        widths = {part: size for part, size in found.items() if size}
        if "router" in found:
            widths["experts"] = self.hidden + widths.pop("shared_expert", 0)
        if "mixer" in widths:
            widths["mixer"] += self.hidden  # the layer writes into a buffer for its output
        totals = {part: size + self._residual() for part, size in widths.items()}
        for part in ("mlp", "experts"):
            if part in totals:
                totals[part] += self._held_states()
        if self.model.use_mla:
            totals["attention"] = widths.get("attention", 0) + self.hidden + self._mla_workspace()
        return totals

    def _held_states(self) -> int:
        """What a gated delta layer leaves alive while the MLP behind it runs, until 0.26: its projection and output.

        The pieces of the compiled graph are called with them. In one run of 0.25.1 it was 640 MiB, all of it this.
        """
        if not self.facts["holds_gated_delta"] or "GDN_ATTN" not in self.model.mamba_backends or not self.compiles:
            return 0
        assert self.weights is not None
        mixers = [m for m in self.weights.matrices if m.part == "mixer" and any(i in self.layers for i in m.layers)]
        inner = max((m.rows for m in mixers if "in_proj_qkv" in m.name), default=0)
        outer = max((m.columns for m in mixers if m.name.endswith("out_proj")), default=0)
        return (inner + 2 * outer) // self.ranks * self.tokens * self.item

    def _layer(self, matrix: Matrix) -> int:
        """Outputs of a layer's first projection and what follows on it."""
        width = -(-matrix.rows // self.ranks) if matrix.split in ("rows", "kv_heads") else matrix.rows
        step = self.tokens * self.item
        leaf = matrix.name.rpartition(".")[2]
        if matrix.part in ("mlp", "shared_expert"):
            if leaf == "gate_up_proj":
                return step * (width + width // 2)
            return step * 2 * width if leaf == "up_proj" else 0
        if matrix.part == "router":
            return 0
        if matrix.part == "mixer":
            # A state layer's input projection, two copies for its convolution, and its output.
            return self._mixer(matrix, width) * step if "in_proj" in leaf or leaf == "qkv_proj" else 0
        if matrix.part == "attention" and leaf in ("q_proj", "q_b_proj", "wq_b"):
            if self.model.use_mla:
                return step * (width + self.model.head_size)
            return step * 2 * (width + max(1, self.model.num_kv_heads // self.ranks) * self.model.head_size)
        return 0

    def _mixer(self, matrix: Matrix, width: int) -> int:
        cache = self.model.cache
        for layers in cache.layers if cache is not None else ():
            state = layers.state
            if state is not None and layers.kind == "mamba2" and set(layers.layers) & set(matrix.layers):
                mixed = (state.width + 2 * state.n_groups * state.state_size) // self.ranks
                return width + 2 * mixed + state.width // self.ranks
        return width + width // 2

    def _mla_workspace(self) -> int:
        """mla_attention.py:936-947: keys and values of a prefix, as many tokens as the workspace holds."""
        size = self.model.qk_nope_head_dim or 0
        value = self.model.v_head_dim or 0
        limit = int(self.facts["mla_workspace_tokens"])
        tokens = max(min(max(8 * self.resolution.max_model_len, 4 * self.rows * 16), limit), self.rows * 16)
        return tokens * (self.model.num_attention_heads // self.ranks) * (size + value) * self.item

    def _expert_workspace(self) -> int:
        """fused_moe/: outputs of both projections for every routed token, in two buffers that stay.

        Experts of mxfp4 have buffers that go with each layer, and are not among them.
        """
        weights = self.weights
        if weights is None or not weights.experts_per_token:
            return 0
        experts = [m for m in weights.matrices if m.part == "experts" and any(i in self.layers for i in m.layers)]
        up = next((m for m in experts if not m.name.endswith("down_proj")), None)
        if up is None:
            return 0
        scheme = weights.schemes[up.scheme].name if up.scheme is not None else ""
        if scheme.startswith("mxfp4"):
            return 0
        split = 1 if self.deployment.enable_expert_parallel else self.ranks
        width, inner = -(-up.rows // split), up.columns
        active = width // 2 if weights.gated_mlp else width
        tokens = self.tokens * (self.deployment.data_parallel_size if self.deployment.enable_expert_parallel else 1)
        return tokens * weights.experts_per_token * (max(active, inner) + max(width, inner)) * self.item

    def _l2_bytes(self) -> int:
        """The buffer that empties the L2 cache before a kernel is timed."""
        gpu = self.deployment.gpu
        for name, size in self.facts["l2_bytes_by_name"].items():
            if name in gpu.name:
                return int(size)
        return int(self.facts["l2_bytes"].get(f"{gpu.capability[0]}.{gpu.capability[1]}", 50 * MIB))
