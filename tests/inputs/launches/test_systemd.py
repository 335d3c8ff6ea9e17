"""systemd units."""

from __future__ import annotations

from cgplan.inputs.launches import systemd
from cgplan.inputs.launches.launch import Launch, Source

UNIT = r"""[Unit]
Description=vllm serve no
[Service]
Environment="VLLM_A=1" B=2
Environment=M=m P=%i
ExecStartPre=/usr/bin/vllm serve no
ExecStart=-/opt/bin/vllm serve ${M} \
  # comment
  --max-num-seqs 8 \
  -cc '{"mode": 3}' --x=100%% $$Y
ExecStop=/bin/kill
"""


def only(text: str) -> Launch:
    (launch,) = systemd.launches(Source("a.service", text)).launches
    return launch


def test_a_unit() -> None:
    launch = only(UNIT)
    assert launch.texts[:5] == ["/opt/bin/vllm", "serve", "m", "--max-num-seqs", "8"]
    assert launch.texts[5:] == ["-cc", '{"mode": 3}', "--x=100%", "$Y"]
    places = [UNIT[token.span.start : token.span.end] for token in launch.tokens]
    assert places[:3] == ["/opt/bin/vllm", "serve", "${M}"]
    assert places[6] == "'{\"mode\": 3}'"
    assert [token.literal for token in launch.tokens] == [True, True, False, True, True, True, True, False, False]
    assert {token.style for token in launch.tokens} == {"unit"}
    assert launch.environment == {"VLLM_A": "1", "B": "2", "M": "m"}


def test_what_is_not_in_the_unit() -> None:
    text = "[Service]\nEnvironmentFile=/etc/x\nExecStart=/bin/vllm serve $MODEL --max-num-seqs ${N} --revision %i\n"
    launch = only(text)
    assert launch.texts == ["/bin/vllm", "serve", "$MODEL"]
    assert [remark.kind for remark in launch.remarks] == ["unknown_value", "unknown_value"]


def test_a_variable_that_is_nowhere_is_empty() -> None:
    assert only("[Service]\nExecStart=/bin/vllm serve m $EXTRA\n").texts == ["/bin/vllm", "serve", "m"]


def test_variables_are_split_only_where_they_stand_alone() -> None:
    text = '[Service]\nEnvironment="E=--a 1"\nExecStart=/bin/vllm serve m $E --b=${E}\n'
    assert only(text).texts[3:] == ["--a", "1", "--b=--a 1"]


def test_a_shell_within() -> None:
    text = "[Service]\nExecStart=/bin/bash -lc 'source x && exec vllm serve m --x 1'\n"
    launch = only(text)
    assert launch.texts == ["vllm", "serve", "m", "--x", "1"]
    assert text[launch.tokens[3].span.start : launch.tokens[3].span.end] == "--x"


def test_an_empty_line_starts_anew() -> None:
    assert only("[Service]\nExecStart=/bin/vllm serve a\nExecStart=\nExecStart=/bin/vllm serve b\n").texts[2] == "b"


def test_other_sections_start_nothing() -> None:
    assert systemd.launches(Source("a", "[X-Other]\nExecStart=vllm serve m\n")).launches == ()
