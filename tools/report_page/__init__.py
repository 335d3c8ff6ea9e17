"""Looks at a page of `cgplan report` in a real headless Chromium: python tools/report_page report.html --shots DIR."""
