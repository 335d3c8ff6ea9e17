"""A page of a deployment, and what its two texts say, for the tests of the report."""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser

from cgplan import Deployment, gpu, load_model, plan
from cgplan.memory.what_if import buy_backs
from cgplan.report.html.blocks import Page
from cgplan.report.html.document import Facts, page
from cgplan.report.plan_text import Titles
from cgplan.workload.gathered import Gathered, Part
from cgplan.workload.histogram import Batches, Range, workload_of


class Parsed(HTMLParser):
    """What an HTML text has: tags with attributes, the text of each, and whether they close as they open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.faults: list[str] = []
        self.rows: list[list[str]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.faults += [f"{tag} is not closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br", "wbr"):
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"{tag} closes what is not open")

    def handle_data(self, data: str) -> None:
        self.texts.append((self._open[-1] if self._open else "", data))
        if {"th", "td"} & set(self._open):
            self.rows[-1][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self) -> str:
        return "".join(data for _, data in self.texts)


def facts(name: str = "Qwen/Qwen3-8B", kind: str = "h100", **settings: object) -> Facts:
    """A deployment without profile and workload."""
    made = plan(Deployment(model=load_model(name), gpu=gpu(kind), **settings))  # type: ignore[arg-type]
    return Facts(made, Titles(name, made.deployment.gpu.name), buy_backs(made), ("Something is assumed.",))


@cache
def small() -> Page:
    """The page of a model that fits."""
    return page(facts())


def gathered() -> Gathered:
    """Steps of every kind, some of which may be of two."""
    batches = [
        Batches("decode", Range(8, 8), 120),
        Batches("decode", Range(300, 300), 5),
        Batches("mixed", Range(900, 900), 7),
        Batches("any", Range(9, 16), 30),
    ]
    return Gathered((Part("", workload_of(batches, "a test"), "file"),))
