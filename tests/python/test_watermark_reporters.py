"""Several queries that report to one watermark server with the names that a user gets by default."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from waiting import wait_for
from watermark_jobs import NOON, SCHEMA, Job
from watermark_servers import running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from watermark_servers import ServerProcess


@pytest.fixture
def server(spark: SparkSession, tmp_path: Path) -> Iterator[ServerProcess]:
    with running(f"sqlite:///{tmp_path / 'watermarks.db'}") as process:
        yield process
        for query in spark.streams.active:
            query.stop()


@pytest.mark.slow
def test_two_jobs_that_land_windows_wait_for_each_other(
    spark: SparkSession, tmp_path: Path, server: ServerProcess
) -> None:
    fast, slow = (Job(spark, tmp_path / name, server) for name in ("fast", "slow"))
    fast.land()
    fast.step(("a", 1), ("a", 55))
    wait_for(lambda: set(fast.marked()) >= {0, 10, 20, 30, 40}, "five windows close")
    slow.land()
    slow.step(("b", 0.5), ("b", 1))
    fast.step(("a", 65))
    server.await_reports("sink")
    assert slow.marked() == {}, "its host is at 12:01"
    assert 50 not in fast.marked(), "the slower job hasn't filled it"
    slow.step(("b", 2), ("b", 12))
    wait_for(lambda: set(slow.marked()) == {0}, "a window of the slower job closes")
    report = slow.marked()[0]
    assert (report["rows"], report["passed"]) == (3, report["expected"])
    assert (slow.rows(), slow.rows("_late/*")) == (4, 0)
    slow.step(("b", 64))
    wait_for(lambda: 50 in fast.marked() and 50 in slow.marked(), "the window at 12:50 closes")
    assert (fast.rows(), fast.rows("_late/*")) == (3, 0)


@pytest.mark.slow
def test_the_second_query_on_the_same_logs_is_refused_while_the_first_one_lives(
    spark: SparkSession, tmp_path: Path, server: ServerProcess
) -> None:
    first = Job(spark, tmp_path / "first", server)
    first.unique()
    for minute in range(1, 51, 10):
        first.step(*(("a", minute + i) for i in range(10)))
    assert first.written() == 50
    second = Job(spark, tmp_path / "second", server)
    second.logs = first.logs
    query = second.unique()
    with pytest.raises(StreamingQueryException) as caught:
        query.processAllAvailable()
    error = caught.value
    assert isinstance(error, tailrace.TailraceWatermarkError)
    assert error.condition == "TAILRACE_WATERMARK_REPORTER_CONFLICT"
    assert first.query is not None
    assert "file:file:" not in str(error), "a URI has its scheme already"
    for named in (first.query.id, query.id, str(first.logs), "operator"):
        assert str(named) in str(error), named
    assert not list((tmp_path / "second").glob("checkpoint-out/*.parquet")), "no row is out"
    # With a name of its own it reads all, from the first row on.
    second.source["operator"] = "again"
    second.unique().processAllAvailable()
    assert second.written() == 50
    # And under the old name, when the first one has left.
    first.query.stop()
    third = Job(spark, tmp_path / "third", server)
    third.logs = first.logs

    def takes_over() -> bool:
        try:
            third.unique().processAllAvailable()
        except StreamingQueryException:
            return False
        return True

    wait_for(takes_over, "the other query takes over")
    assert third.written() == 50


@pytest.mark.slow
def test_a_query_that_is_refused_leaves_nothing_to_wait_for(
    spark: SparkSession, tmp_path: Path, server: ServerProcess
) -> None:
    """Its sink reports before its source does: that held the windows of the others for good."""
    one, two, third = (Job(spark, tmp_path / name, server) for name in ("one", "two", "third"))
    for job, host in ((one, "a"), (two, "b")):
        job.land()
        job.step((host, 1))
    third.logs = one.logs
    query = third.land()
    with pytest.raises(StreamingQueryException) as caught:
        query.processAllAvailable()
    error = caught.value
    assert isinstance(error, tailrace.TailraceWatermarkError)
    assert error.condition == "TAILRACE_WATERMARK_REPORTER_CONFLICT"
    assert "for 60 s. `operator` is an option of" in str(error), "advice once"
    for job, host in ((one, "a"), (two, "b")):
        job.step((host, 12))
    wait_for(lambda: set(one.marked()) == set(two.marked()) == {0}, "both close the window")


@pytest.mark.slow
def test_two_queries_on_disjoint_logs_lose_nothing(
    spark: SparkSession, tmp_path: Path, server: ServerProcess
) -> None:
    one, two = (Job(spark, tmp_path / name, server) for name in ("one", "two"))
    one.unique()
    for minute in range(1, 51, 10):
        one.step(*((host, minute + i) for i in range(10) for host in ("a", "b")))
    two.unique()
    for minute in range(1, 51, 10):
        # The same host in both, as on a machine that writes two logs.
        two.step(*(("a", minute + i) for i in range(10)))
        one.step(("a", 60 + minute / 10), ("b", 60 + minute / 10))
    assert two.written() == 50
    assert one.written() == 110


@pytest.mark.slow
def test_a_row_with_an_odd_host_does_not_keep_the_others_from_the_server(
    spark: SparkSession, tmp_path: Path, server: ServerProcess
) -> None:
    job = Job(spark, tmp_path / "job", server, idle_after="1 day")
    query = job.unique()
    job.step(("a", 10), ("", 11), ("a\nb", 12), ("h" * 201, 13), ("50%", 14))
    _, page = server.request("GET", "/v1/apps/app/hosts?operator=source")
    names = {host["host"] for host in page["hosts"]}
    assert {"a", "%", "a%0Ab", "50%25"} < names
    assert len(names) == 5
    job.step(("a", 20))
    assert query.lastProgress is not None
    low = [
        p["observedMetrics"]["tailrace.watermark"]["lowWatermark"]
        for p in query.recentProgress
        if p.observedMetrics
    ]
    assert low[-1].endswith("12:11:00.000Z") or "12:11:00" in low[-1]


@pytest.mark.slow
def test_another_roster_after_a_restart_counts_whatever_clock_it_comes_from(
    spark: SparkSession, tmp_path: Path, server: ServerProcess
) -> None:
    job = Job(spark, tmp_path / "job", server, hosts=["a", "b"])
    query = job.unique()
    job.step(("a", 1), ("b", 1))
    query.stop()
    # A start on a machine whose clock is in the year 2100, as clients before this one numbered rosters.
    entry: dict[str, Any] = {
        "operator": "source",
        "kind": "source",
        "completeness": "1",
        "roster": ["a", "b"],
    }
    entry |= {"roster_version": 4_102_444_800_000, "progress": {}}
    server.post({"client": query.id, "run": "elsewhere", "operators": [entry]})
    job.source["hosts"] = ["a", "c"]
    query = job.unique()
    job.step(("a", 30), ("b", 30))
    _, state = server.request("GET", "/v1/apps/app")
    low = {o["operator"]: o["output_low_watermark"] for o in state["topology"]}["source"]
    noon = int(NOON.timestamp()) * 1_000_000
    assert low == noon + 60_000_000, "nothing of c has been read"
    job.step(("c", 20))
    _, state = server.request("GET", "/v1/apps/app")
    low = {o["operator"]: o["output_low_watermark"] for o in state["topology"]}["source"]
    assert low == noon + 20 * 60_000_000, "and b is in no roster any more"
    query.stop()


@pytest.mark.contract
def test_a_new_checkpoint_with_fewer_state_partitions_is_waited_for_alone(
    spark: SparkSession, tmp_path: Path, server: ServerProcess
) -> None:
    job = Job(spark, tmp_path / "job", server)
    partitions = "spark.sql.shuffle.partitions"
    before = str(spark.conf.get(partitions))

    def joined(checkpoint: str) -> StreamingQuery:
        right = spark.readStream.schema(SCHEMA).parquet(str(job.logs))
        right = tailrace.accurate_watermark(
            right, "at", host="host", **job.at, **job.source, name="right", operator="right"
        )
        right = right.select(F.col("at").alias("rat"), (F.col("id") + 1).alias("id"))
        pairs = tailrace.join(
            job.waiting(), right, on="id", left_time="at", right_time="rat", after="1 minute"
        )
        writer = pairs.writeStream.format("noop").option("checkpointLocation", str(job.root / checkpoint))
        job.query = writer.start()
        return job.query

    def low() -> int:
        _, state = server.request("GET", "/v1/apps/app")
        found: int = state["global_low_watermark"] or 0
        return (found // 1_000_000 - int(NOON.timestamp())) // 60

    try:
        spark.conf.set(partitions, "4")
        query = joined("four")
        job.step(*(("a", m) for m in range(1, 20)))
        job.step(("a", 20))
        query.stop()
        spark.conf.set(partitions, "1")

        def goes_on() -> bool:
            try:
                joined("one").processAllAvailable()
            except StreamingQueryException:
                return False
            return True

        wait_for(goes_on, "the query goes on")
        job.step(("a", 40))
        job.step(("a", 41))
        job.step(("a", 42))
        assert low() >= 38, "nobody waits for state partitions of another checkpoint"
    finally:
        spark.conf.set(partitions, before)


@pytest.mark.slow
def test_two_backfills_are_two_reporters(spark: SparkSession, tmp_path: Path, server: ServerProcess) -> None:
    """Their tables have no name. The second would be taken for one that reads what the first has read."""
    jobs = {host: Job(spark, tmp_path / host, server) for host in ("a", "b")}

    def begin(job: Job, host: str, minute: int) -> None:
        def pipeline(logs: DataFrame) -> DataStreamWriter:
            waiting = tailrace.accurate_watermark(logs, "at", host="host", **job.at, **job.source)
            return waiting.select("id").writeStream.format("parquet").option("path", str(job.root / "out"))

        tailrace.backfill(
            pipeline,
            {"logs": spark.createDataFrame([(host, NOON + timedelta(minutes=minute), 1)], SCHEMA)},
            {"logs": spark.readStream.schema(SCHEMA).parquet(str(job.logs))},
            time="at",
            until=None,
            checkpoint=job.root / "checkpoint",
        )

    begin(jobs["a"], "a", 5)
    begin(jobs["b"], "b", 50)
    _, state = server.request("GET", "/v1/apps/app")
    [source] = [known for known in state["topology"] if known["operator"] == "source"]
    reads = [reporter["reads"] for reporter in source["reporters"]]
    assert len(reads) == 2, "each waits for the other's hosts"
    assert reads[0] != reads[1]
