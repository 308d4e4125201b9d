"""Queries that have read their last rows before the server, or another query, was ready for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waiting import wait_for
from watermark_jobs import Job
from watermark_servers import ServerProcess

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


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
