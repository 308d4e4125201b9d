"""The progress of Spark's tasks: a bar on a terminal, and lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tailrace.commands import terminal

if TYPE_CHECKING:
    from collections.abc import Generator

    from pyspark.sql import SparkSession

_SECONDS = 0.2
# Between two lines where there is no bar: a log of an hour has hundreds of them.
_LINES = 10.0


@contextmanager
def task_bar(spark: SparkSession, what: str) -> Generator[None]:
    """Shows the number of finished tasks of the running stages, while the block runs.

    Without a terminal, a line on the standard error reports it every ten seconds. The command's output stays
    the same.

    Args:
        spark: nothing else runs in it.
        what: is being done.
    """
    tracker = spark.sparkContext.statusTracker()
    ended = threading.Event()

    with _shown(what) as reached:

        def watch() -> None:
            while not ended.wait(_SECONDS):
                found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                stages = [stage for stage in found if stage is not None]
                if stages:
                    done = sum(stage.numCompletedTasks for stage in stages)
                    reached(done, sum(stage.numTasks for stage in stages))

        watcher = threading.Thread(target=watch, name="tailrace-task-bar", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


@contextmanager
def _shown(what: str) -> Generator[terminal.Reached]:
    if terminal.is_rich():
        with terminal.bar(what) as reached:
            yield reached
    else:
        yield _Lines(what).reached


class _Lines:
    def __init__(self, what: str) -> None:
        self._what = what
        self._begun = self._told = time.monotonic()

    def reached(self, done: int, all_: int) -> None:
        now = time.monotonic()
        if now - self._told >= _LINES:
            self._told = now
            seconds = now - self._begun
            sys.stderr.write(f"{self._what}: {done} of {all_} tasks, {seconds:.0f} s\n")
            sys.stderr.flush()
