"""Windows of a query that has nothing more to read: they close as they are."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from window_logs import PATIENCE, SCHEMA, Logs, name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.usefixtures("stopped_queries")

SHORT = "300 milliseconds"


def _wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.contract
def test_windows_of_an_idle_query_close_and_later_rows_for_them_are_late(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs = Logs(spark, tmp_path, idle_timeout=SHORT)
    logs.add(("a", 1), ("b", 2), ("a", 31))
    query = logs.start()
    _wait(lambda: logs.marker(30))
    report = logs.marker(0)
    assert report is not None
    # The low watermark is where it was.
    assert (report["rows"], report["passed"], report["low_watermark"]) == (2, 1, "2026-01-01T12:00:02Z")
    assert [(host["host"], host["lag_seconds"]) for host in report["missing"]] == [("b", 8.0)]
    assert [(logs.marker(s) or {}).get("rows") for s in (10, 20, 30, 40)] == [0, 0, 1, None]
    logs.add(("b", 3), ("b", 33), ("a", 45))
    query.processAllAvailable()
    assert [logs.rows(f"_late/{name(s)}") for s in (0, 30)] == [1, 1]
    assert logs.rows(name(40)) == 1
    _wait(lambda: logs.marker(40))
    reports = tailrace.window_report(spark, logs.out).collect()
    assert [(r["rows"], r["late_rows"]) for r in reports] == [(2, 1), (0, 0), (0, 0), (1, 1), (1, 0)]


def test_a_restart_remembers_it_and_a_batch_that_runs_again_lands_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs = Logs(spark, tmp_path, idle_timeout=SHORT)
    logs.add(("a", 1), ("b", 2))
    query = logs.start()
    _wait(lambda: logs.marker(0))
    query.stop()
    logs.land_again()
    assert (logs.rows(name(0)), logs.rows("_late")) == (2, 0)
    # A run that ends by itself closes nothing by it.
    logs.land(("a", 3), ("a", 11))
    assert (logs.rows(name(0)), logs.rows("_late"), logs.marker(10)) == (2, 1, None)


def test_without_the_option_nothing_closes(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    logs.add(("a", 1), ("b", 2))
    query = logs.start()
    query.processAllAvailable()
    time.sleep(2)
    assert logs.marker(0) is None


def test_rows_that_a_join_flushes_land_before_their_windows_close(
    spark: SparkSession, tmp_path: Path
) -> None:
    served, clicked = Logs(spark, tmp_path / "served"), Logs(spark, tmp_path / "clicked")

    def joined(idle_timeout: str) -> DataFrame:
        clicks = spark.readStream.schema(SCHEMA).parquet(str(clicked.root / "in"))
        return tailrace.join(
            served.waiting(),
            tailrace.accurate_watermark(
                clicks.withColumnRenamed("at", "clicked_at"),
                "clicked_at",
                host="host",
                completeness="100%",
                hosts=["a", "b"],
                name="clicks",
            ),
            on="host",
            left_time="at",
            right_time="clicked_at",
            after="1 hour",
            idle_timeout=idle_timeout,
        )

    with pytest.raises(tailrace.TailraceWatermarkError, match=r"at least the 1 hour of tailrace\.join"):
        tailrace.write_windows(joined("1 hour"), served.out, "at", idle_timeout="59 minutes")
    served.add(("a", 1), ("b", 12))
    clicked.add(("a", 1))
    writer = tailrace.write_windows(joined(SHORT), served.out, "at", window="10 seconds", idle_timeout=SHORT)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    _wait(lambda: served.marker(10))
    query.stop()
    assert [served.rows(name(0)), served.rows(name(10)), served.rows("_late")] == [1, 1, 0]


def test_a_server_decides_alone(spark: SparkSession, tmp_path: Path) -> None:
    at: dict[str, Any] = {"server": "http://127.0.0.1:9", "app": "app"}
    logs = Logs(spark, tmp_path, source={**at, "operator": "logs"})
    with pytest.raises(tailrace.TailraceWatermarkError) as caught:
        tailrace.write_windows(logs.waiting(), logs.out, "at", idle_timeout="1 hour", **at)
    assert caught.value.condition == "TAILRACE_OPTION_CONFLICT"
    assert caught.value.parameters["other"] == "server"
