"""Configuration files, folders and pipes that are made to be slow, large or broken."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from watching import POD, Watch, written

from cgplan.check import check_launch
from cgplan.errors import InputError
from cgplan.inputs.launches import Reading, Source, files, read
from cgplan.inputs.launches.asked import ask
from cgplan.inputs.launches.edit import rewrite
from cgplan.inputs.launches.edit.kinds import TokenEdit
from cgplan.inputs.launches.edit.outline import same_elsewhere
from cgplan.inputs.launches.edit.write_back import diff_of


def config_of(text: str) -> Source:
    """A pod whose file of --config is in the same text."""
    lines = [
        f"{POD}  - name: c\n    command: [vllm, serve, m, --config, /c/c.yaml]\n",
        "    volumeMounts: [{name: v, mountPath: /c}]\n  volumes: [{name: v, configMap: {name: k}}]\n---\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: k}\ndata:\n  c.yaml: |\n    max-num-seqs: 3\n",
        *(f"    {line}\n" for line in text.splitlines()),
    ]
    return Source("a.yaml", "".join(lines))


@pytest.mark.parametrize(
    "text",
    [
        "a0: &a0 {x: 1, y: 2}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 26)),
        "a0: &a0 {x: 1}\na1: &a1 {<<: [" + "*a0, " * 6000 + "]}\na2: {<<: [" + "*a1, " * 5000 + "]}\n",
        "# a\n" * 300_000,
    ],
)
def test_a_configuration_file_that_merging_blows_up_is_refused(text: str) -> None:
    (launch,) = read(config_of(text)).launches
    with Watch():
        report = check_launch(ask(launch))
    assert [one.code for one in report.diagnostics if one.severity == "error"] == ["CG914"]


def test_merging_a_mapping_or_two_is_nothing_odd() -> None:
    (launch,) = read(config_of("a: &a {<<: {x: 1}}\nb: {<<: [*a, *a]}")).launches
    assert "CG914" not in [one.code for one in check_launch(ask(launch)).diagnostics]


def edited(text: str, count: int) -> rewrite.Rewritten:
    source = Source("a.sh", text)
    launches = read(source).launches[:count]
    return rewrite.rewritten(source, [(launch, [TokenEdit(3, 3, ("--x",))]) for launch in launches])


def test_long_texts_are_not_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "vllm serve m --y\n"
    assert edited(text, 1).made == 1
    monkeypatch.setattr(rewrite, "MAX_TEXT", len(text) - 1)
    result = edited(text, 1)
    assert (result.text, result.made) == (text, 0)
    assert "longer" in result.skipped[0].reason


def test_a_long_text_is_read_again_only_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "vllm serve m --y\n" * 8
    reads = []

    def never(source: Source) -> Reading:
        reads.append(source)
        return read(source) if source.text == text else Reading()

    source = Source("a.sh", text)
    changes = [(launch, [TokenEdit(3, 3, ("--x",))]) for launch in read(source).launches]
    rewrite.rewritten(source, changes, never)
    unlimited = len(reads)
    monkeypatch.setattr(rewrite, "MAX_READ", 3 * len(text))
    reads.clear()
    assert rewrite.rewritten(source, changes, never).made == 0
    assert len(reads) < min(unlimited, 5)


def test_other_documents_are_compared_as_they_are_read() -> None:
    (launch,) = read(Source("a.yaml", f"{POD}  - name: c\n    command: [vllm, serve, m]\n")).launches
    assert same_elsewhere("a: 1\nb: 2\n", "a: 1\nb: 2\n", [], [launch])
    assert not same_elsewhere("a: 1\nb: 2\n", "a: 1\n", [], [launch])
    assert not same_elsewhere("a: 1\n", "a: [\n", [], [launch])


def test_a_diff_of_lines_that_are_alike_takes_no_long() -> None:
    lines = ["a:\n", "- b\n", "- c\n", "- d\n"] * 4000
    changed = [line if number % 20 else "- e\n" for number, line in enumerate(lines)]
    with Watch():
        diff = diff_of(Source("a", "".join(lines)), "".join(changed))
    old = "".join(line[1:] for line in diff.splitlines(keepends=True)[3:] if line[0] in " -")
    new = "".join(line[1:] for line in diff.splitlines(keepends=True)[3:] if line[0] in " +")
    assert old in "".join(lines)
    assert new in "".join(changed)


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = b"vllm serve m\n" * 20_000  # more than a pipe holds
    writer = written(pipe, data)
    assert files.load(pipe).text == data.decode()
    writer.join()


def test_a_pipe_that_was_given_open() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"vllm serve m\n")
    os.close(writer)
    try:
        assert files.load(f"/dev/fd/{reader}").text == "vllm serve m\n"
    finally:
        os.close(reader)


def test_an_endless_pipe_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 1000)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=_pour, args=(pipe,), daemon=True)
    writer.start()
    with pytest.raises(InputError) as caught:
        files.load(pipe)
    assert caught.value.code == "CG914"
    writer.join()


def _pour(pipe: Path) -> None:
    try:
        with open(pipe, "wb", buffering=0) as file:
            while True:
                file.write(b"#" * 4096)
    except BrokenPipeError:
        pass


def test_deep_folders_and_pipes_are_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    here = tmp_path
    for depth in range(files.MAX_DEPTH + 20):
        here = here / "d"
        here.mkdir()
        if depth in (3, files.MAX_DEPTH + 10):
            (here / "a.sh").write_text("vllm serve m")
    (found,) = files.walk([tmp_path])
    assert found.path.count("/d") == 4
