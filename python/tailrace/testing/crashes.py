"""A pipeline that crashes at every step of its checkpoint, and has to give the same rows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace import _jvm
from tailrace.testing.comparison import END, check_same
from tailrace.testing.streams import StreamTest

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from tailrace.testing.values import Given
    from tailrace.testing.streams import Source

_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_FAULTY = "io.tailrace.testing.FaultyFileManager"


def crash_at_every_step(
    spark: SparkSession,
    directory: str | os.PathLike[str],
    pipeline: Callable[..., DataStreamWriter],
    schemas: Sequence[str | StructType],
    batches: Sequence[Sequence[Sequence[Given]]],
    read: Callable[[Path], Iterable[Any]],
    *,
    most: int | None = None,
) -> list[str]:
    """Proves that a pipeline gives the same rows wherever it crashes.

        def pipeline(root, served, clicks):
            rows = my_examples(served, clicks)
            return rows.writeStream.format("parquet").option("path", str(root / "out"))

        def read(root):
            return spark.read.parquet(str(root / "out")).collect()

        crash_at_every_step(
            spark, tmp_path, pipeline,
            ["user int, served_at timestamp", "user int, clicked_at timestamp"],
            [([(7, "12:00")], []), ([], [(7, "12:01")])],
            read,
        )

    It runs the pipeline once without a fault and counts the steps that it does with files of its checkpoint:
    a file begins, gets its name, has its name but its writer doesn't know, is deleted. Then it runs the
    pipeline once for each step, lets that one and all later ones fail, as in a process that has died, starts
    the query again, and compares what `read` finds. A pipeline of three micro-batches has about 50 steps, and
    each takes a second or two.

    Rows that the sink gets again are the sink's to ignore: `foreachBatch` may get a micro-batch twice. The
    process itself goes on, so what a sink keeps in memory survives here, and wouldn't in production.

    Args:
        spark: a running session with Tailrace. Meanwhile it has another checkpoint file manager.
        directory: of checkpoints and sinks; `tmp_path` of pytest.
        pipeline: takes a directory of this run, below which the sink writes, and a DataFrame for each
            schema. It returns a writer with its sink, without a checkpoint, and not started.
        schemas: of the streams, as `StreamTest.source` takes them.
        batches: what is added before each micro-batch: for each stream its rows. Behind the last one event
            time moves on by ten years.
        read: takes the run's directory, and returns the rows of the sink, in any order.
        most: of the steps; None for all. The steps between a sink and the commit of its micro-batch come
            first, the last ones before others, and the rest is spread over all.

    Returns:
        The steps that were tried.

    Raises:
        AssertionError: rows are missing or there twice. The text has the step and some of the rows.
        ValueError: the pipeline comes to nothing without a fault, or a batch isn't a list of rows for each
            stream.
    """
    for batch in batches:
        if len(batch) != len(schemas) or not all(isinstance(rows, list | tuple) for rows in batch):
            wanted = f"a list of rows for each of the {len(schemas)} streams"
            raise ValueError(f"a batch has to have {wanted}, and is {batch!r}")
    trial = _Trial(spark, pipeline, schemas, batches)
    faults = _jvm.checkpoint_faults(spark)
    before = spark.conf.get(_MANAGER, None)
    spark.conf.set(_MANAGER, _FAULTY)
    try:
        base = Path(tempfile.mkdtemp(prefix="crashes-", dir=directory))
        root = base / "undisturbed"
        _jvm.invoke(faults, "begin", 2**31 - 1)
        trial.run(root)
        steps = list(_jvm.invoke(faults, "end"))
        expected = list(read(root))
        if not expected:
            raise ValueError("the pipeline gives no rows without a fault, so there is nothing to compare")
        tried = _chosen(steps, most)
        for number in tried:
            root = base / f"step-{number}"
            _jvm.invoke(faults, "begin", number)
            failed = trial.run(root, lambda: list(_jvm.invoke(faults, "end")))
            step = failed[-1] if failed else steps[number - 1]
            of = f"after a crash at step {number} of {len(steps)}, {step}"
            check_same(expected, read(root), of, "without a crash")
    finally:
        _jvm.invoke(faults, "end")
        if before is None:
            spark.conf.unset(_MANAGER)
        else:
            spark.conf.set(_MANAGER, before)
    return [steps[number - 1] for number in tried]


def _chosen(steps: Sequence[str], most: int | None) -> list[int]:
    """Numbers of steps, from 1: first those between a sink and the commit of its batch."""
    numbers = range(1, len(steps) + 1)
    if most is None or most >= len(steps):
        return list(numbers)
    if most < 1:
        raise ValueError(f"most must be at least 1, and is {most}")
    behind_sinks = [n for n in numbers if steps[n - 1].startswith("create commits/")][-most:]
    others = [n for n in numbers if n not in behind_sinks]
    left = most - len(behind_sinks)
    return sorted(behind_sinks + [others[i * len(others) // left] for i in range(left)])


class _Trial:
    """One run of the pipeline after the other, each with streams of its own."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Callable[..., DataStreamWriter],
        schemas: Sequence[str | StructType],
        batches: Sequence[Sequence[Sequence[Given]]],
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._schemas = schemas
        self._batches = batches

    def run(self, root: Path, end_faults: Callable[[], list[str]] = list) -> list[str]:
        """Runs it to its end, over a crash if there is one.

        Returns:
            The steps up to the one that failed.
        """
        root.mkdir(parents=True)
        failed: list[str] = []
        with StreamTest(self._spark, root) as test:
            sources = [test.source(schema) for schema in self._schemas]
            query: StreamingQuery | None = None
            try:
                for rows in [*self._batches, None]:
                    if rows is None:
                        # A sink that has a batch already doesn't run it again, and its event time is lost.
                        test.advance(test.now + END)
                    else:
                        for source, added in zip(sources, rows, strict=True):
                            source.add(*added)
                        test.flush()
                    try:
                        # One with the trigger availableNow has ended.
                        if query is None or not query.isActive:
                            query = self._start(root, sources)
                        query.processAllAvailable()
                    except _jvm.SPARK_ERRORS:
                        failed = end_faults()
                        if not failed:
                            raise
                        test.tick()
                        query = self._start(root, sources)
                        query.processAllAvailable()
            finally:
                if query is not None:
                    query.stop()
        return failed

    def _start(self, root: Path, sources: Sequence[Source]) -> StreamingQuery:
        writer = self._pipeline(root, *(source.frame for source in sources))
        return writer.option("checkpointLocation", str(root / "checkpoint")).start()
