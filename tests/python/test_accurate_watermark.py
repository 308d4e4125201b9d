"""The accurate watermark as a user calls it, over a stream of files."""

from __future__ import annotations

import datetime as dt
import shutil
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from kept_batches import KeptBatches

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = "host string, at timestamp"
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


class Logs:
    """A folder of log files, and a query that counts rows in windows of ten seconds."""

    def __init__(self, spark: SparkSession, root: Path, **options: Any) -> None:  # noqa: ANN401 - as they are there
        self.spark = spark
        self.root = root
        self.options = {"completeness": "100%", **options}
        self.progress: dict[str, Any] = {}
        (root / "in").mkdir()

    def add(self, *rows: tuple[str, float]) -> list[tuple[float, int]]:
        """Adds a file, runs a query until it has read it. @return closed windows and their counts"""
        log = [(host, NOON + dt.timedelta(seconds=second)) for host, second in rows]
        self.spark.createDataFrame(log, SCHEMA).coalesce(1).write.mode("append").parquet(
            str(self.root / "in")
        )
        stream = self.spark.readStream.schema(SCHEMA).parquet(str(self.root / "in"))
        waiting = tailrace.accurate_watermark(stream, "at", host="host", **self.options)
        counts = waiting.groupBy(F.window("at", "10 seconds")).count()
        closed = counts.select(F.unix_seconds("window.start").alias("start"), "count")
        writer = closed.writeStream.option("checkpointLocation", str(self.root / "checkpoint"))
        before = self._closed()
        query = writer.trigger(availableNow=True).start(str(self.root / "closed"), "parquet")
        query.awaitTermination()
        reports = [p["observedMetrics"] for p in query.recentProgress if p["observedMetrics"]]
        self.progress = reports[-1]["tailrace.watermark"]
        return sorted((self._closed() - before).elements())

    def _closed(self) -> Counter[tuple[float, int]]:
        if not (self.root / "closed").exists():
            return Counter()
        rows = self.spark.read.schema("start long, count long").parquet(str(self.root / "closed")).collect()
        return Counter((row[0] - NOON.timestamp(), row[1]) for row in rows)


@pytest.mark.contract
def test_a_window_waits_for_the_host_that_lags_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    assert logs.add(("web-1", 1), ("web-2", 2), ("web-1", 60)) == []
    assert logs.add(("web-1", 120)) == []
    assert (logs.progress["hosts"], logs.progress["passed"], logs.progress["lateRows"]) == (2, 2, 0)
    assert logs.progress["slowest"][0]["host"] == "web-2"
    assert logs.add(("web-2", 9), ("web-2", 30)) == [(0, 3)]


def test_at_half_it_does_not(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path, completeness="50%", hosts=["web-1", "web-2"])
    assert logs.add(("web-1", 1), ("web-2", 2), ("web-1", 60)) == [(0, 2)]


@pytest.mark.campaign
def test_the_roster_from_a_list_a_file_a_frame_and_a_table(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("web-1",), ("web-2",), ("web-3",), ("web-2",), (None,)], "h string")
    frame.createOrReplaceTempView("web_hosts")
    file = tmp_path / "hosts.txt"
    file.write_text("web-1\nweb-2\n\n web-3\n")
    try:
        for i, hosts in enumerate((["web-1", "web-2", "web-3"], file, str(file), frame, "web_hosts")):
            root = tmp_path / str(i)
            root.mkdir()
            logs = Logs(spark, root, hosts=hosts)
            assert logs.add(("web-1", 60), ("web-2", 60), ("web-9", 1)) == []
            assert (logs.progress["hosts"], logs.progress["passed"]) == (3, 0)
    finally:
        spark.catalog.dropTempView("web_hosts")


@pytest.mark.slow
def test_a_host_whose_rows_are_unread_is_not_silent(spark: SparkSession, tmp_path: Path) -> None:
    # A query that comes back after a pause, with a file a micro-batch to read.
    for number in range(12):
        rows = [("web-1", number)] if number < 11 else [("web-2", 0.5), ("web-2", 1.0)]
        log = [(host, NOON + dt.timedelta(minutes=minute)) for host, minute in rows]
        frame = spark.createDataFrame(log, SCHEMA).coalesce(1)
        frame.write.parquet(str(tmp_path / "new"))
        (tmp_path / "in").mkdir(exist_ok=True)
        (part,) = (tmp_path / "new").glob("*.parquet")
        part.rename(tmp_path / "in" / f"{number:03d}.parquet")
        shutil.rmtree(tmp_path / "new")
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    waiting = tailrace.accurate_watermark(
        stream, "at", host="host", completeness="100%", hosts=["web-1", "web-2"], idle_after="80 milliseconds"
    )
    writer = waiting.dropDuplicatesWithinWatermark(["host", "at"]).writeStream.format("noop")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.processAllAvailable()
    query.stop()
    reports = [
        p["observedMetrics"]["tailrace.watermark"] for p in query.recentProgress if p["observedMetrics"]
    ]
    assert len(reports) >= 12
    assert [(r["idle"], r["lateRows"]) for r in reports] == [(0, 0)] * len(reports)


@pytest.mark.contract
def test_a_host_ahead_of_the_clock_ends_the_query_if_asked(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path, future_limit=dt.timedelta(hours=1), on_future="fail")
    with pytest.raises(StreamingQueryException) as caught:
        logs.add(("web-1", 1), ("web-2", 1e9))
    error = caught.value
    assert isinstance(error, tailrace.TailraceWatermarkError)
    assert error.condition == "TAILRACE_WATERMARK_FUTURE"


def test_a_batch_frame_comes_back_as_it_is(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("web-1", NOON)], SCHEMA)
    assert tailrace.accurate_watermark(frame, "at", host="host").collect() == frame.collect()


@pytest.mark.contract
def test_a_wrong_argument_is_refused_by_name(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("web-1", NOON)], SCHEMA)
    with pytest.raises(tailrace.TailraceWatermarkError, match="event_time") as unknown:
        tailrace.accurate_watermark(frame, "when", host="host")
    assert unknown.value.condition == "TAILRACE_COLUMN_NOT_FOUND"
    assert unknown.value.parameters["column"] == "when"
    with pytest.raises(tailrace.TailraceWatermarkError, match="TAILRACE_OPTION_INVALID"):
        tailrace.accurate_watermark(frame, "at", host="host", hosts=[])
    with pytest.raises(tailrace.TailraceWatermarkError, match="completeness"):
        tailrace.accurate_watermark(frame, "at", host="host", completeness="99.9")
    with pytest.raises(tailrace.TailraceWatermarkError, match="with at most 18 digits behind the point"):
        tailrace.accurate_watermark(frame, "at", host="host", completeness="0." + "9" * 20)
    with pytest.raises(tailrace.TailraceWatermarkError, match="app"):
        tailrace.accurate_watermark(frame, "at", host="host", server="http://127.0.0.1:7171")
    for url in (
        "http://a b",
        "http://127.0.0.1:99999",
        "http://dana:secret@127.0.0.1:7171",
        "127.0.0.1:7171",
        "http://127.0.0.1:7171/a//b",
        "http://127.0.0.1:7171/a?b",
        "http://127.0.0.1:7171/a/../b",
        f"http://127.0.0.1:7171{'/a' * 4000}?",
    ):
        with pytest.raises(tailrace.TailraceWatermarkError, match="http://host:port") as refused:
            tailrace.accurate_watermark(frame, "at", host="host", server=url, app="clicks")
        assert "secret" not in str(refused.value)
    wrong: list[dict[str, Any]] = [
        {"operator": ""},
        {"operator": "a\nb"},
        {"operator": "o" * 300},
        {"token": "secret\n"},
    ]
    for given in wrong:
        with pytest.raises(tailrace.TailraceWatermarkError, match=next(iter(given))) as refused:
            tailrace.accurate_watermark(
                frame, "at", host="host", server="http://127.0.0.1:7171", app="clicks", **given
            )
        assert "secret" not in str(refused.value)
    for app in ("a/b", ""):
        with pytest.raises(tailrace.TailraceWatermarkError, match="no / among them"):
            tailrace.accurate_watermark(frame, "at", host="host", server="http://127.0.0.1:7171", app=app)
    with pytest.raises(TypeError, match="idle_after"):
        tailrace.accurate_watermark(frame, "at", host="host", idle_after=10)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"`hosts` must have strings only, and has None \(NoneType\)\."):
        tailrace.accurate_watermark(frame, "at", host="host", hosts=["a", None])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="`hosts` must be a name or a list of names, not int"):
        tailrace.accurate_watermark(frame, "at", host="host", hosts=1)  # type: ignore[arg-type]


def test_a_roster_that_is_not_there_is_said_of_hosts(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("web-1", NOON)], SCHEMA)
    names = ("web", "web-1", "h1,h2", "web.example.org")
    for hosts in (*names, str(tmp_path / "web"), tmp_path / "web"):
        kind = "table" if hosts in names else "file"
        says = rf"`hosts` is the name of a {kind}, .* there is no such {kind}\. .* as a list"
        with pytest.raises(tailrace.TailraceWatermarkError, match=says) as refused:
            tailrace.accurate_watermark(frame, "at", host="host", hosts=hosts)
        assert refused.value.condition == "TAILRACE_WATERMARK_ROSTER_NOT_FOUND"
        assert refused.value.parameters == {"hosts": str(hosts)}


def test_an_option_that_would_be_ignored_is_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("web-1", NOON, b"")], f"{SCHEMA}, stamp binary")

    def refused(**options: Any) -> set[str | None]:  # noqa: ANN401 - as they are there
        found = []
        with pytest.raises(tailrace.TailraceWatermarkError) as caught:
            tailrace.accurate_watermark(frame, "at", host="host", **options)
        found.append(caught.value)
        with pytest.raises(tailrace.TailraceWatermarkError) as caught:
            tailrace.stamped_watermark(frame, "at", stamp="stamp", partition="host", **options)
        found.append(caught.value)
        return {error.condition for error in found}

    for options in ({"app": "clicks"}, {"operator": "source"}, {"token": "secret"}):
        assert refused(**options) == {"TAILRACE_OPTION_NEEDS"}
    for action in ("mark", "fail"):
        assert refused(on_future=action) == {"TAILRACE_OPTION_NEEDS"}
    assert refused(server="http://127.0.0.1:7171") == {"TAILRACE_OPTION_NEEDS"}
    with pytest.raises(tailrace.TailraceWatermarkError, match=r"has to be '99\.9%'"):
        tailrace.accurate_watermark(frame, "at", host="host", completeness="99.9")


@pytest.mark.contract
def test_a_stamped_stream_has_the_columns_that_it_had(spark: SparkSession) -> None:
    stream = (
        spark.readStream.format("rate").load().selectExpr("timestamp AS at", "0 AS partition", "X'' AS stamp")
    )
    stamped = tailrace.stamped_watermark(
        stream, "at", stamp="stamp", partition="partition", partitions=["0"], delay="1 minute"
    )
    assert stamped.columns == stream.columns
    assert stamped.isStreaming


@pytest.mark.campaign
def test_stamps_travel_through_files_to_the_next_query(spark: SparkSession, tmp_path: Path) -> None:
    """Two queries; what the first writes is a topic of two partitions to the second."""
    logs = tmp_path / "logs"
    topic = tmp_path / "topic"

    def add(*rows: tuple[str, float]) -> None:
        log = [(host, NOON + dt.timedelta(seconds=second)) for host, second in rows]
        spark.createDataFrame(log, SCHEMA).coalesce(1).write.mode("append").parquet(str(logs))

    def upstream() -> None:
        stream = spark.readStream.schema(SCHEMA).parquet(str(logs))
        waiting = tailrace.accurate_watermark(stream, "at", host="host", completeness="50%", hosts=["a", "b"])
        keyed = waiting.withColumn("partition", F.when(F.col("host") == "a", 0).otherwise(1))
        out = tailrace.stamp_watermark(keyed, headers=True).drop("host")
        writer = out.writeStream.format("parquet").option("path", str(topic))
        writer.option("checkpointLocation", str(tmp_path / "up")).trigger(
            availableNow=True
        ).start().awaitTermination()

    def downstream() -> list[tuple[float, int]]:
        kept = KeptBatches(tmp_path / "kept")
        headers = "headers array<struct<key: string, value: binary>>"
        stream = spark.readStream.schema(f"at timestamp, partition int, {headers}").parquet(str(topic))
        waiting = tailrace.stamped_watermark(
            stream, "at", stamp="headers", partition=["partition"], partitions=["0", "1"]
        )
        counts = waiting.groupBy(F.window("at", "10 seconds")).count()
        stamp = F.call_function("parse_watermark_stamp", "watermark")
        start = F.unix_seconds("window.start").alias("start")
        stamped = tailrace.stamp_watermark(counts).select(
            start, "count", stamp["completeness"].alias("completeness")
        )
        writer = stamped.writeStream.foreachBatch(kept)
        writer = writer.option("checkpointLocation", str(tmp_path / "down")).trigger(availableNow=True)
        writer.start().awaitTermination()
        rows = kept.rows()
        assert all(row["completeness"] == Decimal("0.5") for row in rows)
        return [(row["start"] - NOON.timestamp(), row["count"]) for row in rows]

    add(("a", 1), ("b", 2), ("a", 30))
    upstream()
    assert downstream() == []
    # Stamped with the watermark of the rows before: a's time, for b may lag.
    add(("a", 31), ("a", 40))
    upstream()
    assert downstream() == []
    add(("b", 32))
    upstream()
    assert downstream() == [(0, 2)]


@pytest.mark.contract
def test_a_stamp_needs_to_know_how_complete_the_data_is(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    for frame in (stream, stream.withWatermark("timestamp", "1 second")):
        with pytest.raises(tailrace.TailraceWatermarkError, match="TAILRACE_WATERMARK_STAMP_SOURCE"):
            tailrace.stamp_watermark(frame)
    batch = spark.range(1)
    assert tailrace.stamp_watermark(batch).collect()[0].watermark is None
