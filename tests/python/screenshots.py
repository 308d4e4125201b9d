"""Screenshots of pages as they are now, for the documentation's site: `build/screenshots/NAME.png`."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any

from browsers import shown_at

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

FOLDER = Path(__file__).parents[2] / "build/screenshots"
_WIDTH, _MOST = 1_100, 1_500


def take(browser: Chrome, name: str, selector: str = "body") -> Path:
    """Writes a picture of the first element of a selector, of at most the height that a page has room for."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.png"
    with shown_at(browser, _WIDTH):
        box: dict[str, float] = browser.execute_script(
            """const box = document.querySelector(arguments[0]).getBoundingClientRect();
            return {y: box.y + scrollY, height: box.height};""",
            selector,
        )
        # The picture has no scroll bar, so the page is as wide as the window in it.
        clip = {"x": 0, "width": _WIDTH, "y": box["y"], "height": min(box["height"], _MOST), "scale": 1}
        shot: dict[str, Any] = browser.execute_cdp_cmd(
            "Page.captureScreenshot", {"format": "png", "clip": clip, "captureBeyondViewport": True}
        )
    path.write_bytes(base64.b64decode(shot["data"]))
    return path
