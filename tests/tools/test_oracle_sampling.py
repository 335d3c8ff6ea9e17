"""The oracle's random inputs: reproducible, varied, and in the record format."""

from __future__ import annotations

import importlib
import json
from contextlib import suppress
from typing import Any

import pytest

sampling: Any = importlib.import_module("oracle.sampling")
draft: Any = importlib.import_module("oracle.draft")
models: Any = importlib.import_module("oracle.models")
traits: Any = importlib.import_module("oracle.traits")
parity_config: Any = importlib.import_module("parity_config")
Record = dict[str, Any]


def drawn(number: int = 400, seed: int = 5, release: str = "0.33.0") -> list[Record]:
    found: list[Record] = sampling.sample(release, seed, number)
    return found


def test_a_seed_gives_the_same_records() -> None:
    assert drawn() == drawn()
    assert drawn()[:50] == drawn(50)


def test_another_seed_or_release_gives_others() -> None:
    inputs = [r["input"] for r in drawn()]
    assert inputs != [r["input"] for r in drawn(seed=6)]
    assert inputs != [r["input"] for r in drawn(release="0.29.0")]


def test_a_record_can_be_made_alone() -> None:
    chosen = drawn()[123]
    family = chosen["id"].rpartition("-")[0]
    assert sampling.record("0.33.0", 5, 123, family) == chosen


def test_ids_are_unique_and_name_the_family() -> None:
    ids = [r["id"] for r in drawn()]
    assert len(set(ids)) == len(ids)
    assert {i.rpartition("-")[0] for i in ids} == set(sampling.FAMILIES)


@pytest.mark.parametrize("family", sorted(sampling.FAMILIES))
def test_the_traits_of_a_family_exist(family: str) -> None:
    assert set(sampling.FAMILIES[family]) <= set(traits.TRAITS) == set(sampling.BACKGROUND)


def test_the_record_format() -> None:
    for record in drawn():
        asked = record["input"]
        assert set(asked) <= {"device", "model", "usage_context", "args", "env", "graph"}
        assert asked["model"] in models.entries()
        assert len(asked["device"]["capability"]) == 2
        assert json.loads(json.dumps(record)) == record
        assert all(isinstance(value, str) for value in asked.get("env", {}).values())
        for tokens, reqs, longest, loras, eligible in asked["graph"].get("dispatch", []):
            assert 1 <= reqs <= tokens
            assert tokens <= reqs * longest
            assert loras >= 0
            assert isinstance(eligible, bool)


def test_every_argument_is_one_that_cgplan_takes() -> None:
    for record in drawn(1500):
        # Where vLLM would refuse the value, so may cgplan; the name is known all the same.
        with suppress(parity_config.StartupError):
            parity_config.deployment_of(record["input"], "0.33.0")


def test_the_inputs_are_varied() -> None:
    records = drawn(3000)
    assert len({json.dumps(r["input"], sort_keys=True) for r in records}) == len(records)
    used = {name for r in records for name in r["input"]["args"]}
    assert len(used) >= 30
    assert {r["input"]["model"] for r in records} >= set(traits.DECODERS + traits.HYBRIDS + traits.OTHERS)
    assert {r["input"]["device"]["name"] for r in records} == {name for _, name, _, _ in draft.DEVICES.values()}


def test_sequence_parallelism_is_sampled_where_it_exists() -> None:
    def share(release: str) -> int:
        found = (r["input"]["args"].get("compilation_config", {}) for r in drawn(1500, release=release))
        return sum("enable_sp" in c.get("pass_config", {}) for c in found)

    assert share("0.29.0") > 10 * max(1, share("0.33.0"))


def test_draws_stay_in_their_range() -> None:
    draw = draft.Draw("a seed")
    assert {draw.whole(1, 3) for _ in range(200)} == {1, 2, 3}
    assert all(1 <= draw.size(2048) <= 2048 for _ in range(500))
    for _ in range(200):
        some = draw.some((1, 2, 3, 4), 3)
        assert 1 <= len(some) <= 3
        assert some == sorted(set(some))
