"""One run of a pipeline over the batches of a test, from its first row or from the end of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tailrace._bridge import calls
from tailrace.testing.comparison import END
from tailrace.testing.streams import StreamTest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from tailrace.testing.streams import Source
    from tailrace.testing.values import Given


def appear(file: Path, text: str) -> None:
    """Writes a file that another process sees whole or not at all."""
    hidden = file.with_name(f"{file.name}.tmp")
    hidden.write_text(text)
    hidden.replace(file)


class Pieces(NamedTuple):
    """A pipeline, the schemas of its streams, and the rows of each before each micro-batch."""

    pipeline: Callable[..., DataStreamWriter]
    schemas: Sequence[str | StructType]
    batches: Sequence[Sequence[Sequence[Given]]]


class Trial:
    """A pipeline with streams of its own, which reads one batch after the other, over a crash.

    Args:
        root: the run's directory, which has its checkpoint.
    """

    def __init__(self, spark: SparkSession, pieces: Pieces, root: Path) -> None:
        self._pipeline, schemas, self._batches = pieces
        self._root = root
        self._test = StreamTest(spark, root)
        self._sources: list[Source] = [self._test.source(schema) for schema in schemas]
        self._query: StreamingQuery | None = None

    def run(self, end_faults: Callable[[], list[str]]) -> list[str]:
        """Runs it to its end, over a crash if there is one.

        Args:
            end_faults: is called at a failure, and returns the steps up to the one that was made to fail.

        Returns:
            These steps; none where nothing has failed.
        """
        failed: list[str] = []
        with self._test:
            try:
                for number in range(len(self._batches) + 1):
                    self._feed(number)
                    try:
                        self._drain()
                    except calls.spark_errors(self._test.spark):
                        failed = end_faults()
                        if not failed:
                            raise
                        self._go_on()
            finally:
                self._stop()
        return failed

    def run_from(self, fed: Path) -> None:
        """Runs it to its end, from the state of a dead process.

        Args:
            fed: the file with the number of begun batches. The resuming process reads it.
        """
        begun = int(fed.read_text()) if fed.exists() else 0
        with self._test:
            try:
                # The rows were in the memory of the dead process, and the checkpoint has their numbers.
                for number in range(begun):
                    self._feed(number)
                if begun:
                    self._go_on()
                for number in range(begun, len(self._batches) + 1):
                    appear(fed, f"{number + 1}")
                    self._feed(number)
                    self._drain()
            finally:
                self._stop()

    def _feed(self, number: int) -> None:
        if number == len(self._batches):
            # A sink that has a batch already doesn't run it again, and its event time is lost.
            self._test.advance(self._test.now + END)
            return
        for source, rows in zip(self._sources, self._batches[number], strict=True):
            source.add(*rows)
        self._test.flush()

    def _go_on(self) -> None:
        self._test.tick()
        self._query = None
        self._drain()

    def _drain(self) -> None:
        # One with the trigger availableNow has ended.
        if self._query is None or not self._query.isActive:
            writer = self._pipeline(self._root, *(source.frame for source in self._sources))
            if not _is_writer(writer):
                raise TypeError(
                    "the pipeline has to return a DataStreamWriter that isn't started, without a checkpoint, "
                    f"and not {type(writer).__name__}"
                )
            self._query = writer.option("checkpointLocation", str(self._root / "checkpoint")).start()
        self._query.processAllAvailable()

    def _stop(self) -> None:
        if self._query is not None:
            self._query.stop()


def _is_writer(value: object) -> bool:
    """Spark Connect has a class of its own, of the same name."""
    kinds = {f"{kind.__module__.partition('.')[0]} {kind.__name__}" for kind in type(value).__mro__}
    return "pyspark DataStreamWriter" in kinds
