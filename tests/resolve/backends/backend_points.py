"""Answers of vLLM's own backend selection, release by release, and the same questions put to cgplan."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from cgplan.deployment import Deployment
from cgplan.model_shape import ModelShape
from cgplan.resolve.backends.layer import Installed, Layer
from cgplan.sections import AttentionOptions, Gpu, KVTransferOptions, Software, SpeculativeOptions

FIXTURES = Path(__file__).parents[3] / "fixtures" / "backend_choices"
RELEASES = sorted((f.name.removesuffix(".json.gz") for f in FIXTURES.glob("*.json.gz")), key=lambda r: r.split("."))

DIMS = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "index_topk")


class Point(NamedTuple):
    """One question (`capability`, model `m`, settings `q`) and vLLM's answer.

    `answer` is class name, get_name(), level, error type, the sparse indexer's level, and the reasons against each
    candidate.
    """

    capability: tuple[int, int]
    m: dict[str, Any]
    q: dict[str, Any]
    answer: list[Any]


@cache
def points(release: str) -> tuple[Point, ...]:
    data = json.loads(gzip.decompress((FIXTURES / f"{release}.json.gz").read_bytes()))
    assert data["release"] == release
    return tuple(
        Point((capability[0], capability[1]), m, dict(zip(data["settings"], values, strict=True)), answer)
        for capability, m, values, answer in data["points"]
    )


def layer_of_point(release: str, point: Point) -> Layer:
    m, q = point.m, point.q
    packages = tuple(name for name, key in (("b12x", "b12x"), ("tokenspeed_mla", "ts")) if q[key])
    slides = bool(m.get("sliding"))
    return Layer(
        release=release,
        capability=point.capability,
        installed=Installed(q["flashinfer"], q["cubins"], q["fa3"], q["fa4"], q["dg"], packages),
        head_size=m["hs"],
        dtype=q["dtype"],
        kv_dtype=q["kv"],
        run_kv_dtype=q["kv"],
        block_size=q["bs"],
        num_heads=m["heads"] // q["tp"],
        num_kv_heads=1 if m.get("use_mla") else max(1, m["kv_heads"] // q["tp"]),
        attn_type=m.get("attn_type", "decoder"),
        mla=bool(m.get("use_mla")),
        sparse="index_topk" in m,
        sinks=bool(m.get("sinks")),
        mm_prefix=bool(m.get("mm_prefix")),
        sliding_window=slides,
        unclamped_window=slides,
        rswa=False,
        softcap=bool(m.get("softcap")),
        diffusion=bool(m.get("diffusion")),
        non_causal=q["noncausal"],
        batch_invariant=q["bi"],
        kv_connector=q["conn"],
        pcp_size=q["pcp"],
        dcp_size=q["dcp"],
        adaptive_verification=q["adaptive"],
        speculative_tokens=q["spec"],
        fa_version=q["fa"],
        use_trtllm=q["trt"],
        **{key: m.get(key) for key in DIMS},
    )


def deployment_of_point(release: str, point: Point) -> Deployment:
    m, q = point.m, point.q
    model = ModelShape(
        architectures=("Gemma2ForCausalLM",) if m.get("softcap") else ("LlamaForCausalLM",),
        num_attention_heads=m["heads"],
        num_kv_heads=m["kv_heads"],
        head_size=m["hs"],
        use_mla=bool(m.get("use_mla")),
        has_sinks=bool(m.get("sinks")),
        is_mm_prefix_lm=bool(m.get("mm_prefix")),
        is_diffusion=bool(m.get("diffusion")),
        is_encoder_only=m.get("attn_type") == "encoder_only",
        sliding_window=4096 if m.get("sliding") else None,
        **{key: m.get(key) for key in DIMS},
    )
    # In 0.20.2 the drafter's method said what attention_config.use_non_causal says since.
    by_method = release == "0.20.2"
    spec = SpeculativeOptions(
        method="dflash" if by_method and q["noncausal"] else "ngram",
        num_speculative_tokens=q["spec"] or None,
        enable_adaptive_verification=q["adaptive"],
    )
    return Deployment(
        vllm=release,
        gpu=Gpu(capability=point.capability),
        model=model,
        software=Software(
            flashinfer=q["flashinfer"],
            flashinfer_cubins=q["cubins"],
            flash_attn_3=q["fa3"],
            flash_attn_4=q["fa4"],
            deep_gemm=q["dg"],
            packages=tuple(name for name, key in (("b12x", "b12x"), ("tokenspeed_mla", "ts")) if q[key]),
        ),
        env={"VLLM_BATCH_INVARIANT": "1"} if q["bi"] else {},
        attention_backend=q["backend"],
        attention_config=AttentionOptions(
            flash_attn_version=q["fa"],
            use_trtllm_attention=q["trt"],
            use_non_causal=q["noncausal"] and not by_method,
        ),
        kv_cache_dtype=q["kv"],
        block_size=q["bs"],
        tensor_parallel_size=q["tp"],
        decode_context_parallel_size=q["dcp"],
        prefill_context_parallel_size=q["pcp"],
        speculative_config=spec if q["spec"] else None,
        kv_transfer_config=KVTransferOptions(kv_connector="NixlConnector", kv_role="kv_both") if q["conn"] else None,
    )
