"""Queries of one operator over different logs, restored checkpoints and rows of 1965, by a real server."""

from __future__ import annotations

import datetime as dt
import shutil
from typing import TYPE_CHECKING

import pytest

from waiting import wait_for
from watermark_jobs import NOON, Job
from watermark_servers import running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from watermark_servers import ServerProcess

OF_1965 = (dt.datetime(1965, 6, 1, 12, tzinfo=dt.UTC) - NOON).total_seconds() / 60


@pytest.fixture
def server(spark: SparkSession, tmp_path: Path) -> Iterator[ServerProcess]:
    with running(f"sqlite:///{tmp_path / 'watermarks.db'}") as process:
        yield process
        for query in spark.streams.active:
            query.stop()


@pytest.mark.slow
def test_a_host_that_only_the_other_query_has_read_is_waited_for(
    spark: SparkSession, tmp_path: Path, server: ServerProcess
) -> None:
    """S1: `_SUCCESS` of the clicks said that b had passed, and its clicks were still to come."""
    views, clicks = (Job(spark, tmp_path / name, server, hosts=["a", "b"]) for name in ("views", "clicks"))
    for job in (views, clicks):
        job.land()
    # The clicks first: a query that the server has not heard of holds nothing back.
    clicks.step(("a", 2), ("a", 12))
    views.step(("a", 1), ("b", 1), ("a", 12), ("b", 12))
    server.await_reports("sink")
    assert (views.marked(), clicks.marked()) == ({}, {})
    clicks.step(("b", 3), ("b", 12))
    wait_for(lambda: 0 in views.marked() and 0 in clicks.marked(), "the window at 12:00 closes")
    report = clicks.marked()[0]
    assert (report["rows"], report["expected"], report["passed"]) == (2, 2, 2)
    assert clicks.rows("_late/*") == 0


@pytest.mark.slow
def test_queries_that_read_parts_of_the_same_logs_say_so(
    spark: SparkSession, tmp_path: Path, server: ServerProcess
) -> None:
    one, two = (Job(spark, tmp_path / name, server, hosts=["a", "b"], logs="web") for name in ("one", "two"))
    for job, host in ((one, "a"), (two, "b")):
        job.land()
        job.step((host, 1), (host, 12))
    wait_for(lambda: 0 in one.marked() and 0 in two.marked(), "the window at 12:00 closes")
    assert one.marked()[0]["passed"] == 2


@pytest.mark.slow
def test_a_restored_checkpoint_has_the_rows_of_an_uninterrupted_run(
    spark: SparkSession, tmp_path: Path, server: ServerProcess
) -> None:
    """S2: its windows were closed by what the server knew of the run that it had gone back from."""
    job = Job(spark, tmp_path / "job", server, hosts=["a", "b"])
    query = job.land()
    steps = [(("a", 10 * n + 1), ("b", 10 * n + 2), ("a", 10 * n + 5)) for n in range(6)]
    for step in steps[:2]:
        job.step(*step)
    query.stop()
    copy = tmp_path / "copy"
    for folder in ("checkpoint", "out"):
        shutil.copytree(job.root / folder, copy / folder)
    query = job.land()
    for step in steps[2:]:
        job.step(*step)
    wait_for(lambda: 40 in job.marked(), "the window at 12:40 closes")
    query.stop()
    for folder in ("checkpoint", "out"):
        shutil.rmtree(job.root / folder)
        shutil.copytree(copy / folder, job.root / folder)
    # One file a micro-batch: rows of a window come in several, as before.
    query = job.land()
    query.processAllAvailable()
    wait_for(lambda: 40 in job.marked(), "the windows close again")
    assert job.rows("_late/*") == 0
    assert {start: report["rows"] for start, report in job.marked().items()} == dict.fromkeys(
        range(0, 50, 10), 3
    )
    _, state = server.request("GET", "/v1/apps/app/overrides")
    lines = {(line["action"], line["operator"]) for line in state["overrides"]}
    assert ("rollback", "source") in lines


@pytest.mark.slow
def test_windows_of_1965_close_with_all_rows(
    spark: SparkSession, tmp_path: Path, server: ServerProcess
) -> None:
    """S3: times before 1970 were sent as 0, and answered as 0."""
    job = Job(spark, tmp_path / "job", server, hosts=["a", "b"])
    job.land()
    for n in range(4):
        at = OF_1965 + 10 * n
        job.step(("a", at + 1), ("b", at + 2))
    wait_for(lambda: len(job.marked()) >= 3, "three windows close")
    assert job.rows("_late/*") == 0
    assert {report["rows"] for report in job.marked().values()} == {2}
    assert all(report["window_start"].startswith("1965-06-01T12:") for report in job.marked().values())
