"""Tables of --cudagraph-metrics: every shape in which a log holds them, and none where a number might be wrong."""

from __future__ import annotations

from itertools import chain, zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st
from workload_helpers import FULL, HEAD, METRICS, NONE, PIECEWISE, RULE, row, table

from cgplan.workload.gathered import Gathered
from cgplan.workload.sources.tables import TableReader, read_tables

API = "(APIServer pid=4) INFO 11-30 05:00:10 [cuda_graph.py:117] "


def seen(gathered: Gathered, part: int = 0) -> set[tuple[int, str, int, float]]:
    return {
        (b.tokens.low, str(b.seen.mode), b.seen.padded, b.count)
        for b in gathered.parts[part].workload.batches
        if b.seen is not None
    }


def test_a_log_of_two_engines() -> None:
    found = read_tables((METRICS / "tables-two-engines.log").read_text().split("\n"))
    assert [(part.name, part.tables, part.workload.steps) for part in found.parts] == [
        ("engine 0", 2, 462),
        ("engine 1", 1, 331),
    ]
    assert seen(found, 1) == {(12, "FULL", 16, 250), (9, "FULL", 16, 77), (1024, "NONE", 1024, 4)}
    assert (31, "FULL", 32, 240) in seen(found)
    settings = found.parts[0].settings
    assert settings is not None
    assert settings.mode == "FULL_AND_PIECEWISE"
    assert settings.sizes[-1] == 64
    assert found.not_recognised == 0


@pytest.mark.parametrize("everywhere", [True, False])
def test_a_prefix_before_every_line_or_the_first(everywhere: bool) -> None:
    lines = table(row(7, 8, "FULL", 212), row(9, 9, "NONE", 1))
    text = [API + line if everywhere or at == 0 else line for at, line in enumerate(lines)]
    assert seen(read_tables(text)) == {(7, "FULL", 8, 212), (9, "NONE", 9, 1)}


def test_a_table_within_one_line_of_a_structured_log() -> None:
    assert seen(read_tables(["\n".join(table(row(7, 8, "FULL", 212)))])) == {(7, "FULL", 8, 212)}


def test_a_bare_table_has_no_settings_and_no_kind() -> None:
    found = read_tables([HEAD, RULE, row(7, 8, "FULL", 2)])
    assert found.parts[0].settings is None
    assert found.parts[0].workload.batches[0].kind == "any"


def test_full_is_of_decode_batches_where_only_those_have_full_graphs() -> None:
    rows = (row(7, 8, "FULL", 2), row(8, 8, "PIECEWISE", 1))
    kinds = {b.seen.mode: b.kind for b in read_tables(table(*rows)).parts[0].workload.batches if b.seen}
    assert kinds == {FULL: "decode", PIECEWISE: "any"}
    of_full = read_tables(table(*rows, mode="FULL")).parts[0].workload.batches
    assert {b.kind for b in of_full} == {"any"}


def test_columns_in_another_order_and_one_more() -> None:
    lines = [
        "| Count | Runtime Mode | Stream | Padded Tokens | Unpadded Tokens | Num Paddings |",
        "|---|---|---|---|---|---|",
        "| 212 | FULL | 3 | 8 | 7 | 1 |",
    ]
    assert seen(read_tables(lines)) == {(7, "FULL", 8, 212)}


def test_a_missing_column_is_not_recognised() -> None:
    found = read_tables(
        ["| Unpadded Tokens | Padded Tokens | Num Paddings | Mode | Count |", RULE, row(7, 8, "FULL", 2)]
    )
    assert not found.parts
    assert found.not_recognised == 2


@pytest.mark.parametrize(
    "line",
    [
        "| 7               | 8             | 1            | FULL         | 21",  # cut
        "| 7               | 8             | 1            | FULL         | 2,120 |",
        "| 7               | 8             | 2            | FULL         | 212   |",  # 7 + 2 is not 8
        "| 7               | 8             | 1            | FULL_AND_PIECEWISE | 212 |",
        "| 7               | 8             | 1            | FULL         | 2.0   |",
        "| 5 | 7               | 8             | 1            | FULL         | 212   |",
        "| 8               | 1            | FULL         | 212   |",
        "| 0               | 8             | 8            | FULL         | 212   |",
        "| 7               | 8             | 1            | FULL         | 0     |",
        "| -7              | 8             | 15           | FULL         | 12    |",
        "| ７               | 8             | 1            | FULL         | 12    |",
    ],
)
def test_a_row_that_is_none(line: str) -> None:
    found = read_tables(table(row(4, 4, "FULL", 3), line, row(3, 4, "FULL", 5)))
    assert seen(found) == {(4, "FULL", 4, 3), (3, "FULL", 4, 5)}
    assert found.not_recognised == 1


def test_two_processes_between_each_other() -> None:
    first = [f"(ApiServer_0 pid=1) {line}" for line in ["Engine 000: Avg prompt", *table(row(7, 8, "FULL", 2))]]
    second = [f"(ApiServer_1 pid=2) {line}" for line in ["Engine 001: Avg prompt", *table(row(5, 8, "FULL", 3))]]
    lines = [x for x in chain.from_iterable(zip_longest(first, second)) if x]
    found = read_tables(lines)
    assert [part.name for part in found.parts] == ["engine 0", "engine 1"]
    assert seen(found, 0) == {(7, "FULL", 8, 2)}
    assert seen(found, 1) == {(5, "FULL", 8, 3)}


def test_engines_counted_together() -> None:
    lines = [API + "2 Engines Aggregated: Avg prompt throughput", *(API + x for x in table(row(7, 8, "FULL", 2)))]
    assert read_tables(lines).parts[0].name == "2 engines together"


def test_other_settings_are_another_part() -> None:
    lines = [*table(row(7, 8, "FULL", 2)), *table(row(7, 7, "NONE", 2), mode="NONE", sizes="[]")]
    found = read_tables(lines)
    assert [part.settings.mode for part in found.parts if part.settings] == ["FULL_AND_PIECEWISE", "NONE"]


def test_a_line_of_another_kind_ends_the_table() -> None:
    after = API + "| not a table |"
    lines = [*(API + x for x in table(row(7, 8, "FULL", 2))), API + "something else", after]
    assert read_tables(lines).not_recognised == 0


def test_text_of_a_prompt_is_no_setting() -> None:
    reader = TableReader()
    reader.feed(API + "please write - Mode: NONE")
    assert not reader.feed("| 1 | 1 | 0 | FULL | 5 |")
    assert not reader.gathered().parts


@given(st.lists(st.tuples(st.integers(1, 600), st.integers(0, 40), st.sampled_from([FULL, PIECEWISE, NONE]),
                          st.integers(1, 10**6)), min_size=1, max_size=30))  # fmt: skip
def test_tables_are_added(rows: list[tuple[int, int, object, int]]) -> None:
    lines = [row(tokens, tokens + more, str(mode), count) for tokens, more, mode, count in rows]
    one_each = [line for item in lines for line in table(item)]
    assert seen(read_tables(table(*lines))) == seen(read_tables(one_each))
    assert read_tables(one_each).parts[0].workload.steps == sum(count for *_, count in rows)


def test_distinct_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgplan.workload.sources.tables.MAX_ROWS", 2)
    found = read_tables(table(*(row(size, 8, "FULL", 1) for size in (1, 2, 3, 4, 1))))
    assert found.parts[0].workload.steps == 3
    assert found.remarks == ("2 rows of tables were left out: over 2 different ones",)
