"""What a layer refuses about its KV cache dtype when it is built, after its backend was chosen."""

from __future__ import annotations

from ..cache_layers import CacheLayers
from ..deployment import Deployment
from ..model_shape import ModelShape
from ..resolve import Resolution
from .layer_backends import LayerBackend


def check_kv_dtype(
    deployment: Deployment,
    resolution: Resolution,
    model: ModelShape,
    group: CacheLayers,
    kv_dtype: str,
    chosen: LayerBackend,
) -> None:
    """Refuses what the layer cannot store.

    Raises:
        StartupError: CG544 to CG548.
    """


def check_v4_dtype(release: str, kv_dtype: str) -> None:
    """Refuses a dtype that DeepSeek V4's packed layout does not have."""
