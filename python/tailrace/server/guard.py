"""Who may ask, and how much at once: what is refused before anything reads it."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 16 * 2**20
"""Bytes of a request's body: a report of 100,000 hosts fits."""

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_OPEN = ("/healthz",)
_READING = ("GET", "HEAD", "OPTIONS")
# A page that somebody else's page embeds or feeds can't be made to act or to leak.
_HEADERS = (
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)


class Guard:
    """ASGI middleware: token, host name, site, size of the body; adds security headers to every answer.

    Args:
        app: what it guards.
        token: who asks must have it, as `Authorization: Bearer TOKEN` or, in a browser, as the password of
            any user. None: the server listens on loopback alone, and is asked by a loopback name alone, or a
            web page elsewhere could reach it through a name of its own that resolves to 127.0.0.1.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or hands it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
            await send(message)

        headers = dict(scope["headers"])
        refusal = self._refuse_asker(scope["path"], headers) or _refuse_site(scope["method"], headers)
        body: bytes | None = b""
        if refusal is None:
            body = await _read(headers, receive)
            if body is None:
                refusal = (413, f"the body is larger than {MAX_BODY:,} bytes")
        if refusal is not None or body is None:
            await _answer(send_guarded, *(refusal or (413, "")))
            return
        await self._app(scope, _replay(body, receive), send_guarded)

    def _refuse_asker(self, path: str, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        if path in _OPEN:
            return None
        if self._token is None:
            host = headers.get(b"host", b"").decode("latin-1")
            name = host if host.endswith("]") else host.rpartition(":")[0] or host
            return None if name in _LOOPBACK else (421, f"this server answers on loopback, not as {host!r}")
        given = _token_of(headers.get(b"authorization", b""))
        # compare_digest takes the same time wherever the first difference is.
        if given is not None and hmac.compare_digest(given, self._token.encode()):
            return None
        return 401, "a bearer token is needed, and this request has none or a wrong one"


def _refuse_site(method: str, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
    """A browser has the token of its user: what it sends for another site's page isn't the user's will."""
    if method in _READING:
        return None
    site = headers.get(b"sec-fetch-site")
    if site is None:  # no browser, or an old one, which says where the page is from
        origin = headers.get(b"origin")
        same = origin is None or origin.partition(b"://")[2] == headers.get(b"host")
    else:
        same = site in {b"same-origin", b"none"}
    return None if same else (403, "this was sent by a page of another site")


def _token_of(authorization: bytes) -> bytes | None:
    scheme, _, value = authorization.partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
        except binascii.Error:
            return None
    return None


async def _read(headers: dict[bytes, bytes], receive: Receive) -> bytes | None:
    """The whole body; None as soon as it is too large."""
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length[:20]) > MAX_BODY:
        return None
    parts: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        part = message.get("body", b"")
        more = message["type"] == "http.request" and message.get("more_body", False)
        size += len(part)
        if size > MAX_BODY:
            return None
        parts.append(part)
    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    pending = [body]

    async def replayed() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        return await receive()

    return replayed


async def _answer(send: Send, status: int, reason: str) -> None:
    body = json.dumps({"detail": reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:  # noqa: PLR2004  its name in the line below
        headers.append((b"www-authenticate", b'Basic realm="tailrace watermark server", Bearer'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
