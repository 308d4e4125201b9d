"""Waiting for a condition, with a deadline."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")


def wait_for(condition: Callable[[], _T | None], what: str, seconds: float = 30) -> _T:
    """Waits until the condition has a true value, and returns that.

    Args:
        condition: asked some twenty times a second.
        what: for the error when it hasn't come in time.
        seconds: how long it may take.
    """
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"it hasn't come in {seconds} seconds: {what}"
        time.sleep(0.05)
    return found
