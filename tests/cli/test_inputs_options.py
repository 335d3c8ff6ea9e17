"""Options of cgplan over what a line or a file says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cgplan.cli.context import context_of
from cgplan.cli.decorate import with_deployment
from cgplan.cli.naming import as_typed
from cgplan.cli.options import DeploymentOptions
from cgplan.cli.request import deployment_of
from cgplan.errors import InputError
from cgplan.inputs.launches import launch_of
from cgplan.inputs.launches.asked import Asked, Context, ask
from cgplan.sections import Gpu


def over(line: str, **given: Any) -> Asked:
    """What a line asks for with options over it."""
    options = DeploymentOptions()
    for name, value in given.items():
        setattr(options, name, value)
    return ask(launch_of(line.split()), context_of(options)._replace(here=None))


def at(asked: Asked, path: str) -> Any:
    assert asked.problem is None
    assert asked.served is not None
    value: Any = asked.served.deployment
    for name in path.split("."):
        value = getattr(value, name)
    return value


# What if


@pytest.mark.parametrize(
    ("line", "given", "path", "value"),
    [
        ("", {}, "max_num_seqs", None),
        ("--max-num-seqs 8", {}, "max_num_seqs", 8),
        ("--max-num-seqs 8", {"max_num_seqs": "64"}, "max_num_seqs", 64),
        ("--max-num-seqs 8", {"max_model_len": "4k"}, "max_num_seqs", 8),
        ("--max-model-len 4096", {"max_model_len": "auto"}, "max_model_len", None),
        ("--enforce-eager", {"enforce_eager": False}, "enforce_eager", False),
        ("", {"vllm": "0.28"}, "vllm", "0.28.0"),
        ("-cc.cudagraph_mode=FULL", {"cudagraph_mode": "NONE"}, "compilation_config.cudagraph_mode", "NONE"),
        ("-cc.cudagraph_mode=FULL", {"max_num_seqs": "8"}, "compilation_config.cudagraph_mode", "FULL"),
        ("-cc.cudagraph_mode=FULL", {"compilation_config": ['{"mode": 3}']},
         "compilation_config.cudagraph_mode", "FULL"),
        (
            "-cc.pass_config.fuse_norm_quant=true",
            {"compilation_config": ['{"pass_config": {"eliminate_noops": false}}']},
            "compilation_config.pass_config.fuse_norm_quant",
            True,
        ),
        ("-ac.backend=FLASH_ATTN", {"attention_backend": "FLASHINFER"}, "attention_backend", "FLASHINFER"),
        ("-ac.backend=FLASH_ATTN", {"attention_backend": "FLASHINFER"}, "attention_config.backend", None),
        ("--attention-backend FLASH_ATTN", {"attention_config": ['{"backend": "FLASHINFER"}']},
         "attention_backend", None),
        ("-cc.cudagraph_capture_sizes=[1,2]", {"cudagraph_capture_sizes": "4 8"},
         "compilation_config.cudagraph_capture_sizes", None),
        ("-cc.max_cudagraph_capture_size=64", {"cudagraph_capture_sizes": "4 8"},
         "compilation_config.max_cudagraph_capture_size", 64),
        ("--spec-method ngram --spec-tokens 3", {"spec_tokens": "5"}, "speculative_config.num_speculative_tokens", 5),
        ("--spec-method ngram --spec-tokens 3", {"spec_tokens": "5"}, "speculative_config.method", "ngram"),
        ("", {"gpu": "h200"}, "gpu.sm_count", 132),
        ("", {"gpu_memory_bytes": "10g"}, "gpu.memory_bytes", 10**10),
        ("", {"gpus_per_node": "4"}, "gpus_per_node", 4),
        ("", {"model": "Qwen/Qwen3-0.6B"}, "model.name", "Qwen/Qwen3-0.6B"),
        ("", {}, "model.name", "Qwen/Qwen3-8B"),
        ("", {"software": ["flashinfer=false"]}, "software.flashinfer", False),
    ],
)  # fmt: skip
def test_options_lie_over_the_line(line: str, given: dict[str, Any], path: str, value: Any) -> None:
    assert at(over(f"vllm serve Qwen/Qwen3-8B {line}", **given), path) == value


def test_no_option_says_nothing() -> None:
    context = context_of(DeploymentOptions())
    assert context._replace(here=None) == Context()
    assert context.here is not None


def test_two_options_of_one_setting_still_contradict() -> None:
    found = over("vllm serve x/y", attention_backend="FLASHINFER", attention_config=['{"backend": "FLASH_ATTN"}'])
    assert found.served is not None
    assert at(found, "attention_config.backend") == "FLASH_ATTN"
    with pytest.raises(InputError, match="one setting"):
        over("vllm serve x/y", cudagraph_mode="FULL", compilation_config=['{"cudagraph_mode": "NONE"}'])


def test_drafts_may_be_the_line_s() -> None:
    """Tokens alone are no speculative decoding; over a line that has it they are."""
    options = DeploymentOptions()
    options.spec_tokens = "5"
    with pytest.raises(InputError, match="needs a method"):
        deployment_of(options)
    assert at(over("vllm serve x/y -sc.method=ngram -sc.num_speculative_tokens=2", spec_tokens="5"), "vllm")


def test_an_unmodelled_key_of_an_option_is_said() -> None:
    found = over("vllm serve x/y", compilation_config=['{"debug_dump_path": "a"}'])
    assert found.served is not None
    assert any("debug_dump_path" in line for line in found.served.ignored)


def test_the_gpu_of_this_machine_comes_last() -> None:
    here = Gpu(name="a card of this machine", sm_count=7)
    line = launch_of(["vllm", "serve", "x/y"])
    found = ask(line, Context(here=lambda: (here, 2)))
    assert (at(found, "gpu.sm_count"), at(found, "gpus_per_node")) == (7, 2)
    assert any("found in this machine" in text for text in found.assumptions)
    elsewhere = ask(replace(line, kind="kubernetes"), Context(here=lambda: (here, 2)))
    assert at(elsewhere, "gpu.sm_count") == 132
    hinted = ask(replace(line, hints=line.hints._replace(gpu="b200")), Context(here=lambda: (here, 2)))
    assert at(hinted, "gpu.name") == "NVIDIA B200"
    given = ask(line, Context(gpu=Gpu(), here=lambda: (here, 2)))
    assert at(given, "gpu.sm_count") == 132


def test_positional_false_leaves_room_for_arguments() -> None:
    import inspect

    @with_deployment(positional=False)
    def bare(options: DeploymentOptions) -> int:
        return 0

    @with_deployment
    def usual(options: DeploymentOptions) -> int:
        return 0

    assert "model_tag" not in inspect.signature(bare).parameters
    assert "model_tag" in inspect.signature(usual).parameters
    assert "max_num_seqs" in inspect.signature(bare).parameters


def test_names_of_a_file_are_no_options() -> None:
    """A file may be called like a section."""
    options = DeploymentOptions()
    options.asked = over("vllm serve x/y")
    error = InputError("no", where="compilation_config.yaml:3:4")
    vars(error)["is_placed"] = True
    assert as_typed(error, options).where == "compilation_config.yaml:3:4"
