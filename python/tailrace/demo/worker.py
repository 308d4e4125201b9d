"""One of the demo's queries in a process of its own: `python -m tailrace.demo.worker`. It may be killed."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TextIO
from urllib.parse import unquote, urlparse

from tailrace._bridge.literal_path import files
from tailrace.demo import query
from tailrace.errors import TailraceError


def work(directory: Path, memory: str, engine: query.Engine, answers: TextIO) -> int:
    """Runs a query to its end, and answers by lines of JSON.

    Args:
        directory: see `query.run`.
        memory: heap of the JVM.
        engine: whose join.
        answers: gets `{"progress": ...}` for each micro-batch, as Spark tells it. At the end it gets
            `{"files": [...]}`, the paths of the result's files, or `{"error": {...}}`.

    Returns:
        The exit code.
    """

    def answer(**said: object) -> None:
        print(json.dumps(said), file=answers, flush=True)

    try:
        with query.local_session(memory, directory) as spark:
            for progress in query.run(spark, directory, engine):
                answer(progress=progress)
            # Not all that are there: a killed task leaves a file behind, which Spark's log doesn't name.
            result = files(spark, str(query.examples_of(directory, engine)), "parquet")
            answer(files=[unquote(urlparse(uri).path) for uri in result.inputFiles()])
    except TailraceError as error:
        told = {"condition": error.condition, "message": error.args[0], "parameters": error.parameters}
        answer(error=told)
        return 1
    return 0


def _end_with_parent() -> None:
    """Kills this process and its Spark when the demo's own process has ended, however that was."""

    def wait() -> None:
        # Not by `sys.stdin`, whose lock would be held when Python ends.
        os.read(0, 1)
        os.killpg(os.getpgid(0), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def main() -> int:
    """Takes directory, memory, engine, and the number of an open file for the answers."""
    _end_with_parent()
    directory, memory, engine, descriptor = sys.argv[1:]
    with os.fdopen(int(descriptor), "w", encoding="utf-8") as answers:
        return work(Path(directory), memory, query.Engine(engine), answers)


if __name__ == "__main__":
    sys.exit(main())
