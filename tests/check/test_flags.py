"""Refused and deprecated options: the flag and the edits that mend them."""

from __future__ import annotations

import pytest

from cgplan.check import Context, Diagnostic, TokenEdit, check

SERVE = "vllm serve Qwen/Qwen3-8B"


def found(options: str, code: str = "CG905", release: str | None = None) -> list[Diagnostic]:
    report = check([*SERVE.split(), *options.split()], Context(release=release))
    return [one for one in report.diagnostics if one.code == code]


@pytest.mark.parametrize(
    ("options", "flag", "safe"),
    [
        ("--max-num-batchd-tokens 4096", "--max-num-batched-tokens 4096", False),
        ("--max_num_seqz=64", "--max-num-seqs=64", False),
        ("--compilation-confg.mode=3", "--compilation-config.mode=3", False),
        ("--task classify", "--runner pooling --convert classify", True),
        ("--task=generate", "--runner generate", True),
        ("--worker-use-ray", "--distributed-executor-backend ray", True),
        ("--disable-mm-preprocessor-cache", "--mm-processor-cache-gb 0", True),
        ("--cuda-graph-sizes 1 2 4", "--cudagraph-capture-sizes 1 2 4", True),
        ("--guided-decoding-backend=xgrammar", "--structured-outputs-config.backend=xgrammar", True),
        ("--enforce-eager true", "--enforce-eager", True),
        ("--enforce-eager=0", "--no-enforce-eager", True),
        ('-O {"mode":3}', """-cc '{"mode":3}'""", True),
    ],
)
def test_refused_options(options: str, flag: str, safe: bool) -> None:
    [one] = found(options)
    assert (one.flag, one.safe) == (flag, safe)
    assert len(one.edits) == 1


def test_what_is_dropped_takes_its_values_with_it() -> None:
    [one] = found("--num-scheduler-steps 8 --max-num-seqs 64")
    assert one.edits == (TokenEdit(3, 5),)
    assert not one.safe
    [one] = found("--use-v2-block-manager")
    assert one.edits == (TokenEdit(3, 4),)


def test_no_second_setting_beside_one_that_is_there() -> None:
    [one] = found('--speculative-config {"method":"ngram","num_speculative_tokens":2} --ngram-prompt-lookup-max 4')
    assert one.edits == ()


def test_an_option_of_an_older_release() -> None:
    [one] = found("--max-num-partial-prefills 2", release="0.33.0")
    assert "removed" in one.message
    assert found("--max-num-partial-prefills 2", release="0.25.1") == []


def test_a_choice_that_is_near() -> None:
    [one] = found("--dtype bflot16", "CG902")
    assert (one.flag, one.safe) == ("--dtype bfloat16", False)


@pytest.mark.parametrize("options", ["--show-hidden-metrics-for-version 0.30", "--dcp-kv-cache-interleave-size 1"])
def test_help_that_speaks_of_other_deprecations(options: str) -> None:
    assert found(options, "CG937") == []


def test_a_deprecated_option_becomes_the_one_in_its_place() -> None:
    [one] = found("--log-config-file x.json", "CG937")
    assert one.flag == "--logging-config.pylogging_config_file x.json"


def test_flag_and_key_of_the_same_value() -> None:
    [one] = found("--attention-backend FLASH_ATTN -ac.backend=FLASH_ATTN", "CG125")
    assert (one.safe, one.edits) == (True, (TokenEdit(3, 5),))
    [one] = found("--attention-backend FLASH_ATTN -ac.backend=FLASHINFER", "CG125")
    assert not one.safe


def test_a_flag_over_a_key_of_the_same_value_is_silent() -> None:
    assert found("--moe-backend triton --kernel-config.moe_backend=triton", "CG941") == []


def test_the_number_of_further_tokens_is_left_out() -> None:
    [one] = found("--foo-bar-baz 1 2 3")
    assert one.message.endswith("has no option --foo-bar-baz")
