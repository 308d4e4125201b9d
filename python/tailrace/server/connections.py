"""Limits the number of connections and their time.

uvicorn waits for the head of a request indefinitely, and accepts as many connections as there are file
descriptors. Here a connection that is too slow is closed. When there are too many, the one that has been
idle for longest is closed, so that idle clients can't block those that report.

TLS connections are counted from their first moment: asyncio passes them on only after the handshake, and
idle ones would use file descriptors without being counted.
"""

# The methods of a protocol have docstrings only.
# pyright: reportReturnType=false

from __future__ import annotations

import asyncio
import resource
import time
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

HEAD_SECONDS = 10
"""The time limit of a request's head, from the connection or from its first byte on."""

REQUEST_SECONDS = 60
"""The time limit of a request from its head to the end of its answer, including the client's reading."""

MOST_CONNECTIONS = 4_096
_FILES = 16_384
# The database, the listener, the log, and files that Python opens while it works.
_OTHER_FILES = 64
_SWEEP_SECONDS = 1.0
_BEFORE_THE_ANSWER = (h11.IDLE, h11.SEND_RESPONSE)


class State(IntEnum):
    """The state of a connection."""

    HEAD = 0
    BUSY = 1
    IDLE = 2


class Member(Protocol):
    """A connection as the crowd sees it.

    Attributes:
        state: whether it waits for a head, is being served, or is kept open between requests.
        since: the beginning of this state, in seconds of the monotonic clock.
        is_refused: whether it is answered before its body has arrived.
        transport: asyncio's transport of it.
    """

    state: State
    since: float
    transport: asyncio.Transport

    @property
    def is_refused(self) -> bool:
        """See the class."""


class Crowd:
    """All connections of a server.

    Args:
        most: the number of connections that it may have.
        head_seconds: the limit HEAD_SECONDS.
        request_seconds: the limit REQUEST_SECONDS.

    Attributes:
        cut_off: the number of connections that the limits have closed since the server started.
    """

    def __init__(
        self, most: int, head_seconds: float = HEAD_SECONDS, request_seconds: float = REQUEST_SECONDS
    ) -> None:
        self.cut_off: int = 0
        self._most = most
        self._seconds = {State.HEAD: head_seconds, State.BUSY: request_seconds}
        self._here: set[Member] = set()
        self._sweeping: asyncio.TimerHandle | None = None

    def enter(self, connection: Member, loop: asyncio.AbstractEventLoop) -> None:
        """Adds a connection, and closes another one if there are too many."""
        if len(self._here) >= self._most:
            self._cut(self._idlest() or connection)
            if connection.transport.is_closing():
                return
        self._here.add(connection)
        if self._sweeping is None:
            self._sweeping = loop.call_later(_SWEEP_SECONDS, self._sweep, loop)

    def leave(self, connection: Member) -> None:
        """Removes a closed connection."""
        self._here.discard(connection)

    def _idlest(self) -> Member | None:
        # First the refused ones, then those without a request, then those that were served.
        refused = [one for one in self._here if one.is_refused]
        silent = refused or [one for one in self._here if one.state == State.HEAD]
        waiting = silent or [one for one in self._here if one.state == State.IDLE]
        return min(waiting, key=lambda one: one.since, default=None)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = time.monotonic()
        for one in list(self._here):
            limit = self._seconds.get(one.state)
            if limit is not None and now - one.since > limit:
                self._cut(one)
            elif one.transport.is_closing() and now - one.since > self._seconds[State.BUSY]:
                self._cut(one)  # closed, and its remaining output isn't read
        self._sweeping = loop.call_later(_SWEEP_SECONDS, self._sweep, loop) if self._here else None

    def _cut(self, connection: Member) -> None:
        self.cut_off += 1
        self._here.discard(connection)
        # Not closed, because close() waits until the client has read the output.
        connection.transport.abort()


class Connection(H11Protocol):
    """uvicorn's protocol, with its state and the time since when it is in it.

    Attributes:
        crowd: the crowd that it belongs to, which `protocol_of` sets in a subclass.
    """

    crowd: Crowd
    state: State = State.HEAD
    since: float = 0.0

    @property
    def is_refused(self) -> bool:
        """True if it is answered before its body has arrived: only a refusal is sent so early."""
        return self.conn.their_state is h11.SEND_BODY and self.conn.our_state not in _BEFORE_THE_ANSWER

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio."""
        super().connection_made(transport)
        self.since = time.monotonic()
        self.crowd.enter(self, self.loop)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self.crowd.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """See uvicorn."""
        self._enter(State.IDLE)
        super().on_response_complete()
        self._look()

    def _look(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            if self.state != State.BUSY:
                self._enter(State.BUSY)
        elif self.conn.trailing_data[0] and self.state != State.HEAD:
            self._enter(State.HEAD)

    def _enter(self, state: State) -> None:
        self.state = state
        self.since = time.monotonic()


class Handshake(asyncio.Protocol):
    """A connection during its TLS handshake; an HTTP connection takes its place afterwards.

    Args:
        crowd: the crowd that it belongs to.
        context: the TLS context of the certificate.
        make: makes the HTTP connection that follows.
    """

    state = State.HEAD
    is_refused = False

    def __init__(self, crowd: Crowd, context: ssl.SSLContext, make: Callable[[], Connection]) -> None:
        self.since: float = time.monotonic()
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
            # The crowd closes slow connections; this timeout is for those that it has dropped.
            secured = await self._loop.start_tls(
                transport, self, self._context, server_side=True, ssl_handshake_timeout=2 * HEAD_SECONDS
            )
        except OSError:
            secured = None  # no TLS, another version of it, or a client that has disconnected: not logged
        finally:
            self._crowd.leave(self)
        # Also None when the crowd has closed it.
        if secured is None or secured.is_closing():
            transport.abort()
            return
        connection = self._make()
        secured.set_protocol(connection)
        connection.connection_made(secured)
        if self._early:
            connection.data_received(b"".join(self._early))


def protocol_of(crowd: Crowd) -> type[Any]:
    """The protocol for uvicorn's Config of a server with some crowd."""
    return type("Connection", (Connection,), {"crowd": crowd})


def most_connections() -> int:
    """The number of connections that the process has file descriptors for, after requesting more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # the existing number has to suffice
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    room = MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else soft - _OTHER_FILES
    return max(16, min(MOST_CONNECTIONS, room))


def secured_protocol_of(plain: Callable[..., Any], crowd: Crowd, context: ssl.SSLContext) -> type[Any]:
    """The protocol for uvicorn's Config over TLS, from that of `protocol_of` and its crowd."""

    class Secured(Handshake):
        def __init__(self, **given: Any) -> None:  # noqa: ANN401  uvicorn's
            super().__init__(crowd, context, lambda: plain(**given))

    return Secured
