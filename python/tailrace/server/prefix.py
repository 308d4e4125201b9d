"""The path below which a proxy shows the server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tailrace.errors import TailraceServerError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*")


def parse_prefix(given: str) -> str:
    """A prefix without a slash at its end; empty for none.

    Args:
        given: for instance "/watermarks".

    Raises:
        TailraceServerError: it is none.
    """
    prefix = given.rstrip("/")
    if _PREFIX.fullmatch(prefix) is None or {".", ".."} & set(prefix.split("/")):
        raise TailraceServerError(
            f"--path-prefix {given!r} is no path. Name one of letters, digits and ._~- that begins with a "
            "slash, for instance /watermarks.",
            condition="TAILRACE_SERVER_PREFIX_INVALID",
            parameters={"prefix": given},
        )
    return prefix


class Prefix:
    """ASGI middleware: takes the prefix off the path, if the proxy hasn't.

    Args:
        app: the wrapped application.
        prefix: from `parse_prefix`.
    """

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix
        self._raw = prefix.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hands a request on."""
        if scope["type"] == "http":
            path: str = scope["path"]
            raw: bytes = scope.get("raw_path") or b""
            if path == self._prefix or path.startswith(f"{self._prefix}/"):
                scope = {**scope, "path": path.removeprefix(self._prefix) or "/"}
                scope["raw_path"] = raw.removeprefix(self._raw) or b"/"
        await self._app(scope, receive, send)
