"""Files in the shape of public ones (docs/launch-files.md lists those) give the servers that they start.

The names, models and values are made up; expected.json says by file what has to come out.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cgplan.errors import InputError
from cgplan.inputs.launches import Launch, LaunchToken, Reading, Source, Span, read

FOLDER = Path(__file__).parents[3] / "fixtures" / "launches" / "public"
EXPECTED: dict[str, dict[str, Any]] = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
HINTS = ("image", "release", "gpu", "gpus")


def source(name: str) -> Source:
    return Source(name, (FOLDER / name).read_bytes().decode("utf-8"))


def as_expected(launch: Launch) -> dict[str, Any]:
    hints = {name: getattr(launch.hints, name) for name in HINTS}
    return {
        "kind": launch.kind,
        "label": launch.label,
        "tokens": launch.texts,
        "lines": [token.span.line for token in launch.tokens],
        "env": [variable.name for variable in launch.env],
        "hints": {name: value for name, value in hints.items() if value is not None},
        "files": sorted(launch.files),
        "remarks": [remark.kind for remark in launch.remarks],
    }


def meant(written: str, token: LaunchToken) -> str:
    """What the text at the place of a token means there."""
    if token.style in ("item", "flow"):
        return str(yaml.load(written, yaml.BaseLoader))
    if token.style == "unit":
        return written.strip("'\"")
    if token.inner == "double":
        written = yaml.safe_load(f'"{written}"')
    elif token.inner == "single":
        written = written.replace("''", "'")
    words = shlex.split(written)
    return words[0] if len(words) == 1 else written


def test_every_file_has_an_expectation_and_the_other_way_round() -> None:
    assert sorted(EXPECTED) == sorted(path.name for path in FOLDER.iterdir() if path.name != "expected.json")
    assert len(EXPECTED) >= 45


@pytest.mark.parametrize("name", EXPECTED)
def test_the_servers_of_a_file(name: str) -> None:
    found = read(source(name))
    expected = EXPECTED[name]
    assert [as_expected(launch) for launch in found.launches] == expected["launches"]
    assert [remark.kind for remark in found.remarks] == expected["remarks"]


@pytest.mark.parametrize("name", EXPECTED)
def test_the_text_at_each_place_is_the_token(name: str) -> None:
    text = source(name).text
    for launch in read(source(name)).launches:
        for token in launch.tokens:
            span = token.span
            assert span.line == text.count("\n", 0, span.start) + 1
            assert span.column == span.start - (text.rfind("\n", 0, span.start) + 1) + 1
            written = text[span.start : span.end]
            if token.style == "made":
                assert not token.literal
            elif token.literal:
                assert squeezed(meant(written, token)) == squeezed(token.text)
            else:
                assert "$" in written or token.text in written, "what was put in stands where its variable stands"


def squeezed(text: str) -> str:
    """YAML takes the indentation out of a quoted word that runs over several lines of a block."""
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("name", EXPECTED)
def test_crlf_and_a_byte_order_mark_change_no_server(name: str) -> None:
    text = source(name).text
    found = read(Source(name, "\ufeff" + text.replace("\n", "\r\n")))
    assert commands(found) == commands(read(source(name)))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_file_that_is_cut_or_garbled_is_read_or_refused_in_one_line(data: st.DataObject) -> None:
    """A law: whatever becomes of a file, there is a reading whose places lie in the text, or an InputError."""
    name = data.draw(st.sampled_from(sorted(EXPECTED)))
    text = source(name).text
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 200)))
    put_in = data.draw(
        st.sampled_from(["", "'", '"', "{", "}", "[", "\\", "\n", "$", "${", "$(", "&a ", "*a", "|\n", "<<X\n", "- "])
    )
    garbled = text[:start] + put_in + text[end:]
    refusal = ""
    spans: list[Span] = []
    try:
        spans = [token.span for launch in read(Source(name, garbled)).launches for token in launch.tokens]
    except InputError as error:
        refusal = str(error)
    assert "\n" not in refusal
    assert all(0 <= span.start <= span.end <= len(garbled) for span in spans)


def commands(reading: Reading) -> list[list[str]]:
    return [[squeezed(token.text) for token in launch.tokens] for launch in reading.launches]
