"""CSV and JSON of the user's own."""

from __future__ import annotations

import json

import pytest
from workload_helpers import METRICS

from cgplan import InputError
from cgplan.workload.document_schema import WorkloadPart
from cgplan.workload.gathered import Gathered
from cgplan.workload.histogram import Range, Workload
from cgplan.workload.sources.sources import read_sources, read_text


def read(text: str) -> Workload:
    found = read_text(text, "own")
    assert isinstance(found, Gathered)
    return found.parts[0].workload


def refused(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read_text(text, "own")
    return caught.value


def test_csv() -> None:
    found = read((METRICS / "traffic.csv").read_text())
    assert [(b.kind, b.tokens, b.query_len, b.loras, b.count) for b in found.batches] == [
        ("decode", Range(8, 8), 1, 0, 120),
        ("decode", Range(24, 24), 3, 0, 40),
        ("any", Range(9, 16), None, 0, 30),
        ("mixed", Range(900, 900), None, 0, 7),
        ("decode", Range(5, 5), 1, 2, 4),
    ]


def test_json() -> None:
    found = read((METRICS / "traffic.json").read_text())
    assert found.source == "a trace of our own"
    assert found.steps == 913
    assert found.batches[0].tokens == Range(37, 37)
    assert found.batches[-1].tokens == Range(16385, None)


def test_the_published_form_takes_the_fixture() -> None:
    WorkloadPart.model_validate(json.loads((METRICS / "traffic.json").read_text()))


@pytest.mark.parametrize(
    "text", ["num_tokens;steps\n8;3\n9;1\n", "Tokens\tCount\n8\t3\n9\t1", "\ufefftokens,count\r\n8,3\r\n9,1\r\n\r\n"]
)
def test_other_delimiters_and_names(text: str) -> None:
    assert {(b.tokens.low, b.count) for b in read(text).batches} == {(8, 3), (9, 1)}


def test_rows_without_a_count_are_single_steps() -> None:
    assert read("tokens\n8\n8\n9\n").batches[0].count == 2


def test_a_list_of_batches_alone() -> None:
    assert read('[{"tokens": 8}]').steps == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tokens,cuont\n8,1\n", "unknown column 'cuont'"),
        ("tokens,tokens\n8,1\n", "two columns tokens"),
        ("tokens,count\n8\n", "1 cells under 2 names"),
        ("tokens,count\n8,many\n", "count: 'many'"),
        ("tokens,count\n8,0\n", "count"),
        ("tokens,count\n8,1e400\n", "count"),
        ("tokens\n1.5\n", "tokens: '1.5'"),
        ("tokens\n0\n", "tokens"),
        ("tokens\n9-3\n", "tokens"),
        ("tokens,requests\n4,9\n", "9 requests have no 4 tokens"),
        ("requests,count\n4,9\n", "requests without query_len"),
        ("tokens,mode\n4,FULL\n", "a mode without the padded size"),
        ("tokens\n", "no row"),
        ("", "empty"),
        ("tokens\n\x00\n", "no text"),
        ('{"batches": []}', "one batch"),
        ('{"batches": [{"token": 3}]}', "unknown field 'token'"),
        ('{"batches": [{"tokens": true}]}', "tokens: True"),
        ('{"batches": [{"tokens": [null, 3]}]}', "lower end"),
        ('{"batches": [3]}', r"batches[0] is no object"),
        ('{"schema_version": 9, "batches": [{"tokens": 3}]}', "schema_version 9"),
        ('{"batches": [{"tokens": 3, "count": "7"}]}', "count"),
        ('{"batches": [{"tokens": 3', "not JSON"),
        ("[" * 100000, "no usable JSON"),
    ],
)
def test_what_cannot_be_read_says_why(text: str, said: str) -> None:
    error = refused(text)
    assert said in error.message
    assert error.code == "CG718"
    assert error.fix


def test_the_row_is_named() -> None:
    assert refused("tokens,count\n8,1\n8,x\n").where == "own:3"
    assert "batches[1]" in refused('[{"tokens": 8}, {"tokens": 0}]').message


def test_files_that_are_not_there() -> None:
    with pytest.raises(InputError, match="no such file or folder") as caught:
        read_sources([str(METRICS / "nowhere.txt")])
    assert caught.value.code == "CG910"
    with pytest.raises(InputError, match="a directory"):
        read_sources([str(METRICS)])


def test_two_moments_are_a_difference_and_files_stand_beside() -> None:
    names = [str(METRICS / name) for name in ("moment-1.txt", "traffic.csv", "moment-2.txt")]
    assert [part.workload.steps for part in read_sources(names).parts] == [124, 248, 201]


def test_three_moments_and_standard_input_twice() -> None:
    one = str(METRICS / "moment-1.txt")
    with pytest.raises(InputError, match="3 texts"):
        read_sources([one, one, one])
    with pytest.raises(InputError, match="once"):
        read_sources(["-", "-"])
