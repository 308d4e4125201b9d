"""A real browser, without a window."""

from __future__ import annotations

import shutil
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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


def texts(browser: Chrome, selector: str) -> list[str]:
    """What a selector's elements show."""
    from selenium.common.exceptions import StaleElementReferenceException  # noqa: PLC0415  see above

    end = time.monotonic() + 15
    while True:
        try:
            found: list[Any] = browser.find_elements("css selector", selector)
            return [element.text for element in found]
        except StaleElementReferenceException:
            # The page has shown what is new between the two, and is read again.
            if time.monotonic() > end:
                raise


@contextmanager
def shown_at(browser: Chrome, width: int, scheme: str = "light") -> Iterator[None]:
    """A window of a width, and a reader's choice of light or dark, until the block ends."""
    size = {"width": width, "height": 1_700, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
