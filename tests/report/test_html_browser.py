"""The page in a real browser, where there is one: no error, nothing loaded, names, contrast, no text over another."""

from __future__ import annotations

from pathlib import Path

import pytest
from html_helpers import facts, gathered
from report_page.browser import find_chromium

from cgplan.report.html.document import page
from cgplan.report.html.page import html

pytest.importorskip("pygal", reason="the charts need the extra `report`")


@pytest.mark.skipif(find_chromium() is None, reason="no Chromium here")
def test_a_browser_finds_nothing_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from report_page.__main__ import look

    file = tmp_path / "report.html"
    made = page(facts("deepseek-ai/DeepSeek-V3", max_num_seqs=1024)._replace(gathered=gathered()))
    file.write_text(html(made), encoding="utf-8")
    assert look(file) == []
    # The check itself sees what is wrong.
    broken = html(made).replace("<h2", "<h5").replace("</h2", "</h5").replace('aria-label="Contents"', "")
    file.write_text(broken.replace("--faint: #59616b", "--faint: #eeeeee"), encoding="utf-8")
    found = "\n".join(look(file))
    for word in ("headings out of order", "low contrast"):
        assert word in found, word
