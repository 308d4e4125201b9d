"""A pipeline that crashes at every step of its checkpoint, and must write the same rows."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from tailrace._bridge import calls
from tailrace.testing.comparison import check_same
from tailrace.testing.kills import KilledProcesses
from tailrace.testing.trial import Pieces, Trial

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Generator, Iterable, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from tailrace.testing.values import Given

_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_FAULTY = "io.tailrace.testing.FaultyFileManager"

Crash = Literal["fault", "kill"]


def crash_at_every_step(
    spark: SparkSession,
    directory: str | os.PathLike[str],
    pipeline: Callable[..., DataStreamWriter],
    schemas: Sequence[str | StructType],
    batches: Sequence[Sequence[Sequence[Given]]],
    read: Callable[[Path], Iterable[Any]],
    *,
    most: int | None = None,
    by: Crash = "fault",
) -> list[str]:
    """Checks that a pipeline writes the same rows wherever it crashes.

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

    It runs the pipeline once without a crash and counts the steps on files of its checkpoint: a file is
    begun, gets its name, has its name before its writer knows it, is deleted. Then it runs the pipeline once
    for each step, crashes there, restarts the query, and compares the rows that `read` returns. The sink must
    ignore rows that it gets again: `foreachBatch` may get a micro-batch twice.

    With `by="fault"` the step and all later ones fail, and the process continues: a sink's memory survives
    here, and wouldn't in production. A pipeline of three micro-batches has about 50 steps, and each
    takes a second or two.

    With `by="kill"` the pipeline runs in a process of its own, with the session's settings, and gets kill -9
    at the step, Python and JVM at once. Another process resumes. That takes about ten seconds per step. The
    pipeline is sent to these processes as Python's pickle has it, so it uses the session of its DataFrames,
    not that of the test.

    Args:
        spark: a running session with Tailrace. Meanwhile it has another checkpoint file manager.
        directory: of checkpoints and sinks; `tmp_path` of pytest.
        pipeline: takes a directory of this run, below which the sink writes, and a DataFrame for each
            schema. It returns a writer with its sink, without a checkpoint, and not started.
        schemas: of the streams, as `StreamTest.source` takes them.
        batches: the rows that are added before each micro-batch, for each stream. After the last one event
            time advances by ten years.
        read: takes the run's directory, and returns the rows of the sink, in any order.
        most: of the steps; None for all. The steps between a sink and the commit of its micro-batch come
            first, the last ones before others, and the rest is spread over all.
        by: how it crashes: "fault" or "kill".

    Returns:
        The steps that were tried.

    Raises:
        AssertionError: rows are missing or duplicate. The text has the step and some of the rows.
        RuntimeError: a process of the pipeline fails, also without a kill. The text has its last output.
        TimeoutError: a process of the pipeline doesn't end.
        ValueError: the pipeline has no result without a crash, or can't be sent to another process, or a
            batch isn't a list of rows for each stream, or `by` or `most` is invalid.
    """
    if by not in get_args(Crash):
        raise ValueError(f"`by` is 'fault' or 'kill', and not {by!r}")
    for batch in batches:
        if len(batch) != len(schemas) or not all(isinstance(rows, list | tuple) for rows in batch):
            wanted = f"a list of rows for each of the {len(schemas)} streams"
            raise ValueError(f"a batch has to have {wanted}, and is {batch!r}")
    base = Path(tempfile.mkdtemp(prefix="crashes-", dir=directory))
    pieces = Pieces(pipeline, schemas, batches)
    with _faults(spark, pieces) if by == "fault" else _kills(spark, base, pieces) as run:
        root = base / "undisturbed"
        steps = run(root, _NEVER)
        expected = list(read(root))
        if not expected:
            raise ValueError("the pipeline gives no rows without a crash, so there is nothing to compare")
        tried = _chosen(steps, most)
        for number in tried:
            root = base / f"step-{number}"
            reached = run(root, number)
            step = reached[-1] if len(reached) == number else steps[number - 1]
            of = f"after a {'kill -9' if by == 'kill' else 'crash'} at step {number} of {len(steps)}, {step}"
            check_same(expected, read(root), of, "without a crash")
    return [steps[number - 1] for number in tried]


_NEVER = 2**31 - 1


@contextmanager
def _faults(spark: SparkSession, pieces: Pieces) -> Generator[Callable[[Path, int], list[str]]]:
    """Runs in this process, in which a step and all later ones fail."""
    faults = calls.hold("checkpoint_faults", spark)

    def end() -> list[str]:
        return list(calls.invoke(faults, "end"))

    def run(root: Path, step: int) -> list[str]:
        root.mkdir()
        calls.invoke(faults, "begin", step)
        return Trial(spark, pieces, root).run(end) or end()

    before = spark.conf.get(_MANAGER, None)
    spark.conf.set(_MANAGER, _FAULTY)
    try:
        yield run
    finally:
        end()
        if before is None:
            spark.conf.unset(_MANAGER)
        else:
            spark.conf.set(_MANAGER, before)


@contextmanager
def _kills(spark: SparkSession, base: Path, pieces: Pieces) -> Generator[Callable[[Path, int], list[str]]]:
    """Runs in processes that are killed at a step."""
    with KilledProcesses(spark, base, pieces, {_MANAGER: _FAULTY}) as processes:
        yield processes.run


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
