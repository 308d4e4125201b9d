"""A real browser, without a window."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from watermark_servers import missing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selenium.webdriver import Chrome

_BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
_DRIVER = shutil.which("chromedriver")


@contextmanager
def run_browser(profile: Path) -> Iterator[Chrome]:
    """Starts Chromium with an empty profile in a directory; skips the test where there is none."""
    if _BROWSER is None or _DRIVER is None:
        missing("no browser here: neither chromium nor google-chrome with chromedriver on the PATH")
    from selenium import webdriver  # noqa: PLC0415  only where there is a browser

    options = webdriver.ChromeOptions()
    options.binary_location = _BROWSER
    for flag in (
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        *(f"--user-data-dir={profile}", "--window-size=1280,1700"),
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options, webdriver.ChromeService(_DRIVER))
    try:
        yield browser
    finally:
        browser.quit()
