"""Starts one of the demo's queries in a process of its own, reads its progress, and kills it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Self

from tailrace.errors import TailraceError, from_condition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tailrace.demo.query import Engine

_STOP_SECONDS = 60
# Where dead processes aren't reaped, they seem to be alive.
_DEATH_SECONDS = 2


class QueryProcess:
    """A query, with its Spark, in a process group of its own. It ends with the `with` block at the latest.

    Attributes:
        files: paths of the result's files; empty until the query has ended.
        group: the number of the process group.
    """

    def __init__(self, directory: Path, memory: str, engine: Engine) -> None:
        """Starts the query, or resumes one that was killed; the arguments are those of `worker.work`."""
        self.files: list[str] = []
        read, write = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tailrace.demo.worker", str(directory), memory, engine, str(write)],
                # Its end signals to the worker that this process has ended.
                stdin=subprocess.PIPE,
                pass_fds=[write],
                env={**os.environ, "TMPDIR": str(directory)},
                start_new_session=True,
            )
        except BaseException:
            os.close(read)
            raise
        finally:
            os.close(write)
        self.group: int = self._process.pid
        self._answers = os.fdopen(read, encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._answers.close()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def progress(self) -> Iterator[dict[str, Any]]:
        """The progress of each micro-batch as it ends, until the query ends.

        Raises:
            TailraceError: the query failed in Tailrace, or its process ended.
        """
        for line in self._answers:
            if not line.endswith("\n"):
                break
            answer = json.loads(line)
            if "error" in answer:
                error = answer["error"]
                if error["condition"] is None:
                    raise TailraceError(error["message"])
                raise from_condition(error["condition"], error["message"], error["parameters"])
            if "files" in answer:
                self.files = answer["files"]
                # Spark deletes its own temporary files.
                self._process.wait(_STOP_SECONDS)
                return
            yield answer["progress"]
        raise TailraceError(
            f"The demo's query ended early, with exit code {self._process.wait()}. It has said why above. "
            "`tailrace doctor` looks for what is wrong with Java, Spark and the jar."
        )

    def kill(self) -> None:
        """Kills Python and JVM as `kill -9` does, without a moment left. Does nothing after their end."""
        if self._process.poll() is None:
            os.killpg(self.group, signal.SIGKILL)
            self._process.wait()
            self._wait_for_jvm()

    def _wait_for_jvm(self) -> None:
        """A JVM takes a moment to die, and may write into its files until then."""
        deadline = time.monotonic() + _DEATH_SECONDS
        while time.monotonic() < deadline:
            try:
                os.killpg(self.group, 0)
            except ProcessLookupError:
                return
            time.sleep(0.02)
