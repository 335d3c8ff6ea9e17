"""The forms of the documents of `cgplan rules`, `explain`, `models` and `gpus` with --json, as pydantic models."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RulePart(_Part):
    """A rule or an error; since, until: releases of vLLM, null where it has no end."""

    code: str
    title: str
    why: str
    example: str
    instead: str
    source: str
    since: str | None
    until: str | None
    history: str


class TopicPart(_Part):
    """A question that operators ask."""

    name: str
    title: str
    answer: str
    run: list[str] = Field(description="commands, most useful first; their model and GPU stand for the reader's own")
    rules: list[str] = Field(description="codes of rules with more")
    source: str


class RulesDocument(_Part):
    """Of `rules` and `explain`; topics and rule_first where `explain` was given words."""

    schema_version: Literal[1]
    rules: list[RulePart]
    topics: list[TopicPart] = Field(default_factory=list, description="best first")
    rule_first: bool = Field(default=False, description="the first rule answers better than the first topic")
    read: str | None = Field(default=None, description="what the numbers of an error's words come to")


class ModelPart(_Part):
    """A model of the catalogue."""

    model_id: str
    architecture: str
    served: bool
    params: int | None
    weights: str = Field(description="how its weights are stored, where not in its dtype")
    dtype: str
    attention: str
    confidence: str
    source: str


class ModelsDocument(_Part):
    schema_version: Literal[1]
    models: list[ModelPart]


class GpuPart(_Part):
    """A GPU of the catalogue."""

    name: str
    aliases: list[str]
    capability: list[int]
    memory_bytes: int = Field(description="as the driver has it")
    cuda_memory_bytes: int = Field(default=0, description="as CUDA has it, where it was seen")
    sm_count: int
    memory_source: str
    note: str = ""
    integrated: bool = Field(default=False, description="it shares the memory of the CPU")


class GpusDocument(_Part):
    schema_version: Literal[1]
    gpus: list[GpuPart]


DOCUMENTS: dict[str, type[_Part]] = {"rules": RulesDocument, "models": ModelsDocument, "gpus": GpusDocument}


def json_schema(name: str) -> dict[str, Any]:
    """JSON Schema of the document of this name."""
    return DOCUMENTS[name].model_json_schema()
