"""A store that checkpoints are written into, in a process of its own: what a test asks of it."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tailrace._installation.java import find_java

if TYPE_CHECKING:
    from collections.abc import Sequence

# It isn't the store that is tested: no time for the second compiler.
QUICK = ("-Xmx1g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_START_SECONDS = 90
_END_SECONDS = 10


class StoreProcess:
    """Runs one of the programs beside this file, S3Store.java or HdfsStore.java, until the block ends.

    A request is a line, and so is its answer. The program's first line has the store's URL.

    Attributes:
        url: what the program says of where it is.
    """

    def __init__(
        self, program: str, jars: Path, arguments: Sequence[str], log: Path, options: Sequence[str] = QUICK
    ) -> None:
        line = [str(find_java(os.environ).path), *options, "-cp", str(jars / "*")]
        self._log = log
        self._lock = threading.Lock()
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [*line, str(Path(__file__).with_name(program)), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                text=True,
                cwd=log.parent,
            )
        too_long = threading.Timer(_START_SECONDS, self._process.kill)
        too_long.start()
        try:
            self.url = self._answer()[0]
        except BaseException:
            self.end()
            raise
        finally:
            too_long.cancel()

    def ask(self, *request: str) -> list[str]:
        """What it answers; raises RuntimeError with its words if it can't do it."""
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write("\t".join(request) + "\n")
            self._process.stdin.flush()
            return self._answer()

    def cpu_seconds(self) -> float:
        """User and system time of all its threads since it started."""
        return cpu_seconds(self._process.pid)

    def _answer(self) -> list[str]:
        assert self._process.stdout is not None
        said, *more = self._process.stdout.readline().rstrip("\n").split("\t")
        if said == "ok":
            return more
        log = self._log.read_text(errors="replace")[-3000:]
        raise RuntimeError(f"{self._process.args!r}: {said} {more}: {log}")

    def end(self) -> None:
        """Ends it, and what it stores with it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process that runs, since it started."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
