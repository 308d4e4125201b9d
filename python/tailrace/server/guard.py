"""Checks requests before anything reads them: token, host name, site, and the size and time of the body."""

from __future__ import annotations

import asyncio
import base64
import binascii
import ipaddress
import json
from contextlib import suppress
from typing import TYPE_CHECKING

from tailrace.server.tokens import right_for

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from tailrace.server.tokens import Right, Tokens

MAX_BODY = 16 * 2**20
"""Bytes of a request's body: a report of 100,000 hosts fits."""

MAX_DECISION = 64 * 2**10
"""Bytes of the body of any other request."""

MAX_BODIES: dict[Right, int] = {"report": 240 * 2**20, "decide": 16 * 2**20}
"""Bytes of all bodies that are in transit or waiting, by right: reports can't block decisions."""

BODY_SECONDS = 30
"""The time limit of a body."""

# Discarded bytes of a refused body: a client that is still writing may see a reset instead of the answer.
_MAX_DISCARDED = 4 * MAX_BODY
# A refused client may continue to write for this long.
_LINGER_SECONDS = 2
_OPEN = ("/healthz", "/readyz")
# Other sites can't embed the page or load anything into it.
_HEADERS = (
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
_Refusal = tuple[int, str]


class Guard:
    """ASGI middleware: token, host name, site, size and time of the body; security headers on every answer.

    Args:
        app: the wrapped application.
        tokens: each request must have one, as `Authorization: Bearer TOKEN` or, in a browser, as the password
            of any user. None: the server listens on loopback only, and the header Host must name loopback.
            Otherwise a web page could reach it by a domain that resolves to 127.0.0.1.
        store: the id of the server's store, which every answer has in the header Tailrace-Store.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens | None, store: str) -> None:
        self._app = app
        self._headers = (*_HEADERS, (b"tailrace-store", store.encode()))
        self._tokens = tokens
        self._held: dict[Right, int] = dict.fromkeys(MAX_BODIES, 0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or passes it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asks_for_head = scope["method"] == "HEAD"

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *self._headers]}
            elif asks_for_head and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        headers = dict(scope["headers"])
        if b"content-length" in headers and b"transfer-encoding" in headers:
            # RFC 9112, 6.1: a proxy that uses the other header treats the body's rest as the next request.
            reason = "a request has either Content-Length or Transfer-Encoding"
            await _answer(send_guarded, 400, reason)
            return
        right = right_for(scope["method"], scope["path"])
        refusal = self._refuse_asker(scope, headers, right) or _refuse_site(right, headers)
        if refusal is None and right == "read" and _has_body(headers):
            refusal = 413, f"a {scope['method']} takes no body"
        if refusal is not None:
            await _refuse_unread(receive, send_guarded, headers, refusal)
            return
        given = {**scope, "method": "GET"} if asks_for_head else scope
        if right == "read":
            await self._app(given, _replay(b"", receive), send_guarded)
            return
        parts: list[bytes] = []
        try:
            refusal = await self._read(headers, receive, parts, right)
            if refusal is not None:
                await _answer(send_guarded, *refusal)
                return
            await self._app(given, _replay(b"".join(parts), receive), send_guarded)
        finally:
            self._held[right] -= sum(map(len, parts))

    def _refuse_asker(self, scope: Scope, headers: dict[bytes, bytes], needed: Right) -> _Refusal | None:
        if scope["path"] in _OPEN and scope["method"] in {"GET", "HEAD"}:
            return None
        if self._tokens is None:
            host = headers.get(b"host", b"").decode("latin-1")
            return (
                None if _names_loopback(host) else (421, f"this server answers on loopback, not as {host!r}")
            )
        given = _token_of(headers.get(b"authorization", b""))
        rights: set[Right] = set() if given is None else self._tokens.rights(given)
        if not rights:
            return 401, "a bearer token is needed, and this request has none or a wrong one"
        return None if needed in rights else (403, f"this token is none of those that may {needed}")

    async def _read(
        self, headers: dict[bytes, bytes], receive: Receive, parts: list[bytes], right: Right
    ) -> _Refusal | None:
        """Reads the whole body, and detects a refusal while it arrives."""
        most = MAX_BODY if right == "report" else MAX_DECISION
        length = headers.get(b"content-length", b"0")
        told = int(length[:20]) if length.isdigit() else 0
        too_large = (413, f"the body is larger than {most:,} bytes")
        if told > _MAX_DISCARDED:
            return too_large
        refusal = too_large if told > most else None
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                more = True
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        return 400, "the body has no end"
                    part = message.get("body", b"")
                    more = message.get("more_body", False)
                    size += len(part)
                    if size > most:
                        refusal = too_large
                    elif refusal is None and self._held[right] + len(part) > MAX_BODIES[right]:
                        refusal = (503, "too many bodies are on their way: send it again")
                    if refusal is not None and size > _MAX_DISCARDED:
                        return refusal
                    if refusal is None:
                        parts.append(part)
                        self._held[right] += len(part)
        except TimeoutError:
            return 408, f"the body has taken more than {BODY_SECONDS} s"
        return refusal


def is_loopback(host: str) -> bool:
    """True if only this machine can reach an address."""
    try:
        # Only an address is safe: a name may resolve to any address.
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _names_loopback(host: str) -> bool:
    """True if the header Host, with or without a port, names a loopback address."""
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    return is_loopback(name.removeprefix("[").removesuffix("]"))


def _has_body(headers: dict[bytes, bytes]) -> bool:
    return headers.get(b"content-length", b"0").strip(b"0") != b"" or b"transfer-encoding" in headers


def _refuse_site(right: Right, headers: dict[bytes, bytes]) -> _Refusal | None:
    """Refuses a request that a browser sends for another site's page with its user's token."""
    if right == "read":
        return None
    site = headers.get(b"sec-fetch-site")
    if site is None:  # no browser, or an old one, which sends the page's origin
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


def _replay(body: bytes, receive: Receive) -> Receive:
    pending = [body]

    async def replayed() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        return await receive()

    return replayed


async def _refuse_unread(
    receive: Receive, send: Send, headers: dict[bytes, bytes], refusal: _Refusal
) -> None:
    """Refuses at once, and discards the body for a moment: otherwise the client may see a reset."""
    has_body = _has_body(headers)
    await _answer(send, *refusal, closes=has_body, more=has_body)
    if not has_body:
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            left = _MAX_DISCARDED
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    break
    await send({"type": "http.response.body", "body": b""})


async def _answer(send: Send, status: int, reason: str, *, closes: bool = False, more: bool = False) -> None:
    body = json.dumps({"detail": reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if closes or status in {400, 408, 413}:  # the rest of the body isn't waited for
        headers.append((b"connection", b"close"))
    if status == 401:  # noqa: PLR2004  its name in the line below
        headers.append((b"www-authenticate", b'Basic realm="tailrace watermark server", Bearer'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": more})
