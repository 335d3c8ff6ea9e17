"""Which rules and facts move between neighbouring releases."""

from __future__ import annotations

from importlib.resources import files
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan.compare import release_notes
from cgplan.compare.fact_rules import CODES, code_of
from cgplan.compare.fields import FIELDS, SETTING_OWNERS, field_of
from cgplan.compare.moves import TOPICS, changed_facts, moves
from cgplan.releases import SUPPORTED, table
from cgplan.rules import all_rules

ELSEWHERE = {
    *("documented", "field_ranges", "level_sources"),  # where something stands, what is said of it, what is refused
    *("budget", "graph_memory", "kv_cache", "kv_layers", "kv_planning"),  # of the plan of the memory, but one section
}
"""Fact files with histories that `diff` does not read."""

NEIGHBOURS = list(pairwise(SUPPORTED))
releases = st.sampled_from(SUPPORTED)


@pytest.mark.parametrize(("previous", "following"), NEIGHBOURS)
def test_every_fact_that_changes_belongs_to_a_rule(previous: str, following: str) -> None:
    for change in changed_facts(previous, following):
        assert code_of(change.path) in all_rules(), change.path


def test_every_file_with_histories_is_read() -> None:
    for path in files("cgplan.releases").iterdir():
        topic = path.name.removesuffix(".toml")
        if path.name.endswith(".toml") and topic not in ELSEWHERE and "since =" in path.read_text(encoding="utf-8"):
            assert topic in TOPICS


def test_the_map_names_rules_and_facts_that_exist() -> None:
    for path, code in CODES.items():
        assert code in all_rules(), path
        topic, *keys = path.split(".")
        found = table(topic)
        for key in keys[:-1]:
            found = found[key]
        assert not keys or any(name.startswith(keys[-1]) for name in found), path


def test_the_fields_name_rules_that_exist() -> None:
    for name in FIELDS:
        for code in field_of(name).owners:
            assert code in all_rules(), name
        assert all(other in FIELDS for other in field_of(name).follows), name
    assert set(SETTING_OWNERS.values()) <= set(all_rules())


@given(st.sampled_from(NEIGHBOURS))
def test_moves_are_mirrored(pair: tuple[str, str]) -> None:
    there, back = moves(*pair), moves(*pair[::-1])
    assert there.keys() == back.keys()
    swap = {"new": "gone", "gone": "new", "fact": "fact"}
    for code, move in there.items():
        assert back[code].kind == swap[move.kind]
        assert {(f.path, str(f.before), str(f.after)) for f in move.facts} == {
            (f.path, str(f.after), str(f.before)) for f in back[code].facts
        }


@given(releases, releases)
def test_notes_of_a_path_are_those_of_its_parts(first: str, last: str) -> None:
    whole = release_notes(first, last)
    for release in SUPPORTED:
        parts = (*release_notes(first, release), *release_notes(release, last))
        low, high = sorted((first, last), key=SUPPORTED.index)
        if SUPPORTED.index(low) <= SUPPORTED.index(release) <= SUPPORTED.index(high):
            assert parts == whole


def test_notes_name_every_rule_that_came_or_went() -> None:
    notes = release_notes(SUPPORTED[0], SUPPORTED[-1])
    named = {(note.code, note.kind) for note in notes}
    for code, rule in all_rules().items():
        if rule.since is not None and rule.since in SUPPORTED[1:]:
            assert (code, "new") in named, code
        if rule.until is not None and rule.until in SUPPORTED[:-1]:
            assert (code, "gone") in named, code


def test_the_notes_of_a_release() -> None:
    codes = {note.code: note for note in release_notes("0.30.0", "0.31.0")}
    assert codes["CG111"].kind == "new"
    assert codes["CG111"].release == "0.31.0"
    assert codes["CG111"].facts[0].path == "pipeline.grid.append_off_grid"
    assert {note.code for note in release_notes("0.31.0", "0.30.0")} == set(codes)
    assert release_notes("0.31.0", "0.31.0") == ()


def test_the_default_share_of_memory_is_a_fact_that_moves() -> None:
    (change,) = moves("0.19.1", "0.20.2")["CG505"].facts
    assert (change.path, change.before, change.after) == ("budget.requested.utilization", 0.9, 0.92)
    assert "CG505" not in moves("0.20.2", "0.21.0")
