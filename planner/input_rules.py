"""Pages of the codes that cgplan raises on what it is given, for `cgplan explain`; vLLM is never asked."""

from __future__ import annotations

from .trace import Rule

OWN = "cgplan"
"""Source of the rules that are cgplan's own."""

RELEASE_UNKNOWN = Rule(
    "CG801",
    title="The release of vLLM is not one that cgplan knows.",
    why="The rules change from release to release; the rules of another one would be a guess.",
    example="--vllm 0.99 is refused, and the nearest known release is named; 0.22.0 is read as 0.22.1.",
    instead="Give a release that cgplan knows, take the command that the error names, or upgrade cgplan.",
    source=OWN,
)
INPUT = Rule(
    "CG900",
    title="The input cannot be used.",
    why="An error that has no page of its own.",
    example="The message says what was wrong.",
    instead="Do what the line `fix` says.",
    source=OWN,
)
UNKNOWN_FIELD = Rule(
    "CG901",
    title="A field is unknown.",
    why="A misspelt field that is passed over would change nothing and say nothing.",
    example="-cc.cudagraph_mod=FULL: unknown, did you mean cudagraph_mode?",
    instead="Write the field as vLLM names it.",
    source=OWN,
)
UNKNOWN_VALUE = Rule(
    "CG902",
    title="A value is not one of the known names.",
    why="vLLM refuses it as well.",
    example="--cudagraph-mode FUL: unknown, did you mean FULL?",
    instead="Give one of the names in the message; case does not count.",
    source=OWN,
)
WRONG_VALUE = Rule(
    "CG903",
    title="A value has the wrong type, or is out of range.",
    why="Types are strict, so that no text is taken for a number.",
    example="--max-num-seqs 0: there is no batch without a request.",
    instead="Give a value of the type and range that the message names.",
    source=OWN,
)
UNKNOWN_GPU = Rule(
    "CG904",
    title="The GPU is not in the catalogue.",
    why="Defaults and backends depend on its memory, its capability and its name.",
    example="--gpu h1000: unknown, did you mean h100?",
    instead="Give a name of `cgplan gpus`; --gpu-memory-bytes sets another memory.",
    source=OWN,
)
USAGE = Rule(
    "CG905",
    title="The command line has an unknown command or option, or a value is missing.",
    why="Options are named as vLLM's flags; others are refused with the nearest name.",
    example="--max-num-seq 8: unknown, did you mean --max-num-seqs?",
    instead="See `cgplan COMMAND --help`.",
    source=OWN,
)
UNREADABLE_VALUE = Rule(
    "CG906",
    title="The value of an option cannot be read.",
    why="JSON, numbers such as 25.6k and NAME=VALUE have to be written as vLLM reads them.",
    example="--compilation-config '{mode: 3}' is not JSON: keys need double quotes.",
    instead="Write it as the line `fix` shows; -cc.mode=3 needs no JSON.",
    source=OWN,
)
GIVEN_TWICE = Rule(
    "CG907",
    title="The same setting is given twice.",
    why="Which of the two counts would be a guess.",
    example="--cudagraph-mode FULL and -cc.cudagraph_mode=NONE.",
    instead="Drop one of the two.",
    source=OWN,
)
UNKNOWN_CODE = Rule(
    "CG908",
    title="There is no rule or error of this code.",
    why="Codes are CG and three digits.",
    example="cgplan explain CG999.",
    instead="`cgplan explain` lists all codes.",
    source=OWN,
)
UNREADABLE_FILE = Rule(
    "CG910",
    title="A model's file cannot be read.",
    why="The shape of the model comes from its config.json.",
    example="--model ./nowhere: no such file or directory.",
    instead="Give the model's directory, its config.json, or an id of `cgplan models`.",
    source=OWN,
)
NOT_JSON = Rule(
    "CG911",
    title="A model's file is not a JSON object.",
    why="config.json is one JSON object in UTF-8.",
    example="A config.json that was cut off while it was copied.",
    instead="Give the config.json as published.",
    source=OWN,
)
BAD_CONFIG = Rule(
    "CG912",
    title="An entry of config.json has the wrong type, is missing or is out of range.",
    why="A shape that is half guessed would give graphs that are half wrong.",
    example="num_attention_heads is the text 'many'.",
    instead="Give the config.json as published.",
    source=OWN,
)
UNKNOWN_ARCHITECTURE = Rule(
    "CG913",
    title="vLLM of this release does not know the model's architecture.",
    why="Architecture decides attention, layers and hooks; there is no sensible default.",
    example="A config.json whose architectures name a model of a later release.",
    instead="Give a release that has it, or a model of that kind that vLLM knows.",
    source=OWN,
)
FILE_TOO_LARGE = Rule(
    "CG914",
    title="A model's file is far larger than any config.json.",
    why="It is not read, so that a wrong path does not fill the memory.",
    example="--model weights.safetensors.",
    instead="Give the model's directory or its config.json.",
    source=OWN,
)
UNKNOWN_MODEL = Rule(
    "CG915",
    title="The model is neither a path nor in the catalogue.",
    why="cgplan downloads nothing.",
    example="--model Qwen/Qwen3-8C: did you mean Qwen/Qwen3-8B?",
    instead="Give a path to its config.json, or an id of `cgplan models`.",
    source=OWN,
)
JOINED = Rule(
    "CG954",
    title="An option and its value are one word.",
    why="Where arguments are a list, or a word is quoted, nothing splits them: vLLM takes the whole for a value, most "
    "often for the name of the model, or refuses it.",
    example='args: ["--model Qwen/Qwen3-8B"] serves a model named "--model Qwen/Qwen3-8B".',
    instead="Make two words of it, or write --option=value.",
    source=OWN,
)
SWITCH_VALUE = Rule(
    "CG956",
    title="A switch in the file of --config has a text for a value.",
    why="vLLM writes the key and the value as two words; a switch takes none, so that the value is the model's name, "
    "or one value too many.",
    example='enable-prefix-caching: "true", in quotes: vLLM looks for a model named true.',
    instead="Write true without quotes, or no-KEY: true.",
    source="vllm/utils/argparse_utils.py:653-665",
)
PLATFORM_NOT_MODELLED = Rule(
    "CG329",
    title="The platform's attention backends are not modelled.",
    why="Only CUDA is modelled in full; of ROCm, XPU and the CPU the choice of the backend is.",
    example="A GPU whose platform is tpu.",
    instead="Use a GPU of cgplan's catalogue.",
    source=OWN,
)
SETTINGS = Rule(
    "CG970",
    title="The settings of cgplan check cannot be used.",
    why="A misspelt setting that is passed over would change nothing and say nothing.",
    example="[tool.cgplan] of pyproject.toml has fail_on: did you mean fail-on?",
    instead="Write the setting as docs/check.md names it, or give another file by --settings.",
    source=OWN,
)
