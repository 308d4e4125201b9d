"""A tiny reverse proxy that shows a server below a path, and takes the path off or doesn't."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# These are of one connection, and not to be handed on.
_OWN = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}


@contextmanager
def proxied(port: int, prefix: str, *, strips: bool) -> Iterator[str]:
    """The URL of a proxy before a server on a port of this machine; everything else it answers with 404.

    Args:
        port: the server's.
        prefix: the path.
        strips: whether the server gets the path without it.
    """

    class Handler(BaseHTTPRequestHandler):
        def _pass(self) -> None:
            if not f"{self.path.partition('?')[0]}/".startswith(f"{prefix}/"):
                self.send_error(404, "the proxy has nothing but the prefix")
                return
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path
            if strips:
                path = f"/{self.path.removeprefix(prefix).removeprefix('/')}"
            upstream = HTTPConnection("127.0.0.1", port, timeout=30)
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _OWN}
            try:
                upstream.request(self.command, path, body or None, headers)
                answer = upstream.getresponse()
                content = answer.read()
            finally:
                upstream.close()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _OWN:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _pass  # noqa: N815  the names of http.server

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its own name
            pass

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=proxy.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_port}{prefix}"
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
