"""The summary for pull requests."""

from __future__ import annotations

from check_helpers import file_of, outcome

from cgplan.errors import InputError
from cgplan.report.check_markdown import MOST_ROWS, page
from cgplan.report.check_results import FileResult


def test_a_page() -> None:
    assert page([file_of(findings=[("--bogus=1", {"flag": "--a | b"})])]) == (
        "# Check: 1 error in 1 server in 1 file\n"
        "\n"
        "| | where | code | what | fix |\n"
        "|---|---|---|---|---|\n"
        "| error | `deploy.yaml:7` | CG905 | there is no option --bogus | drop it<br>`--a \\| b` |\n"
        "\n"
        "| server | CUDA graphs | graphs | vLLM | GPU | model |\n"
        "|---|---|---:|---|---|---|\n"
        "| `deploy.yaml:2` Deployment qwen, container vllm | FULL\\_AND\\_PIECEWISE | 86 | 0.25.1 |"
        " NVIDIA H100 80GB HBM3 (assumed) | Qwen/Qwen3-8B |\n"
    )


def test_errors_come_first() -> None:
    text = page([file_of(findings=[("", {"severity": "info"}), ("", {"severity": "error"})])])
    assert text.index("| error |") < text.index("| info |")


def test_good_empty_and_unreadable() -> None:
    assert page([file_of(findings=())]).startswith("# Check: all good, 1 server in 1 file\n")
    assert page([]).startswith("# Check: no vLLM server in 0 files")
    broken = FileResult("a.yaml", None, error=InputError("cut off", code="CG911"))
    assert "Not read:\n\n- `a.yaml`: cut off (CG911)\n" in page([broken])


def test_a_server_that_does_not_start() -> None:
    assert "| does not start |  | 0.25.1 |" in page([file_of(outcome=outcome(False))])
    assert "| cannot tell |  | 0.25.1 |" in page([file_of(outcome=outcome(None))])


def test_nothing_is_markup() -> None:
    text = page([file_of(findings=[("", {"message": "<img src=x> @all [a](b) *x* | `y`\n# z", "fix": None})])])
    assert "&lt;img src=x&gt; &#64;all \\[a\\](b) \\*x\\* \\| \\`y\\` # z |" in text


def test_code_with_backticks() -> None:
    assert "``a`b:7``" in page([file_of(name="a`b")])


def test_a_page_has_an_end() -> None:
    text = page([file_of(findings=[("", {})] * (MOST_ROWS + 3))])
    assert text.count("| error |") == MOST_ROWS
    assert "and 3 more." in text


def test_secrets_are_not_on_the_page() -> None:
    key = "s3cret-value-77"
    found = file_of(
        f"vllm serve --api-key {key}",
        words=("vllm", "serve", "--api-key", key),
        findings=[("", {"message": key, "fix": key, "flag": key})],
        label=key,
    )
    assert key not in page([found])
