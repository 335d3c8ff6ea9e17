"""Code blocks of Markdown."""

from __future__ import annotations

from cgplan.inputs.launches import markdown
from cgplan.inputs.launches.launch import Source

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
