"""What can be done with a large state that a query has left, and how long it takes.

    python benchmarks/state.py lookup --rows 10000000 --partitions 8

A part each, in a session of its own; each adds its lines to results/state.txt. A new part is a function in
`_PARTS`.

`lookup`: the rows of one key, by `spark.read.format("tailrace-state").load(CHECKPOINT).where(...)`, from the
call to the rows, for keys that nobody has asked for before; `an empty job` is what Spark costs.

`restart`: the first batch of a query that goes on with a column more on each side, and the batch that lets
all that waited come out, in turns with a query that goes on as it was.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from pyspark.sql.functions import expr

import session
import tailrace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress

_BATCHES = 10
_KEYS_OF_ROWS = 5
_ITEMS = 1000
_WARM = 10
_LOOKUPS = 30
_PAIRS = 5


def _stream(spark: SparkSession, rows: int) -> DataFrame:
    """So many rows in ten batches of a minute each; each key has five of them, some minutes apart."""
    a_batch = rows // _BATCHES
    rate = spark.readStream.format("rate-micro-batch").options(
        rowsPerBatch=a_batch, numPartitions=2, startTimestamp=1_700_000_000_000, advanceMillisPerBatch=60_000
    )
    scattered = f"pmod(xxhash64(value % {rows // _KEYS_OF_ROWS}), 1000000000)"
    return (
        rate.load()
        .withColumn("user_id", expr(scattered))
        .selectExpr(
            "user_id",
            f"int(user_id % {_ITEMS}) AS item_id",
            "timestamp AS at",
            "value AS id",
            "sha1(string(value)) AS text",
        )
    )


def _joined(spark: SparkSession, rows: int, *, changed: bool = False, later: str = "0 hours") -> DataFrame:
    """A label join of so many rows, half of them left ones; changed: with a column more on each side."""
    left = _stream(spark, rows // 2).withColumn("at", expr(f"at + INTERVAL {later}"))
    right = left.drop("text").toDF("user_id", "item_id", "clicked_at", "click")
    if changed:
        left = left.withColumn("device", expr("item_id % 7"))
        right = right.withColumn("price", expr("click / 100"))
    return tailrace.join(
        left.withWatermark("at", "1 minute"),
        right.withWatermark("clicked_at", "1 minute"),
        on=["user_id", "item_id"],
        left_time="at",
        right_time="clicked_at",
        after="1 hour",
        release_every="batch",
    )


def _batches(joined: DataFrame, checkpoint: Path, count: int) -> list[StreamingQueryProgress]:
    """Runs so many batches on a checkpoint, and stops."""
    batches: dict[int, StreamingQueryProgress] = {}
    query = joined.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    while len(batches) < count:
        time.sleep(0.05)
        batches |= {progress.batchId: progress for progress in query.recentProgress}
        if (failure := query.exception()) is not None:
            raise failure
    query.stop()
    return [batches[batch] for batch in sorted(batches)[:count]]


def waiting(spark: SparkSession, checkpoint: Path, rows: int) -> None:
    """Leaves a label join with so many rows in its state, half of them left ones."""
    _batches(_joined(spark, rows), checkpoint, _BATCHES)


def _seconds(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _lookup(arguments: argparse.Namespace, root: Path) -> list[str]:
    spark = session.local("4g", {"spark.sql.shuffle.partitions": str(arguments.partitions)})
    checkpoint = root / "checkpoint"
    began = time.monotonic()
    waiting(spark, checkpoint, arguments.rows)
    filled = time.monotonic() - began
    size = sum(file.stat().st_size for file in (checkpoint / "state").rglob("*") if file.is_file())

    def state() -> DataFrame:
        return spark.read.format("tailrace-state").load(str(checkpoint))

    count = state().count()
    sample = state().select("key.*").sample(0.001, seed=7).limit(2000).collect()
    keys = random.Random(7).sample(sample, 5 * (_WARM + _LOOKUPS))  # noqa: S311
    lines = [
        f"lookup: {count:,} rows of a label join, {size / 1e6:,.0f} MB, {arguments.partitions} partitions",
        f"filled in {filled:.0f} s; two cores",
        f"{'':24} {'median ms':>10} {'most ms':>10} {'rows':>6}",
    ]
    seconds = [_seconds(spark.range(10).collect) for _ in range(_WARM + _LOOKUPS)][_WARM:]
    lines.append(f"  {'an empty job':22} {median(seconds) * 1e3:10.0f} {max(seconds) * 1e3:10.0f}")
    for name, condition in (
        ("both sides", ""),
        ("left rows", " AND side = 'left'"),
        ("right rows", " AND side = 'right'"),
    ):
        found = 0
        timed: list[float] = []
        for _ in range(_WARM + _LOOKUPS):
            key = keys.pop()
            began = time.monotonic()
            rows = state().where(f"key.user_id = {key[0]} AND key.item_id = {key[1]}{condition}").collect()
            timed.append(time.monotonic() - began)
            found += len(rows)
        rate = found / len(timed)
        timed = timed[_WARM:]
        lines.append(f"  {name:22} {median(timed) * 1e3:10.0f} {max(timed) * 1e3:10.0f} {rate:6.1f}")
    spark.stop()
    return lines


def _restart(arguments: argparse.Namespace, root: Path) -> list[str]:
    spark = session.local("4g", {"spark.sql.shuffle.partitions": str(arguments.partitions)})
    filled = root / "checkpoint"
    waiting(spark, filled, arguments.rows)
    seconds: dict[bool, list[list[float]]] = {False: [], True: []}
    rows = 0
    for pair in range(1 + _PAIRS):
        for changed in (False, True) if pair % 2 else (True, False):
            checkpoint = root / f"{pair}-{changed}"
            shutil.copytree(filled, checkpoint)
            # The watermark goes on by two hours with the first batch, and the second lets all come out.
            first, second = _batches(
                _joined(spark, arguments.rows, changed=changed, later="2 hours"), checkpoint, 2
            )
            rows = second.stateOperators[0].numRowsRemoved
            if rows < arguments.rows:
                raise ValueError(f"the second batch let {rows:,} rows go only")
            shutil.rmtree(checkpoint)
            if pair:
                seconds[changed].append([batch.durationMs["addBatch"] / 1e3 for batch in (first, second)])
    lines = [
        f"restart: {arguments.rows:,} rows of a label join wait, {arguments.partitions} partitions, 2 cores",
        f"medians of {_PAIRS} pairs, in turns, in one session; a column more on each side",
        f"{'':24} {'as it was':>10} {'changed':>10} {'ratio':>6}",
    ]
    for batch, name in enumerate(("first batch", f"{rows:,} rows leave")):
        before, after = (median(one[batch] for one in seconds[changed]) for changed in (False, True))
        lines.append(f"  {name:22} {before:8.2f} s {after:8.2f} s {after / before:6.2f}")
    spark.stop()
    return lines


_PARTS: dict[str, Callable[[argparse.Namespace, Path], list[str]]] = {"lookup": _lookup, "restart": _restart}


def main(line: Sequence[str] | None = None) -> None:
    """Runs the parts that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="+", choices=sorted(_PARTS))
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "state.txt")
    arguments = parser.parse_args(line)
    for part in arguments.parts:
        with tempfile.TemporaryDirectory() as directory:
            lines = _PARTS[part](arguments, Path(directory))
        when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        text = "\n".join([f"date {when}, tailrace {tailrace.__version__}", *lines, ""])
        print(text)
        with arguments.out.open("a") as out:
            out.write(text + "\n")


if __name__ == "__main__":
    main()
