"""Open a report in a headless Chromium: pictures in both themes and at the width of a phone, a PDF, and what is wrong.

    python tools/report_page report.html --shots DIR

Exit status: 0 nothing is wrong, or there is no Chromium (said so); 1 something is.
"""

from __future__ import annotations

import argparse
import base64
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from report_page.browser import Browser, find_chromium
from report_page.faults import faults

SCREENS = {"light": (1100, "light"), "dark": (1100, "dark"), "phone": (360, "light"), "phone-dark": (360, "dark")}


def look(page: Path, shots: Path | None = None) -> list[str]:
    """What is wrong with the page, one line each; pictures and a PDF go to `shots`. There has to be a Chromium."""
    found: list[str] = []
    with Browser(find_chromium() or "chromium") as browser:
        browser.ask("Page.navigate", url=page.resolve().as_uri())
        browser.wait_for("Page.loadEventFired")
        for name, (width, scheme) in SCREENS.items():
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.ask("Emulation.setEmulatedMedia", media="screen", features=features)
            browser.ask(
                "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
            )
            found += [f"{name}: {fault}" for fault in faults(browser, width)]
            if shots is not None:
                shots.mkdir(parents=True, exist_ok=True)
                shot = browser.ask("Page.captureScreenshot", captureBeyondViewport=True)
                (shots / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))
        browser.ask("Emulation.setEmulatedMedia", media="", features=[])
        if shots is not None:
            pdf = browser.ask("Page.printToPDF", printBackground=True)
            (shots / "print.pdf").write_bytes(base64.b64decode(pdf["data"]))
    return list(dict.fromkeys(found))


def main() -> int:
    """Look at one page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--shots", type=Path, help="folder for the pictures and the PDF")
    asked = parser.parse_args()
    if find_chromium() is None:
        print("skipped: no Chromium here")
        return 0
    found = look(asked.page, asked.shots)
    for fault in found:
        print(fault)
    print(f"{asked.page}: {len(found)} faults")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
