"""Golden records of a release: sampled inputs with vLLM's answers."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from oracle.client import Client, Host
from oracle.environment import Environment
from oracle.records import Record, by_capability, family, harness_error


class OracleError(Exception):
    """The oracle itself failed on a record, which must not become golden."""


def answer(environment: Environment, records: Iterable[Record], jobs: int) -> list[Record]:
    """The records with vLLM's answers, in the order given.

    Raises:
        OracleError: for the first record that the oracle cannot replay.
    """
    order = list(records)
    groups = by_capability(order)

    def group(capability: str) -> list[Record]:
        with Client(host, capability) as client:
            return list(client.answers(groups[capability]))

    with Host(environment) as host, ThreadPoolExecutor(jobs) as pool:
        answered = {record["id"]: record for found in pool.map(group, groups) for record in found}
    for record in answered.values():
        error = harness_error(record)
        if error is not None:
            raise OracleError(f"{record['id']}: {error}")
    return [answered[record["id"]] for record in order]


def thin(records: Iterable[Record], most: int) -> list[Record]:
    """At most about `most` records, evenly over each family, in their order; the same ones every time."""
    everything = list(records)
    if len(everything) <= most:
        return everything
    families: dict[str, list[int]] = {}
    for index, record in enumerate(everything):
        families.setdefault(family(record), []).append(index)
    share = most / len(everything)
    kept: set[int] = set()
    for members in families.values():
        count = max(1, round(len(members) * share))
        kept.update(members[index * len(members) // count] for index in range(count))
    return [everything[index] for index in sorted(kept)]
