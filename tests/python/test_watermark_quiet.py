"""Queries that have read their last rows before the server, or another query, was ready for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from waiting import wait_for
from watermark_jobs import NOON, Job
from watermark_servers import ServerProcess, running

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


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
