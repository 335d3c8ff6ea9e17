"""From scripts and words to the servers that they start."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgplan.errors import InputError
from cgplan.inputs.launches.compose.words import with_defaults
from cgplan.inputs.launches.kubernetes.container_words import expanded_word
from cgplan.inputs.launches.launch import Source, Span
from cgplan.inputs.launches.shell.commands import MAX_FOUND, Found, Word, in_script, in_words


def found_in(text: str, env: dict[str, str | None] | None = None) -> list[Found]:
    return in_script(text, Source("x.sh", text).span, env or {})


def texts(text: str, env: dict[str, str | None] | None = None) -> list[list[str]]:
    return [[token.text for token in one.tokens] for one in found_in(text, env)]


def kinds(text: str) -> list[str]:
    return [remark.kind for one in found_in(text) for remark in one.remarks]


def words(*given: str, style: str = "item") -> list[Word]:
    return [
        Word(text, Span(n * 100, n * 100 + len(text), n + 1, 1), style, span_of=_within(n * 100, n + 1))
        for n, text in enumerate(given)
    ]


def in_kubernetes(given: list[Word], env: dict[str, str | None]) -> list[Found]:
    return in_words([expanded_word(word, env) for word in given], env)


def _within(start: int, line: int):  # type: ignore[no-untyped-def]
    return lambda first, last: Span(start + first, start + last, line, first + 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vllm serve m --x 1", ["m", "--x", "1"]),
        ("vllm serve m \\\n  --x 'a b' \\\r\n --y", ["m", "--x", "a b", "--y"]),
        ("M=q\nvllm serve $M --name ${M}-1", ["q", "--name", "q-1"]),
        ("vllm serve ${M:-q} --x ${N-1}", ["q", "--x", "1"]),
        ("M=a; vllm serve ${M:-q} ${M:+--x} ${N:+--y}", ["a", "--x"]),
        ("A=(--a 1\n # no\n --b)\nvllm serve m \"${A[@]}\"", ["m", "--a", "1", "--b"]),
        ("A=(--a)\nA+=(--b 2)\nvllm serve m ${A[@]}", ["m", "--a", "--b", "2"]),
        ("A='--a 1'\nA=\"$A --b\"\nvllm serve m $A", ["m", "--a", "1", "--b"]),
        ("N=2\nvllm serve m --x $((N * 4 + 1))", ["m", "--x", "9"]),
        ("f() { vllm serve \"$1\" \"${@}\"; }\nf m", ["m", "m"]),
        ("set -- m --x\nvllm serve \"$@\"", ["m", "--x"]),
        ("if a; then\n  vllm serve m\nfi", ["m"]),
        ("case $1 in\n a|b) echo;;\n *) vllm serve m ;;\nesac", ["m"]),
        ("for i in 1; do vllm serve m --x $i; done", ["m", "--x", "1"]),
        ("( cd x && vllm serve m & )", ["m"]),
        ("vllm serve m 2>&1 | tee log", ["m"]),
        ("vllm serve m > >(tee log) &", ["m"]),
        ("bash <<END\nvllm serve m\nEND", ["m"]),
        ("cat <<END | bash\nvllm serve m\nEND", ["m"]),
        ("bash -lc 'vllm serve m --x \"a b\"'", ["m", "--x", "a b"]),
        ("eval \"vllm serve m &\"", ["m"]),
        ("srun -N1 apptainer exec --nv x.sif vllm serve m", ["m"]),
        ("time nohup env A=1 numactl -m 0 vllm serve m &", ["m"]),
        ("vllm serve m -cc {mode:3}", ["m", "-cc", "{mode:3}"]),
    ],
)  # fmt: skip
def test_scripts(text: str, expected: list[str]) -> None:
    assert texts(text) == [["vllm", "serve", *expected]]


@pytest.mark.parametrize(
    "text",
    [
        "# vllm serve m",
        "echo vllm serve m",
        "pkill -f 'vllm serve'",
        "cat > run.sh <<END\nvllm serve m\nEND",
        "vllm bench serve --x",
        "pip install vllm",
        "X='vllm serve m'",
        "docker pull vllm/vllm-openai",
        "docker run -d redis --model m",
        "python -m vllm.entrypoints.cli.main bench",
    ],
)
def test_what_starts_no_server(text: str) -> None:
    assert texts(text) == []


def test_places_of_what_stands_there() -> None:
    text = "export A=1\nX=8\nARGS=(--a 'b c')\nB=1 vllm serve m \"${ARGS[@]}\" --x $X\n"
    (one,) = found_in(text)
    written = {token.text: (text[token.span.start : token.span.end], token.literal) for token in one.tokens}
    assert written["b c"] == ("'b c'", True)
    assert written["m"] == ("m", True)
    assert written["8"] == ("$X", False)
    assert one.tokens[3].span.line == 3
    assert [(variable.name, variable.value) for variable in one.env] == [("A", "1"), ("B", "1")]


def test_a_string_that_is_split_knows_its_words() -> None:
    text = 'EXTRA="--block-size 16"\nvllm serve m $EXTRA'
    (one,) = found_in(text)
    assert [text[token.span.start : token.span.end] for token in one.tokens[3:]] == ["--block-size", "16"]
    assert not any(token.literal for token in one.tokens[3:])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vllm serve m --max-num-seqs $N --x", ["m", "--x"]),
        ("vllm serve m --max-num-seqs=$N", ["m"]),
        ("vllm serve m $EXTRA --x", ["m", "--x"]),
        ('vllm serve m "$@"', ["m"]),
        ("vllm serve m --enforce-eager $EXTRA", ["m", "--enforce-eager"]),
        ("vllm serve $MODEL --x", ["$MODEL", "--x"]),
        ("vllm serve m --cudagraph-capture-sizes 1 $N 4 --x", ["m", "--x"]),
    ],
)
def test_values_that_are_not_there(text: str, expected: list[str]) -> None:
    assert texts(text) == [["vllm", "serve", *expected]]
    assert kinds(text) == ["unknown_value"]


def test_a_value_that_does_not_matter_is_left_out_without_a_word() -> None:
    assert texts("vllm serve m --port $PORT --api-key $KEY") == [["vllm", "serve", "m"]]
    assert kinds("vllm serve m --port $PORT --api-key $KEY") == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("vllm serve m \\\n # c\n --x 1", "cut_off"),
        ("vllm serve m \\ \n --x 1", "cut_off"),
        ("vllm serve m\n --x 1", "cut_off"),
        ('vllm serve m -cc {"mode":3}', "quotes_lost"),
        ("vllm serve m --x {a,b}", "braces"),
        ("vllm serve m --x a*", "pattern"),
        ("vllm serve m --x=~/a", "tilde"),
        ("VLLM_A=1\nvllm serve m", "not_exported"),
        ("for i in 1 2; do vllm serve m --max-num-seqs $i; done", "several_values"),
        ('A="--x"\n[ -n "$B" ] && A="$A --y"\nvllm serve m $A', "condition"),
        ("vllm serve m\nX='", "not_read"),
    ],
)
def test_traps(text: str, kind: str) -> None:
    assert kind in kinds(text)


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve m \\\n --x 1",
        "vllm serve m -cc '{\"mode\":3}'",
        "vllm serve m --x '{a,b}' 'a*' \"$HOME_\"x ~/a".replace(' "$HOME_"x', ""),
        "export VLLM_A=1\nvllm serve m",
        "VLLM_A=1 vllm serve m",
        "VLLM_A=1\nvllm serve m --x $VLLM_A",
        "for i in 1 2; do vllm serve m --port $i; done",
        'A="--x"\nA="$A --y"\nvllm serve m $A',
        "vllm serve m\n\necho done",
    ],
)
def test_no_traps(text: str) -> None:
    assert kinds(text) == []


def test_branches() -> None:
    assert texts("if a; then M=x; else M=y; fi\nvllm serve $M") == [["vllm", "serve", "$M"]]
    assert texts("if a; then M=x; fi\nvllm serve $M") == [["vllm", "serve", "x"]]
    both = "case $1 in a) M=x; vllm serve $M;; b) M=y; vllm serve $M;; esac"
    assert texts(both) == [["vllm", "serve", "x"], ["vllm", "serve", "y"]]


def test_a_container() -> None:
    text = (
        "export A=1\ndocker run --rm -it --gpus '\"device=0,1\"' -v /a:/b -p 8000:8000 -e VLLM_X=1 --env=Y=2 \\\n"
        "  vllm/vllm-openai:v0.19.1 --model m -cc '{\"mode\": 3}'"
    )
    (one,) = found_in(text)
    assert [token.text for token in one.tokens] == ["vllm", "serve", "--model", "m", "-cc", '{"mode": 3}']
    assert [token.style for token in one.tokens[:3]] == ["made", "made", "word"]
    assert [(variable.name, variable.value) for variable in one.env] == [("VLLM_X", "1"), ("Y", "2")]
    assert (one.hints.release, one.hints.gpus) == ("0.19.1", 2)
    assert one.hints.release_span is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("docker run --entrypoint bash vllm/vllm-openai -c 'vllm serve m'", ["vllm", "serve", "m"]),
        ("podman run registry.example/vllm:1 vllm serve m", ["vllm", "serve", "m"]),
        ("docker run vllm/vllm-openai:v0.10.0 --model m", ["python3", "-m", "vllm.entrypoints.openai.api_server",
                                                           "--model", "m"]),
    ],
)  # fmt: skip
def test_containers(text: str, expected: list[str]) -> None:
    assert texts(text) == [expected]


def test_words_of_kubernetes() -> None:
    given_words = words("vllm", "serve", "$(MODEL)", "--x=$$(A)", "--max-num-seqs", "$(N)", "--y")
    (one,) = in_kubernetes(given_words, {"MODEL": "m", "N": None})
    assert [token.text for token in one.tokens] == ["vllm", "serve", "m", "--x=$(A)", "--y"]
    assert [token.literal for token in one.tokens] == [True, True, False, False, True]
    assert [remark.kind for remark in one.remarks] == ["unknown_value"]


def test_a_script_in_words_keeps_its_places_behind_a_variable() -> None:
    script = "exec vllm serve $(MODEL) --x $Y"
    (one,) = in_kubernetes(words("sh", "-c", script), {"MODEL": "long-name", "Y": "1"})
    assert [token.text for token in one.tokens] == ["vllm", "serve", "long-name", "--x", "1"]
    places = [script[token.span.start - 200 : token.span.end - 200] for token in one.tokens]
    assert places == ["vllm", "serve", "$(MODEL)", "--x", "$Y"]
    assert [token.literal for token in one.tokens] == [True, True, False, True, False]


def test_words_of_compose() -> None:
    given_words = words("vllm", "serve", "${MODEL:-m}", "--x", "$$A", "--max-num-seqs=${N}")
    (one,) = in_words([with_defaults(word) for word in given_words], {"N": "8"})
    assert [token.text for token in one.tokens] == ["vllm", "serve", "m", "--x", "$A"]


def test_arguments_of_a_script_in_words() -> None:
    (one,) = in_words(words("bash", "-c", 'vllm serve "$@"', "bash", "m", "--x"), {})
    assert [(token.text, token.style) for token in one.tokens[2:]] == [("m", "item"), ("--x", "item")]


def test_a_place_that_is_not_known_is_not_literal() -> None:
    whole = Span(0, 50, 1, 1)
    (one,) = in_script("vllm serve m", lambda start, end: whole, {})
    assert not any(token.literal for token in one.tokens)


def test_an_open_quote_is_one_line() -> None:
    with pytest.raises(InputError) as caught:
        found_in("\nvllm serve 'm")
    assert caught.value.code == "CG906"
    assert caught.value.where == "line 2, column 12"


HOSTILE = {
    "parentheses": "vllm" + "(" * 250_000,
    "closing": "vllm" + ")" * 250_000,
    "substitutions": "vllm " + '"$(' * 80_000,
    "groups": "vllm\n" + "{ " * 120_000,
    "doubling": "A=vllm\n" + 'A="$A$A"\n' * 25_000 + "vllm serve $A",
    "arrays": "A=(vllm x)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 10_000,
    "calls": "f() { vllm serve $1; f; f; }\n" + "f\n" * 50_000,
    "cases": "vllm\n" + "case x in a) " * 20_000,
    "defaults": "vllm serve " + "${A:-" * 50_000,
    "heredocs": "vllm\n" + "cat <<A\n" * 30_000,
    "nested arrays": "vllm\n" + "x=(" * 80_000,
    "variables": "".join(f"export V{n}=1\n" for n in range(15_000)) + "vllm serve m\n" * 200,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_means_harm_ends_soon(name: str) -> None:
    started = time.process_time()
    try:
        found = found_in(HOSTILE[name])
        assert len(found) <= MAX_FOUND
    except InputError as error:
        assert error.code in ("CG906", "CG914")  # noqa: PT017
    assert time.process_time() - started < 4


@given(st.lists(st.sampled_from([*" \t\n'\"\\$`(){}[]<>|;&#=*~a", "vllm serve ", "${A:-", "$((", "<<E\n", "if ", "fi\n",
                                 "case x in ", "f() {", "A=(", "docker run ", "bash -c "]), max_size=40))  # fmt: skip
def test_nothing_escapes_but_our_errors(parts: list[str]) -> None:
    text = "".join(parts)
    try:
        found = found_in(text)
    except InputError:
        return
    for one in found:
        for token in one.tokens:
            assert 0 <= token.span.start <= token.span.end <= len(text)


@given(st.lists(st.text("ab'\"\\ $*{}~#", min_size=1, max_size=8), min_size=1, max_size=6))
def test_quoted_words_come_back(values: list[str]) -> None:
    import shlex

    text = "vllm serve " + " \\\n ".join(shlex.quote(value) for value in values)
    (one,) = found_in(text)
    assert [token.text for token in one.tokens[2:]] == values
    assert [text[token.span.start : token.span.end] for token in one.tokens[2:]] == [shlex.quote(v) for v in values]
