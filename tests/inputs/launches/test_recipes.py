"""Recipes of vllm-project/recipes: what their page can build, and the commands of their guides."""

from __future__ import annotations

import pytest

from cgplan.inputs.launches.launch import Launch, Reading, Source
from cgplan.inputs.launches.recipes import MAX_LAUNCHES, fits, launches
from cgplan.inputs.launches.yaml_nodes import documents


def read(text: str) -> Reading:
    source = Source("recipe.yaml", text)
    found, _ = documents(source)
    assert fits(found)
    return launches(found, source)


def by_label(text: str) -> dict[str, Launch]:
    return {launch.label: launch for launch in read(text).launches}


def options(launch: Launch) -> list[str]:
    assert launch.texts[:2] == ["vllm", "serve"]
    return launch.texts[3:]


MODEL = "model: {model_id: acme/m, base_args: [--trust-remote-code], base_env: {A: '1'}}\n"


def test_each_variant_is_a_server() -> None:
    found = by_label(
        MODEL
        + """
variants:
  default: {precision: bf16}
  small: {model_id: acme/s, extra_args: [--dtype, half], extra_env: {B: '2'}}
"""
    )
    assert list(found) == ["variant default", "variant small"]
    assert found["variant default"].texts == ["vllm", "serve", "acme/m", "--trust-remote-code"]
    assert found["variant small"].texts == ["vllm", "serve", "acme/s", "--trust-remote-code", "--dtype", "half"]
    assert found["variant small"].environment == {"A": "1", "B": "2"}
    assert {launch.kind for launch in found.values()} == {"recipe"}


def test_a_recipe_without_variants_is_one_server() -> None:
    assert list(by_label(MODEL)) == ["model"]


def test_places_of_arguments_and_of_what_is_made() -> None:
    text = MODEL + "variants:\n  default:\n    extra_args:\n      - --dtype\n      - 'half'\n"
    (launch,) = read(text).launches
    written = [text[token.span.start : token.span.end] for token in launch.tokens]
    assert written == ["acme/m", "acme/m", "acme/m", "--trust-remote-code", "--dtype", "'half'"]
    assert [token.style for token in launch.tokens] == ["made", "made", "made", "flow", "item", "item"]
    assert [token.literal for token in launch.tokens] == [False, False, False, True, True, True]


FEATURES = """
features:
  tools: {args: [--enable-auto-tool-choice]}
  drafts: {args: [--speculative-config, '{"a": 1}'], env: {C: '3'}}
opt_in_features: [drafts]
variants: {default: {}}
"""


def test_features_are_on_unless_they_have_to_be_chosen() -> None:
    found = by_label(MODEL + FEATURES)
    assert options(found["variant default"]) == ["--trust-remote-code", "--enable-auto-tool-choice"]
    chosen = found["variant default with drafts"]
    assert options(chosen)[2:] == ["--speculative-config", '{"a": 1}']
    assert chosen.environment == {"A": "1", "C": "3"}
    assert len(found) == 2


MODES = """
features:
  drafts:
    default_mode: b
    modes:
      a: {args: [--one], variants: [small]}
      b: {args: [--two], hardware_overrides: {hopper: {args: [--three]}}}
variants: {default: {}, small: {}}
hardware_overrides: {hopper: {extra_env: {X: y}}}
"""


def test_the_default_mode_of_a_feature_that_is_on() -> None:
    found = by_label(MODEL + MODES)
    assert options(found["variant default"])[1:] == ["--two"]
    assert options(found["variant default on hopper"])[1:] == ["--three"]


def test_each_mode_of_a_feature_that_is_chosen_with_a_variant_that_has_it() -> None:
    found = by_label(MODEL + MODES + "opt_in_features: [drafts]\n")
    assert options(found["variant small with drafts (a)"])[1:] == ["--one"]
    assert options(found["variant default with drafts (b)"])[1:] == ["--two"]
    assert options(found["variant default"]) == ["--trust-remote-code"]


def test_a_feature_of_another_strategy_is_left_out() -> None:
    kept = by_label(MODEL + "features: {a: {args: [--a], strategies: [single_node_tp]}}\nvariants: {default: {}}\n")
    gone = by_label(MODEL + "features: {a: {args: [--a], strategies: [pd_cluster]}}\nvariants: {default: {}}\n")
    assert "--a" in options(kept["variant default"])
    assert "--a" not in options(gone["variant default"])


def test_hardware_of_nvidia_adds_to_the_variant() -> None:
    found = by_label(
        MODEL
        + """
meta: {hardware: {h200: verified, b300: verified}}
variants:
  default: {hardware_overrides: {h100: {extra_args: [--h100]}, mi300x: {extra_args: [--amd]}}}
hardware_overrides:
  hopper: {extra_args: [--hopper]}
  nvidia: {extra_args: [--nvidia]}
  blackwell: {extra_env: {B: '2'}}
  amd: {extra_args: [--amd]}
"""
    )
    assert list(found) == [
        "variant default", "variant default on hopper", "variant default on nvidia", "variant default on blackwell",
        "variant default on h100",
    ]  # fmt: skip
    assert options(found["variant default on hopper"])[1:] == ["--hopper"]
    assert options(found["variant default on h100"])[1:] == ["--h100", "--hopper"]
    assert found["variant default on blackwell"].environment == {"A": "1", "B": "2"}
    assert [launch.hints.gpu for launch in found.values()] == [None, "h200", "h200", "b300", "h100"]


def test_hardware_that_changes_nothing_is_no_server_of_its_own() -> None:
    assert list(by_label(MODEL + "variants: {default: {}}\nhardware_overrides: {hopper: {}}\n")) == ["variant default"]


@pytest.mark.parametrize(
    ("variant", "there"),
    [
        ("{precision: nvfp4}", False),
        ("{precision: bf16}", True),
        ("{precision: nvfp4, precision_hardware: {brand: NVIDIA}}", True),
        ("{supported_hardware: [b200]}", False),
        ("{supported_hardware: [h200]}", True),
    ],
)
def test_a_variant_only_where_it_runs(variant: str, there: bool) -> None:
    found = by_label(
        MODEL + f"variants: {{default: {variant}}}\nhardware_overrides: {{hopper: {{extra_args: [-x]}}}}\n"
    )
    assert ("variant default on hopper" in found) == there


def test_a_variant_for_other_makers_alone_is_left_out() -> None:
    assert by_label(MODEL + "variants: {default: {supported_hardware: [mi300x]}}\n") == {}


def test_the_last_of_an_option_counts_as_on_the_page() -> None:
    text = MODEL + "variants: {default: {extra_args: [-a, '1', --b, -a, '2', --c=1, --c=2, pos]}}\n"
    (launch,) = read(text).launches
    assert options(launch) == ["--trust-remote-code", "--b", "-a", "2", "--c=1", "--c=2", "pos"]


SIZES = {
    "of the variant": ("variants: {default: {tp: 4}}", "4"),
    "of the recipe": ("variants: {default: {}}\nstrategy_overrides: {single_node_tp: {tp: 2}}", "2"),
    "of the variant before that of the recipe": (
        "variants: {default: {tp: 4}}\nstrategy_overrides: {single_node_tp: {tp: 2}}", "4",
    ),
    "of hardware": ("variants: {default: {tp: {h200: 8}}}", None),
    "default of hardware": ("variants: {default: {tp: {h200: 8, default: 4}}}", "4"),
    "of another strategy": ("variants: {default: {tp: 4}}\ndefault_strategy: single_node_tep", None),
    "none": ("variants: {default: {}}", None),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_the_tensor_parallel_size_where_the_recipe_says_it(name: str) -> None:
    text, size = SIZES[name]
    reading = read(MODEL + text + "\n")
    texts = reading.launches[0].texts
    assert (texts[texts.index("--tensor-parallel-size") + 1] if "--tensor-parallel-size" in texts else None) == size
    assert [remark.kind for remark in reading.remarks] == ([] if size else ["unknown_value"])


def test_strategies_that_the_recipe_changes() -> None:
    found = by_label(
        MODEL
        + """
variants: {default: {tp: 8}}
strategy_overrides:
  single_node_dep: {extra_args: [--max-num-seqs, '16']}
  single_node_tep: {}
  pd_cluster:
    env: {N: '1'}
    prefill: {nodes: 1}
    decode: {vllm_args: [--enforce-eager], env: {M: '2'}}
"""
    )
    assert list(found) == ["variant default", "strategy single_node_dep", "strategy pd_cluster decode"]
    assert options(found["strategy single_node_dep"]) == ["--trust-remote-code", "--max-num-seqs", "16"]
    decode = found["strategy pd_cluster decode"]
    assert options(decode) == ["--trust-remote-code", "--enforce-eager"]
    assert decode.environment == {"A": "1", "N": "1", "M": "2"}
    assert [remark.kind for remark in decode.remarks] == ["not_read"]
    assert found["variant default"].remarks == ()


def test_what_a_strategy_says_of_hardware_takes_the_place_of_the_recipe() -> None:
    found = by_label(
        MODEL
        + """
variants: {default: {hardware_overrides: {hopper: {extra_args: [--own]}}}}
hardware_overrides: {hopper: {extra_args: [--general]}}
strategy_overrides:
  single_node_tp: {hardware_overrides: {hopper: {extra_args: [--replaced]}, h20: {extra_args: [--more]}}}
"""
    )
    assert options(found["variant default on hopper"])[1:] == ["--replaced"]
    assert options(found["variant default on h20"])[1:] == ["--replaced", "--more"]


IMAGES = {
    "text": ("vllm/vllm-openai:v0.27.1", "0.27.1"),
    "by maker": ("{amd: 'x/vllm-openai-rocm:v0.22.0', nvidia: 'vllm/vllm-openai:v0.27.1'}", "0.27.1"),
    "of another maker": ("{amd: 'x/vllm-openai-rocm:v0.22.0'}", None),
    "no release": ("vllm/vllm-openai:house", None),
}


@pytest.mark.parametrize("name", IMAGES)
def test_the_release_is_that_of_the_image(name: str) -> None:
    image, release = IMAGES[name]
    (launch,) = read(
        f"model: {{model_id: m, min_vllm_version: '0.19.1', docker_image: {image}}}\nvariants: {{d: {{}}}}\n"
    ).launches
    assert launch.hints.release == release


GUIDE = """
variants: {default: {}}
guide: |
  Text with `vllm serve acme/prose`.

  ```bash
  pip install vllm
  vllm serve acme/m \\
    --max-num-seqs 4
  ```

  ```python
  # vllm serve acme/python
  ```

  ~~~
  export A=2
  vllm serve acme/n --config x.yaml
  vllm serve ... --enforce-eager
  ~~~
"""


def test_the_commands_of_the_guide() -> None:
    text = MODEL + GUIDE
    _, first, second = read(text).launches
    assert first.texts == ["vllm", "serve", "acme/m", "--max-num-seqs", "4"]
    assert [text[token.span.start : token.span.end] for token in first.tokens] == first.texts
    assert first.label == f"guide, line {first.tokens[0].span.line}"
    assert text.splitlines()[first.tokens[0].span.line - 1].strip() == "vllm serve acme/m \\"
    assert (second.texts, second.environment) == (["vllm", "serve", "acme/n"], {"A": "2"})
    assert [remark.kind for remark in second.remarks] == ["unknown_value"]


def test_prose_and_broken_excerpts_in_the_guide_are_passed_over() -> None:
    text = MODEL + "variants: {default: {}}\nguide: |\n  ```vllm serve `x```\n\n  ```bash\n  vllm serve 'm\n  ```\n"
    assert len(read(text).launches) == 1
    mended = text.replace("'m", "m")
    assert [launch.texts for launch in read(mended).launches][1:] == [["vllm", "serve", "m"]]


def test_a_recipe_of_another_program_is_named() -> None:
    reading = read(MODEL + "omni: {tasks: []}\nvariants: {default: {}}\n")
    assert (reading.launches, [remark.kind for remark in reading.remarks]) == ((), ["not_read"])


def test_the_number_of_servers_is_bounded() -> None:
    many = "".join(f"  v{i}: {{extra_args: ['--a{i}']}}\n" for i in range(500))
    assert len(read(MODEL + "variants:\n" + many).launches) == MAX_LAUNCHES


@pytest.mark.parametrize(
    "value", ["null", "1", "[]", "[[a], {b: c}]", "{a: null}", "{default: 1}", "{default: [a]}", "''"]
)
@pytest.mark.parametrize(
    "key",
    ["meta", "features", "opt_in_features", "variants", "hardware_overrides", "strategy_overrides", "guide",
     "default_strategy"],
)  # fmt: skip
def test_odd_values_are_no_crash(key: str, value: str) -> None:
    read(f"model: {{model_id: m, base_args: {value}, base_env: {value}}}\n{key}: {value}\n")


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\n",
        "model: m\nvariants: {}\n",
        "model: {model_id: m}\n",
        "- model: {model_id: m}\n",
        "model: {base_args: []}\n",
    ],
)
def test_what_is_no_recipe(text: str) -> None:
    assert not fits(documents(Source("f.yaml", text))[0])
