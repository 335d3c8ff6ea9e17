"""What is wrong with a page as the browser has it: errors, requests, names, contrast, width."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from .browser import Browser

NAMED = {"image", "region", "navigation", "link", "heading", "table", "button", "DisclosureTriangle"}
"""Roles that a screen reader calls by name; a table has the region around it."""
LEAST_CONTRAST = 4.5

_CONTRAST = """
(() => {
  const parse = c => (c.match(/[\\d.]+/g) || []).map(Number);
  const linear = v => v / 255 <= .03928 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4;
  const light = c => { const [r, g, b] = c.map(linear);
    return .2126 * r + .7152 * g + .0722 * b; };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
  const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0) return c.slice(0, 3); } return [255, 255, 255]; };
  const low = new Set();
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.tagName.toLowerCase() === 'title' || !e.getClientRects().length) continue;
    const style = getComputedStyle(e);
    const svg = e.namespaceURI.endsWith('svg');
    const front = parse(svg ? style.fill : style.color).slice(0, 3);
    const rect = svg && e.classList.contains('inside') ? e.parentElement.querySelector('rect') : null;
    const back = rect ? parse(getComputedStyle(rect).fill).slice(0, 3) : behind(e);
    const found = ratio(front, back);
    if (found < LEAST) low.add(`${e.textContent.trim().slice(0, 30)}: ${found.toFixed(2)}`);
  }
  return [...low];
})()
"""
_LEVELS = "[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(e => Number(e.tagName[1]))"
_WIDTH = "document.documentElement.scrollWidth"
_OVERLAPS = """
(() => {
  const found = [];
  for (const svg of document.querySelectorAll('svg')) {
    const boxes = [...svg.querySelectorAll('text')].map(e => [e.textContent, e.getBoundingClientRect()])
      .filter(([, b]) => b.width);
    for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
      const [s, a] = boxes[i], [t, b] = boxes[j];
      if (a.left < b.right && b.left < a.right && a.top + 1 < b.bottom - 1 && b.top + 1 < a.bottom - 1)
        found.push(`${s} and ${t} overlap in ${svg.getAttribute('aria-label').slice(0, 40)}`);
    }
    const page = document.documentElement.clientWidth;
    for (const [s, b] of boxes) if (b.left < -1 || b.right > page + 1) found.push(`${s} is cut off`);
  }
  return found;
})()
"""


def faults(browser: Browser, width: int) -> Iterator[str]:
    """One line each."""
    for told in browser.told("Runtime.consoleAPICalled"):
        yield f"console: {told['type']}"
    for told in browser.told("Runtime.exceptionThrown"):
        yield f"exception: {told['exceptionDetails']['text']}"
    for told in browser.told("Log.entryAdded"):
        yield f"log: {told['entry']['text']}"
    requests = [told["request"]["url"] for told in browser.told("Network.requestWillBeSent")]
    for url in requests:
        if not url.startswith(("file:", "data:", "about:")):
            yield f"loads {url[:80]}"
    yield from _unnamed(browser)
    levels = _value(browser, _LEVELS)
    if levels.count(1) != 1 or any(later > level + 1 for level, later in pairwise(levels)):
        yield f"headings out of order: {levels}"
    if (there := _value(browser, _WIDTH)) > width:
        yield f"{there} pixels wide, more than the screen's {width}"
    yield from (f"low contrast: {text}" for text in _value(browser, _CONTRAST.replace("LEAST", str(LEAST_CONTRAST))))
    yield from _value(browser, _OVERLAPS)


def _unnamed(browser: Browser) -> Iterator[str]:
    seen = set()
    for node in browser.ask("Accessibility.getFullAXTree")["nodes"]:
        role = node.get("role", {}).get("value")
        seen.add(role)
        if role in NAMED - {"table"} and not node.get("ignored") and not node.get("name", {}).get("value", "").strip():
            yield f"a {role} without a name"
    for role in ("main", "banner", "navigation", "contentinfo", "image"):
        if role not in seen:
            yield f"no {role}"


def _value(browser: Browser, expression: str):  # type: ignore[no-untyped-def]
    found = browser.ask("Runtime.evaluate", expression=expression, returnByValue=True)
    if "exceptionDetails" in found:
        raise RuntimeError(found["exceptionDetails"]["exception"]["description"])
    return found["result"]["value"]
