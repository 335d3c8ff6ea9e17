"""`cgplan check`: what it reads, what it prints, and its exit status."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from check_runs import BAD, GOOD, WARNING, Check, checker, write

from cgplan.cli.app import run
from cgplan.report.check_schema import CheckDocument

MANIFEST = """\
kind: Deployment
apiVersion: apps/v1
metadata:
  name: qwen
spec:
  template:
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.25.1
          args:
            - Qwen/Qwen3-8B
            - --bogus=1
            - --max-num-seqs=256
"""


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Check:
    return checker(capsys, monkeypatch, tmp_path)


class TestWhatIsRead:
    def test_a_good_line_is_one_line(self, check: Check) -> None:
        done = check("", GOOD)
        assert (done.status, done.err) == (0, "")
        assert done.out == (
            "all good: FULL_AND_PIECEWISE, 86 graphs, vLLM 0.33.0 (assumed), H100 80GB HBM3 (assumed)\n"
        )

    def test_a_file(self, check: Check) -> None:
        write("deploy.yaml", MANIFEST)
        done = check("deploy.yaml")
        assert done.status == 1
        assert "deploy.yaml:13:15: error CG905 vLLM 0.25.1 has no option --bogus" in done.out
        assert "13 |             - --bogus=1\n   |               ^^^^^^^" in done.out

    @pytest.mark.parametrize("words", ["", "-"])
    def test_standard_input(self, check: Check, words: str) -> None:
        done = check(words, stdin=MANIFEST)
        assert done.status == 1
        assert "stdin:13:15: error CG905" in done.out

    def test_a_folder(self, check: Check) -> None:
        write("a/x.yaml", MANIFEST)
        write("a/b/run.sh", f"#!/bin/sh\n{BAD}\n")
        write("a/values.yaml", "replicas: 3\n")
        done = check("a -f concise")
        assert [line.partition(" ")[0] for line in sorted(done.out.splitlines())] == [
            "a/b/run.sh:2:26:",
            "a/x.yaml:13:15:",
        ]

    def test_a_file_and_a_line(self, check: Check) -> None:
        write("run.sh", f"#!/bin/sh\n{BAD}\n")
        done = check("run.sh", GOOD)
        assert "2 servers in 2 files" in done.out

    def test_a_file_given_twice_is_read_once(self, check: Check) -> None:
        write("run.sh", f"#!/bin/sh\n{BAD}\n")
        assert "1 error\n" in check("run.sh run.sh").out

    def test_nothing_is_a_usage_error_with_examples(self, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
        for stdin in (None, io.StringIO()):
            if stdin is not None:
                monkeypatch.setattr(stdin, "isatty", lambda: True)
            monkeypatch.setattr(sys, "stdin", stdin)
            done = check()
            assert (done.status, done.out) == (2, "")
            assert "cgplan check deploy.yaml, or cgplan check -- vllm serve" in done.err
            assert done.err.count("\n") == 1
        assert "nothing stands behind --" in check("", "").err

    def test_a_file_without_a_server_is_said(self, check: Check) -> None:
        write("values.yaml", "replicas: 3\n")
        done = check("values.yaml")
        assert done.status == 0
        assert done.out.startswith("values.yaml: note ")
        assert done.out.endswith("no vLLM server in 1 file\n")

    def test_what_cannot_be_read_does_not_stop_the_rest(self, check: Check) -> None:
        write("run.sh", f"#!/bin/sh\n{WARNING}\n")
        write("broken.yaml", "vllm: [serve\n")
        done = check("missing.yaml broken.yaml run.sh")
        assert done.status == 2
        assert done.err.count("\n") == 2
        assert "missing.yaml" in done.err
        assert "broken.yaml" in done.err
        assert "run.sh:2:26: warning" in done.out
        assert "2 files could not be read" in done.out

    def test_exclude(self, check: Check) -> None:
        write("a/x.yaml", MANIFEST)
        write("a/charts/y.yaml", MANIFEST)
        assert "a/charts/y.yaml" in check("a").out
        assert "a/charts/y.yaml" not in check("a --exclude charts").out
        assert "a/x.yaml" not in check("a --exclude *.yaml").out
        assert "a/charts/y.yaml:13" in check("a/charts/y.yaml --exclude charts").out


class TestContext:
    def test_options_take_the_place_of_the_file(self, check: Check) -> None:
        write("deploy.yaml", MANIFEST)
        done = check("deploy.yaml --vllm 0.29 --gpu h200 --json")
        (launch,) = json.loads(done.out)["files"][0]["launches"]
        assert (launch["vllm_version"], launch["vllm_version_from"]) == ("0.29.0", "given")
        assert (launch["gpu"], launch["gpu_from"]) == ("NVIDIA H200", "given")
        (launch,) = json.loads(check("deploy.yaml --json").out)["files"][0]["launches"]
        assert (launch["vllm_version"], launch["vllm_version_from"], launch["gpu_from"]) == (
            "0.25.1",
            "file",
            "assumed",
        )

    def test_a_setting_of_the_deployment(self, check: Check) -> None:
        assert "FULL_AND_PIECEWISE" in check("", GOOD).out
        assert "PIECEWISE" not in check("--enforce-eager", GOOD).out

    def test_an_unknown_gpu_is_an_error_of_the_option(self, check: Check) -> None:
        done = check("--gpu h1000", GOOD)
        assert (done.status, done.out) == (2, "")
        assert "[--gpu]" in done.err

    def test_assumptions(self, check: Check) -> None:
        assert "assumed: " not in check("", GOOD).out
        assert "  assumed: vLLM 0.33.0, the newest known" in check("-v", GOOD).out


class TestStatus:
    @pytest.mark.parametrize(
        ("words", "line", "status"),
        [
            ("", GOOD, 0),
            ("", WARNING, 0),
            ("", BAD, 1),
            ("--fail-on warning", WARNING, 1),
            ("--fail-on warning", GOOD, 0),
            ("--fail-on never", BAD, 0),
            ("--fail-on info", GOOD, 0),
            ("--ignore CG905", BAD, 0),
            ("--ignore CG9 --select CG905", BAD, 1),
            ("--select CG2", BAD, 0),
        ],
    )
    def test_findings(self, check: Check, words: str, line: str, status: int) -> None:
        assert check(words, line).status == status

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ("--fail-on eror", "did you mean error?"),
            ("--output xml", "give one of text"),
            ("--json --output sarif", "one setting"),
            ("--select CG000", "no code begins with"),
            ("--ignore X1", "no code begins with"),
            ("--write", "give --fix --write"),
            ("--fix --write", "--fix prints the change"),
            ("--fix --output json", "--fix prints a diff"),
            ("--settings none.toml", "no such file"),
            ("--no-such-option", "unknown option"),
        ],
    )
    def test_bad_usage_is_one_line(self, check: Check, words: str, said: str) -> None:
        done = check(words, GOOD)
        assert done.status == 2
        assert said in done.err
        assert done.err.count("\n") == 1


class TestForms:
    def test_json_fits_its_schema(self, check: Check) -> None:
        write("deploy.yaml", MANIFEST)
        write("broken.yaml", "vllm: [serve\n")
        done = check("deploy.yaml broken.yaml --json", WARNING)
        assert done.status == 2
        document = json.loads(done.out)
        CheckDocument.model_validate(document)
        assert [file["path"] for file in document["files"]] == [None, "deploy.yaml", "broken.yaml"]
        assert check("-f json", WARNING).out == check("--json", WARNING).out

    def test_the_others(self, check: Check) -> None:
        write("deploy.yaml", MANIFEST)
        assert json.loads(check("deploy.yaml -f sarif").out)["version"] == "2.1.0"
        assert check("deploy.yaml -f github").out.startswith("::error file=deploy.yaml,line=13,endLine=13,col=15")
        assert check("deploy.yaml -f markdown").out.startswith("# Check: 1 error")
        assert check("deploy.yaml -f concise").out.startswith("deploy.yaml:13:15: error CG905")
        assert check("deploy.yaml --quiet").out.startswith("deploy.yaml:13:15: error CG905")

    @pytest.mark.parametrize("form", ["text", "concise", "json", "sarif", "github", "markdown", "text -v"])
    def test_no_form_shows_a_secret(self, check: Check, form: str) -> None:
        keys = ("my-own-key-77", "hf_abcdefghijklmnop", "pass-of-aws-99")
        line = f"HF_TOKEN={keys[1]} AWS_SECRET_ACCESS_KEY={keys[2]} {BAD} --api-key {keys[0]}"
        done = check(f"-f {form}", f"{line} --bogus={keys[0]} --hf-token {keys[1]} {keys[0]} --max-num-seqs {keys[1]}")
        assert done.status == 1
        for key in keys:
            assert key not in done.out + done.err

    def test_schema(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["schema", "check"]) == 0
        assert json.loads(capsys.readouterr().out)["title"] == "CheckDocument"


class TestComments:
    def test_they_silence_and_are_looked_after(self, check: Check) -> None:
        write("deploy.yaml", MANIFEST.replace("bogus=1", "bogus=1  # cgplan: ignore CG905"))
        assert check("deploy.yaml").status == 0
        write("deploy.yaml", MANIFEST.replace("bogus=1", "port=8001  # cgplan: ignore CG905"))
        assert "info CG975" in check("deploy.yaml -f concise").out
        assert check("deploy.yaml -f concise --ignore CG975").out == ""

    def test_what_is_silenced_counts_as_known_to_start(self, check: Check) -> None:
        write("deploy.yaml", MANIFEST)
        assert "does not start" in check("deploy.yaml").out
        write("deploy.yaml", MANIFEST.replace("bogus=1", "bogus=1  # cgplan: ignore CG905"))
        assert "FULL_AND_PIECEWISE" in check("deploy.yaml").out


class TestSettings:
    def test_they_are_used(self, check: Check) -> None:
        write("cgplan.toml", 'vllm = "0.26.0"\ngpu = "h200"\nfail-on = "warning"\noutput = "concise"\n')
        done = check("", WARNING)
        assert done.status == 1
        assert done.out.startswith("line:1:26: warning")
        assert "vLLM 0.26.0, H200" in check("--output text", GOOD).out

    def test_the_command_line_wins(self, check: Check) -> None:
        write("cgplan.toml", 'vllm = "0.26.0"\nfail-on = "warning"\nselect = ["CG2"]\nignore = ["CG905"]\n')
        assert "vLLM 0.29.0" in check("--vllm 0.29", GOOD).out
        assert check("--fail-on never", BAD).status == 0
        assert check("", BAD).status == 0
        assert check("--select CG9", BAD).status == 1

    def test_the_nearest_to_each_file(self, check: Check) -> None:
        write("a/run.sh", f"#!/bin/sh\n{GOOD}\n")
        write("a/cgplan.toml", 'vllm = "0.26.0"')
        write("b/run.sh", f"#!/bin/sh\n{GOOD}\n")
        write("b/pyproject.toml", '[tool.cgplan]\nvllm = "0.27.1"')
        done = check("a b")
        assert "a/run.sh:2: FULL_AND_PIECEWISE, 86 graphs, vLLM 0.26.0" in done.out
        assert "b/run.sh:2: FULL_AND_PIECEWISE, 86 graphs, vLLM 0.27.1" in done.out
        assert check("a b --settings a/cgplan.toml").out.count("0.26.0") == 2

    def test_paths(self, check: Check) -> None:
        write("a/x.yaml", MANIFEST)
        write("a/y.yaml", MANIFEST)
        write("a/z/v.yaml", MANIFEST)
        write("cgplan.toml", 'exclude = ["a/z"]\nper-file-ignores = { "y.yaml" = ["CG905"] }')
        (line,) = check("a -f concise").out.splitlines()
        assert line.startswith("a/x.yaml:13:15: error CG905")

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ('fail_on = "error"', "did you mean fail-on?"),
            ('gpu = "h1000"', "cgplan.toml: gpu"),
            ('vllm = "0.1"', "cgplan.toml: vllm"),
            ('select = ["CG000"]', "cgplan.toml: select"),
            ('env = ["VLLM_USE_V2_MODEL_RUNNER=1", "X"]', "NAME=VALUE"),
        ],
    )
    def test_what_is_wrong_names_the_file(self, check: Check, text: str, said: str) -> None:
        write("cgplan.toml", text)
        done = check("", GOOD)
        assert done.status == 2
        assert said in done.err or "cgplan.toml" in done.err
        assert done.err.count("\n") == 1

    def test_pairs_are_laid_over_each_other(self, check: Check) -> None:
        write("cgplan.toml", 'env = { VLLM_USE_V2_MODEL_RUNNER = "1" }')

        def runner(words: str) -> str:
            (launch,) = json.loads(check(f"--json {words}", GOOD).out)["files"][0]["launches"]
            return str(launch["resolution"]["runner"])

        assert runner("") == "V2"
        assert runner("--env VLLM_USE_V2_MODEL_RUNNER=0") == "V1"


class TestFolders:
    TEMPLATE = "kind: Deployment\n{{ if .Values.x }}\nargs: [vllm, serve]\n{{ end }}\n"

    def test_what_is_passed_over_is_counted_and_named(self, check: Check) -> None:
        for name in ("a", "b"):
            write(f"charts/{name}.yaml", self.TEMPLATE)
        Path("charts/c.yaml").write_bytes(b"caf\xe9: 1\n")
        write("charts/run.sh", f"{GOOD}\n")
        done = check("charts")
        assert done.status == 0
        assert "3 files were passed over: 2 templates, 1 not UTF-8; -v names them" in done.out
        assert "charts/b.yaml: passed over: template" in check("charts -v").out
        assert "3 files were passed over" in check("charts --output concise").err
        document = json.loads(check("charts --json").out)
        assert document["summary"]["passed_over"] == 3
        assert document["summary"]["files"] == 1
        assert [file["passed_over"] for file in document["files"]][:3] == ["template", "template", "not UTF-8"]

    def test_one_that_speaks_of_vllm_and_is_no_text_is_an_error(self, check: Check) -> None:
        write("k/run.sh", f"{GOOD}\n")
        Path("k/u.yaml").write_bytes("args: [vllm, serve]\n".encode("utf-16"))
        done = check("k")
        assert done.status == 2
        assert "UTF-16" in done.err

    def test_nothing_is_said_where_nothing_is_passed_over(self, check: Check) -> None:
        write("k/run.sh", f"{GOOD}\n")
        write("k/x.yaml", "a: 1\n")
        assert "passed over" not in check("k -v").out

    def test_what_is_noticed_of_a_file_with_servers_is_a_finding(self, check: Check) -> None:
        write("c.yaml", "model: Qwen/Qwen3-8B\nmax-num-seqs: 8\nmax-num-seqs: 8\n")
        done = check("c.yaml --output concise --fail-on warning")
        assert done.status == 1
        assert "c.yaml:3:1: warning CG948" in done.out


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--help"]) == 0
    shown = capsys.readouterr().out
    for words in ("-- vllm serve Qwen/Qwen3-8B", "--select", "--unsafe-fixes", "FILE|DIR|- ..."):
        assert words in shown


@pytest.mark.parametrize("text", ["", "\n \n", "\ufeff\n"])
def test_standard_input_that_brings_nothing_is_no_pass(text: str, check: Check) -> None:
    done = check("-", stdin=text)
    assert done.status == 2
    assert "standard input is empty" in done.err
    assert check("", stdin=text).status == 2
    assert check("-", stdin="echo no server\n").status == 0


def test_an_empty_file_is_none_to_fail_on(check: Check) -> None:
    write("run.sh", "")
    done = check("run.sh")
    assert done.status == 0
    assert "the text is empty" in done.out + done.err
