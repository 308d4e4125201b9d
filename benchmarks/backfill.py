"""Compares `tailrace.backfill` with the batch form of the same join, in a JVM that is warm.

    python benchmarks/backfill.py --rounds 3

Both read the same Parquet files, and write to Spark's sink that drops rows. They take turns. The backfill has
the rows of the last window in its state at the end; the batch form emits them. The first rounds aren't
counted. Prints the table and writes it to benchmarks/results/backfill.txt.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import report
import tailrace
from measure import Jvm
from queries import tailrace_join
from rounds import Cost, compared, table
from session import local
from workload import Workload, prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from workload import Streams

_BAR = 0.8
_UNTIL = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)


def _tables(spark: SparkSession, data: Path) -> tuple[DataFrame, DataFrame]:
    left, right = (
        spark.read.parquet(f"{data}/{side}").toDF(
            *(f"{side[0]}_{name}" for name in ("id", "key", "ts", "value"))
        )
        for side in ("left", "right")
    )
    return left, right


def _joined(left: DataFrame, right: DataFrame) -> DataFrame:
    return tailrace_join(left, right, "30 minutes", 2)


def _pipeline(left: DataFrame, right: DataFrame) -> DataStreamWriter:
    delay = "2 minutes"
    frames = left.withWatermark("l_ts", delay), right.withWatermark("r_ts", delay)
    return _joined(*frames).writeStream.format("noop")


def _batch(spark: SparkSession, data: Path) -> None:
    _joined(*_tables(spark, data)).write.format("noop").mode("overwrite").save()


def _backfill(spark: SparkSession, data: Path, checkpoint: str, step: str) -> None:
    left, right = _tables(spark, data)
    raw = spark.read.parquet(f"{data}/left").schema
    streams = {
        side: spark.readStream.schema(raw).parquet(f"{data}/{side}").toDF(*table.columns)
        for side, table in (("left", left), ("right", right))
    }
    tailrace.backfill(
        _pipeline,
        {"left": left, "right": right},
        streams,
        time={"left": "l_ts", "right": "r_ts"},
        until=_UNTIL,
        checkpoint=checkpoint,
        step=step,
    )


def _cost(run: Callable[[], None], jvm: Jvm, data: Streams) -> Cost:
    os.sync()
    cpu, begin = jvm.cpu_seconds(), time.perf_counter()
    run()
    return Cost(time.perf_counter() - begin, jvm.cpu_seconds() - cpu, data.rows)


def main() -> int:
    """Runs the command line. Returns the exit code: 1 below the bar."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--left", type=int, default=10_000_000, help="impressions")
    parser.add_argument("--hours", type=float, default=24.0, help="event time that they are spread over")
    parser.add_argument("--step", default="4 hours", help="of the backfill")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--name", default="backfill", help="of the result")
    parser.add_argument("--cold", type=int, default=1, help="rounds that aren't counted")
    a = parser.parse_args()
    costs: dict[str, list[Cost]] = {"backfill": [], "batch": []}
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
        work = Path(folder).resolve()
        data = prepare(Workload(left=a.left, hours=a.hours), work)
        size = sum(file.stat().st_size for file in data.path.rglob("*.parquet"))
        spark = local("4g")
        jvm = Jvm.of_this_process()
        for i in range(a.cold + a.rounds):
            for engine in list(costs)[:: 1 if i % 2 == 0 else -1]:
                checkpoint = f"{work}/checkpoint-{i}"
                if engine == "batch":
                    cost = _cost(partial(_batch, spark, data.path), jvm, data)
                else:
                    cost = _cost(partial(_backfill, spark, data.path, checkpoint, a.step), jvm, data)
                    shutil.rmtree(checkpoint)
                print(f"round {i + 1}, {engine}: {cost.seconds:.2f} s, CPU {cost.cpu:.2f} s", flush=True)
                if i >= a.cold:
                    costs[engine].append(cost)
        spark.stop()
    rate, cpu = compared(costs["backfill"], costs["batch"])
    best = sorted(cost.cpu for cost in costs["backfill"])[len(costs["backfill"]) // 2]
    lines = [*report.heading(str(vars(a))), "", *table(costs), ""]
    lines.append(f"backfill against batch, median of rounds: {rate:.3f}, by CPU {cpu:.3f} (bar {_BAR})")
    lines.append(f"backfill: {size / best / 1e6:.1f} MB of Parquet per second of CPU")
    report.save(a.name, lines)
    return 0 if rate >= _BAR else 1


if __name__ == "__main__":
    sys.exit(main())
