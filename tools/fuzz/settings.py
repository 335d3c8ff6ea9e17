"""Settings of `cgplan check`: cgplan.toml and pyproject.toml, changed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from cgplan.inputs.settings import _settings_of, as_options, load, settings_of

from .documents import odd
from .kind import Kind
from .texts import mutated

OWN = """\
vllm = "0.33.0"
gpu = "h100"
gpus-per-node = 8
software = { flashinfer = false }
env = { VLLM_USE_DEEP_GEMM = "0" }
model = "Qwen/Qwen3-8B"
select = ["CG2", "CG9"]
ignore = ["CG975"]
per-file-ignores = { "examples/*" = ["CG9"], "**/x[a-z].yaml" = ["CG2"] }
exclude = ["charts/", "*.md"]
fail-on = "warning"
output = "concise"
"""
PROJECT = f'[project]\nname = "x"\n[tool.cgplan]\n{OWN}'
PATHS = ("examples/a.yaml", "charts/b.yaml", "xq.yaml", "/nowhere/c.md", "a\nb", "")


class Files:
    """A file of settings, found from its folder or named."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def make(self, dice: random.Random) -> tuple[Path, bool]:
        own = dice.random() < 0.6
        text = OWN if own else PROJECT
        lines = text.split("\n")
        for _ in range(dice.randint(0, 2)):
            at = dice.randrange(len(lines))
            name, equals, _value = lines[at].partition(" = ")
            if equals:
                lines[at] = f"{name} = {_toml(odd(dice))}"
        text = "\n".join(lines)
        if dice.random() < 0.6:
            text = mutated(dice, text, [OWN])
        folder = self.folder
        for name in ("cgplan.toml", "pyproject.toml"):
            (folder / name).unlink(missing_ok=True)
        path = folder / ("cgplan.toml" if own else "pyproject.toml")
        data = text.encode("utf-8", "surrogatepass")
        path.write_bytes(dice.choice((b"\xef\xbb\xbf", b"", b"")) + data.replace(b"\n", dice.choice((b"\n", b"\r\n"))))
        return path, dice.random() < 0.5

    def answer(self, given: tuple[Path, bool], dice: random.Random) -> Any:
        path, is_named = given
        _settings_of.cache_clear()  # what was found is remembered by folder
        found = load(str(path)) if is_named else settings_of(path.parent)
        said = [[found.excludes(one), list(found.ignored_in(one))] for one in PATHS]
        options = [[name, value] for name, value in as_options(found)]
        return [said, options, found.fail_on, found.output, list(found.select or ()), list(found.ignore)]


def _toml(value: Any) -> str:
    """A value as TOML has it, as far as TOML has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return (
            '"'
            + "".join(f"\\u{ord(c):04x}" if ord(c) < 32 else c for c in value.replace("\\", "").replace('"', ""))
            + '"'
        )
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml(str(key))} = {_toml(one)}" for key, one in value.items()) + " }"
    return repr(value)


KIND = Kind("settings", "cgplan.toml and pyproject.toml, through the reader, patterns and options", 0.17, Files)
