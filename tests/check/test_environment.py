"""Environment variables: unknown, removed, unreadable, misread; and that no secret is shown."""

from __future__ import annotations

import pytest

from cgplan.check import Context, Diagnostic, check, check_launch
from cgplan.check.environment_history import BEFORE_ALL, REPLACED
from cgplan.inputs.launches import EnvVariable, Launch, LaunchToken, Source
from cgplan.inputs.launches.asked import ask
from cgplan.releases import SUPPORTED
from cgplan.releases.env_variables import read_elsewhere, readers, releases_with

SERVE = "vllm serve Qwen/Qwen3-8B"


def found(env: str, release: str | None = None, options: str = "") -> list[Diagnostic]:
    report = check(f"{env} {SERVE} {options}", Context(release=release))
    return [one for one in report.diagnostics if one.code.startswith("CG81")]


@pytest.mark.parametrize("release", SUPPORTED)
def test_every_release_has_its_variables(release: str) -> None:
    assert len(readers(release)) > 200
    assert readers(release)["VLLM_USE_V2_MODEL_RUNNER"].kind == "bool"
    assert readers(release)["VLLM_PORT"].kind == "int"
    assert not read_elsewhere(release) & readers(release).keys()


def test_what_has_gone_is_in_the_tables_of_releases() -> None:
    assert not [name for name in BEFORE_ALL if releases_with(name)]
    assert not [name for name in REPLACED if not releases_with(name) or SUPPORTED[-1] in releases_with(name)]


def test_a_removed_variable_gives_the_flag() -> None:
    [one] = found("VLLM_ATTENTION_BACKEND=FLASHINFER")
    assert (one.code, one.severity, one.flag) == ("CG811", "error", "--attention-backend FLASHINFER")
    assert one.at is not None
    assert one.at.source.text[one.at.span.start : one.at.span.end] == "VLLM_ATTENTION_BACKEND=FLASHINFER"


def test_a_removed_variable_without_a_successor_at_that_release() -> None:
    [old] = found("VLLM_USE_CUDNN_PREFILL=1", "0.19.1")
    [new] = found("VLLM_USE_CUDNN_PREFILL=1", "0.33.0")
    assert old.fix == "use --attention-config.use_cudnn_prefill"
    assert "leave it out" in str(new.fix)
    assert (old.severity, new.severity) == ("error", "warning")


def test_a_variable_of_a_later_release() -> None:
    assert [one.code for one in found("VLLM_USE_FLASHINFER_MOE_FP8=1", "0.23.0")] == []
    assert [one.code for one in found("VLLM_USE_FLASHINFER_MOE_FP8=1", "0.24.0")] == ["CG811"]
    [one] = found("VLLM_ENABLE_STARTUP_PLAN=1", "0.25.1")
    assert "since" in one.message


def test_unknown_names() -> None:
    [typo] = found("VLLM_LOGING_LEVEL=INFO")
    assert (typo.severity, typo.fix) == ("error", "did you mean VLLM_LOGGING_LEVEL?")
    [own] = found("VLLM_CHART_REVISION=7")
    assert own.severity == "warning"
    [ends] = found("VLLM_CHART_REVISION=7", options="--fail-on-environ-validation")
    assert ends.severity == "error"
    assert found("HF_HOME=/models PYTHONUNBUFFERED=1") == []


def test_a_name_that_the_file_puts_in_itself() -> None:
    text = "VLLM_MODEL_ID=m; vllm serve $VLLM_MODEL_ID"
    source = Source("run.sh", text)
    words = tuple(LaunchToken(word, source.span(0, 1)) for word in ("vllm", "serve", "Qwen/Qwen3-8B"))
    launch = Launch(source, "shell", "", words, (EnvVariable("VLLM_MODEL_ID", "m", source.span(0, 15)),))
    assert not [one for one in check_launch(ask(launch)).diagnostics if one.code == "CG810"]


@pytest.mark.parametrize(
    ("env", "code"),
    [
        ("VLLM_USE_V2_MODEL_RUNNER=true", "CG903"),  # of the resolver
        ("VLLM_USE_FASTOKENS=true", "CG812"),
        ("VLLM_USE_FASTOKENS=", "CG812"),
        ("VLLM_USE_FASTOKENS=2", None),
        ("VLLM_LOG_STATS_INTERVAL=ten", "CG812"),
        ("VLLM_LOG_STATS_INTERVAL=2.5", None),
        ("VLLM_FLOAT32_MATMUL_PRECISION=HIGH", None),
        ("VLLM_FLOAT32_MATMUL_PRECISION=low", "CG812"),
        ("VLLM_USE_MODELSCOPE=off", None),
        ("VLLM_USE_BREAKABLE_CUDAGRAPH=true", "CG813"),
        ("VLLM_DO_NOT_TRACK=True", "CG813"),
        ("VLLM_USE_FASTOKENS=$FAST", None),
        ("VLLM_PORT=tcp://10.1.1.1:80", "CG815"),
    ],
)
def test_values(env: str, code: str | None) -> None:
    words = [*env.split(), *SERVE.split()]
    errors = [one.code for one in check(words).diagnostics if one.severity == "error"]
    assert errors == ([code] if code else [])


def test_a_value_that_the_file_does_not_say_is_not_judged() -> None:
    source = Source("a.yaml", "x")
    words = tuple(LaunchToken(word, source.span(0, 1)) for word in SERVE.split())
    launch = Launch(source, "kubernetes", "", words, (EnvVariable("VLLM_USE_FASTOKENS", None, None),))
    assert not [one for one in check_launch(ask(launch)).diagnostics if one.code.startswith("CG81")]


@pytest.mark.parametrize(
    "env", ["VLLM_API_KEY=hush", "VLLM_MY_TOKEN=hush", "HF_TOKEN=hush", "VLLM_ATTENTION_BACKEND=hush!hush",
            "VLLM_LOGING_LEVEL=hush", "VLLM_PORT=hush://hush:hush@x"],
)  # fmt: skip
def test_values_of_secrets_are_not_shown(env: str) -> None:
    for one in check([env, *SERVE.split()]).diagnostics:
        assert "hush" not in " ".join([one.message, one.fix or "", one.flag or "", one.why])
