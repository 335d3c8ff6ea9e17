"""The support table as JSON values, in a stable order."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..resolve.document import backend_part
from ..resolve.support_table import Row, SupportTable

SCHEMA_VERSION = 1


def as_document(table: SupportTable, model: str, gpu: str) -> dict[str, Any]:
    """The document of `cgplan backends --json`; `backend` is the one of `cgplan resolve --json`, null where refused."""
    return {
        "schema_version": SCHEMA_VERSION,
        "vllm_version": table.vllm_version,
        "gpu": gpu,
        "model": model,
        "backend": backend_part(table.choice) if table.choice is not None else None,
        "asked": table.asked,
        "why": table.why,
        "refused": table.refused.as_dict() if table.refused is not None else None,
        "order": [row.name for row in table.order],
        "backends": [_row(row) for row in table.rows],
        "differences": [{**asdict(d), "levels": list(d.levels)} for d in table.differences],
        "assumptions": list(table.assumptions),
        "not_modelled": list(table.not_modelled),
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "class_name": row.class_name,
        "kind": row.kind,
        "platform": row.platform,
        "support": row.support.name if row.support is not None else None,
        "condition": row.condition,
        "code": row.code,
        "source": f"{row.source} @ {row.release}" if row.source else None,
        "fits": row.fits,
        "reasons": list(row.reasons),
        "priority": row.priority,
        "chosen": row.chosen,
    }
