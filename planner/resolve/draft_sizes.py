"""Named capture sizes that were meant as requests: with drafts each request of a decode batch brings several tokens."""

from __future__ import annotations

from dataclasses import replace

from ..deployment import Deployment
from ..trace import Finding
from .coverage import SPEC_CLIFF, TOKENS_NOT_REQUESTS
from .grid import USER_MAX
from .resolution import Resolution


def fullest(found: Resolution) -> tuple[int, int]:
    """(requests, tokens of each) of the largest decode batch that max_num_seqs and the token budget let through."""
    steps = found.schedule or ((found.max_num_seqs, found.uniform_decode_query_len - 1),)
    batches = [(min(last, found.max_num_seqs, found.max_num_batched_tokens // (n + 1)), n + 1) for last, n in steps]
    return max(batches, key=lambda batch: batch[0] * batch[1])


def tokens_counted(found: Resolution, d: Deployment) -> Resolution:
    """`found`, noting where the largest named size holds too few tokens for the requests, and one way out of it."""
    if found.uniform_decode_query_len == 1:
        return found
    largest, where = _largest(d)
    requests, length = fullest(found)
    cliff = next((one for one in found.findings if one.code == SPEC_CLIFF.code), None)
    if cliff is None or not 0 < largest < requests * length:
        return found
    message = (
        f"{where} {largest} counts tokens, not requests: {requests} requests of {length} tokens need "
        f"{requests * length}; {cliff.message.partition(';')[0]}"
    )
    counted = Finding(TOKENS_NOT_REQUESTS.code, "warning", message, cliff.fix, f"-cc.{where}")
    # A size near the one asked for would hold as few requests: one value for one setting.
    noted = [replace(one, fix=cliff.fix) if one.code == USER_MAX.code else one for one in found.noted]
    return replace(found, noted=(*noted, counted))


def _largest(d: Deployment) -> tuple[int, str]:
    """The largest size that the user named, tokens, and the name of the setting; 0: none is named."""
    section = d.compilation_config
    for sizes in (d.cudagraph_capture_sizes, section.cudagraph_capture_sizes):
        if sizes is not None:
            return max(sizes, default=0), "cudagraph_capture_sizes"
    named = d.max_cudagraph_capture_size or section.max_cudagraph_capture_size
    return named or 0, "max_cudagraph_capture_size"
