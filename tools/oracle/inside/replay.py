"""One record's input through vLLM: its own EngineArgs, its own configuration, its own worker steps."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import platform
from typing import Any

from oracle import models
from oracle.inside.backends import Backends
from oracle.inside.engine import Engine
from oracle.inside.errors import Errors, Log
from oracle.inside.fake_platform import Device
from oracle.inside.ground import Ground
from oracle.inside.levels import Levels
from oracle.inside.settings import settings


class Replay:
    """Answers inputs of one release as one GPU generation."""

    def __init__(self, ground: Ground, capability: tuple[int, int]) -> None:
        self.release = ground.release
        self.folder = ground.workdir / "models"
        self.errors = Errors(ground.workdir)
        self.log = Log(self.errors)
        self.device = Device(capability)
        self.engine = Engine(ground, self.device)
        self.log.attach()
        self.backends = Backends(self.engine, self.errors)
        self.levels = Levels(self.engine, self.errors, self.log)
        self._last: Any = None

    def about(self) -> dict[str, Any]:
        """What the answers depend on besides the release."""
        packages = ("torch", "transformers", "pydantic", "triton", "numpy")
        return {
            "vllm_version": self.release,
            "python": platform.python_version(),
            "packages": {name: _version(name) for name in packages},
            "attention_ops": self.engine.attention_ops,
            "not_importable": self.engine.unloadable,
            "stand_ins": sorted(self.engine.stand_ins),
        }

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The output of a record."""
        self._prepare(asked)
        output: dict[str, Any] = {}
        try:
            args, ignored = self._arguments(asked)
            if ignored:
                output["ignored_args"] = ignored
            try:
                config = args.create_engine_config(usage_context=self._context(asked))
            except Exception as error:
                return self._refusal(error, output)
            output["config"] = settings(config, self.engine.attention_ops)
            output["warnings"] = self.log.take()
            self._add_graphs(asked, config, output)
        except _Refused as error:
            return self._refusal(error.cause, output)
        finally:
            self.engine.restore_environment()
        return output

    def _prepare(self, asked: dict[str, Any]) -> None:
        self.engine.restore_environment()
        environment = {name: str(value) for name, value in (asked.get("env") or {}).items()}
        os.environ.update(environment)
        self.device.become(asked["device"])
        if (environment, asked["device"]) != self._last:
            self.engine.forget()
            self._last = (environment, asked["device"])
        self.engine.forget_what_was_said()
        self.log.take()

    def _context(self, asked: dict[str, Any]) -> Any:
        name = asked.get("usage_context")
        return None if name is None else self.engine.usage_context[name]

    def _arguments(self, asked: dict[str, Any]) -> tuple[Any, list[str]]:
        """The engine's arguments, and the fields that this release does not have."""
        args: dict[str, Any] = json.loads(json.dumps(asked.get("args") or {}))
        server = asked.get("usage_context") == "OPENAI_API_SERVER"
        kind = self.engine.arg_utils.AsyncEngineArgs if server else self.engine.arg_utils.EngineArgs
        known = {field.name for field in dataclasses.fields(kind)}
        ignored = sorted(name for name in args if name not in known)
        args = {name: value for name, value in args.items() if name in known}
        entry = models.entries()[asked["model"]]
        args.update(model=str(self.folder / asked["model"]), skip_tokenizer_init=True, load_format="dummy")
        args.update({"runner": entry["runner"]} if "runner" in entry else {})
        draft = args.get("speculative_config")
        if draft and draft.get("model") in models.entries():
            draft["model"] = str(self.folder / draft["model"])
        compilation = args.get("compilation_config")
        if isinstance(compilation, dict) and compilation.get("splitting_ops"):
            compilation["splitting_ops"] = self._spell_out(compilation["splitting_ops"])
        try:
            return kind(**args), ignored
        except Exception as error:
            raise _Refused(error) from error

    def _spell_out(self, ops: list[str]) -> list[str]:
        default = self.engine.attention_ops
        return [op for item in ops for op in (default if item == "<attention_ops>" else [item])]

    def _refusal(self, error: BaseException, output: dict[str, Any]) -> dict[str, Any]:
        described = self.errors.describe(error, "create_engine_config")
        return {"error": described, "warnings": self.log.take(), **output}

    def _add_graphs(self, asked: dict[str, Any], config: Any, output: dict[str, Any]) -> None:
        graph = asked.get("graph") or {}
        layers = models.layers(asked["model"])
        wanted: list[tuple[str, str, str | None]] = [
            (level, level, "GivenBackend") for level in graph.get("support", [])
        ]
        if graph.get("real_backend", True):
            chosen = self.backends.choose(asked, layers, config)
            output["backend"] = chosen
            # FlashAttention complains below capability 8.0 when it is imported, so on no record in particular.
            warnings = [line for line in self.log.take() if "Cannot use FA version" not in line]
            if warnings:
                output["backend_warnings"] = warnings
            if "min_support" in chosen:
                wanted.append(("REAL", chosen["min_support"], chosen["min_backend"]))
        output["resolve"] = self.levels.resolve(graph, layers, config, wanted)


class _Refused(Exception):
    """EngineArgs did not take its arguments."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
