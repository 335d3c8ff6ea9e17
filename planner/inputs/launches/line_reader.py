"""Parses the line of a launch as vLLM does, again and again without what vLLM refuses."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import CgplanError, InputError
from ..serve_args import ServeArgs, parse_serve
from ..serve_args_errors import ArgumentRefused
from ..serve_args_flags import flag_table
from ..serve_args_joined import DASHES, dash_refusal, refusal, split_joined, with_plain_dashes
from ..serve_args_switches import mended, switch_at
from ..serve_args_switches import refusal as refusal_of_switch
from ..serve_args_tokens import Place
from .launch import Launch
from .located import Located, located

MAX_REFUSALS = 20
"""Options that a line is read again without."""

DROPPABLE = ("unrecognized", "ambiguous", "missing_value", "flag_takes_no_value", "invalid_choice", "invalid_value",
             "config_invalid")  # fmt: skip
"""Refusals that one option is to blame for."""


class LineReader:
    """Parses a line again and again, each time without the option that was refused."""

    def __init__(self, launch: Launch, release: str, env: Mapping[str, str]) -> None:
        self.launch = launch
        self.release = release
        self.env = env
        self.kept = list(range(len(launch.tokens)))
        self.texts = [token.text for token in launch.tokens]
        self.joined: set[int] = set()
        self.configs = {name: config.text for name, config in launch.files.items()}
        self.refused: list[CgplanError] = []
        self.refused_at: list[Located | None] = []
        self._split()

    def _split(self) -> None:
        """Take apart tokens that hold an option and its value; they are refused, and the rest is read as it was meant.

        Each part has the index of the token that it was part of.
        """
        if not any(text[:1] in DASHES or (" " in text and text.lstrip().startswith("-")) for text in self.texts):
            return
        table = flag_table(self.release)
        kept, texts = self.kept, self.texts
        self.kept, self.texts = [], []
        for index, text in zip(kept, texts, strict=True):
            plain = with_plain_dashes(text, table) if index and len(self.refused) < MAX_REFUSALS else None
            if plain is not None:
                self._refuse(dash_refusal(text, plain, Place(index)), index)
                text = plain
            joined = split_joined(text, table) if index and len(self.refused) < MAX_REFUSALS else None
            parts = (text,) if joined is None else joined.texts
            self.kept += [index] * len(parts)
            self.texts += parts
            if joined is not None:
                self.joined.add(index)
                self._refuse(refusal(joined, Place(index)), index)

    def _refuse(self, error: ArgumentRefused, index: int) -> None:
        self.refused.append(error)
        self.refused_at.append(Located(self.launch.source, self.launch.tokens[index].span))

    def parse(self) -> ServeArgs | None:
        for _ in range(MAX_REFUSALS):
            try:
                args = self._parse()
                if not self._mends_switch(args.model_place, is_model=True):
                    return args
            except ArgumentRefused as error:  # noqa: PERF203
                if error.kind == "unrecognized" and self._mends_switch(error.place, is_model=False):
                    continue
                error.place = self._to_blame(error)
                self.refused.append(_alone(error))
                self.refused_at.append(located(self.launch, error.place, tuple(self.kept)))
                if not self._drop(error):
                    return None
            except InputError as error:
                self.refused.append(_alone(error))
                self.refused_at.append(None)
                return None
        return None

    def _parse(self) -> ServeArgs:
        configs = self.configs
        return parse_serve(self.texts, self.release, configs=configs or None, env=self.env)

    def _mends_switch(self, place: Place | None, *, is_model: bool) -> bool:
        """Whether a value out of the file of --config is that of a switch, which takes none; it is then refused, and
        the file is read as it was meant.
        """
        if place is None or not place.line or len(self.configs) != 1:
            return False
        ((name, text),) = self.configs.items()
        switch = switch_at(text, place.line, flag_table(self.release))
        if switch is None:
            return False
        self.refused.append(refusal_of_switch(switch, place, is_model=is_model))
        self.refused_at.append(located(self.launch, place, tuple(self.kept)))
        self.configs[name] = mended(text, switch)
        return True

    def _to_blame(self, error: ArgumentRefused) -> Place | None:
        """The token of the dotted key that is refused, not the first one of those that make up the option's value."""
        path = (error.where or "").partition(".")[2]
        place = error.place
        if error.kind != "config_invalid" or not path or place is None or place.line or place.token >= len(self.kept):
            return place
        texts = [text.partition("=")[0] for text in self.texts]
        head = texts[place.token].partition(".")[0]
        if "." not in texts[place.token]:
            return place
        for index, text in enumerate(texts):
            bucket, _, keys = text.partition(".")
            if bucket.replace("_", "-") == head.replace("_", "-") and keys and f"{path}.".startswith(f"{keys}."):
                return Place(index)
        return place

    def _drop(self, error: ArgumentRefused) -> bool:
        """Leave out the option that is to blame. False: no single one is."""
        if error.kind not in DROPPABLE or error.place is None or error.place.line:
            return False
        texts = self.texts
        first = error.place.token
        if not 2 <= first < len(texts):
            return False
        is_extra = error.kind == "unrecognized" and not texts[first].startswith("-")
        while not is_extra and first > 2 and not texts[first].startswith("-"):
            first -= 1  # from a value to its option
        if not texts[first].startswith("-"):
            first = error.place.token
        last = first + 1
        while last < len(texts) and not texts[last].startswith("-"):
            last += 1
        del self.kept[first:last], self.texts[first:last]
        return True


def _alone(error: CgplanError) -> CgplanError:
    """The error without its frames, which would keep all that the parser held when it refused."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error
