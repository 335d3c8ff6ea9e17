"""Words of a server's command whose value is not in the file: the options they belong to are left out, and named."""

from __future__ import annotations

from collections.abc import Sequence

from ....deployment import LATEST
from ....errors import shorten
from ...serve_args_flags import Flag, flag_table
from ..launch import Remark
from .word import Word

_WITHOUT_EFFECT = frozenset((
    "host", "port", "api_key", "served_model_name", "download_dir", "root_path", "ssl_keyfile", "ssl_certfile",
    "ssl_ca_certs", "chat_template", "data_parallel_address", "master_addr", "master_port", "node_rank", "seed",
    "uvicorn_log_level", "otlp_traces_endpoint", "allowed_origins", "tokenizer", "hf_token", "revision", "uds",
    "headless", "data_parallel_rpc_port", "tool_parser_plugin", "log_config_file",
))  # fmt: skip
"""Settings that no graph depends on; that their value is not known is not worth a word."""


def settle(words: Sequence[Word]) -> tuple[list[Word], list[Remark]]:
    """The words that are known, from the program on, and what was left out."""
    if not any(word.unknown or word.several for word in words):
        return list(words), []
    settled = _Settling(words)
    for index in range(len(words)):
        settled.take(index)
    return settled.kept, settled.remarks


class _Settling:
    def __init__(self, words: Sequence[Word]) -> None:
        self.words = words
        self.model_at = 2 if len(words) > 1 and words[1].text == "serve" else -1
        self.kept: list[Word] = []
        self.options: list[int] = []
        """Indices in `kept` of the words that are options."""
        self.remarks: list[Remark] = []
        self.dropping: Flag | None = None

    def take(self, index: int) -> None:
        word = self.words[index]
        if word.text.startswith("-"):
            self.dropping = None
        if not word.unknown:
            if self.dropping is None:
                if word.several:
                    self._note_several(word)
                self._keep(word)
            return
        name, equals, _ = word.text.partition("=")
        option = self._option()
        is_model = index == self.model_at or (option is not None and option.text == "--model")
        if is_model or word.text.startswith("--model="):
            self._keep_model(word)
        elif name.startswith("-"):
            self._say(word, name if equals else None)
        elif option is not None and not _is_rest(word):
            self._drop_option(option, word)
        else:
            self._say(word, None)

    def _keep(self, word: Word) -> None:
        if len(self.kept) > 1 and word.text.startswith("-") and len(word.text) > 1 and not word.text[1].isdigit():
            self.options.append(len(self.kept))
        self.kept.append(word)

    def _option(self) -> Word | None:
        """The option that a value here belongs to, or None."""
        if not self.options:
            return None
        back = self.options[-1]
        word = self.kept[back]
        flag = _flag(word.text)
        values = len(self.kept) - 1 - back
        takes = "=" not in word.text and (flag is None or flag.takes_value)
        many = flag is not None and flag.nargs in ("+", "*")
        return word if takes and (many or not values) else None

    def _drop_option(self, option: Word, word: Word) -> None:
        del self.kept[self.options.pop() :]
        flag = _flag(option.text)
        self.dropping = flag if flag is not None and flag.nargs in ("+", "*") else None
        self._say(word, option.text)

    def _keep_model(self, word: Word) -> None:
        self._keep(word._replace(literal=False))
        self.remarks.append(
            Remark(
                "unknown_value",
                f"the model is not in this file: {_names(word)}",
                word.span,
                "name it with --model",
            )
        )

    def _say(self, word: Word, option: str | None) -> None:
        flag = _flag(option) if option else None
        if flag is not None and flag.dest in _WITHOUT_EFFECT:
            return
        what = f"{shorten(option, 40)} is left out" if option else "what it holds is left out"
        self.remarks.append(
            Remark(
                "unknown_value",
                f"the value of {_names(word)} is not in this file; {what}",
                word.span,
                "set it in the file, or check the command with the value written out",
            )
        )

    def _note_several(self, word: Word) -> None:
        option = word if word.text.startswith("-") else self._option()
        flag = _flag(option.text.partition("=")[0]) if option is not None else None
        if flag is None or flag.dest not in _WITHOUT_EFFECT:
            names = ", ".join(word.several)
            message = f"{names} takes several values; the first one is read: {shorten(word.text, 60)}"
            self.remarks.append(Remark("several_values", message, word.span))


def _is_rest(word: Word) -> bool:
    """Whether it stands for any number of words."""
    return any(name in ("$@", "$*", "$…") or "[@]" in name for name in word.unknown) and len(word.unknown) == 1


def _names(word: Word) -> str:
    return shorten(", ".join(word.unknown), 60)


def _flag(option: str) -> Flag | None:
    name = option.partition(".")[0]
    if name.startswith("--"):
        name = name.replace("_", "-")
    return flag_table(LATEST).by_option.get(name)
