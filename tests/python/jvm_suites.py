"""The JVM suites as a process beside the Python tests: each of the two has times when it waits."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class JvmSuites:
    """A command of sbt that runs suites, from the moment that it is made."""

    def __init__(self, repository: Path, command: str) -> None:
        self.command = command
        self._lines: list[str] = []
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`
        self._process = subprocess.Popen(
            [sys.executable, "python/build_backend/sbt.py", command],
            cwd=repository,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            # A group of its own: sbt starts processes too.
            start_new_session=True,
        )

    def output(self) -> Iterator[str]:
        """The output of the process, until it ends."""
        text = ""
        for more in self._chunks():
            yield more
            *lines, text = (text + more).split("\n")
            self._lines += (_COLOURS.sub("", line) for line in lines)

    def failures(self) -> str:
        """What the failed tests said, of the output so far: among thousands of lines it isn't found."""
        at = [
            i for i, line in enumerate(self._lines) if "*** FAILED ***" in line or "*** ABORTED ***" in line
        ]
        return "\n...\n".join("\n".join(self._lines[i : i + 6]) for i in at)

    def _chunks(self) -> Iterator[str]:
        read = 0
        ended = False
        while not ended:
            ended = self._process.poll() is not None
            # By position: the process writes to the same open file.
            found = os.pread(self._log.fileno(), 1 << 20, read)
            while found:
                read += len(found)
                yield found.decode(errors="replace")
                found = os.pread(self._log.fileno(), 1 << 20, read)
            if not ended:
                time.sleep(0.5)

    @property
    def exit_code(self) -> int:
        """The exit code of the process, which is waited for."""
        return self._process.wait()

    def stop(self) -> None:
        """Ends it, with all that it has started, if it still runs."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait()
        self._log.close()
