"""`tailrace watermark-server`: from its options to a process that serves."""

from __future__ import annotations

import ipaddress
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from tailrace.errors import TailraceServerError
from tailrace.server.wording import shown_url

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi import FastAPI

TOKEN_VARIABLE = "TAILRACE_WATERMARK_TOKEN"  # noqa: S105  the name of a variable
_LEAST_TOKEN = 16
_BACKLOG = 1_024
# Clients come each second or each batch: a connection outlives the pause between two slow batches.
_KEEP_ALIVE_SECONDS = 120


def serve(listen: str, store: str, token_file: Path | None) -> None:
    """Serves until the process is told to end.

    Args:
        listen: "HOST:PORT"; port 0 takes a free one, which the first line printed names.
        store: the URL of the database, see `opening.open_database`.
        token_file: a file whose first line is the bearer token; None takes the variable
            TAILRACE_WATERMARK_TOKEN, if it is set.

    Raises:
        TailraceServerError: an option makes no sense, a package is missing, the address is taken, the store
            can't be opened, or the address is reachable from elsewhere and there is no token.
    """
    host, port = parse_address(listen)
    token = read_token(token_file)
    if token is None and not _is_loopback(host):
        raise TailraceServerError(
            f"{host} can be reached from other machines, and there is no token: everybody could move the "
            f"watermarks. Name a --token-file or set {TOKEN_VARIABLE}, or listen on 127.0.0.1.",
            condition="TAILRACE_SERVER_TOKEN_MISSING",
            parameters={"host": host},
        )
    application = build(store, token)
    with _listening(host, port) as listener:
        at = f"[{host}]" if ":" in host else host
        if not _run(application, listener, f"Watermark server on http://{at}:{listener.getsockname()[1]}"):
            raise TailraceServerError(
                f"The applications in {shown_url(store)} can't be read; the reason is printed above.",
                condition="TAILRACE_SERVER_STORE_UNREACHABLE",
                parameters={"store": shown_url(store)},
            )


def _run(application: FastAPI, listener: socket.socket, announcement: str) -> bool:
    """Serves until a signal; False if the application hasn't started."""
    import uvicorn  # noqa: PLC0415  an extra of its own; `build` has said what to install

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                print(announcement, flush=True)

    server = Announced(
        uvicorn.Config(
            application,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        )
    )
    # Ended from the keyboard is ended well: uvicorn has answered what it had taken by then.
    with suppress(KeyboardInterrupt, SystemExit):
        server.run(sockets=[listener])
    return server.started


def build(store: str, token: str | None) -> FastAPI:
    """Makes the ASGI application, for uvicorn or for another server.

    Args:
        store: the URL of the database.
        token: what askers must have; None lets everybody in who asks by a loopback name.

    Raises:
        TailraceServerError: a package is missing, or the store can't be opened.
    """
    try:
        # Late: they are an extra of their own.
        import uvicorn  # noqa: F401, PLC0415  of the same extra

        from tailrace.server.api import build_api  # noqa: PLC0415
        from tailrace.server.api_page import router as api_page  # noqa: PLC0415
        from tailrace.server.guard import Guard  # noqa: PLC0415
        from tailrace.server.ledger import Ledger  # noqa: PLC0415
        from tailrace.server.metrics import router as metrics  # noqa: PLC0415
        from tailrace.server.opening import open_database  # noqa: PLC0415
        from tailrace.server.page import mount_page  # noqa: PLC0415
        from tailrace.server.store import Store  # noqa: PLC0415
        from tailrace.server.worker import Worker  # noqa: PLC0415
    except ImportError as error:
        raise _not_installed() from error
    database = open_database(store)
    api = build_api(Worker(Ledger(database, Store(database))))
    mount_page(api)
    api.include_router(metrics)
    api.include_router(api_page)
    api.add_middleware(Guard, token=token)
    return api


def parse_address(listen: str) -> tuple[str, int]:
    """The host and the port of "HOST:PORT".

    Raises:
        TailraceServerError: it isn't one.
    """
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 0xFFFF:  # noqa: PLR2004  the greatest port
        raise TailraceServerError(
            f"{listen!r} is no address to listen on. Name HOST:PORT, for instance 127.0.0.1:7171.",
            condition="TAILRACE_SERVER_ADDRESS_INVALID",
            parameters={"address": listen},
        )
    return host, int(port)


def read_token(token_file: Path | None) -> str | None:
    """The bearer token out of a file, or else the environment; None if there is none.

    Raises:
        TailraceServerError: the file can't be read, or the token is no good.
    """
    source = str(token_file or f"${TOKEN_VARIABLE}")
    try:
        token = (
            os.environ.get(TOKEN_VARIABLE) if token_file is None else token_file.read_text("utf-8").strip()
        )
    except (OSError, UnicodeDecodeError) as error:
        raise TailraceServerError(
            f"The token can't be read from {source}: {error}.",
            condition="TAILRACE_SERVER_TOKEN_INVALID",
            parameters={"source": source},
        ) from error
    if token is None or (len(token) >= _LEAST_TOKEN and token.isascii() and token.isprintable()):
        return token
    raise TailraceServerError(
        f"The token in {source} is no good: it takes one line of at least {_LEAST_TOKEN} ASCII characters.",
        condition="TAILRACE_SERVER_TOKEN_INVALID",
        parameters={"source": source},
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        raise TailraceServerError(
            f"{host}:{port} can't be listened on: {error.strerror}. Stop what has it, or name another "
            "address.",
            condition="TAILRACE_SERVER_ADDRESS_UNAVAILABLE",
            parameters={"address": f"{host}:{port}"},
        ) from error
    return listener


def _not_installed() -> TailraceServerError:
    return TailraceServerError(
        "The watermark server's packages aren't installed. Install them: pip install 'tailrace[server]'.",
        condition="TAILRACE_SERVER_DEPENDENCY_MISSING",
        parameters={"extra": "server"},
    )
