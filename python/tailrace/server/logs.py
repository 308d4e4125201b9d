"""The server's log on standard error, and its access log."""

from __future__ import annotations

import logging
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_access = logging.getLogger("tailrace.access")


class _Terminal(logging.Handler):
    """Writes to what standard error is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        """See logging."""
        try:
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            self.handleError(record)


def write_log(level: str) -> None:
    """Writes Tailrace's log records to standard error, one per line, with the time in UTC.

    Args:
        level: the lowest level that is written: "debug", "info", "warning" or "error".
    """
    logger = logging.getLogger("tailrace")
    logger.setLevel(level.upper())
    if any(isinstance(handler, _Terminal) for handler in logger.handlers):
        return
    formatter = logging.Formatter(_FORMAT, "%Y-%m-%dT%H:%M:%SZ")
    formatter.converter = time.gmtime
    handler = _Terminal()
    handler.setFormatter(formatter)
    logger.addHandler(handler)


class AccessLog:
    """ASGI middleware: a line for each request, with its status, the answer's bytes and the time it took.

    Args:
        app: the wrapped application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        # Who asks for the access log gets it, whatever the level of the log.
        _access.setLevel(logging.INFO)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hands a request on, and writes its line."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        status = 500
        size = 0

        async def send_counted(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, send_counted)
        finally:
            client = scope.get("client") or ("-",)
            # As it was sent: percent-encoded, so that it can't begin a line of its own.
            path = scope.get("raw_path") or scope["path"].encode()
            query = b"?" + scope["query_string"] if scope["query_string"] else b""
            target = (path + query).decode("ascii", "backslashreplace")
            milliseconds = (time.monotonic() - started) * 1_000
            _access.info(
                '%s "%s %s" %s %s %.1f ms', client[0], scope["method"], target, status, size, milliseconds
            )
