"""Manifests as Launches, for tests."""

from __future__ import annotations

from cgplan.inputs.launches.kubernetes import manifests
from cgplan.inputs.launches.launch import Reading, Source
from cgplan.inputs.launches.yaml_nodes import documents


def read(text: str) -> Reading:
    source = Source("f.yaml", text)
    found = documents(source)[0]
    assert manifests.fits(found)
    return manifests.launches(found, source)
