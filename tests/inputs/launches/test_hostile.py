"""Input that is made to be slow, large or broken: it ends soon, in servers, remarks or one clear line."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from watching import POD, SECONDS, Watch

from cgplan.check import check_launch
from cgplan.check.report import MOST_ALIKE
from cgplan.errors import InputError
from cgplan.inputs.launches import Reading, Source, launch_of, read
from cgplan.inputs.launches.asked import ask
from cgplan.inputs.launches.kubernetes.container_words import expanded_word
from cgplan.inputs.launches.reading import MAX_LINES, MAX_REMARKS, MAX_SERVERS, MAX_TOKENS
from cgplan.inputs.launches.shell.commands import Word, in_words
from cgplan.inputs.launches.systemd import MAX_COMMAND
from cgplan.report.check_results import FileResult, launch_result
from cgplan.report.sarif import log


def test_many_lines_are_refused() -> None:
    text = "#\n" * (MAX_LINES + 1) + "a: vllm\n"
    with Watch(), pytest.raises(InputError) as caught:
        read(Source("a.yaml", text))
    assert caught.value.code == "CG914"
    read(Source("a.yaml", "#\n" * 1000 + "a: vllm\n"))


@pytest.mark.parametrize(
    ("name", "head", "unit"),
    [
        ("a.sh", "", "vllm serve m\n"),
        ("a.yaml", POD, "  - name: c\n    command: [vllm, serve, m]\n"),
        ("a.service", "[Service]\n", "ExecStart=vllm serve m\n"),
    ],
)
def test_servers_beyond_those_looked_at_are_named(name: str, head: str, unit: str) -> None:
    def reading(count: int) -> Reading:
        return read(Source(name, head + unit * count))

    few = reading(MAX_SERVERS)
    assert len(few.launches) == MAX_SERVERS
    assert few.remarks == ()
    many = reading(MAX_SERVERS + 1)
    assert len(many.launches) == MAX_SERVERS
    (remark,) = many.remarks
    assert remark.kind == "not_read"
    assert remark.span is not None
    lines = unit.count("\n")
    assert remark.span.line == head.count("\n") + lines * MAX_SERVERS + lines


def test_words_beyond_those_looked_at_are_named() -> None:
    text = "f() { vllm serve $1 " + "case x in " * 1000 + "\n}\n" + "f m\n" * 50
    with Watch():
        reading = read(Source("a.sh", text))
    assert 1 <= len(reading.launches) <= MAX_TOKENS // 3000
    assert [one.kind for one in reading.remarks] == ["not_read"]


@pytest.mark.parametrize("server", ["vllm serve m\n", "echo vllm\n"])
def test_functions_that_call_functions_end(server: str) -> None:
    text = server + "f0() { echo; }\n" + "".join(f"f{n}() {{\n{f'f{n - 1}; ' * 40}\n}}\n" for n in range(1, 8)) + "f7\n"
    with Watch():
        if "serve" in server:
            (launch,) = read(Source("a.sh", text)).launches
            assert "more than" in launch.remarks[-1].message
        else:
            with pytest.raises(InputError, match="more than"):
                read(Source("a.sh", text))


def test_what_of_markdown_is_not_read_is_said() -> None:
    block = "```bash\nvllm serve m\n```\n"
    few = read(Source("a.md", block * 50))
    assert (len(few.launches), few.remarks) == (50, ())
    assert "100 code blocks" in read(Source("a.md", block * 150)).remarks[-1].message
    assert "first" in read(Source("a.md", block + "x\n" * 600_000 + block)).remarks[-1].message
    assert read(Source("a.md", block + "x\n" * 600_000)).remarks == ()


@pytest.mark.parametrize("start", ["A=()\n", "A=''\n"])
def test_what_is_put_behind_a_variable_again_and_again(start: str) -> None:
    def reading(appended: str, times: int) -> Reading:
        text = f"{start}f() {{\n{appended}\n}}\n{'f' + chr(10)}" + f"vllm serve m ${{A[@]}}\n{'f' + chr(10)}" * times
        return read(Source("a.sh", text))

    several = "A+=(--x 1)\n" if "(" in start else "A+=' --x 1'\n"
    last = reading(several, 3).launches[-1]
    assert last.texts == ["vllm", "serve", "m", *["--x", "1"] * 3]
    with Watch():
        reading(several * 400, 200)


@pytest.mark.parametrize("word", ["$ ", "a ", "$a ", "'b' "])
def test_a_default_of_many_words(word: str) -> None:
    with Watch():
        (launch,) = read(Source("a.sh", f"vllm serve ${{M:-{word * 5000}}} --x 1\n")).launches
    assert launch.tokens[-1].text == "1" or len(launch.tokens) > 1000


def test_words_of_a_default_have_their_places() -> None:
    (launch,) = read(Source("a.sh", "vllm serve m ${M:---x 'b c' --y}\n")).launches
    written = {one.text: launch.source.text[one.span.start : one.span.end] for one in launch.tokens[3:]}
    assert written["--x"] == "--x"
    assert written["--y"] == "--y"


@pytest.mark.parametrize("options", ["--bogus", "-cc.mode=3", "-zzz"])
def test_one_option_thousands_of_times(options: str) -> None:
    with Watch():
        report = check_launch(ask(launch_of(["vllm", "serve", "m", *[options] * 2000])))
    alike = [one for one in report.diagnostics if one.message.startswith(report.diagnostics[-1].message[:20])]
    assert 1 <= len(alike) <= MOST_ALIKE + 1


def test_of_findings_that_say_the_same_the_rest_is_counted() -> None:
    def said(times: int) -> list[str]:
        report = check_launch(ask(launch_of(["vllm", "serve", "m", *["-cc.mode=3"] * times])))
        return [one.message for one in report.diagnostics if "the last one counts" in one.message]

    assert len(said(MOST_ALIKE + 2)) == MOST_ALIKE
    assert not any("times more" in message for message in said(MOST_ALIKE + 2))
    assert said(MOST_ALIKE + 7)[-1].endswith("so it is 5 times more")


def test_an_image_of_many_dollars() -> None:
    text = "services:\n  s:\n    image: vllm/vllm-openai:" + "$$" * 500_000 + "\n    command: --model m\n"
    with Watch():
        read(Source("compose.yaml", text))


def test_remarks_are_counted_from_some_number_on() -> None:
    text = POD + '  - name: c\n    image: x/vllm\n    command: [sh, -c, "vllm serve \'m"]\n' * (MAX_REMARKS + 5)
    remarks = read(Source("a.yaml", text)).remarks
    assert len(remarks) == MAX_REMARKS + 1
    assert "5 more" in remarks[-1].message


@pytest.mark.parametrize("sign", ["$$ ", "$(A) ", "$$"])
def test_a_word_of_dollars(sign: str) -> None:
    text = sign * (60_000 // len(sign))
    source = Source("a.yaml", f'{POD}  - name: c\n    command: [sh, -c, "vllm serve m {text}"]\n')
    with Watch():
        reading = read(source)
    assert len(reading.launches) <= 1


def test_a_million_dollars_take_little_memory() -> None:
    word = Word("$" * 1_000_000, Source("", "x").span(0, 1))
    tracemalloc.start()
    found = expanded_word(word, {})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.text == word.text
    assert peak < 30e6


def test_a_long_word_takes_little_memory() -> None:
    source = Source(
        "a.yaml", f'{POD}  - name: c\n    image: vllm/vllm-openai\n    args: "--model m {"-" * 1_000_000}"\n'
    )
    tracemalloc.start()
    (launch,) = read(source).launches
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(launch.texts[-1]) == 1_000_000
    assert peak < 40e6


def test_dollars_are_put_in_at_their_places() -> None:
    source = Source("", "vllm serve a$$b $(M) $(M) c")
    whole = Word(source.text, source.span(0, len(source.text)), span_of=source.span)
    shell = [Word(text, source.span(0, 0)) for text in ("sh", "-c")]
    env = {"M": "long/model"}
    (found,) = in_words([*shell, expanded_word(whole, env)], env)
    written = [source.text[one.span.start : one.span.end] for one in found.tokens]
    assert written == ["vllm", "serve", "a$$b", "$(M)", "$(M)", "c"]
    assert [one.text for one in found.tokens][3:] == ["long/model", "long/model", "c"]


def test_values_without_an_option_are_read_in_one_go() -> None:
    words = "${A:-b} " * 4000
    with Watch():
        (launch,) = read(Source("compose.yaml", f"services:\n  s:\n    command: vllm serve m --x {words}\n")).launches
    assert len(launch.tokens) > 3000


def test_a_unit_with_an_open_quote_is_no_server() -> None:
    good, bad = "ExecStart=/bin/vllm serve 'm' --a \"b c\"\n", "ExecStart=/bin/vllm serve 'm --a 3\n"
    reading = read(Source("a.service", f"[Service]\n{good}{bad}"))
    assert [launch.texts[2:] for launch in reading.launches] == [["m", "--a", "b c"]]
    (remark,) = reading.remarks
    assert "not closed" in remark.message
    assert remark.span is not None
    assert (remark.span.line, remark.span.column) == (3, 27)


def test_a_long_command_of_a_unit_is_not_read() -> None:
    with Watch():
        reading = read(Source("a.service", "[Service]\nExecStart=/bin/vllm serve m " + "$" * MAX_COMMAND))
    assert reading.launches == ()
    assert reading.remarks[0].kind == "not_read"


def test_a_pasted_word_of_two_lines_has_its_own_place() -> None:
    launch = launch_of(["vllm", "serve", "a\nb", "--x"])
    assert launch.tokens[3].span == launch.source.span(17, 20)
    assert launch.source.text[17:20] == "--x"


def test_a_place_in_an_empty_line_of_a_configuration_file() -> None:
    text = f"{POD}  - name: c\n    command: [vllm, serve, --config, /c/c.yaml]\n"
    text += "    volumeMounts: [{name: v, mountPath: /c}]\n"
    text += "  volumes: [{name: v, configMap: {name: k}}]\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: k}\n"
    text += "data:\n  c.yaml: |\n    model: m\n\n\n    a: [\n\n\n"
    (launch,) = read(Source("a.yaml", text)).launches
    for at in ask(launch).refused_at:
        assert at is not None
        assert 0 <= at.span.start <= at.span.end <= len(text)


def test_carriage_returns_alone_end_lines_for_yaml_only() -> None:
    source = Source("a.yaml", "model: m\rport: 1\rtensor-parallel-size: 1\rbogus: true\r")
    (launch,) = read(source).launches
    asked = ask(launch)
    assert asked.refused
    for at in asked.refused_at:
        assert at is None or at.span == source.span(at.span.start, at.span.end)


def test_a_long_text_of_compose_is_refused() -> None:
    text = "services:\n  s:\n    command: vllm serve m --x " + "y" * 300_000
    with Watch(), pytest.raises(InputError) as caught:
        read(Source("compose.yaml", text))
    assert caught.value.code == "CG914"


def test_many_findings_in_a_long_line_are_told_apart() -> None:
    source = Source("a.sh", "vllm serve m --bogus; " * 60 + "# " + "x y " * 40_000)
    reading = read(source)
    results = [launch_result(report, report.diagnostics) for report in map(check_launch, map(ask, reading.launches))]
    start = time.process_time()
    document = log([FileResult("a.sh", source, tuple(results))])
    assert time.process_time() - start < SECONDS
    prints = [str(one["partialFingerprints"]) for one in document["runs"][0]["results"]]
    assert len(set(prints)) == len(prints) >= 60


def test_refusals_keep_nothing_of_the_parser() -> None:
    asked = ask(launch_of(["vllm", "serve", "m", *["--bogus"] * 30, "--max-num-seqs", "x"]))
    assert len(asked.refused) == 20
    assert all(error.__traceback__ is None and error.__context__ is None for error in asked.refused)


def test_many_abbreviations_take_no_long() -> None:
    words = ["vllm", "serve", "m", *["--enforce"] * 400, *["--e=1"] * 30]
    with Watch():
        check_launch(ask(launch_of(words)))
