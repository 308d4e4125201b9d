"""TLS connections before they are any: asyncio would hand them over when the handshake is done, no sooner.

Silent ones would be counted nowhere until then, and each has a file descriptor: here they belong to the crowd
from the first moment on.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from tailrace.server.connections import HEAD_SECONDS, Connection, Crowd, State

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable


class Handshake(asyncio.Protocol):
    """A connection that shakes hands, and gives its place to one that speaks HTTP then.

    Args:
        crowd: that it belongs to.
        context: of the certificate.
        make: makes the connection that comes after it.

    Attributes:
        state: it has said nothing yet.
        is_refused: never.
        since: when it has come.
        transport: the TCP connection.
    """

    state = State.HEAD
    is_refused = False

    def __init__(self, crowd: Crowd, context: ssl.SSLContext, make: Callable[[], Connection]) -> None:
        self.since = time.monotonic()
        self.transport: asyncio.Transport
        self._crowd = crowd
        self._context = context
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio."""
        self.transport = transport
        self._crowd.enter(self, self._loop)
        if not transport.is_closing():
            self._task = self._loop.create_task(self._shake_hands(transport))

    def data_received(self, data: bytes) -> None:
        """See asyncio: the request may come together with the end of the handshake."""
        self._early.append(data)

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        try:
            # One that is too slow is cut off by the crowd; this is for one that it doesn't know any more.
            secured = await self._loop.start_tls(
                transport, self, self._context, server_side=True, ssl_handshake_timeout=2 * HEAD_SECONDS
            )
        except OSError:
            secured = None  # it speaks no TLS, has another version of it, or went away: no line for each
        finally:
            self._crowd.leave(self)
        # None, too, where the crowd has cut it off.
        if secured is None or secured.is_closing():
            transport.abort()
            return
        connection = self._make()
        secured.set_protocol(connection)
        connection.connection_made(secured)
        if self._early:
            connection.data_received(b"".join(self._early))


def secured_protocol_of(plain: Callable[..., Any], crowd: Crowd, context: ssl.SSLContext) -> type[Any]:
    """The protocol for uvicorn's Config of a server with some crowd, over TLS.

    Args:
        plain: from `protocol_of`.
        crowd: the same.
        context: of the certificate.
    """

    class Secured(Handshake):
        def __init__(self, **given: Any) -> None:  # noqa: ANN401  uvicorn's
            super().__init__(crowd, context, lambda: plain(**given))

    return Secured
