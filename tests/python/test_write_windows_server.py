"""Windows that several queries land wait for each other, by a real watermark server."""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from waiting import wait_for
from watermark_servers import running
from window_logs import NOON, PATIENCE, Logs, name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from watermark_servers import ServerProcess


pytestmark = pytest.mark.usefixtures("stopped_queries")


@pytest.mark.slow
def test_the_server_has_the_sink_behind_the_operators_that_it_reads_from(
    spark: SparkSession, tmp_path: Path
) -> None:
    with running(f"sqlite:///{tmp_path / 'w.db'}") as server:
        at: dict[str, Any] = {"server": server.url, "app": "app"}
        logs = Logs(spark, tmp_path, source={**at, "operator": "logs"})
        logs.add(("a", 21), ("b", 22), ("a", 1))
        counts = logs.waiting().groupBy(F.window("at", "5 seconds")).count()
        counts = counts.select(F.window_time("window").alias("end"), "count")
        writer = tailrace.write_windows(counts, logs.out, "end", window="10 seconds", operator="landed", **at)
        writer = writer.option("checkpointLocation", str(tmp_path / "counts-checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        # The server hears of the windows that a batch has closed with the next batch.
        logs.add(("a", 23))
        writer.trigger(availableNow=True).start().awaitTermination()
        _, state = server.request("GET", "/v1/apps/app")
        upstreams = {operator["operator"]: operator["upstreams"] for operator in state["topology"]}
        count = "logs/stateStoreSave-0"
        assert upstreams == {"logs": [], count: ["logs"], "landed": [count]}, "and no sink beside it"
        labels = {operator["operator"]: operator["label"] for operator in state["topology"]}
        assert labels == {"logs": "source (files)", count: "count by window", "landed": "windows in out"}
        assert logs.marker(0) is not None


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with running(f"sqlite:///{tmp_path / 'watermarks.db'}") as process:
        yield process


@pytest.mark.slow
def test_a_window_closes_when_the_other_job_has_passed_it(
    spark: SparkSession, tmp_path: Path, server: ServerProcess
) -> None:
    jobs = []
    for job, hosts in (("clicks", ["a"]), ("views", ["b"])):
        at: dict[str, Any] = {"server": server.url, "app": "app"}
        source = {"hosts": hosts, "operator": f"{job}/source", **at}
        jobs.append(Logs(spark, tmp_path / job, source=source, operator=f"{job}/sink", **at))
    clicks, views = jobs
    views.land(("b", 1))
    clicks.add(("a", 1), ("a", 20))
    query = clicks.start()
    query.processAllAvailable()
    server.await_reports("clicks/sink")
    assert clicks.marker(0) is None
    # clicks has nothing new to do: its own thread sees that all have passed.
    views.land(("b", 15))
    report = wait_for(partial(clicks.marker, 0), "the other job has passed")
    assert (report["expected"], report["passed"], report["rows"]) == (1, 1, 1)
    assert (views.marker(0) or {}).get("rows") == 1
    clicks.add(("a", 2), ("a", 21))
    query.processAllAvailable()
    assert clicks.rows(f"_late/{name(0)}") == 1
    _, page = server.request("GET", "/v1/apps/app/windows?operator=clicks/sink")
    start = int(NOON.timestamp()) * 1_000_000
    assert [(w["start"], w["expected"], w["passed"], w["late_rows"]) for w in page["windows"]] == [
        (start, 1, 1, 1)
    ]


def _refuse(port: int, connections: int) -> None:
    """Closes so many connections to a server that is away. Its clients try again by themselves."""
    with socket.create_server(("127.0.0.1", port)) as listening:
        listening.settimeout(PATIENCE)
        for _ in range(connections):
            listening.accept()[0].close()


@pytest.mark.slow
def test_hosts_of_a_source_that_two_queries_read_are_the_servers_and_nothing_closes_without_it(
    spark: SparkSession, tmp_path: Path, server: ServerProcess
) -> None:
    at = {"server": server.url, "app": "app"}
    # Each reads a part of the same logs.
    source = {"hosts": ["a", "b", "c"], "completeness": "60%", "operator": "logs", "logs": "web", **at}
    one, two = (
        Logs(spark, tmp_path / job, source=source, operator=f"{job}/sink", **at) for job in ("one", "two")
    )
    one.add(("a", 3), ("a", 30))
    one.start().processAllAvailable()
    two.add(("b", 4))
    query = two.start()
    query.processAllAvailable()
    two.add(("b", 12))
    query.processAllAvailable()
    for job in (one, two):
        # The first one has read nothing since: what the server says of its source is enough for it.
        report = wait_for(partial(job.marker, 0), "two of three have passed")
        assert (report["expected"], report["passed"], [m["host"] for m in report["missing"]]) == (3, 2, ["c"])
    server.kill()
    two.add(("b", 90), ("b", 91))
    query.processAllAvailable()
    _refuse(server.port, 4)
    assert two.rows(name(90)) == 2
    assert two.marker(10) is None
