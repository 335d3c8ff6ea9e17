"""The plan of a start's deployment against its log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from startup_helpers import GIB, on, public, rank, size, start

from cgplan.deployment import Deployment
from cgplan.errors import InputError
from cgplan.inputs.catalogue import load_model
from cgplan.inputs.launches.asked import Context
from cgplan.memory.budget.budget import MemoryFlags
from cgplan.memory.budget.measured_record import check_fits
from cgplan.memory.plan import plan
from cgplan.releases.gpus import gpu
from cgplan.resolve import resolve
from cgplan.startup.against_plan import Comparison, compare
from cgplan.startup.analysis import analyse
from cgplan.startup.arguments import arguments_of, words_of
from cgplan.startup.deployment import gpus_of, served
from cgplan.startup.measured import read_back, record_of
from cgplan.startup.record import Captured, Start, StartupLog
from cgplan.startup.stages import kv_bytes_by_stage, stage_of

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def compared(name: str, card: str = "h100") -> Comparison:
    (one,) = public(name).starts
    return compare(one, served(one, on(card)))


def verdicts(comparison: Comparison) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in comparison.rows:
        found.setdefault(row.key, set()).add(row.verdict)
    return found


class TestPublicLogs:
    @pytest.mark.parametrize("name", ["A01", "A02", "A03", "A04", "A07", "A08", "A09", "B01"])
    def test_tokens_are_exact_in_the_bytes_of_the_log(self, name: str) -> None:
        found = verdicts(compared(name))
        assert found["kv_tokens"] == {"exact"}
        assert found["max_concurrency"] == {"exact"}
        assert found["cudagraph_mode"] == found["capture_sizes"] == {"same"}
        assert found["graphs.FULL"] == found["graphs.PIECEWISE"] == {"exact"}
        assert found["requested_bytes"] == {"exact"}

    @pytest.mark.parametrize(("name", "blocks"), [("A01", 29751), ("A02", 65293), ("A03", 141079), ("A04", 15269)])
    def test_blocks_are_exact_too(self, name: str, blocks: int) -> None:
        row = next(row for row in compared(name).rows if row.key == "num_gpu_blocks")
        assert (row.measured, row.verdict) == (blocks, "exact")

    @pytest.mark.parametrize("name", ["A01", "A03", "A04", "A09"])
    def test_the_budget_is_inside_its_bounds(self, name: str) -> None:
        found = verdicts(compared(name))
        assert found["kv_bytes"] == found["weights_bytes"] == found["activation_bytes"] == {"inside"}

    def test_ranks_of_a_pipeline_stand_apart(self) -> None:
        rows = [row for row in compared("A03").rows if row.key == "weights_bytes"]
        assert [(row.ranks, round((row.measured or 0) / GIB, 2)) for row in rows] == [
            (("PP0",), 4.26),
            (("PP1", "PP2"), 3.28),
            (("PP3",), 4.26),
        ]

    def test_a02_an_estimate_far_off_is_inside_its_bounds(self) -> None:
        """A segment of 20 MiB for every graph, as ranks may have it; the best value is 0.68 GiB."""
        found = compared("A02")
        row = next(row for row in found.rows if row.key == "graph_estimate_bytes")
        assert row.verdict == "inside"
        assert row.planned is not None
        assert (row.measured or 0) > 2 * row.planned.best
        assert "CG533" not in [finding.code for finding in found.findings]

    def test_a14_tokens_of_a_hybrid(self) -> None:
        """0.22.0 on a card that is not named; block size and tokens do not depend on it."""
        found = compared("A14", "a40")
        row = next(row for row in found.rows if row.key == "kv_tokens")
        assert (row.measured, row.verdict) == (141107, "exact")
        assert verdicts(found)["block_size"] == {"exact"}

    def test_tokens_of_one_group_are_not_compared(self) -> None:
        """E13: 0.19 prints the tokens of one group of a hybrid."""
        assert "kv_tokens" not in verdicts(compared("A12", "l40s"))

    def test_a_mode_of_its_own_is_a_warning(self) -> None:
        from dataclasses import replace

        (one,) = public("A01").starts
        other = replace(one, cudagraph_mode="PIECEWISE")
        found = compare(other, served(other, on("h100")))
        assert verdicts(found)["cudagraph_mode"] == {"different"}
        assert ("CG534", "warning") in {(finding.code, finding.severity) for finding in found.findings}


class TestWhereThereIsNoPlan:
    def test_the_gpu_is_not_guessed(self) -> None:
        (one,) = public("A01").starts
        found = served(one, Context())
        assert found.deployment is None
        assert "does not name the GPU" in str(found.why_not)
        assert "its memory is 79.1" in str(found.why_not)
        assert "GiB as CUDA has it, a little less than nvidia-smi shows: it may be" in str(found.why_not)
        assert "h100" in str(found.why_not)
        assert "--gpu" in str(found.fix)

    def test_a_model_that_is_not_known(self) -> None:
        found = compared("A15")
        assert found.rows == ()
        assert "/model is neither here nor in the catalogue" in str(found.why_not)

    def test_a_model_that_is_given(self) -> None:
        one = start(rank(kv=50.0), version="0.33.0", arguments={"model_tag": "/model"})
        assert compare(one, served(one, on("h100"))).plan is None
        found = compare(one, served(one, on("h100", model=load_model(LLAMA))))
        assert found.plan is not None
        assert found.why_not is None

    def test_an_argument_that_the_rules_refuse(self) -> None:
        """A method of a plugin: vLLM came up with it, and nothing can be said."""
        (one,) = public("A15").starts
        found = compare(one, served(one, on("h100", model=load_model(LLAMA))))
        assert "online_int4" in str(found.why_not)

    def test_a_log_without_a_release(self) -> None:
        found = compared("A18")
        assert found.why_not == "the log does not name the release and the model"
        assert str(found.fix).startswith("`cgplan logs LOG --vllm RELEASE --model MODEL`")

    def test_the_log_part_is_there(self) -> None:
        (report,) = analyse(public("A15"), on("h100"))
        assert report.came_up
        assert report.corrections


class TestTheDeployment:
    def test_a_development_release_is_read_by_the_nearest(self) -> None:
        found = served(public("B02").starts[0], on("rtx5090"))
        assert found.deployment is not None
        assert found.deployment.vllm == "0.19.1"
        assert any("0.19.2rc1.dev8" in text and "0.19.1" in text for text in found.assumptions)

    def test_arguments_become_a_line(self) -> None:
        given = {
            "max_model_len": -1,
            "enable_prefix_caching": False,
            "enforce_eager": True,
            "compilation_config": {"cudagraph_capture_sizes": [1, 2], "cudagraph_mode": "FULL", "cache_dir": "x"},
            "kv_cache_dtype_skip_layers": ["0", "1"],
            "no_such_thing": 1,
        }
        words, left_out = words_of(given, "org/M", "0.33.0")
        assert words[:3] == ["vllm", "serve", "org/M"]
        assert "--max-model-len=-1" in words
        assert "--no-enable-prefix-caching" in words
        assert "--enforce-eager" in words
        assert '--compilation-config={"cudagraph_capture_sizes": [1, 2], "cudagraph_mode": "FULL"}' in words
        assert left_out == ["no_such_thing"]

    def test_only_what_the_plan_looks_at_is_taken(self) -> None:
        one = start(arguments={"api_key": "sk-verysecret", "host": "h", "max_num_seqs": 8})
        assert arguments_of(one)[0] == {"max_num_seqs": 8}

    def test_the_engines_line_stands_in(self) -> None:
        engine = {
            "dtype": "torch.bfloat16", "max_seq_len": 4096, "tensor_parallel_size": 2, "quantization": None,
            "speculative_config": "SpeculativeConfig(method='mtp', model='org/M', num_spec_tokens=3)",
            "compilation_config": {"cudagraph_mode": "PIECEWISE", "cudagraph_capture_sizes": [1, 2], "cache_dir": "x"},
        }  # fmt: skip
        given, assumptions = arguments_of(start(rank(utilization=0.8), engine=engine))
        assert given["dtype"] == "bfloat16"
        assert given["max_model_len"] == 4096
        assert given["speculative_config"] == {"method": "mtp", "model": "org/M", "num_speculative_tokens": 3}
        assert given["compilation_config"] == {"cudagraph_mode": "PIECEWISE", "cudagraph_capture_sizes": [1, 2]}
        assert given["gpu_memory_utilization"] == 0.8
        assert any("no arguments" in text for text in assumptions)

    def test_a_runner_that_the_log_shows(self) -> None:
        arguments = {"model_tag": LLAMA, "max_model_len": 8192}
        one = start(
            version="0.33.0", arguments=arguments, captured=(Captured("FULL", 1, total=1, name="decode, FULL"),)
        )
        found = served(one, on("h100"))
        assert found.deployment is not None
        assert resolve(found.deployment).runner.value == "V1"
        assert any("runner V1" in text for text in found.assumptions)

    def test_another_gpu_than_was_said(self) -> None:
        one = start(rank(total=44.3), version="0.33.0", arguments={"model_tag": LLAMA})
        assert "CG538" in {finding.code for finding in compare(one, served(one, on("h100"))).findings}
        assert "CG538" not in {finding.code for finding in compare(one, served(one, on("l40s"))).findings}


def test_gpus_of_a_size() -> None:
    assert "h100" in gpus_of(size(79.19), size(79.19))
    assert "h200" in gpus_of(size(139.8), size(139.8))
    assert gpus_of(size(3), size(3)) == []
    assert {"rtx3090", "rtx4090"} <= set(gpus_of(size(23.1), size(24.8)))


@pytest.mark.parametrize(
    ("name", "number", "stage"), [("PP1_TP0", 2, 1), ("Worker_PP3", 3, 3), ("TP3", 3, 1), ("EngineCore", 0, 0)]
)
def test_the_stage_of_a_rank(name: str, number: int, stage: int) -> None:
    ranks = tuple(rank(f"TP{at}", at) for at in range(4))
    stages = 4 if "PP3" in name else 2
    assert stage_of(rank(name, number), start(*ranks), stages) == stage


LINE = Deployment(model=load_model(LLAMA), gpu=gpu("h100"))


def test_the_least_rank_of_a_stage_counts() -> None:
    one = start(rank("TP0", 0, kv=50.0), rank("TP1", 1, kv=49.0))
    assert kv_bytes_by_stage(one, LINE) == [size(49.0)]
    assert kv_bytes_by_stage(start(rank("TP0", 0)), LINE) is None
    assert kv_bytes_by_stage(start(rank("TP0", 0, kv=-1.0)), LINE) is None


def test_each_data_parallel_engine_has_a_pool_of_its_own() -> None:
    ranks = (rank("DP0", 0, kv=50.0), rank("DP1", 1, kv=40.0))
    printed = (("DP0", 400_000, 50.0), ("DP1", 320_000, 40.0))
    assert kv_bytes_by_stage(start(*ranks, kv_printed=printed), LINE) == [size(50.0)]
    assert kv_bytes_by_stage(start(*ranks, kv_printed=printed[:1]), LINE) == [size(40.0)]


class TestMeasuredRecords:
    def record(self, name: str, which: str | None = None) -> tuple[Start, Comparison, dict[str, Any]]:
        (one,) = public(name).starts
        found = compare(one, served(one, on("h100")))
        record = record_of(one, found, which, "the log")
        assert read_back(record).schema_version == 1
        return one, found, record.document

    @pytest.mark.parametrize("name", ["A01", "A02", "A04", "A07", "A09"])
    def test_the_plan_of_it_leaves_the_cache_of_the_log(self, name: str) -> None:
        one, found, document = self.record(name)
        deployment = found.served.deployment
        assert deployment is not None
        from cgplan.memory.budget.measured_record import profile_of

        profile = profile_of(json.loads(json.dumps(document)), "record")
        check_fits(profile, deployment, resolve(deployment), "record")
        made = plan(deployment, found.served.flags, known=profile.as_measured())
        (kv,) = set(made.best.kv_bytes)
        assert kv / GIB == pytest.approx((one.ranks[0].kv_bytes or 0) / GIB, abs=0.02)

    def test_since_0_27_what_is_consumed_is_divided(self) -> None:
        """Of 0.33 the log has the peak with the estimate, and weights with all outside torch."""
        arguments = {"model_tag": "Qwen/Qwen3-8B", "max_model_len": 8192}
        one = start(
            rank(
                "EngineCore", total=79.19, free=78.68, requested=72.86, utilization=0.92, weights=15.27, consumed=16.6,
                activation=3.0, activation_includes_estimate=True, graph_estimate=0.9, graph_actual=0.95, kv=53.26,
            ),
            version="0.33.0", arguments=arguments,
        )  # fmt: skip
        found = compare(one, served(one, on("h100")))
        document = record_of(one, found).document
        assert document["measured"]["activation_bytes"] == pytest.approx(size(2.1), abs=2)
        deployment = found.served.deployment
        assert deployment is not None
        profile = read_back(record_of(one, found))
        made = plan(deployment, MemoryFlags(0.92), known=profile.as_measured())
        (kv,) = set(made.best.kv_bytes)
        assert kv / GIB == pytest.approx(53.26, abs=0.02)

    def test_the_worst_rank_or_the_one_asked_for(self) -> None:
        (one,) = public("A03").starts
        found = compare(one, served(one, on("h100")))
        assert record_of(one, found).rank == "PP3"
        assert record_of(one, found, "PP1").rank == record_of(one, found, "1").rank == "PP1"
        with pytest.raises(InputError, match="no rank") as error:
            record_of(one, found, "TP7")
        assert "PP0" in str(error.value.fix)

    def test_values_below_nothing_are_left_out(self) -> None:
        one = start(
            rank(total=79.0, kv=50.0, weights=15.0, graph_estimate=-3.0, graph_actual=-0.2), version="0.33.0",
            arguments={"model_tag": LLAMA},
        )  # fmt: skip
        record = record_of(one, compare(one, served(one, on("h100"))))
        assert "graph_bytes" not in record.document["measured"]
        assert any("graph_bytes" in text and "below 0" in text for text in record.left_out)

    def test_without_a_deployment_there_is_none(self) -> None:
        (one,) = public("A15").starts
        with pytest.raises(InputError, match="needs the deployment"):
            record_of(one, compare(one, served(one, on("h100"))))

    def test_without_values_there_is_none(self, tmp_path: Path) -> None:
        one = start(rank(kv=50.0), version="0.33.0", arguments={"model_tag": LLAMA})
        with pytest.raises(InputError, match="no bytes of rank"):
            record_of(one, compare(one, served(one, on("h100"))))


def test_a_log_of_nothing_gives_nothing() -> None:
    assert analyse(StartupLog(())) == ()
    assert gpu("h100").name
