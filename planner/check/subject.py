"""What the checks look at: a launch, what it asks for, and what vLLM makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from ..deployment import Deployment
from ..errors import CgplanError, InputError, StartupError
from ..inputs.launches.asked import Asked, Located
from ..inputs.launches.launch import EnvVariable, Launch
from ..inputs.serve_args import Given, ServeArgs
from ..inputs.serve_args_flags import FlagTable, flag_table
from ..inputs.serve_args_tokens import Note
from ..light_dataclass import dataclass
from ..releases import holds
from ..resolve import Resolution
from .trying import resolved


@dataclass(frozen=True)
class Subject:
    """One launch under check.

    Attributes:
        asked: the launch as it was read.
        resolution: what vLLM makes of it; None where it does not start, or cannot be read.
        problem: why there is no resolution, where the line itself is accepted.
        rests_on_model: the model is not known, and with another one than that in its place vLLM would start.
    """

    asked: Asked
    resolution: Resolution | None = None
    problem: CgplanError | None = None
    rests_on_model: bool = False
    cache: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def launch(self) -> Launch:
        return self.asked.launch

    @property
    def release(self) -> str:
        return self.asked.release

    @property
    def args(self) -> ServeArgs | None:
        """The line, without the options that vLLM refuses."""
        return self.asked.args

    @property
    def deployment(self) -> Deployment | None:
        return self.asked.served.deployment if self.asked.served is not None else None

    @property
    def flags(self) -> FlagTable:
        return flag_table(self.release)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What vLLM's parser did in silence."""
        return self.args.notes if self.args is not None else ()

    def holds(self, since: str | None = None, until: str | None = None) -> bool:
        """Whether the release is in this range."""
        return holds(self.release, since, until)

    def get(self, dest: str) -> Any:
        """A setting of the line: given, else vLLM's default, else None."""
        return self.args.get(dest) if self.args is not None else None

    def is_given(self, dest: str) -> bool:
        return self.args is not None and dest in self.args.values

    def given(self, *dests: str) -> Iterator[Given]:
        """The options of these names, in the order in which vLLM takes them; all options where there is no name."""
        for one in self.args.given if self.args is not None else ():
            if not dests or one.dest in dests:
                yield one

    def variable(self, name: str) -> EnvVariable | None:
        """The environment variable of that name which counts, or None."""
        return next((one for one in reversed(self.launch.env) if one.name == name), None)

    def at(self, *dests: str) -> Located | None:
        """Where the first of these settings that is given stands; else where the command starts."""
        for dest in dests:
            found = self.asked.where_is(dest)
            if found is not None:
                return found
        return self.start

    def at_variable(self, name: str) -> Located | None:
        found = self.variable(name)
        if found is None or found.span is None:
            return self.start
        return Located(self.launch.source, found.span)

    @property
    def start(self) -> Located | None:
        """The first token that stands in the text."""
        spans = [token.span for token in self.launch.tokens if token.style != "made"]
        return Located(self.launch.source, spans[0]) if spans else None


def subject_of(asked: Asked) -> Subject:
    """Ask vLLM's rules about a launch."""
    if asked.served is None:
        return Subject(asked, None, asked.problem)
    try:
        return Subject(asked, resolved(asked.served.deployment))
    except (InputError, StartupError) as error:
        if not asked.model_assumed:
            return Subject(asked, None, error)
        from .other_shapes import of_any_model

        always = of_any_model(asked.served.deployment, error)
        return Subject(asked, None, always or error, always is None)
