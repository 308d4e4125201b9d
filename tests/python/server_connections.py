"""A server in this process, and raw connections to it, with and without TLS."""

from __future__ import annotations

import socket
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tailrace.server import connections
from tailrace.server.run import build
from waiting import wait_for
from watermark_servers import ServerProcess

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from pathlib import Path

    from tailrace.server.tokens import Tokens

READ, SEND, DECIDE = "the token of readers", "the token of queries", "the token of people"


def opened(server: ServerProcess, sent: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    connection.sendall(sent)
    return connection


def is_closed(connection: socket.socket) -> bool:
    try:
        while connection.recv(1_000):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


@contextmanager
def served(
    store: str, tokens: Tokens | None, crowd: connections.Crowd, context: ssl.SSLContext | None = None
) -> Iterator[ServerProcess]:
    """A server in a thread of this process."""
    import uvicorn  # noqa: PLC0415  here alone

    protocol = connections.protocol_of(crowd)
    if context is not None:
        protocol = connections.secured_protocol_of(protocol, crowd, context)
    config = uvicorn.Config(build(store, tokens), port=0, http=protocol, ws="none", log_level="error")
    found = uvicorn.Server(config)
    thread = threading.Thread(target=found.run)
    thread.start()
    try:
        wait_for(lambda: found.started, "the server starts")
        yield ServerProcess.at(found.servers[0].sockets[0].getsockname()[1])
    finally:
        found.should_exit = True
        thread.join()


def certificate_for_localhost(directory: Path) -> tuple[Path, Path]:
    """It and its key."""
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    made = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(
        ["/usr/bin/env", "openssl", *made, *names, "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    return certificate, key
