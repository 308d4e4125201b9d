"""A progress bar of Spark's tasks."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tailrace import _terminal

if TYPE_CHECKING:
    from collections.abc import Generator

    from pyspark.sql import SparkSession

_SECONDS = 0.2


@contextmanager
def task_bar(spark: SparkSession, what: str) -> Generator[None]:
    """Shows how many tasks of the stages that run are done, while the block runs, where there are bars.

    Args:
        spark: nothing else runs in it.
        what: is being done.
    """
    if not _terminal.is_rich():
        yield
        return
    tracker = spark.sparkContext.statusTracker()
    ended = threading.Event()

    with _terminal.bar(what) as reached:

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
