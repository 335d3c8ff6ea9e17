"""Code blocks of Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgplan.inputs.launches import markdown
from cgplan.inputs.launches.launch import Source

ROOT = Path(__file__).parents[3]

TEXT = r"""# Start

`vllm serve no`

```console
(env) $ vllm serve a \
>   --max-num-seqs 8
INFO vllm serve no
```

1. So:
   ~~~sh
   vllm serve b --x 'y z'
   ~~~

```python
vllm serve no
```

```yaml
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: c
    command: [vllm, serve, c]
```
"""


def test_blocks() -> None:
    source = Source("r.md", TEXT)
    reading = markdown.launches(source)
    assert [launch.texts[2] for launch in reading.launches] == ["a", "b", "c"]
    assert [launch.tokens[0].span.line for launch in reading.launches] == [6, 13, 27]
    for launch in reading.launches:
        assert launch.source is source
        for token in launch.tokens:
            assert TEXT[token.span.start : token.span.end].strip("'") == token.text
    assert reading.launches[0].texts[3:] == ["--max-num-seqs", "8"]
    assert reading.launches[0].label == "line 6"


def test_a_block_that_cannot_be_read_hides_no_other() -> None:
    reading = markdown.launches(Source("r.md", "```sh\nvllm serve 'a\n```\n\n```sh\nvllm serve b\n```\n"))
    assert [launch.texts[2] for launch in reading.launches] == ["b"]
    (remark,) = reading.remarks
    assert remark.kind == "not_read"
    assert "line 2" in remark.message


def test_a_block_that_is_not_closed() -> None:
    assert len(markdown.launches(Source("r.md", "````bash\n```\nvllm serve a\n")).launches) == 0
    assert len(markdown.launches(Source("r.md", "```bash\nvllm serve a\n")).launches) == 1


@pytest.mark.parametrize(
    "body",
    [
        "vllm serve a --max-num-seqs 8",
        "# one GPU\nexport HF_HOME=/x\nvllm serve a \\\n  --max-num-seqs    8   # eight",
        "FOO=1 vllm serve a   --enforce-eager",
        "cd /srv && ./run.sh; if true; then vllm serve a; fi",
        'vllm serve a -cc \'{"mode": 3,\n\n  "x": 1}\'',
        "$ vllm serve a\nINFO Ready. It takes requests.",
    ],
)
def test_a_block_without_a_language_is_read_where_it_holds_commands(body: str) -> None:
    (launch,) = markdown.launches(Source("r.md", f"```\n{body}\n```\n")).launches
    assert launch.texts[:3] == ["vllm", "serve", "a"]


@pytest.mark.parametrize(
    "body",
    [
        "vllm serve a --max-num-seqs 8      eight requests at once",
        "vllm serve a --enforce-eager    without graphs",
        "vllm serve a\nIt starts.",
        "vllm serve a\nThe server: ready",
        "vllm serve a\nit then takes requests, and answers.",
        " vllm serve a ──► Launch",
        "args:\n- vllm serve a",
        "vllm serve a\nthat's all",
    ],
)
def test_a_block_without_a_language_is_not_read_where_it_is_a_screen(body: str) -> None:
    assert markdown.launches(Source("r.md", f"```\n{body}\n```\n")) == ((), ())
    assert markdown.launches(Source("r.md", f"```sh\n{body}\n```\n")) != ((), ())


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda path: path.name
)
def test_the_pages_of_this_project_have_no_block_that_cannot_be_read(path: Path) -> None:
    from cgplan.check import check_launch
    from cgplan.inputs.launches.asked import Context, ask
    from cgplan.inputs.launches.reading import read

    reading = read(Source(str(path), path.read_text(encoding="utf-8")))
    assert [remark for remark in reading.remarks if remark.kind == "not_read"] == []
    found = [one for launch in reading.launches for one in check_launch(ask(launch, Context())).diagnostics]
    assert [(one.code, one.message) for one in found if one.severity == "error"] == []
