"""Windows that land as Parquet, as a user calls it, over streams of files."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from window_logs import NOON, Logs, name

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


pytestmark = pytest.mark.usefixtures("stopped_queries")


@pytest.mark.contract
def test_a_window_is_marked_when_its_last_host_has_passed(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    metrics = logs.land(("a", 1), ("b", 2), ("a", 60))
    assert (metrics["rows"], metrics["lateRows"], metrics["openWindows"]) == (3, 0, 2)
    assert logs.marker(0) is None
    # A row at the end is the next window's, and says that this one is complete.
    logs.land(("b", 10))
    report = logs.marker(0)
    assert report is not None
    assert (report["rows"], report["expected"], report["passed"], report["missing"]) == (2, 2, 2, [])
    assert (report["window_start"], report["window_end"]) == ("2026-01-01T12:00:00Z", "2026-01-01T12:00:10Z")
    assert report["low_watermark"] == "2026-01-01T12:00:10Z"
    assert logs.marker(10) is None
    metrics = logs.land(("b", 59.999999), ("b", 10), ("b", 9.999999), ("a", None))
    assert (metrics["rows"], metrics["lateRows"], metrics["untimedRows"]) == (4, 1, 1)
    assert [logs.rows(f"_late/{name(0)}"), logs.rows("_untimed"), logs.rows(name(10))] == [1, 1, 2]
    # [20, 30) to [40, 50) are complete, and empty.
    assert [(logs.marker(s) or {}).get("rows") for s in (10, 20, 30, 40, 50)] == [2, 0, 0, 0, None]
    found = spark.read.parquet(str(logs.out))
    assert found.count() == 6
    assert found.columns == ["host", "at", "id", "window_start"]
    # Without Spark: what begins with an underscore is passed over, and the window is a column.
    elsewhere = ds.dataset(logs.out, format="parquet", partitioning="hive").to_table()
    assert sorted(
        zip(elsewhere["id"].to_pylist(), elsewhere["window_start"].to_pylist(), strict=True)
    ) == sorted((row.id, row.window_start) for row in found.collect())
    assert sorted(row.id for row in found.where(f"window_start = '{name(0)[13:]}'").collect()) == [0, 1]
    reports = tailrace.window_report(spark, logs.out).collect()
    assert [(r["rows"], r["late_rows"]) for r in reports] == [(2, 1), (2, 0), (0, 0), (0, 0), (0, 0)]
    assert reports[0]["window_end"].timestamp() == NOON.timestamp() + 10
    assert (reports[0]["sources"][0]["source"], reports[0]["completeness"]) == ("watermark", 1)
    assert {p.name for p in (logs.out / "_tailrace").iterdir()} <= {"folder", "batches", "closed", "staging"}
    assert len(list((logs.out / "_tailrace" / "batches").glob("*.batch"))) == 1
    assert not list((logs.out / "_tailrace" / "staging").glob("*"))


def test_absurd_times_break_neither_the_landing_nor_the_report(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    centuries = [
        (dt.datetime(year, 1, 1, tzinfo=dt.UTC) - NOON).total_seconds() for year in (1, 2, 1500, 9999)
    ]
    metrics = logs.land(("a", centuries[0]), ("a", centuries[1]), ("b", 1), ("a", centuries[2]), ("a", 2))
    assert (metrics["rows"], metrics["untimedRows"]) == (5, 1)
    assert logs.rows("_untimed") == 1
    metrics = logs.land(("a", 15), ("b", 16), ("c", centuries[3]))
    assert metrics["untimedRows"] == 1
    reports = tailrace.window_report(spark, logs.out).collect()
    assert [r["rows"] for r in reports] == [1, 1, 2]
    assert [r["window_start"].astimezone(dt.UTC).year for r in reports] == [2, 1500, 2026]
    assert logs.rows(name(0)) == 2


def test_another_reader_of_partitioned_tables_sees_the_windows_and_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs = Logs(spark, tmp_path)
    logs.land(("a", 1), ("b", 2), ("a", 60), ("b", 61), ("a", None))
    logs.land(("a", 3))
    assert (logs.rows("_untimed"), logs.rows(f"_late/{name(0)}")) == (1, 1)
    table = pq.read_table(logs.out)
    assert Counter(table.column("window_start").to_pylist()) == {name(0)[13:]: 2, name(60)[13:]: 2}
    for aside in ("_late", "_untimed"):
        assert pq.read_table(logs.out / aside).num_rows == 1
        assert spark.read.parquet(str(logs.out / aside)).count() == 1


def test_the_hosts_that_lag_are_named(spark: SparkSession, tmp_path: Path) -> None:
    hosts = {"completeness": "40%", "hosts": ["a", "b", "c", "d", "e"]}
    logs = Logs(spark, tmp_path, source=hosts, missing=2)
    logs.land(("a", 30), ("b", 31), ("c", 7.5), ("d", 2))
    report = logs.marker(0)
    assert report is not None
    assert (report["expected"], report["passed"], report["completeness"]) == (5, 2, "0.4")
    assert [(m["host"], m.get("lag_seconds")) for m in report["missing"]] == [("e", None), ("d", 8.0)]
    row = tailrace.window_report(spark, logs.out).collect()[0]
    assert [(m["host"], m["lag_seconds"]) for m in row["missing"]] == [("e", None), ("d", 8.0)]


def test_partitions_inside_of_windows_and_a_late_window_without_a_report(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs = Logs(spark, tmp_path, into="day", offset=dt.timedelta(seconds=5), window=dt.timedelta(seconds=20))
    frame = tailrace.write_windows(logs.waiting(), logs.out, "at", **logs.options).partitionBy("host")
    frame = frame.option("checkpointLocation", str(tmp_path / "checkpoint")).option("compression", "zstd")
    logs.add(("a", 5), ("b", 24), ("a", 70), ("b", 70))
    frame.trigger(availableNow=True).start().awaitTermination()
    logs.add(("a", -100))
    frame.trigger(availableNow=True).start().awaitTermination()
    files = sorted(str(p.relative_to(logs.out)) for p in logs.out.glob("day=*/**/*.parquet"))
    assert [file.rpartition("/")[0] for file in files] == [
        *(f"day=20260101T120005Z/host={host}" for host in "ab"),
        *(f"day=20260101T120105Z/host={host}" for host in "ab"),
    ]
    assert all("zstd" in file for file in files)
    reports = tailrace.window_report(spark, logs.out).collect()
    assert [(r["rows"], r["late_rows"]) for r in reports] == [(0, 1), (2, 0), (0, 0), (0, 0)]
    assert reports[0]["expected"] is None


def test_windows_of_counts_wait_for_what_the_operator_holds(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    out = tmp_path / "counts"

    def land(*rows: tuple[str, float]) -> Counter[str]:
        logs.add(*rows)
        counts = logs.waiting().groupBy(F.window("at", "5 seconds")).count()
        counts = counts.select(F.window_time("window").alias("end"), "count")
        writer = tailrace.write_windows(counts, out, "end", window="10 seconds")
        writer = writer.option("checkpointLocation", str(tmp_path / "counts-checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        found = Counter(f.parent.name for f in out.glob("window_start=*/*.parquet"))
        found.update(f"{f.parent.name}/closed" for f in out.glob("window_start=*/_SUCCESS"))
        return found

    assert land(("a", 1), ("b", 7)) == {}
    assert land(("a", 8), ("b", 9)) == {name(0): 1}
    assert set(land(("a", 11), ("b", 12))) == {name(0), f"{name(0)}/closed"}
    assert not (out / "_late").exists()
