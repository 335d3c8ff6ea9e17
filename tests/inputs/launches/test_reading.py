"""Which kind of file a text is."""

from __future__ import annotations

import time

import pytest

from cgplan.errors import CgplanError, InputError
from cgplan.inputs.launches import read
from cgplan.inputs.launches.launch import Source
from cgplan.inputs.launches.reading import MAX_CHARS, kind_of

POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    command: [vllm, serve, m]\n"
)


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a/Dockerfile", "x", "dockerfile"),
        ("Dockerfile.cuda", "x", "dockerfile"),
        ("vllm.Dockerfile", "x", "dockerfile"),
        ("Containerfile", "x", "dockerfile"),
        ("dockerfile-notes.md", "x", "markdown"),
        ("a.service", "x", "systemd"),
        ("a.sbatch", "x", "script"),
        ("a.yaml.j2", "x", "yaml"),
        ("a.py", "x", "a Python program"),
        ("-", "#!/bin/sh\nx", "script"),
        ("-", "#!/usr/bin/env python3\nx", "a Python program"),
        ("-", "#!/bin/bash\npython <<E\nimport os\nE\n", "script"),
        ("-", "# c\n\nFROM a\nCMD b", "dockerfile"),
        ("-", "[Unit]\nx", "systemd"),
        ("-", "---\na: 1", "yaml"),
        ("-", "# c\napiVersion: v1", "yaml"),
        ("-", '{"a": 1}', "yaml"),
        ("-", "model: m\n", "yaml"),
        ("-", "vllm serve m -cc '{\"a\": 1}'", "script"),
        ("-", "A=1 vllm serve m", "script"),
        ("-", "# T\n\n```bash\nx\n```\n", "markdown"),
        ("-", "<!DOCTYPE html><p>", "HTML"),
        ("-", "\ufeff \r\n", "empty"),
        ("x.sh", "a\0b", "a binary file"),
    ],
)
def test_kinds(name: str, text: str, kind: str) -> None:
    assert kind_of(Source(name, text)) == kind


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", ""),
        ("a.py", "vllm serve m"),
        ("-", "<html>vllm serve m"),
        ("a.sh", "echo"),
        ("a.json", "{}"),
        ("a", "\0vllm"),
    ],
)
def test_no_server_is_a_remark(name: str, text: str) -> None:
    reading = read(Source(name, text))
    assert reading.launches == ()
    assert [remark.kind for remark in reading.remarks] == ["no_launch"]


def test_a_manifest_from_standard_input() -> None:
    (launch,) = read(Source("-", POD)).launches
    assert launch.texts == ["vllm", "serve", "m"]
    assert launch.kind == "kubernetes"


def test_a_template() -> None:
    text = "image: vllm\n{{- if .Values.a }}\nmodel: {{ .Values.m }}\n{{- end }}\n"
    (remark,) = read(Source("deploy.yaml", text)).remarks
    assert remark.kind == "template"
    assert remark.span is not None
    assert remark.span.line == 2


def test_a_manifest_that_holds_a_template_is_read() -> None:
    text = (
        POD + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {}\ndata:\n  t: |\n    {%- if a %}\n    {%- endif %}\n"
    )
    assert len(read(Source("a.yaml", text)).launches) == 1


def test_too_large() -> None:
    with pytest.raises(InputError) as caught:
        read(Source("a.sh", "x" * (MAX_CHARS + 1)))
    assert caught.value.code == "CG914"


HOSTILE = {
    "line": "vllm" + "x" * 5_000_000,
    "blanks": "vllm" + " " * 3_000_000 + "x",
    "quotes": "vllm " + '"' * 99_999,
    "brackets": "vllm" + "[" * 300_000,
    "deep": '{"vllm":' * 50_000,
    "continued": "ENV vllm=a\\\n" * 50_000,
    "json": 'CMD ["vllm"' + ',"a"' * 100_000 + "]",
    "fences": "vllm\n" + "```\n" * 100_000,
    "blocks": "```sh\nvllm serve m\n```\n" * 20_000,
    "exec": "[Service]\nExecStart=vllm serve m " + '"a"\\\n' * 50_000,
    "units": "[Service]\n" + "ExecStart=vllm serve m\n" * 4_000,
    "env": "FROM a\n" + "ENV A=$A$A vllm=1\n" * 4_000 + "CMD vllm serve m",
}


@pytest.mark.parametrize("name", ["Dockerfile", "x.service", "x.md", "x.sh", "x.json", "-"])
@pytest.mark.parametrize("text", HOSTILE)
def test_what_means_harm_ends_soon(name: str, text: str) -> None:
    started = time.process_time()
    try:
        read(Source(name, HOSTILE[text]))
    except CgplanError as error:
        assert "\n" not in error.message  # noqa: PT017
    assert time.process_time() - started < 4
