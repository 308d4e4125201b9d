"""Runs reads in their own thread, on their own connection, so that no reader delays a report."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from tailrace.server.ledger import Ledger

_Result = TypeVar("_Result")

MOST_WAITING = 256
"""The maximum number of waiting reads; a further one must retry."""

SHARED_SECONDS = 2.0
"""The greatest age of a shared answer; open pages refresh as often."""

_MOST_SHARED = 256


class BusyError(Exception):
    """Too many requests wait, so this one isn't executed. Its text is for the client."""


class Reader:
    """Runs reads in order, on a ledger that is used for reading only.

    Args:
        ledger: of a database connection of its own; nobody else may use it.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._thread = ThreadPoolExecutor(1, "watermark-reader")
        self._waiting = 0
        self._shared: dict[Hashable, tuple[float, asyncio.Future[Any]]] = {}

    def stop(self) -> None:
        """Ends the thread; waiting requests aren't executed."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._ledger.close()

    async def call(self, function: Callable[[Ledger], _Result]) -> _Result:
        """Runs a function on the ledger, and returns its result or raises its error.

        Raises:
            BusyError: too many wait already.
        """
        if self._waiting >= MOST_WAITING:
            raise BusyError("too many readers are waiting: ask again")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, function, self._ledger)
        finally:
            self._waiting -= 1

    async def share(self, key: Hashable, function: Callable[[Ledger], _Result]) -> _Result:
        """Runs a function once for all callers with the same key within SHARED_SECONDS."""
        now = time.monotonic()
        at, known = self._shared.get(key, (0.0, None))
        is_old = known is not None and known.done() and (now - at > SHARED_SECONDS or _has_failed(known))
        if known is None or is_old:
            if len(self._shared) >= _MOST_SHARED:
                self._shared = {k: v for k, v in self._shared.items() if now - v[0] <= SHARED_SECONDS}
            known = asyncio.ensure_future(self.call(function))
            self._shared[key] = (now, known)
        # The first caller may disconnect while others still wait.
        found: _Result = await asyncio.shield(known)
        return found


def _has_failed(known: asyncio.Future[Any]) -> bool:
    return known.cancelled() or known.exception() is not None
