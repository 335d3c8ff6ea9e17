"""The weights of a model as matrices, before any parallelism: what their bytes and the widths of a step follow from.

`inputs/hf_weights.py` makes them from a config.json; a caller may also fill them by hand.
"""

# Without `from __future__ import annotations`: pydantic would compile the text of every one of them again.

from collections.abc import Sequence
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

from .cache_layers import Tuple

Part = Literal[
    "embedding",
    "head",
    "attention",
    "mixer",
    "mlp",
    "shared_expert",
    "experts",
    "router",
    "norm",
    "vision",
    "draft",
    "other",
]

NOT_SAID = "the configuration does not say how the weights are stored"
"""Begins what `unsure` says of a scheme that is not from the configuration."""

PLAIN_TOWER = "the vision tower was taken for a plain one"
"""What `unsure` says of a vision tower whose layers are not read off its class."""

Split = Literal["rows", "columns", "kv_heads", "vocab", "none"]
"""How tensor parallelism cuts a matrix.

rows: outputs. columns: inputs. kv_heads: rows by key and value head, which are copied where there are more ranks.
vocab: rows, padded to a multiple of 64 first. none: every rank has all of it.
"""


class Tensor(NamedTuple):
    """One tensor of a checkpoint.

    Attributes:
        name: as in the file.
        dtype: in the file's letters: BF16, F8_E4M3, I32, ...
        shape: elements.
        size: bytes in the file.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int


class Matrix(BaseModel):
    """Matrices of one kind.

    Attributes:
        name: as vLLM names its module, without the layer: "mlp.gate_up_proj".
        part: what it belongs to.
        layers: decoder layers that have one; (): it is there once, outside the layers.
        rows, columns: outputs and inputs, elements.
        count: experts of a layer, each with a matrix of its own.
        split: how tensor parallelism cuts it.
        heads: key or value heads of its rows (kv_heads).
        linear: quantisation may apply to it: it is a projection inside a layer.
        scheme: which of the checkpoint's schemes it is stored in, by index; None: it is not quantised.
        itemsize: bytes an element where it is neither quantised nor of the model's dtype.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    part: Part
    layers: Tuple[int] = ()
    rows: PositiveInt
    columns: PositiveInt = 1
    count: PositiveInt = 1
    split: Split = "none"
    heads: NonNegativeInt = 0
    linear: bool = False
    scheme: NonNegativeInt | None = None
    itemsize: PositiveInt | None = None

    @property
    def elements(self) -> int:
        """Parameters of the whole model."""
        return self.rows * self.columns * self.count * max(1, len(self.layers))


def projection(
    name: str,
    part: Part,
    layers: Sequence[int],
    rows: int,
    columns: int,
    split: Split,
    *,
    count: int = 1,
    heads: int = 0,
) -> Matrix:
    """A matrix that quantisation may apply to, in the model's dtype until a scheme is found for it."""
    return Matrix(
        name=name,
        part=part,
        layers=tuple(layers),
        rows=rows,
        columns=columns,
        split=split,
        count=count,
        heads=heads,
        linear=True,
    )


class QuantScheme(BaseModel):
    """How a quantised matrix is stored.

    Attributes:
        name: in words, "fp8" or "int4, groups of 128".
        bits: of a weight.
        group_rows, group_columns: weights that share a scale; 0: all of that direction.
        scale_bytes: of a scale.
        zero_bits: of a zero point, one a scale; 0: none.
        is_certain: the checkpoint says it; False: usual values of the method were assumed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    bits: PositiveInt
    group_rows: NonNegativeInt = 1
    group_columns: NonNegativeInt = 0
    scale_bytes: NonNegativeInt = 4
    zero_bits: NonNegativeInt = 0
    is_certain: bool = True


class VisionShape(BaseModel):
    """A vision tower, as far as the profile run of multimodal models needs it.

    Attributes:
        hidden_size, intermediate_size, num_layers: of the tower.
        patches_per_token: patches that become one token of the language model.
        values_per_token: numbers of the input pixels that one token stands for.
        tokens_per_item: tokens of the largest image, or None where it is not known.
        token_side: pixels of an image that a token stands for, each way.
        modalities: what goes through the tower.
        video_tokens: tokens of two frames of the largest video; None: a video is not known to be larger than an image.
        video_frames: most frames of the video that the profile run is made with.
        is_gated: the MLP multiplies two projections.
        turns_queries: queries and keys are copied and turned (rotary positions).
        adds_positions: learned positions are a tensor of their own while the layers run.
        features: vectors that the language model gets for a token, deep ones among them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    num_layers: PositiveInt
    patches_per_token: PositiveInt = 1
    values_per_token: PositiveInt = 588
    tokens_per_item: PositiveInt | None = None
    token_side: PositiveInt = 14
    modalities: Tuple[str] = ("image",)
    video_tokens: PositiveInt | None = None
    video_frames: PositiveInt = 2
    is_gated: bool = False
    turns_queries: bool = False
    adds_positions: bool = False
    features: PositiveInt = 1


class WeightShape(BaseModel):
    """The weights of a model.

    Attributes:
        matrices: all of them but those of draft modules.
        draft: of the multi-token-prediction module, loaded only when that drafts.
        tied: the output head is the embedding.
        schemes: of the quantised matrices.
        experts_per_token: routed experts that a token goes through; 0: no experts.
        gated_mlp: the MLP multiplies two projections (SwiGLU); False: one projection.
        rope_elements: entries of the rotary tables.
        vision: of the vision tower, or None.
        unsure: what was assumed of the weights, in words; "": nothing.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    matrices: Tuple[Matrix]
    draft: Tuple[Matrix] = ()
    tied: bool = False
    schemes: Tuple[QuantScheme] = ()
    experts_per_token: int = Field(default=0, ge=0)
    gated_mlp: bool = True
    rope_elements: int = Field(default=0, ge=0)
    vision: VisionShape | None = None
    unsure: str = ""

    def widest(self, *parts: Part) -> int:
        """Outputs of the widest matrix of `parts`, whole model; 0: there is none."""
        return max((m.rows for m in self.matrices if m.part in parts), default=0)

    @property
    def parameters(self) -> int:
        """Parameters of the whole model without its draft modules."""
        return sum(matrix.elements for matrix in self.matrices)
