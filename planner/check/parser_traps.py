"""What vLLM's parser makes of a line in silence: abbreviations, levels that are texts, files that are not read."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import shorten
from ..inputs.serve_args_tokens import Note
from ..trace import Rule
from .config_file import is_nested
from .diagnostic import ConfigEdit, Hit, Related, TokenEdit
from .lost_buckets import PARSER
from .occurrences import (
    at_token,
    config_settings,
    edits_of,
    flag_text,
    given_at,
    occurrences,
)
from .registry import check
from .subject import Subject
from .trial import breaks

ARGPARSE = "vllm/utils/argparse_utils.py:502"

ABBREVIATION = Rule(
    "CG926",
    title="An option is abbreviated.",
    why="argparse takes the start of a long option for the option, as long as no other one starts alike.",
    example="--max-num-batched 4096 is --max-num-batched-tokens.",
    instead="Write the option in full: a later release may have two that start so.",
    source=ARGPARSE,
)
ABBREVIATION_BREAKS = Rule(
    "CG927",
    title="An option is abbreviated in a way that a later release of vLLM refuses.",
    why="Options are added and dropped; what starts one option today starts two, or none, in that release.",
    example="--enable-prefix at a release that has one such option, and an upgrade to one that has two.",
    instead="Write the option in full.",
    source=ARGPARSE,
)
ODD_LEVEL = Rule(
    "CG928",
    title="-O takes anything behind it for an optimisation level.",
    why="-O4 and -O.mode=3 are texts to the parser; the configuration, built later, knows the levels 0 to 3 alone.",
    example="-O.mode=3: the level is the text .mode=3, and no mode is set.",
    instead="Write -O0 to -O3; -cc.KEY=VALUE sets a key of the compilation config.",
    source=f"{PARSER}:395-399",
)
VALUE_IS_KEY = Rule(
    "CG929",
    title="A value that starts with a dash and has a dot is taken for a dotted key, and the token behind it for its "
    "value.",
    why="vLLM gathers every token of this form before argparse looks at what belongs to which option.",
    example="--presence-penalty -0.5 --seed 1: -0.5 is a key, and --seed its value.",
    instead="Write OPTION=VALUE, without a blank between.",
    source=f"{PARSER}:460-470",
)
FILE_FALSE = Rule(
    "CG930",
    title="`x: false` in the file of --config is passed over.",
    why="A true becomes --x; a false becomes --no-x since 0.28.0, but only where the outermost parser has that option, "
    "and that of `vllm serve` is a parser inside. Before, it became nothing at all.",
    example="enable-prefix-caching: false: the prefix cache stays on.",
    instead="Write no-x: true.",
    source=f"{PARSER}:653-658",
)
CONFIG_UNREAD = Rule(
    "CG932",
    title="The file of --config is read only where --config and the file are two tokens.",
    why="vLLM looks for the token --config before argparse runs; --config=FILE, --config_file or an abbreviation "
    "is accepted afterwards, and the file is never opened.",
    example="--config=serve.yaml: none of its settings is made.",
    instead="Write --config FILE.",
    source=f"{PARSER}:371-372",
)
MODEL_BEHIND = Rule(
    "CG933",
    title="With --config, the model has to be the first token behind `vllm serve`, or stand in the file.",
    why="vLLM looks at that one token for it when it reads the file, and ends if there is none.",
    example="vllm serve --config serve.yaml Qwen/Qwen3-8B does not start.",
    instead="Write vllm serve MODEL --config FILE.",
    source=f"{PARSER}:574-583",
)
MODEL_IGNORED = Rule(
    "CG934",
    title="`python -m vllm.entrypoints.openai.api_server` ignores a model without --model.",
    why="Its parser has the positional of `vllm serve`, but nothing reads it; the model is vLLM's default.",
    example="python -m vllm.entrypoints.openai.api_server Qwen/Qwen3-8B serves another model.",
    instead="Write --model MODEL, or start with `vllm serve MODEL`.",
    source="vllm/entrypoints/cli/serve.py:56-57",
)
MODEL_FLAG = Rule(
    "CG935",
    title="`vllm serve` takes the model as its first token; --model is deprecated there.",
    why="vLLM moves the value of --model to the front, with a warning that a later version will not.",
    example="vllm serve --model Qwen/Qwen3-8B.",
    instead="Write vllm serve MODEL.",
    source=f"{PARSER}:325-354",
)
TWO_MODELS = Rule(
    "CG936",
    title="The model is given twice.",
    why="`vllm serve` moves --model to the front, where a model that stood there is one value too many; a model of "
    "the file of --config gives way to one on the command line.",
    example="vllm serve Qwen/Qwen3-8B --model Qwen/Qwen3-4B does not start.",
    instead="Give the model once, as the first token behind `vllm serve`.",
    source=f"{PARSER}:325-354",
)


@check(ABBREVIATION, "info")
def find_abbreviation(subject: Subject) -> Iterator[Hit]:
    return (_abbreviation(subject, note) for note in _abbreviations(subject) if not _breaks_later(note))


@check(ABBREVIATION_BREAKS, "warning")
def find_abbreviation_that_breaks(subject: Subject) -> Iterator[Hit]:
    return (_abbreviation(subject, note) for note in _abbreviations(subject) if _breaks_later(note))


def _abbreviations(subject: Subject) -> Iterator[Note]:
    """Those of --config change what is read: see CONFIG_UNREAD; of settings that are nested, see config_file."""
    return (
        note
        for note in subject.notes
        if note.kind == "abbreviation" and note.option != "--config" and not is_nested(subject, note.place.line)
    )


def _breaks_later(note: Note) -> bool:
    return ";" in note.message


def _abbreviation(subject: Subject, note: Note) -> Hit:
    one = given_at(subject, note.place)
    found = occurrences(subject, one) if one is not None else []
    edits: tuple[TokenEdit | ConfigEdit, ...] = ()
    if note.place.line and note.place.line in config_settings(subject):
        key, value = config_settings(subject)[note.place.line]
        edits = (ConfigEdit(key, note.place.line, note.option.lstrip("-"), value),)
    elif found:
        edits = edits_of(
            subject, [TokenEdit(each.start, each.start + 1, each.texts(note.option)[:1]) for each in found]
        )
    flag = flag_text(text for each in found for text in each.texts(note.option)) if found else None
    fix = f"write {note.option}"
    return Hit(note.message, fix, subject.asked.located(note.place), flag, edits)


@check(ODD_LEVEL, "error")
def find_odd_level(subject: Subject) -> Iterator[Hit]:
    for note in subject.notes:
        if note.kind == "odd_level":
            index = subject.asked.token_index(note.place)
            text = subject.launch.texts[index] if index is not None else ""
            at = subject.asked.located(note.place)
            if text.startswith("-O.") and index is not None:
                new = f"-cc{text[2:]}"
                # A second bucket of the compilation config would take the place of the first.
                clash = subject.is_given("compilation_config")
                edits = () if clash else edits_of(subject, [TokenEdit(index, index + 1, (new,))])
                yield Hit(note.message, f"write {shorten(new, 60)}", at, flag_text([new]), edits)
            else:
                yield Hit(note.message, "give -O0 to -O3", at)


@check(VALUE_IS_KEY, "error")
def find_value_is_key(subject: Subject) -> Iterator[Hit]:
    """Where the line is accepted all the same; where it is refused, `starting` says so."""
    for note in subject.notes:
        if note.kind == "value_is_key":
            index = subject.asked.token_index(note.place)
            yield value_is_key(subject, note.message, index)


def value_is_key(subject: Subject, message: str, index: int | None) -> Hit:
    """The hit of a value taken for a dotted key; `index` is its token in the launch."""
    fix = "write OPTION=VALUE, without a blank, where the value starts with a dash"
    if index is None:
        return Hit(message, fix)
    before = subject.launch.texts[index - 1] if index else ""
    at = at_token(subject, index)
    if not before.startswith("--") or "=" in before:
        return Hit(message, fix, at)
    joined = f"{before}={subject.launch.texts[index]}"
    edits = edits_of(subject, [TokenEdit(index - 1, index + 1, (joined,))])
    return Hit(message, f"write {shorten(joined, 60)}", at, flag_text([joined]), edits)


@check(FILE_FALSE, "error")
def find_file_false(subject: Subject) -> Iterator[Hit]:
    for note in subject.notes:
        if note.kind == "yaml_false":
            yield _file_false(subject, note)


def _file_false(subject: Subject, note: Note) -> Hit:
    key = note.option.removeprefix("--")
    option = note.option.replace("_", "-")
    at = subject.asked.located(note.place)
    flag = subject.flags.by_option.get(option)
    message = f"`{shorten(key, 60)}: false` is passed over"
    if flag is None or flag.takes_value:
        what = "no option is so named" if flag is None else f"{flag.long} takes a value"
        return Hit(f"{message}; {what}", "leave it out", at)
    wanted = option in flag.negative  # `no-x: false` asks for x
    if flag.default is wanted and not subject.is_given(flag.dest):
        return Hit(f"{message}; {flag.dest} is {'on' if wanted else 'off'} all the same", None, at, severity="info")
    opposite = [one for one in flag.options if one.startswith("--") and (one in flag.negative) is not wanted]
    new = next((one for one in opposite if one == f"--no-{option[2:]}"), opposite[0] if opposite else None)
    if new is None:
        return Hit(message, "leave it out", at)
    new_key = new[2:].replace("-", "_") if "_" in key else new[2:]
    edit = ConfigEdit(key, note.place.line, new_key, True)
    return Hit(message, f"write `{new_key}: true`", at, f"{new_key}: true", (edit,))


@check(CONFIG_UNREAD, "error")
def find_config_unread(subject: Subject) -> Iterator[Hit]:
    for one in subject.given("config"):
        index = subject.asked.token_index(one.place)
        if index is None:
            continue  # `config:` within the file
        name = str(one.value)
        found = occurrences(subject, one)
        edits = [TokenEdit(each.start, each.end, ("--config", name)) for each in found]
        usable = edits_of(subject, edits)
        yield Hit(
            f"the file {shorten(name, 60)} is never read",
            f"write --config {shorten(name, 60)}",
            at_token(subject, index),
            flag_text(["--config", name]),
            usable,
            not breaks(subject, usable),
        )


@check(MODEL_IGNORED, "error")
def find_model_ignored(subject: Subject) -> Iterator[Hit]:
    for note in subject.notes:
        index = subject.asked.token_index(note.place) if note.kind == "model_ignored" else None
        if index is None:
            continue
        name = subject.launch.texts[index]
        model = next(iter(subject.given("model")), None)
        new = () if model is not None else ("--model", name)
        default = subject.flags.by_dest["model"].default
        served = str(model.value) if model is not None else f"{default}, vLLM's default"
        yield Hit(
            f"the model {shorten(name, 60)} is ignored; {shorten(served, 60)} is served",
            "drop it" if model is not None else f"write --model {shorten(name, 60)}",
            at_token(subject, index),
            flag_text(new),
            edits_of(subject, [TokenEdit(index, index + 1, new)]),
        )


@check(MODEL_FLAG, "info")
def find_model_flag(subject: Subject) -> Iterator[Hit]:
    if any(_is_extra_model(subject, index) for index in range(len(subject.launch.tokens))):
        return  # two models: see `starting`
    for note in subject.notes:
        index = subject.asked.token_index(note.place) if note.kind == "model_flag" else None
        if index is None or index in subject.asked.joined:
            continue
        if subject.launch.tokens[_behind_serve(subject) - 1].style == "made":
            continue  # the image starts the server; --model is how its arguments have named the model for years
        texts = subject.launch.texts
        attached = texts[index].startswith("--model=")
        name = texts[index].removeprefix("--model=") if attached else texts[index + 1]
        end = index + (1 if attached else 2)
        front = _behind_serve(subject)
        edits = [TokenEdit(index, end, (name,))] if index == front else [
            TokenEdit(front, front, (name,)),
            TokenEdit(index, end),
        ]  # fmt: skip
        usable = edits_of(subject, edits)
        yield Hit(
            "--model behind `vllm serve` is deprecated: the model is its first token",
            f"write vllm serve {shorten(name, 60)}",
            at_token(subject, index),
            None,
            usable,
        )


def _is_extra_model(subject: Subject, index: int) -> bool:
    return index not in subject.asked.kept and not subject.launch.texts[index].startswith("-")


def _behind_serve(subject: Subject) -> int:
    """Index of the token behind `serve`."""
    return subject.launch.texts.index("serve") + 1


@check(TWO_MODELS, "warning")
def find_two_models(subject: Subject) -> Iterator[Hit]:
    """A model of the file, beside one on the command line. Two on the command line are refused: see `starting`."""
    args = subject.args
    model = next(iter(subject.given("model")), None)
    if args is None or args.style != "serve" or args.model_tag is None or model is None:
        return
    same = args.model_tag == model.value
    index = next((i for i, text in enumerate(subject.launch.texts) if text == args.model_tag), None)
    at = at_token(subject, index) if index is not None else subject.start
    there = subject.asked.located(model.place)
    yield Hit(
        f"{shorten(args.model_tag, 60)} is served, not {shorten(str(model.value), 60)} of the file of --config"
        if not same
        else "the model is given twice, on the command line and in the file of --config",
        None if same else "give the model once",
        there or at,
        related=(Related(at, "this one counts"),) if at is not None and there is not None else (),
        severity="info",
    )
