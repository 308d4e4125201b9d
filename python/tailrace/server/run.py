"""`tailrace watermark-server`: from its options to a process that serves."""

from __future__ import annotations

import logging
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tailrace._installation.extras import install
from tailrace.errors import TailraceServerError
from tailrace.server.guard import Guard, is_loopback
from tailrace.server.logs import AccessLog
from tailrace.server.opening import shown_url, without_secrets
from tailrace.server.prefix import Prefix, parse_prefix
from tailrace.server.tokens import TOKEN_VARIABLE, Tokens

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from fastapi import FastAPI

    from tailrace.server.connections import Crowd

_BACKLOG = 1_024
# Clients come each second or each batch: a connection outlives the pause between two slow batches.
_KEEP_ALIVE_SECONDS = 120
# When it ends, the server waits this long for half-sent requests; clients send them again.
_ENDING_SECONDS = 3
# Shorter turns than Python's default, so that reading threads delay reports less.
_TURN_SECONDS = 0.0005


@dataclass(frozen=True)
class Options:
    """The options of a server.

    Attributes:
        tokens: the tokens of clients; None admits every request to a loopback name.
        certificate: the TLS certificate, a PEM file with the chain; None: plain HTTP.
        key: the key of the certificate, if it isn't in the same file.
        future_limit: how far ahead of the clock a time may be, in seconds.
        forget_hosts_after: how long a host without a roster may be idle, in seconds.
        path_prefix: the path below which a proxy shows the server; empty: none.
        access_log: whether each request is logged.
    """

    tokens: Tokens | None = None
    certificate: Path | None = None
    key: Path | None = None
    future_limit: int = 86_400
    forget_hosts_after: int = 7 * 86_400
    path_prefix: str = ""
    access_log: bool = False
    log: logging.Logger = field(default_factory=lambda: logging.getLogger(__name__))


def serve(listen: str, store: str, options: Options | None = None) -> None:
    """Serves until the process receives a signal to end.

    Args:
        listen: "HOST:PORT"; port 0 takes a free one, which the first line printed names.
        store: the URL of the database, see `opening.open_database`.
        options: of the server.

    Raises:
        TailraceServerError: an option is invalid, a package is missing, the address is taken, the store
            can't be opened, or the address is reachable from elsewhere and there is no token.
    """
    options = options or Options()
    host, port = parse_address(listen)
    if options.tokens is None and not is_loopback(host):
        raise TailraceServerError(
            f"{host} can be reached from other machines, and there is no token: everybody could move the "
            f"watermarks. Name a --token-file or set {TOKEN_VARIABLE}, or listen on 127.0.0.1.",
            condition="TAILRACE_SERVER_TOKEN_MISSING",
            parameters={"host": host},
        )
    context = _tls_of(options)
    if options.certificate is None and not is_loopback(host):
        options.log.warning(
            "Without --tls-certificate tokens and reports pass the network as plain text: let only a network "
            "that is trusted reach %s, or a proxy that speaks TLS",
            host,
        )
    application = build(store, options.tokens, options)
    scheme = "http" if options.certificate is None else "https"
    with _listening(host, port) as listener:
        at = f"[{host}]" if ":" in host else host
        _run(
            application, listener, context, f"Watermark server on {scheme}://{at}:{listener.getsockname()[1]}"
        )


def _run(
    application: FastAPI, listener: socket.socket, context: ssl.SSLContext | None, announcement: str
) -> None:
    """Serves until a signal."""
    import uvicorn  # noqa: PLC0415  an extra of its own; `build` has said what to install

    from tailrace.server.connections import (  # noqa: PLC0415
        Crowd,
        most_connections,
        protocol_of,
        secured_protocol_of,
    )

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                print(announcement, flush=True)

    crowd: Crowd = Crowd(most_connections())
    protocol = protocol_of(crowd)
    if context is not None:
        protocol = secured_protocol_of(protocol, crowd, context)
    server = Announced(
        uvicorn.Config(
            application,
            http=protocol,
            ws="none",
            # No log line for each bad request: many of them would fill the disk.
            log_level="error",
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_ENDING_SECONDS,
        )
    )
    sys.setswitchinterval(_TURN_SECONDS)
    # Ctrl-C is a normal end: uvicorn has answered all requests that it had taken.
    with suppress(KeyboardInterrupt, SystemExit):
        server.run(sockets=[listener])


def build(store: str, tokens: Tokens | str | None, options: Options | None = None) -> FastAPI:
    """Makes the ASGI application, for uvicorn or for another server.

    Args:
        store: the URL of the database.
        tokens: what askers must have, one for all or each its own; None lets everybody in who asks by a
            loopback name.
        options: how; None: as they are by default.

    Raises:
        TailraceServerError: a package is missing, or the store can't be opened or read.
    """
    try:
        # Imported late, because they are an extra.
        import uvicorn  # noqa: F401, PLC0415  of the same extra  # pyright: ignore[reportUnusedImport]

        from tailrace.server.api import build_api  # noqa: PLC0415
        from tailrace.server.database import DatabaseError  # noqa: PLC0415
        from tailrace.server.health import router as health  # noqa: PLC0415
        from tailrace.server.ledger import Ledger  # noqa: PLC0415
        from tailrace.server.metrics import router as metrics  # noqa: PLC0415
        from tailrace.server.opening import open_database, store_id  # noqa: PLC0415
        from tailrace.server.page import mount_page  # noqa: PLC0415
        from tailrace.server.reading import Reader  # noqa: PLC0415
        from tailrace.server.state import Limits  # noqa: PLC0415
        from tailrace.server.store import Store  # noqa: PLC0415
        from tailrace.server.worker import Worker  # noqa: PLC0415
    except ImportError as error:
        raise _not_installed() from error
    options = options or Options()
    prefix = parse_prefix(options.path_prefix)
    limits = Limits(
        future=options.future_limit * 1_000_000, forget_hosts_after=options.forget_hosts_after * 1_000_000
    )
    writing, reading = open_database(store), open_database(store)
    ledger = Ledger(writing, Store(writing), limits=limits)
    try:
        identity = store_id(writing)
        ledger.load()
    except DatabaseError as error:
        raise TailraceServerError(
            f"The applications in {shown_url(store)} can't be read: {without_secrets(str(error), store)}",
            condition="TAILRACE_SERVER_STORE_UNREACHABLE",
            parameters={"store": shown_url(store)},
        ) from error
    api = build_api(Worker(ledger), Reader(Ledger(reading, Store(reading), limits=limits)), prefix)
    mount_page(api)
    api.include_router(metrics)
    api.include_router(health)
    given = Tokens.one(tokens) if isinstance(tokens, str) else tokens
    api.add_middleware(Guard, tokens=given, store=identity)
    # Those that are added last see a request first.
    if prefix:
        api.add_middleware(Prefix, prefix=prefix)
    if options.access_log:
        api.add_middleware(AccessLog)
    return api


def _tls_of(options: Options) -> ssl.SSLContext | None:
    if options.certificate is None:
        if options.key is not None:
            raise _no_certificate("there is a key and no --tls-certificate")
        return None
    import ssl  # noqa: PLC0415  only where it is used

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(options.certificate, options.key, password=_no_password)
    except ssl.SSLError as error:
        raise _no_certificate(_fault_of(options.certificate, options.key, error)) from error
    except (OSError, ValueError) as error:
        raise _no_certificate(str(error)) from error
    return context


def _fault_of(certificate: Path, key: Path | None, error: ssl.SSLError) -> str:
    """Explains why OpenSSL refuses PEM files: its own error names neither file."""
    if b"-----BEGIN CERTIFICATE-----" not in certificate.read_bytes():
        return f"{certificate} has no certificate in PEM format"
    holder = key or certificate
    if b"PRIVATE KEY-----" not in holder.read_bytes():
        return f"{holder} has no private key in PEM format" + ("" if key else ", and there is no --tls-key")
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"the private key in {holder} doesn't belong to the certificate in {certificate}"
    return f"OpenSSL can't read {certificate} and {holder}: {error.reason or error}"


def _no_password() -> str:
    raise ValueError("the key is encrypted: give one that isn't, in a file that the server alone may read")


def _no_certificate(reason: str) -> TailraceServerError:
    return TailraceServerError(
        f"There is no TLS with these files: {reason}. --tls-certificate takes a PEM file with the "
        "certificate's chain, --tls-key one with its key.",
        condition="TAILRACE_SERVER_TLS_INVALID",
        parameters={"reason": reason},
    )


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
        f"The watermark server's packages aren't installed. Install them: {install('server')}.",
        condition="TAILRACE_SERVER_DEPENDENCY_MISSING",
        parameters={"extra": "server"},
    )
