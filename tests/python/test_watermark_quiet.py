"""Queries that have read their last rows before the server, or another query, was ready for them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from waiting import wait_for
from watermark_jobs import NOON, Job
from watermark_servers import ServerProcess, running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@pytest.mark.slow
def test_rows_read_while_the_server_was_away_are_reported_without_another_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    """S5: they were reported in the next micro-batch only, and no window closed before."""
    store = f"sqlite:///{tmp_path / 'watermarks.db'}"
    server = ServerProcess(store)
    try:
        one, two = (Job(spark, tmp_path / name, server) for name in ("one", "two"))
        for job, host in ((one, "a"), (two, "b")):
            job.land()
            job.step((host, 1))
        two.step(("b", 12))
        server.kill()
        one.step(("a", 12))
        server = ServerProcess(store, port=server.port)
        wait_for(lambda: 0 in one.marked() and 0 in two.marked(), "the window at 12:00 closes", 60)
        assert {start: report["rows"] for start, report in one.marked().items()} == {0: 1}
        assert one.rows("_late/*") == two.rows("_late/*") == 0
    finally:
        for query in spark.streams.active:
            query.stop()
        server.kill()


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["count", "join"])
def test_windows_of_a_quiet_query_close_when_another_one_has_caught_up(
    spark: SparkSession, tmp_path: Path, shape: str
) -> None:
    """S4: it asked the server in its own micro-batches only, and held back the low watermark of all."""
    with running(f"sqlite:///{tmp_path / 'watermarks.db'}") as server:
        try:
            quiet, slow = (Job(spark, tmp_path / name, server) for name in ("quiet", "slow"))
            for job in (quiet, slow):
                job.query = _shaped(job, shape)
            slow.step(("b", 0.5))
            for minute in (1, 2, 12, 25):
                quiet.step(("a", minute))
            assert _minutes(quiet) == []
            for minute in (1, 12, 25):
                slow.step(("b", minute))
            expected = [1, 2, 12] if shape == "join" else [0, 10]
            wait_for(lambda: _minutes(quiet) == expected, "windows close without another row", 60)
            wait_for(lambda: len(_minutes(slow)) >= 2, "the other query's windows close", 60)
            wait_for(lambda: _global_low(server) >= 24, "nothing holds the low watermark of all back", 60)
        finally:
            for query in spark.streams.active:
                query.stop()


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["complete", "sync", "inner", "feedback"])
def test_an_operator_that_closes_nothing_holds_no_other_query_back(
    spark: SparkSession, tmp_path: Path, shape: str
) -> None:
    """No micro-batch follows that could report how far it is."""
    with running(f"sqlite:///{tmp_path / 'watermarks.db'}") as server:
        try:
            quiet, landing = (Job(spark, tmp_path / name, server) for name in ("quiet", "landing"))
            rows, mode = _closing_nothing(quiet.waiting(), shape)
            writer = rows.writeStream.outputMode(mode).format("noop")
            quiet.query = writer.option("checkpointLocation", str(quiet.root / "checkpoint")).start()
            landing.land()
            landing.step(("b", 0.5))
            for minute in (1, 2, 12, 25):
                quiet.step(("a", minute))
            for minute in (1, 12, 25):
                landing.step(("b", minute))
            wait_for(lambda: {0, 10} <= landing.marked().keys(), "the other query's windows close", 60)
        finally:
            for query in spark.streams.active:
                query.stop()


def _closing_nothing(rows: DataFrame, shape: str) -> tuple[DataFrame, str]:
    if shape == "complete":
        return rows.groupBy("host").count(), "complete"
    if shape == "inner":
        return rows.select(F.col("id").alias("i")).join(rows, F.expr("i = id")), "append"
    if shape == "sync":
        side = rows.select("id", "at", F.lit(0).alias("partition"))
        options: dict[str, Any] = {"window": "1 minute", "sync_delay": "1 second", "max_buffered": None}
        return tailrace.sync_join(side, side, on="id", left_time="at", right_time="at", **options), "append"
    units = rows.select("id", "at")
    below = tailrace.recursively(
        units, lambda u: u.where("id % 1000 < 2").selectExpr("id + 1 AS id", "at"), mode="feedback"
    )
    return units.union(below), "append"


@pytest.mark.slow
def test_a_query_without_state_finds_out_that_the_store_was_restored(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It asked nothing between its micro-batches, and its operators stood where the copy had them."""
    store = tmp_path / "watermarks.db"
    server = ServerProcess(f"sqlite:///{store}")
    try:
        job = Job(spark, tmp_path / "job", server)
        writer = job.waiting().select("id").writeStream.format("noop")
        job.query = writer.option("checkpointLocation", str(job.root / "checkpoint")).start()
        job.step(("a", 5))
        copy = tmp_path / "copy.db"
        with closing(sqlite3.connect(store)) as database:
            database.execute("VACUUM INTO ?", (str(copy),))
        job.step(("a", 25))
        wait_for(lambda: _global_low(server) >= 25, "the server knows it", 30)
        server.kill()
        for name in ("-wal", "-shm"):
            Path(f"{store}{name}").unlink(missing_ok=True)
        copy.replace(store)
        server = ServerProcess(f"sqlite:///{store}", port=server.port)
        wait_for(lambda: _global_low(server) >= 25, "the server knows it again", 60)
    finally:
        for query in spark.streams.active:
            query.stop()
        server.kill()


def _shaped(job: Job, shape: str) -> StreamingQuery:
    rows = job.waiting()
    if shape == "count":
        found = (
            rows.groupBy(F.window("at", "10 minutes").alias("w")).count().select(F.col("w.start").alias("at"))
        )
    else:
        clicks = rows.select(F.col("id").alias("click"), F.col("at").alias("clicked_at"))
        found = tailrace.join(
            rows, clicks, on=[("id", "click")], left_time="at", right_time="clicked_at", after="1 minute"
        ).select("at")
    writer = found.writeStream.format("parquet").option("path", str(job.root / "out"))
    return writer.option("checkpointLocation", str(job.root / "checkpoint")).start()


def _minutes(job: Job) -> list[float]:
    """The event times of what has been written, in minutes from noon."""
    rows = job.spark.read.schema("at timestamp").parquet(str(job.root / "out")).collect()
    return sorted((row["at"].timestamp() - NOON.timestamp()) / 60 for row in rows)


def _global_low(server: ServerProcess) -> float:
    """The low watermark of the application, in minutes from noon."""
    _, state = server.request("GET", "/v1/apps/app")
    return float((state["global_low_watermark"] or 0) / 1e6 - NOON.timestamp()) / 60
