"""What a plan says of one request, of the requests that wait, and of later releases."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cgplan import Deployment, Measured, MemoryFlags, gpu, load_model, plan
from cgplan.memory.capacity_plan import CapacityPlan
from cgplan.memory.other_runner import other_runner
from cgplan.report.plan_graphs import lines
from cgplan.report.plan_words import WITHOUT_MANAGER, cache_lines, gib, is_pressing, signed


def made(model: str, card: str, release: str = "0.25.1", share: float | None = 0.9, **fields: Any) -> CapacityPlan:
    return plan(Deployment(model=load_model(model), gpu=gpu(card), vllm=release, **fields), MemoryFlags(share))


def said(found: CapacityPlan) -> dict[str, str]:
    return dict(cache_lines(found))


class TestRequests:
    def test_requests_that_wait(self) -> None:
        """A14: requests of 1,024 tokens cost their states, and fewer fit than may come."""
        found = made("Qwen/Qwen3.5-4B", "l40s", "0.22.1", 0.5, max_model_len=1024, usage_context="LLM_CLASS")
        assert found.best.plan is not None
        at_once = int(found.best.plan.max_concurrency or 0)
        assert said(found)["At once"] == (f"{at_once} of the full length; of 256 such (--max-num-seqs) the rest wait")
        assert at_once < 256

    def test_nothing_waits_where_all_fit(self) -> None:
        found = made("Qwen/Qwen3.5-4B", "l40s", "0.22.1", 0.5, max_model_len=1024, max_num_seqs=100)
        assert "At once" not in said(found)

    def test_blocks_by_group_and_states(self) -> None:
        found = made("Qwen/Qwen3.5-4B", "l40s", "0.22.1", 0.5, max_model_len=1024)
        plan_of_it = found.best.plan
        assert plan_of_it is not None
        text = said(found)["A request"]
        counts = [group.blocks_per_request for group in plan_of_it.groups]
        assert f"{' + '.join(map(str, counts))} = {sum(counts)} blocks at the full length" in text
        assert "3 of them, 50 MiB, are states of any request" in text

    def test_windows_have_no_states(self) -> None:
        text = said(made("google/gemma-4-31B-it", "h200", max_model_len=8192))["A request"]
        assert "states" not in text
        assert "; the shortest takes 6, " in text

    def test_one_group_is_not_told(self) -> None:
        assert "A request" not in said(made("Qwen/Qwen3-8B", "h100"))

    def test_bytes_are_those_of_each_gpu(self) -> None:
        two = said(made("Qwen/Qwen3-8B", "h100", tensor_parallel_size=2))["KV cache"]
        assert " GiB of each GPU, " in two
        assert "of each GPU" not in said(made("Qwen/Qwen3-8B", "h100"))["KV cache"]

    def test_windows_at_full_length_are_called_so(self) -> None:
        found = made("google/gemma-4-31B-it", "h200", max_model_len=8192, disable_hybrid_kv_cache_manager=True)
        assert said(found)["Windows"].startswith(f"{WITHOUT_MANAGER}; a request of 8,192 tokens takes ")
        assert "charged at the full length" in WITHOUT_MANAGER


class TestTokens:
    def test_the_product_gives_the_bytes(self) -> None:
        """A31: 28 layers x 8 heads x 128 x 2 x 2 bytes are 112 KiB."""
        text = said(made("Qwen/Qwen3-0.6B", "l4"))["A token"]
        assert text == "112 KiB: 28 layers x 8 heads x 128 x 2 x 2 bytes (bfloat16)"

    def test_of_quantised_weights(self) -> None:
        text = said(made("Qwen/Qwen3-8B", "h100", quantization="fp8"))["A token"]
        assert text.startswith("144 KiB: ")
        assert text.endswith("; --kv-cache-dtype changes it, not --quantization")

    def test_the_cache_dtype_halves_them(self) -> None:
        text = said(made("Qwen/Qwen3-8B", "h100", kv_cache_dtype="fp8"))["A token"]
        assert text.startswith("72 KiB: 36 layers x 8 heads x 128 x 2 x 1 byte")

    def test_of_each_gpu(self) -> None:
        text = said(made("Qwen/Qwen3-8B", "h100", tensor_parallel_size=2))["A token"]
        assert text.startswith("72 KiB of each GPU: 36 layers x 4 heads x 128 x 2 ")

    def test_of_the_group_that_grows(self) -> None:
        text = said(made("Qwen/Qwen3.5-4B", "l40s", "0.22.1", 0.5, max_model_len=1024))["A token"]
        assert "; other groups do not grow" in text

    def test_groups_by_what_they_keep(self) -> None:
        text = said(made("google/gemma-4-31B-it", "h200", max_model_len=8192))["Groups"]
        assert text == (
            "5 x 10 layers with a window of 1,024, 513 blocks each; 10 layers that keep every token, 256 blocks"
        )
        text = said(made("Qwen/Qwen3.5-4B", "l40s", "0.22.1", 0.5, max_model_len=1024))["Groups"]
        assert "a block is as large as a state, so it holds 528 tokens" in text

    def test_tokens_are_the_concurrency_times_the_length(self) -> None:
        found = made("google/gemma-4-31B-it", "h200", max_model_len=8192)
        assert found.best.plan is not None
        times = found.best.plan.max_concurrency or 0
        assert f"counted in requests of the full length: {times:.2f} x 8,192" in said(found)["KV tokens"]

    def test_windows_on_the_other_path(self) -> None:
        """B36: the need with the manager off is that of a plan without it."""
        on = made("google/gemma-3-27b-it", "h200", max_model_len=32768)
        off = made("google/gemma-3-27b-it", "h200", max_model_len=32768, disable_hybrid_kv_cache_manager=True)
        assert off.best.plan is not None
        size = off.best.plan.bytes_per_block[0] * off.best.plan.blocks_per_request / 2**30
        assert said(on)["Windows"].endswith(f"and with it off, by a flag or a KV connector, {size:.2f}")
        assert f"takes {size:.2f} GiB, and with it on " in said(off)["Windows"]


class TestRunner:
    def test_both_runners_and_the_kv_cache_of_the_other(self) -> None:
        """C10: what the other runner leaves is what a plan with it has."""
        text = said(made("Qwen/Qwen3-8B", "h100", "0.26.0"))["Runner"]
        other = made("Qwen/Qwen3-8B", "h100", "0.26.0", env={"VLLM_USE_V2_MODEL_RUNNER": "0"})
        assert text.startswith("V2, ")
        left = min(other.best.kv_bytes) / 2**30
        assert f"; V1 by --env VLLM_USE_V2_MODEL_RUNNER=0: 102 graphs, {left:.2f} GiB of KV cache (" in text

    def test_the_difference_by_its_parts(self) -> None:
        """C10: rows of logits, and the estimate of the graphs; they are those of the two budgets."""
        fields: dict[str, Any] = {"max_model_len": 8192}
        one = made("Qwen/Qwen2.5-0.5B-Instruct", "rtx-pro-6000", "0.26.0", 0.85, **fields)
        other = made(
            "Qwen/Qwen2.5-0.5B-Instruct", "rtx-pro-6000", "0.26.0", 0.85, **fields,
            env={"VLLM_USE_V2_MODEL_RUNNER": "0"},
        )  # fmt: skip
        assert one.budget is not None
        assert other.budget is not None
        a, b = one.budget.tightest, other.budget.tightest
        text = said(one)["Runner"]
        assert f"{signed(a.activation.best - b.activation.best)} logits of 1,024 rows" in text
        assert f"{signed(-b.deducted.best)} graphs' estimate" in text
        assert f"({signed(min(other.best.kv_bytes) - min(one.best.kv_bytes))}: " in text
        found = other_runner(one)
        assert found is not None
        assert sum(size for _, size in found.parts) == pytest.approx(found.kv_bytes - min(one.best.kv_bytes), abs=16)

    def test_a_kv_cache_below_0_is_none(self) -> None:
        text = said(made("Qwen/Qwen3-32B", "l4", "0.26.0"))["Runner"]
        assert text.endswith(" graphs, and no KV cache")
        assert "GiB" not in text

    def test_one_part_is_not_said_twice(self) -> None:
        text = said(made("Qwen/Qwen2.5-0.5B-Instruct", "rtx-pro-6000", "0.26.0", 0.85, max_num_seqs=64))["Runner"]
        assert text.count("GiB") + text.count("MiB") == 2
        assert text.endswith(": graphs' estimate)")

    def test_one_alone_where_the_other_does_not_serve(self) -> None:
        method = {"method": "suffix", "num_speculative_tokens": 3}
        text = said(made("Qwen/Qwen3-8B", "h100", "0.33.0", speculative_config=method))["Runner"]
        assert text.startswith("V1, ")
        assert "VLLM_USE_V2_MODEL_RUNNER" not in text


class TestGraphs:
    def test_a_line_by_kind(self) -> None:
        """D23: what a graph of each mode takes, and the rest, are what the whole takes."""
        found = made("Qwen/Qwen3-8B", "h100", "0.33.0")
        text = next(line for line in lines(found) if line.startswith("Capture really takes"))
        told = re.search(
            r": 51 PIECEWISE of ([0-9.]+) MiB, 51 FULL of ([0-9.]+) MiB, and ([0-9.]+) GiB that all share\.",
            text,
        )
        assert told is not None
        assert found.graphs is not None
        whole = (float(told[1]) + float(told[2])) * 51 / 1024 + float(told[3])
        assert whole == pytest.approx(found.graphs.total.best / 2**30, abs=0.02)

    def test_none_of_what_was_measured(self) -> None:
        deployment = Deployment(model=load_model("Qwen/Qwen3-8B"), gpu=gpu("h100"))
        text = " ".join(lines(plan(deployment, known=Measured(graphs=2**30))))
        assert "Capture really takes 1.00 GiB, as measured." in text
        assert "that all share" not in text

    def test_lora_multiplies_the_time(self) -> None:
        two = " ".join(lines(made("Qwen/Qwen3-8B", "h100", enable_lora=True, max_loras=8)))
        assert "LoRA doubles it, as it does the graphs: each size is captured with and without adapters." in two
        many = " ".join(
            lines(made("Qwen/Qwen3-8B", "h100", enable_lora=True, max_loras=8, specialize_active_lora=True))
        )
        assert "LoRA makes it 6 times as long" in many
        assert "LoRA" not in " ".join(lines(made("Qwen/Qwen3-8B", "h100")))

    def test_samples_of_both_modes(self) -> None:
        text = next(line for line in lines(made("Qwen/Qwen3.5-4B", "l40s", "0.22.1")) if "vLLM will estimate" in line)
        assert re.search(r": PIECEWISE [0-9]+ \+ 50 x [0-9.]+ MiB, FULL [0-9]+ \+ [0-9]+ x [0-9.]+ MiB, the larg", text)

    def test_no_samples_where_all_is_captured(self) -> None:
        assert not any("the larger of the first" in line for line in lines(made("Qwen/Qwen3-8B", "h100", "0.33.0")))

    @pytest.mark.parametrize(("release", "inside"), [("0.25.1", True), ("0.19.1", False)])
    def test_whether_they_are_inside_the_share(self, release: str, inside: bool) -> None:
        found = made("Qwen/Qwen3-8B", "h100", release, env={"VLLM_USE_V2_MODEL_RUNNER": "0"})
        text = " ".join(lines(found))
        assert (f"In {release} graphs are inside --gpu-memory-utilization" in text) is inside
        assert ("on top of --gpu-memory-utilization. Without graphs it would be as large." in text) is not inside

    @pytest.mark.parametrize("seqs", [64, 1024])
    def test_what_eager_leaves_is_that_of_a_plan_of_it(self, seqs: int) -> None:
        """C10: with few rows compiled code makes the peak, which --enforce-eager takes away as well."""
        fields: dict[str, Any] = {"max_model_len": 8192, "max_num_seqs": seqs}
        found = made("Qwen/Qwen2.5-0.5B-Instruct", "rtx-pro-6000", "0.26.0", 0.85, **fields)
        eager = made("Qwen/Qwen2.5-0.5B-Instruct", "rtx-pro-6000", "0.26.0", 0.85, **fields, enforce_eager=True)
        text = " ".join(lines(found))
        differs = min(eager.best.kv_bytes) != min(found.best.kv_bytes)
        assert differs is (seqs == 64)
        assert (f"makes it {gib(min(eager.best.kv_bytes))} GiB (+" in text) is differs
        assert ("Without graphs it would be as large." in text) is not differs

    def test_microbatches_are_a_doubt(self) -> None:
        fields = {"data_parallel_size": 2, "enable_expert_parallel": True, "all2all_backend": "deepep_low_latency"}
        plain = made("deepseek-ai/DeepSeek-V2-Lite", "h100", "0.19.1", **fields)
        split = made("deepseek-ai/DeepSeek-V2-Lite", "h100", "0.19.1", **fields, enable_dbo=True)
        assert split.graphs is not None
        assert plain.graphs is not None
        assert any("split and plain graphs are captured both" in text for text in split.graphs.doubts)
        assert not any("plain graphs" in text for text in plain.graphs.doubts)
        assert split.graphs.total.high / split.graphs.total.best > plain.graphs.total.high / plain.graphs.total.best


class TestLaterReleases:
    """CG599: A22, a KV cache that holds little more than one request until the estimate is taken off."""

    def of(self, release: str, share: float = 0.9, **fields: Any) -> CapacityPlan:
        return made("Qwen/Qwen3-8B", "l4", release, share, max_model_len=18000, **fields)

    def test_it_is_said_where_it_no_longer_fits(self) -> None:
        found = self.of("0.19.1")
        assert found.best.plan is not None
        assert (found.best.plan.max_concurrency or 0) >= 1
        note = next(one for one in found.findings if one.code == "CG599")
        assert note.severity == "warning"
        assert is_pressing(note)
        assert "from 0.20.2 on vLLM takes its estimate of the graphs, 0." in note.message

    @pytest.mark.parametrize(
        ("model", "card", "share"),
        [("Qwen/Qwen3-30B-A3B", "h100", 0.95), ("openai/gpt-oss-20b", "h100", 0.9), ("Qwen/Qwen3-8B", "h100", None)],
    )
    def test_the_figures_are_those_of_a_plan_by_that_release(self, model: str, card: str, share: float | None) -> None:
        """Its estimate is another than the one that 0.19.1 prints, and so may its default share be."""
        now, then = (made(model, card, release, share, max_model_len=8192) for release in ("0.19.1", "0.20.2"))
        note = next(one for one in now.findings if one.code == "CG599")
        assert then.budget is not None
        assert then.best.plan is not None
        assert f"graphs, {gib(then.budget.tightest.deducted.best)} GiB there" in note.message
        assert f": {gib(min(now.best.kv_bytes))} GiB become {gib(min(then.best.kv_bytes))}, and" in note.message
        assert f"at once {then.best.plan.max_concurrency:.2f}" in note.message
        # Where its default share gives more there is nothing to keep.
        assert (note.fix is None) is (min(then.best.kv_bytes) > min(now.best.kv_bytes))
        assert ("asks for 0.92 of the GPU by default" in note.message) is (share is None)

    @pytest.mark.parametrize(
        ("release", "fields"),
        [
            ("0.21.0", {}),
            ("0.19.1", {"enforce_eager": True}),
            ("0.19.1", {"env": {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "1"}}),
        ],
    )
    def test_not_where_it_is_taken_off_already_or_there_is_none(self, release: str, fields: dict[str, Any]) -> None:
        assert "CG599" not in {one.code for one in self.of(release, **fields).findings}

    def test_a_line_where_much_is_left(self) -> None:
        """The share that it names keeps the KV cache in the first release that takes the estimate off."""
        found = made("Qwen/Qwen3-8B", "l4", "0.19.1", max_model_len=4096)
        note = next(one for one in found.findings if one.code == "CG599")
        assert note.severity == "info"
        assert not is_pressing(note)
        assert note.fix is not None
        share = float(note.fix.split()[1])
        after = made("Qwen/Qwen3-8B", "l4", "0.20.2", share, max_model_len=4096)
        assert after.fits
        assert after.best.kv_bytes[0] >= found.best.kv_bytes[0]
        assert made("Qwen/Qwen3-8B", "l4", "0.20.2", 0.9, max_model_len=4096).best.kv_bytes[0] < found.best.kv_bytes[0]


class TestWhatIsSaidTwice:
    def test_whole_blocks_are_the_figure_of_the_refusal(self) -> None:
        found = made("Qwen/Qwen3.6-27B", "h100", "0.33.0", None)
        refused = next(one.message for one in found.findings if one.code == "CG561")
        text = said(found)["KV cache"]
        counted = re.search(r"there are ([0-9.]+) GiB", refused)
        assert counted is not None
        assert f" GiB are left, {counted[1]} in whole blocks, too little" in text
        assert "whole blocks" not in said(made("Qwen/Qwen3-8B", "h100"))["KV cache"]

    def test_fixes_that_differ_are_each_enough(self) -> None:
        drafts = {"method": "mtp", "num_speculative_tokens": 2}
        found = made("Qwen/Qwen3.6-27B", "h100", "0.33.0", None, speculative_config=drafts)
        fixes = {one.fix for one in found.findings if one.code in ("CG561", "CG501")}
        assert len(fixes) == 2
        assert said(found)["Fixes"].startswith("each by itself")
        assert re.match(r"--max-num-seqs [0-9]+ alone may start, by the best", said(found)["Requests"])
        tried = made(
            "Qwen/Qwen3.6-27B", "h100", "0.33.0", None,
            speculative_config=drafts, max_num_seqs=256, max_model_len=238784,
        )  # fmt: skip
        assert tried.fits
        assert "Fixes" not in said(made("Qwen/Qwen3.6-27B", "h100", "0.33.0", None))


class TestLayersWithSeveralCaches:
    def test_caches_are_not_counted_as_layers(self) -> None:
        found = said(made("deepseek-ai/DeepSeek-V4-Flash", "h200", "0.33.0", tensor_parallel_size=8))
        groups = found["Groups"]
        assert "caches with a window of 128" in groups
        assert "62 caches of MLA that keep every token" in groups
        assert " layers" not in groups
        assert groups.endswith("a layer has several caches")
        assert re.match(r"[0-9.]+ KiB of each GPU: the sum of 62 caches of several kinds", found["A token"])

    def test_a_layer_with_one_cache_is_a_layer(self) -> None:
        groups = said(made("Qwen/Qwen3.5-4B", "l40s"))["Groups"]
        assert "layers with a state" in groups
        assert "caches" not in groups
