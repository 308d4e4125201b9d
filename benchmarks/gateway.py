"""Versity's gateway: an object store that costs little of the processors that it shares with the engines.

S3Proxy takes 13 ms of a processor for each MB that it is given, which is a fifth of a run. The gateway takes
half of that. It can't slow its requests down. `go install github.com/versity/versitygw/cmd/versitygw@latest`
builds it.
"""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from store_process import cpu_seconds
from stores import BUCKET, IDENTITY, SECRET, s3a_settings

if TYPE_CHECKING:
    from collections.abc import Generator

_START_SECONDS = 30
_PORT = 7071
_MEMORY = Path("/dev/shm")  # noqa: S108 - a directory of this run's own is made in it


class Gateway:
    """A gateway that runs; the same calls as of `stores.S3`, but for those about requests.

    Attributes:
        settings: what a Spark session needs to reach it.
    """

    def __init__(self, process: subprocess.Popen[bytes], directory: Path) -> None:
        self._pid = process.pid
        self.settings = s3a_settings(f"http://127.0.0.1:{_PORT}", directory)

    def url(self, path: str) -> str:
        """What Spark calls a path in it."""
        return f"s3a://{BUCKET}/{path}"

    def cpu_seconds(self) -> float:
        """What its process has used of processors."""
        return cpu_seconds(self._pid)


@contextmanager
def run_gateway(program: Path, directory: Path) -> Generator[Gateway]:
    """Runs it over a directory in memory, which is gone afterwards.

    Args:
        program: the gateway's binary.
        directory: of its log.
    """
    with tempfile.TemporaryDirectory(prefix="tailrace-gateway-", dir=_MEMORY) as root:
        (Path(root) / BUCKET).mkdir()
        command = [str(program), "--port", f"127.0.0.1:{_PORT}", "--access", IDENTITY, "--secret", SECRET]
        command += ["--region", "us-east-1", "--quiet", "posix", root]
        with (directory / "gateway.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait_until_it_listens(process)
            yield Gateway(process, directory)
        finally:
            process.terminate()
            process.wait(_START_SECONDS)


def _wait_until_it_listens(process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", _PORT), timeout=1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the gateway doesn't listen on port {_PORT}; is another one there?")
