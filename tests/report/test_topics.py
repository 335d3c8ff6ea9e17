"""Questions in words find their answer, and what the answers name is there."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from typer.main import get_command

from cgplan.cli import pasted
from cgplan.cli.app import build
from cgplan.cli.argv import normalise
from cgplan.report import intents, topics
from cgplan.report.lists_schema import TopicPart
from cgplan.report.ranking import Ranking, Text, words_of
from cgplan.rules import all_rules

ANSWERED = {
    "max_num_seqs exceeds available Mamba cache blocks": "mamba-blocks",
    "ValueError: max_num_seqs (77) exceeds available Mamba cache blocks (31). Each decode": "mamba-blocks",
    "why is speculative decoding slower": "speculation-slower",
    "mtp makes decoding slow": "speculation-slower",
    "specluative decodng slower": "speculation-slower",
    "kv cache tokens hybrid concurrency": "hybrid-kv-tokens",
    "graphs inside the budget or not": "graphs-in-the-budget",
    "is graph memory counted in gpu_memory_utilization?": "graphs-in-the-budget",
    "lora capture slow": "lora-capture",
    "encoder cuda graphs memory": "encoder-graphs",
    "negative estimate unified memory GB10": "unified-memory",
    "which sizes can a concurrency of 8 hit": "sizes-of-a-concurrency",
    "graphs on ascend": "plugins",
    "how much do full graphs gain": "full-gain",
    "are graphs worth it for an 8B model on a 24 GB card": "small-gain",
    "DBO": "dual-batch-overlap",
    "decode context parallel and FULL graphs": "context-parallel",
    "deepep_high_throughput": "deepep",
    "startup breakdown": "start-up-time",
    "interactivity": "performance-mode",
    "pareto of sizes": "density",
    "cost per graph": "cost-per-graph",
    "cudagraph-metrics prints nothing": "cudagraph-metrics",
    "container was OOMKilled": "host-memory",
    "(=8) max_cudagraph_capture_size consistent with cudagraph_capture_sizes (=4)": "capture-sizes-refused",
    "same OOM whatever the utilization": "accounting-leaks",
    "CUDA out of memory. Tried to allocate 40.00 MiB": "little-margin",
    "KV cache is needed, larger than the available KV cache memory": "longest-model-len",
    "an illegal memory access was encountered": "kernel-error",
    "why 35 of 51 FULL": "fewer-full-graphs",
    "why only PIECEWISE": "only-piecewise",
    "CUDA graph pool memory: 7.46 GiB (actual), 0.58 GiB (estimated)": "estimate-off",
    "is the KV cache per GPU or total with TP": "longest-model-len",
}


@pytest.mark.parametrize(("question", "name"), ANSWERED.items())
def test_a_question_finds_its_topic(question: str, name: str) -> None:
    found = topics.find(question)
    assert found is not None
    assert not found.rule_first
    assert found.topics[0].name == name


@pytest.mark.parametrize("question", ["", "qqq zzz", "12 34 5.6", "the best pizza in Paris", "?!", "of the and"])
def test_what_is_about_something_else_finds_nothing(question: str) -> None:
    assert topics.find(question) is None


def test_a_rule_answers_where_it_says_more() -> None:
    found = topics.find("pooling models graphs")
    assert found is not None
    assert found.rule_first
    assert found.rules[0].code == "CG207"


def test_a_rule_that_fits_far_worse_than_the_topic_is_left_out() -> None:
    found = topics.find("which sizes can a concurrency of 8 hit")
    assert found is not None
    assert found.rules == ()
    found = topics.find("performance mode interactivity")
    assert found is not None
    assert found.rules[0].code == "CG114"


def test_numbers_quotes_and_case_do_not_count() -> None:
    one, other = topics.find("Mamba cache blocks"), topics.find("'MAMBA' cache-blocks (95)!")
    assert one == other


def test_the_rules_of_the_best_topic_come_first() -> None:
    assert topics.ranked_rules("hybrid tokens")[0].code in ("CG536", "CG581")
    assert "CG525" in [rule.code for rule in topics.ranked_rules("kv-cache-memory suggestion in the log")[:2]]


@pytest.mark.parametrize("topic", topics.topics(), ids=lambda topic: topic.name)
def test_a_topic_is_whole(topic: topics.Topic) -> None:
    assert set(topic.rules) <= set(all_rules())
    assert topic.rules
    assert topic.run
    assert topic.source.strip()
    assert all(topic.words)
    assert "\n" not in topic.answer
    assert 150 <= len(topic.answer) <= 640, "two to six lines"
    TopicPart(**topics.as_document(topic))


def test_names_and_titles_are_given_once() -> None:
    found = topics.topics()
    assert len({one.name for one in found}) == len({one.title for one in found}) == len(found)


GROUP: Any = get_command(build())


@pytest.mark.parametrize("line", [command for topic in topics.topics() for command in topic.run])
def test_every_command_parses(line: str) -> None:
    program, *words = shlex.split(line)
    assert program == "cgplan"
    own, _ = pasted.split(words)
    name, *arguments = normalise(own)
    GROUP.commands[name].make_context(name, list(arguments), parent=None)


def test_an_unknown_option_does_not_parse() -> None:
    with pytest.raises(Exception, match="such option"):
        GROUP.commands["plan"].make_context("plan", ["--no-such"], parent=None)


def test_words_lose_endings_and_identifiers_come_apart() -> None:
    assert words_of("max_num_seqs BATCHES slower") == words_of("max-num-seq batch slow")
    assert words_of("oom") == words_of("out memory")


def test_rare_words_count_more_and_the_first_of_two_alike_wins() -> None:
    ranking = Ranking([Text("a", ["graph rare"]), Text("b", ["graph common"]), Text("c", ["graph common"])])
    assert ranking.search("graph rare")[0].key == "a"
    assert [hit.key for hit in ranking.search("common")] == ["b", "c"]
    assert ranking.search("nothing") == []


def test_measured_figures_come_from_one_place() -> None:
    from cgplan.releases import table

    answers = {one.name: one.answer for one in topics.topics()}
    rows = table("graph_gains")["measured"]
    for name, source in (("full-gain", "#25444"), ("full-gain", "#20059"), ("speculation-slower", "#35387")):
        row = next(row for row in rows if row["source"].endswith(source))
        assert row["gain"] in answers[name]
    for kind in ("busy", "parallel"):
        row = next(row for row in rows if row["source"].endswith("#2360") and row["kind"] == kind)
        assert row["gain"] in answers["small-gain"]
    assert not any("{" in answer for answer in answers.values())


@pytest.mark.parametrize(
    "question",
    [
        "CUDA out of memory while serving",
        "CUDA out of memory on a long prompt after a successful start",
        "OOM under load",
        "dies at a 6k prompt",
        "Qwen3.5 hybrid GDN starts but CUDA out of memory during prefill",
        "vllm came up fine, then torch.OutOfMemoryError on the second request",
        "crashes with out of memory in production after some hours",
        "server ready, the first user with 18k tokens kills it: OutOfMemoryError",
    ],
)
def test_memory_that_runs_out_at_work_ranks_the_step_first(question: str) -> None:
    found = topics.find(question)
    assert found is not None
    assert (found.rule_first, found.topics[0].name) == (False, "oom-while-serving")
    assert [rule.code for rule in found.rules[:2]] == ["CG825", "CG552"]


@pytest.mark.parametrize(
    "question",
    [
        "CUDA out of memory while capturing graphs",
        "sampler warm-up out of memory with 64 dummy requests",
        "out of memory at startup, serving Qwen3-8B",
        "container killed with 137 under load, host out of memory",
        "same OOM whatever the utilization",
        "OOM at start, what can I set",
        "illegal memory access, crashes on a long prompt",
    ],
)
def test_memory_that_runs_out_before_that_or_elsewhere_does_not(question: str) -> None:
    found = topics.find(question)
    assert found is not None
    assert not found.topics or found.topics[0].name != "oom-while-serving"


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("which cudagraph mode is fastest, PIECEWISE gives 3.9 requests a second, FULL 6.1", "full-gain"),
        ("is FULL faster than PIECEWISE", "full-gain"),
        ("why only PIECEWISE and no FULL", "only-piecewise"),
        ("with drafts FULL is gone and PIECEWISE is slower, faster without", "speculation-slower"),
        ("what does a lower --max-num-batched-tokens free", "batched-tokens"),
        ("max-num-batched-tokens out of memory", "batched-tokens"),
        ("graph memory estimate rose from 1.1 GiB to 9.9 GiB with the upgrade, which do I trust", "estimate-too-low"),
        ("estimate of the graphs too low by 5 GiB", "estimate-too-low"),
        ("estimate of the graphs far too many GiB, capture took only 0.4", "estimate-off"),
        (
            "--gpu-memory-utilization=0.8 is equivalent to 0.78 without CUDA graph memory profiling",
            "utilization-advice",
        ),
    ],
)
def test_what_is_asked_outranks_the_names_in_it(question: str, name: str) -> None:
    found = topics.find(question)
    assert found is not None
    assert (found.rule_first, found.topics[0].name) == (False, name)


def test_an_ask_needs_a_phrase_of_each_group_and_none_of_the_rest() -> None:
    asks = ("oom|out of memory + under load|long prompt - capturing|host",)
    assert intents.asked("OOM under   load", asks)
    assert intents.asked("out_of_memory at a LONG prompt", asks)
    assert not intents.asked("oom", asks)
    assert not intents.asked("room under load", asks), "whole words"
    assert not intents.asked("host oom under load", asks)
    assert not intents.asked("oom under load", ())
    assert intents.ruled_out("oom on the host", asks)
    assert not intents.ruled_out("oom under load", asks)
    assert not intents.ruled_out("the host under load", asks), "not of what the ask is about"
    with pytest.raises(ValueError, match="empty phrase"):
        intents.parse("a + ")


def test_every_ask_is_written_in_lower_case_and_parses() -> None:
    asks = [ask for topic in topics.topics() for ask in topic.asks]
    assert len(asks) > 5
    for ask in asks:
        assert ask == ask.casefold()
        assert intents.parse(ask).groups


def test_no_topic_sends_to_explain() -> None:
    assert [topic.name for topic in topics.topics() if any("cgplan explain" in run for run in topic.run)] == []
