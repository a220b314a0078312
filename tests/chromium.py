"""Chromium for tests of pages: Debian's, driven by Playwright."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
_QUIET = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
)

browser_only = pytest.mark.skipif(not CHROMIUM.exists(), reason="no Chromium: apt-get install chromium")


def start_browser() -> Iterator[Browser]:
    """Yield a browser, and close it: the body of a fixture."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=_QUIET.split())
        yield browser
        browser.close()


@contextmanager
def open_page(browser: Browser, ignored: str = "") -> Iterator[Page]:
    """Open a page, and fail at its end if it complained of anything but lines with the text `ignored`."""
    page = browser.new_page()
    page.set_default_timeout(60_000)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    page.close()
    assert [each for each in complaints if not ignored or ignored not in each] == []
