"""Whether vLLM starts with a deployment: what its configuration refuses, and what fails while it loads the model."""

from __future__ import annotations

from ..deployment import Deployment
from ..errors import StartupError
from ..resolve import Resolution, resolve

LOADING_FAILS = ("CG615",)
"""Findings of `resolve` that are the end of a start: the configuration passes, and the worker raises."""


def resolved(deployment: Deployment) -> Resolution:
    """What vLLM makes of the deployment.

    Raises:
        InputError: it is beyond what is modelled.
        StartupError: vLLM refuses it, or cannot load the model.
    """
    found = resolve(deployment)
    for one in found.findings:
        if one.code in LOADING_FAILS:
            raise StartupError(
                one.message, code=one.code, stage="load_model", raised_as="ValueError", raised_in="Worker",
                where=one.where, fix=one.fix,
            )  # fmt: skip
    return found
