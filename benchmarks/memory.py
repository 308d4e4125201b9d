"""Large state in a small heap: what comes out, and the memory that the JVM takes.

    python benchmarks/memory.py --work /tmp/memory

Four queries, each in a fresh JVM whose heap is --heap: a synced join that stalls with 10,000,000 rows and
then goes on, a label join with 2,000,000 labels of one key, a replay filter with 2,000,000 origins, and a
watermark of 1,000,000 hosts. --scale 0.1 is a tenth of that. Each checks what comes out. Prints the table and
writes it to benchmarks/results/NAME.txt. --together runs all in one JVM, for the tests, and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import report
import session
import tailrace
from measure import Jvm

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

_START = 1_700_000_000
_DAY = 86_400


@dataclass(frozen=True)
class Scenario:
    """A query with much state.

    Attributes:
        write: makes its files for a number of rows, origins or hosts.
        run: runs it, and returns how many rows came out. It fails if they are the wrong ones.
        size: of the whole.
    """

    write: Callable[[SparkSession, Path, int], None]
    run: Callable[[SparkSession, Path, int], int]
    size: int


def _slices(frame: DataFrame, rows: int, to: Path, first: int = 0) -> None:
    """Writes so many rows by `id` as files that a stream reads one after the other."""
    slices = max(5, rows // 250_000)
    for i in range(slices):
        part = frame.where(f"id >= {rows * i // slices} AND id < {rows * (i + 1) // slices}")
        part.coalesce(1).write.parquet(str(to / f"{first + i:04}"))
        time.sleep(0.01)  # a stream reads files in the order of their times


def _stream(spark: SparkSession, of: Path, files: int = 1) -> DataFrame:
    schema = spark.read.parquet(str(of / "0000")).schema
    reader = spark.readStream.schema(schema).option("recursiveFileLookup", value=True)
    return reader.option("maxFilesPerTrigger", files).parquet(str(of))


def _sums(
    frame: DataFrame, checkpoint: Path, columns: Sequence[str]
) -> tuple[list[int], list[dict[str, Any]]]:
    """Runs a query to the end of its files. Returns sums over what comes out, and the batches' progress."""
    totals = [0] * len(columns)

    def add(batch: DataFrame, _: int) -> None:
        row = batch.agg(*[F.expr(f"coalesce({column}, 0L)") for column in columns]).collect()[0]
        totals[:] = [a + b for a, b in zip(totals, row, strict=True)]

    writer = frame.writeStream.foreachBatch(add).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return totals, [json.loads(progress.json) for progress in query.recentProgress]


def _expect(found: object, expected: object) -> None:
    if found != expected:
        raise RuntimeError(f"{found} came out instead of {expected}")


def _at(seconds: str) -> str:
    return f"timestamp_micros({_START * 1_000_000}L + CAST({seconds} * 1000000L AS BIGINT)) AS at"


def _write_sync(spark: SparkSession, data: Path, rows: int) -> None:
    half = rows // 2
    pad = "rpad(CAST(id AS STRING), 40, 'x') AS pad"
    numbers = spark.range(half)
    left = numbers.selectExpr("id", "id * 7919 AS k", _at("id / 1000"), "'l' AS p", pad)
    _slices(left, half, data / "left")
    right = numbers.selectExpr("id", "id * 7919 AS k", _at("id / 1000"), "'a' AS p", pad)
    stalled = spark.range(1).selectExpr("0L AS id", "-1L AS k", _at("0"), "'b' AS p", "'' AS pad")
    end = spark.range(1).selectExpr("0L AS id", "-2L AS k", _at(str(half)), "'b' AS p", "'' AS pad")
    stalled.coalesce(1).write.parquet(str(data / "right" / "0000"))
    time.sleep(0.01)
    _slices(right, half, data / "right", first=1)
    end.union(end.withColumn("p", F.lit("a"))).coalesce(1).write.parquet(str(data / "right" / "9999"))


def _run_sync(spark: SparkSession, data: Path, rows: int) -> int:
    joined = tailrace.sync_join(
        _stream(spark, data / "left"),
        _stream(spark, data / "right"),
        on="k",
        left_time="at",
        right_time="at",
        window="10 minutes",
        sync_delay="5 seconds",
        left_partition="p",
        right_partition="p",
    )
    same = "count(if(id = id_right, id, NULL))"
    sums, progress = _sums(joined, data / "checkpoint", ["count(*)", "sum(id)", same])
    half = rows // 2
    _expect(sums, [half, sum(range(half)), half])
    held = [p["stateOperators"][0]["numRowsTotal"] for p in progress]
    if max(held) < rows:
        raise RuntimeError(f"at most {max(held)} rows were held")
    return sums[0]


def _write_label(spark: SparkSession, data: Path, rows: int) -> None:
    pad = "rpad(CAST(id AS STRING), 100, 'x') AS pad"
    right = spark.range(rows).selectExpr("id", "7L AS k", _at("id / 1000"), pad)
    left = spark.range(200).selectExpr("id", "7L AS k", _at(f"id * {rows // 200} / 1000"))
    _slices(right, rows, data / "right")
    _slices(left, 200, data / "left")
    end = spark.range(1).selectExpr("0L AS id", "-1L AS k", _at(str(3 * _DAY)))
    end.coalesce(1).write.parquet(str(data / "left" / "9999"))
    end.withColumn("pad", F.lit("")).coalesce(1).write.parquet(str(data / "right" / "9999"))


def _run_label(spark: SparkSession, data: Path, rows: int) -> int:
    sides = [_stream(spark, data / side).withWatermark("at", "0 seconds") for side in ("left", "right")]
    most = 1000
    joined = tailrace.join(*sides, on="k", left_time="at", right_time="at", after="1 day", max_matches=most)
    label = "sum(aggregate(labels, 0L, (sum, label) -> sum + label.id))"
    out = joined.where("k = 7")
    sums, _ = _sums(out, data / "checkpoint", ["count(*)", "sum(size(labels))", label])
    groups = [range(i * (rows // 200), min(rows, i * (rows // 200) + most)) for i in range(200)]
    _expect(sums, [200, sum(map(len, groups)), sum(map(sum, groups))])
    return sums[0]


def _write_replay(spark: SparkSession, data: Path, rows: int) -> None:
    origins = spark.range(rows).selectExpr("id", "id * 31 AS pid", "CAST(id % 4 AS INT) AS part")
    records = origins.selectExpr("id", "pid", "part", "0L AS source_offset", "'t' AS topic", "id AS offset")
    _slices(records, rows, data / "records")
    again = records.withColumn("offset", F.expr(f"offset + {rows}"))
    more = again.withColumn("source_offset", F.expr("id % 2"))
    _slices(more, rows, data / "records", first=1000)


def _run_replay(spark: SparkSession, data: Path, rows: int) -> int:
    frame = tailrace.filter_replays(
        _stream(spark, data / "records"),
        pid="pid",
        partition="part",
        offset="source_offset",
        order=["topic", "part", "offset"],
    )
    sums, _ = _sums(frame, data / "checkpoint", ["count(*)", "sum(source_offset)"])
    _expect(sums, [rows + rows // 2, rows // 2])
    return sums[0]


def _write_watermark(spark: SparkSession, data: Path, rows: int) -> None:
    hosts = spark.range(rows).selectExpr("id", "concat('edge-', id, '.example') AS host", _at("id / 1000"))
    _slices(hosts, rows, data / "rows")
    # All of them in one micro-batch.
    later = hosts.withColumn("at", F.expr(f"at + INTERVAL {_DAY} SECONDS"))
    later.coalesce(1).write.parquet(str(data / "rows" / "9999"))


def _run_watermark(spark: SparkSession, data: Path, rows: int) -> int:
    frame = tailrace.accurate_watermark(_stream(spark, data / "rows"), "at", host="host", completeness="100%")
    sums, progress = _sums(frame, data / "checkpoint", ["count(*)"])
    _expect(sums, [2 * rows])
    last = next(iter(progress[-1]["observedMetrics"].values()))
    _expect((last["hosts"], last["passed"]), (rows, rows))
    return sums[0]


_SCENARIOS = {
    "sync": Scenario(_write_sync, _run_sync, 10_000_000),
    "label": Scenario(_write_label, _run_label, 2_000_000),
    "replay": Scenario(_write_replay, _run_replay, 2_000_000),
    "watermark": Scenario(_write_watermark, _run_watermark, 1_000_000),
}


def _live_bytes(log: Path) -> int:
    """The most that was left of the heap after it was collected, by the log: `... 80M->60M(512M) 7.5ms`."""
    after = re.findall(r"Pause (?:Full|Young \(Mixed).*?->(\d+)M", log.read_text())
    return max(map(int, after), default=0) << 20


def _session(heap: str, log: Path) -> SparkSession:
    options = f"-Xlog:gc:file={log} -XX:+ExitOnOutOfMemoryError"
    more = {"spark.driver.extraJavaOptions": options, "spark.sql.shuffle.partitions": "4"}
    return session.local(heap, more)


def run_once(names: Sequence[str], work: Path, scale: float, heap: str) -> list[dict[str, Any]]:
    """Runs queries in one JVM, and tells what each took; memory is that of the JVM so far."""
    log = work / "gc.log"
    log.unlink(missing_ok=True)
    spark = _session(heap, log)
    runs: list[dict[str, Any]] = []
    for name in names:
        size, data = _write(spark, work, name, scale)
        shutil.rmtree(data / "checkpoint", ignore_errors=True)
        started = time.monotonic()
        out = _SCENARIOS[name].run(spark, data, size)
        seconds = round(time.monotonic() - started, 1)
        rss = round(Jvm.of_this_process().peak_rss_bytes() / 1e6)
        left = round(_live_bytes(log) / 1e6)
        runs.append(
            {"query": name, "size": size, "out": out, "seconds": seconds, "RSS MB": rss, "heap MB": left}
        )
    spark.stop()
    return runs


def _write(spark: SparkSession, work: Path, name: str, scale: float) -> tuple[int, Path]:
    """Makes the files of a query, unless they are there."""
    size, data = int(_SCENARIOS[name].size * scale), work / f"{name}-{scale}"
    if not (data / "complete").exists():
        shutil.rmtree(data, ignore_errors=True)
        _SCENARIOS[name].write(spark, data, size)
        (data / "complete").touch()
    return size, data


def main() -> int:
    """Runs the queries that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="directory of the data")
    parser.add_argument("--queries", nargs="+", default=list(_SCENARIOS), choices=list(_SCENARIOS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--heap", default="512m")
    parser.add_argument("--name", default="memory")
    parser.add_argument("--together", action="store_true", help="all in this JVM")
    parser.add_argument("--stage", choices=["write", "run"], help="of a process of its own")
    a = parser.parse_args()
    if a.stage == "write":
        spark = session.local("2g")
        for name in a.queries:
            _write(spark, a.work, name, a.scale)
        spark.stop()
        print("{}")
        return 0
    if a.stage == "run" or a.together:
        print(json.dumps(run_once(a.queries, a.work, a.scale, a.heap)))
        return 0
    common = ["--work", str(a.work), "--scale", str(a.scale), "--heap", a.heap, "--queries"]
    session.launch(__file__, ["--stage", "write", *common, *a.queries])
    header = report.heading(f"heap {a.heap}, local[2], 4 partitions, scale {a.scale}")
    rows = [row for name in a.queries for row in session.launch(__file__, ["--stage", "run", *common, name])]
    table = ["".join(f"{key:>12}" for key in rows[0])]
    table += ["".join(f"{value:>12}" for value in row.values()) for row in rows]
    report.save(a.name, [*header, "", *table])
    return 0


if __name__ == "__main__":
    sys.exit(main())
