"""Windows that land as Parquet, as a user calls it, over streams of files and a real watermark server."""

from __future__ import annotations

import datetime as dt
import json
import socket
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from waiting import wait_for
from watermark_servers import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from watermark_servers import ServerProcess

SCHEMA = "host string, at timestamp, id long"
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
_PATIENCE = 30


def name(second: int) -> str:
    """The directory of the window that begins then."""
    return (NOON + dt.timedelta(seconds=second)).strftime("window_start=%Y%m%dT%H%M%SZ")


@pytest.fixture(autouse=True)
def _stop(spark: SparkSession) -> Iterator[None]:
    yield
    for query in spark.streams.active:
        query.stop()


class Logs:
    """A folder of log files, and a query that lands windows of ten seconds."""

    def __init__(self, spark: SparkSession, root: Path, **options: Any) -> None:  # noqa: ANN401 - as they are there
        self.spark = spark
        self.root = root
        self.out = root / "out"
        self.source = {"completeness": "100%", "hosts": ["a", "b"], **options.pop("source", {})}
        self.options = {"window": "10 seconds", **options}
        self.query: StreamingQuery | None = None
        self._files = 0
        (root / "in").mkdir(parents=True)

    def add(self, *rows: tuple[str, float | None]) -> None:
        """Adds a file of rows."""
        times = [None if second is None else NOON + dt.timedelta(seconds=second) for _, second in rows]
        table = {
            "host": pa.array([host for host, _ in rows], pa.string()),
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "id": pa.array([self._files * 1000 + i for i in range(len(rows))], pa.int64()),
        }
        pq.write_table(pa.table(table), self.root / f"{self._files}.parquet")
        (self.root / f"{self._files}.parquet").rename(self.root / "in" / f"{self._files:05d}.parquet")
        self._files += 1

    def waiting(self) -> DataFrame:
        """The logs with their watermark."""
        stream = self.spark.readStream.schema(SCHEMA).parquet(str(self.root / "in"))
        return tailrace.accurate_watermark(stream, "at", host="host", **self.source)

    def start(self, **trigger: Any) -> StreamingQuery:  # noqa: ANN401 - as they are there
        """Starts the query."""
        writer = tailrace.write_windows(self.waiting(), self.out, "at", **self.options)
        writer = writer.option("checkpointLocation", str(self.root / "checkpoint"))
        self.query = writer.trigger(**trigger).start() if trigger else writer.start()
        return self.query

    def land(self, *rows: tuple[str, float | None]) -> dict[str, Any]:
        """Adds a file, runs a query until it has read it; returns what the query says of its windows."""
        self.add(*rows)
        query = self.start(availableNow=True)
        query.awaitTermination()
        found = [p["observedMetrics"] for p in query.recentProgress if p["observedMetrics"]]
        metrics: dict[str, Any] = found[-1]["tailrace.windows"]
        return metrics

    def marker(self, second: int) -> dict[str, Any] | None:
        """The report in a window's directory, if it is closed."""
        file = self.out / name(second) / "_SUCCESS"
        return json.loads(file.read_text()) if file.exists() else None

    def rows(self, folder: str) -> int:
        """How many rows a directory has."""
        return sum(pq.read_metadata(f).num_rows for f in (self.out / folder).glob("**/*.parquet"))


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
        # What a batch has closed the server hears of with the next one.
        logs.add(("a", 23))
        writer.trigger(availableNow=True).start().awaitTermination()
        _, state = server.request("GET", "/v1/apps/app")
        upstreams = {operator["operator"]: operator["upstreams"] for operator in state["topology"]}
        count = "logs/stateStoreSave-0"
        assert upstreams == {"logs": [], count: ["logs"], "landed": [count]}, "and no sink beside it"
        assert logs.marker(0) is not None


def test_what_is_wrong_is_said_at_once(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    frame = logs.waiting()

    def refused(wrong: DataFrame = frame, at: str = "at", **options: Any) -> str | None:  # noqa: ANN401
        with pytest.raises(tailrace.TailraceWatermarkError) as caught:
            tailrace.write_windows(wrong, tmp_path / "out", at, **options)
        return caught.value.condition

    windows = "TAILRACE_WINDOWS"
    assert refused(spark.createDataFrame([("a", NOON, 1)], SCHEMA)) == f"{windows}_BATCH"
    stream = spark.readStream.format("rate").load()
    assert refused(stream, "timestamp") == f"{windows}_SOURCE"
    assert refused(stream.withWatermark("timestamp", "1 second"), "timestamp") == f"{windows}_SOURCE"
    assert refused(at="when") == "TAILRACE_COLUMN_NOT_FOUND"
    assert refused(at="host") == "TAILRACE_COLUMN_TYPE"
    local = frame.withColumn("local", F.col("at").cast("timestamp_ntz"))
    assert refused(local, "local") == "TAILRACE_COLUMN_TYPE"
    assert refused(into="host") == "TAILRACE_COLUMN_EXISTS"
    for options in (
        {"window": "1 month"},
        {"window": "0 seconds"},
        {"offset": "1 hour"},
        {"into": "a/b"},
        {"missing": -1},
        {"server": "http://127.0.0.1:7171", "app": "clicks", "upstreams": []},
    ):
        assert refused(**options) == "TAILRACE_OPTION_INVALID", options
    with pytest.raises(TypeError, match="window"):
        tailrace.write_windows(frame, tmp_path / "out", "at", window=10)  # type: ignore[arg-type]
    with pytest.raises(tailrace.TailraceWatermarkError, match=f"{windows}_NOT_FOUND"):
        tailrace.window_report(spark, tmp_path / "out")


def test_a_folder_is_of_one_query_and_its_windows(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    logs.land(("a", 1))
    logs.options["window"] = "20 seconds"
    with pytest.raises(Exception, match="TAILRACE_WINDOWS_FOLDER"):
        logs.start(availableNow=True)
    logs.options["window"] = "10 seconds"
    (tmp_path / "checkpoint").rename(tmp_path / "another")
    with pytest.raises(StreamingQueryException) as caught:
        logs.land(("a", 2))
    error = caught.value
    assert isinstance(error, tailrace.TailraceWatermarkError)
    assert error.condition == "TAILRACE_WINDOWS_FOLDER"


def test_a_query_stays_with_its_folder_wherever_that_is(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    logs.land(("a", 1), ("b", 11))
    logs.out = tmp_path / "another"
    with pytest.raises(StreamingQueryException) as caught:
        logs.land(("a", 12), ("b", 25), ("a", 25))
    error = caught.value
    assert isinstance(error, tailrace.TailraceWatermarkError)
    assert error.condition == "TAILRACE_WINDOWS_FOLDER"
    assert "new checkpoint" in str(error)
    assert str(logs.out) in str(error)
    assert not logs.out.exists(), "no row has landed"
    # With its own files it is the same folder under another name.
    (tmp_path / "out").rename(logs.out)
    logs.land()
    assert (logs.marker(10) or {}).get("rows") == 2
    assert logs.rows(name(10)) == 2


def test_the_rows_go_to_no_other_sink(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)

    def started(change: Callable[[DataStreamWriter], DataStreamWriter], path: str | None = None) -> None:
        writer = tailrace.write_windows(logs.waiting(), str(logs.out), "at", window="10 seconds")
        change(writer).option("checkpointLocation", str(tmp_path / "other")).start(path)

    for change, path in (
        (lambda w: w.format("parquet"), str(tmp_path / "elsewhere")),
        (lambda w: w.format("noop"), None),
        (lambda w: w.foreachBatch(lambda _frame, _batch: None), None),
        (lambda w: w, str(tmp_path / "elsewhere")),
        (lambda w: w.option("path", str(tmp_path / "elsewhere")), None),
    ):
        with pytest.raises(Exception, match="TAILRACE_WINDOWS_SINK"):
            started(change, path)
    assert not list(tmp_path.glob("elsewhere/*.parquet"))
    started(lambda w: w, str(logs.out))


def test_a_time_that_no_watermark_is_on_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    frame = Logs(spark, tmp_path).waiting()
    counts = frame.groupBy(F.window("at", "5 seconds")).count()
    for wrong, column, other in (
        (frame.withColumn("earlier", F.expr("at - interval 1 hour")), "earlier", "at"),
        (frame.withColumn("at", F.expr("at - interval 1 hour")), "at", None),
        (counts.select("window.start", F.window_time("window").alias("end")), "start", "end"),
    ):
        with pytest.raises(tailrace.TailraceWatermarkError) as caught:
            tailrace.write_windows(wrong, tmp_path / "out", column)
        assert caught.value.condition == "TAILRACE_WINDOWS_WATERMARK_MISSING"
        assert caught.value.parameters["column"] == column
        assert ("its watermark is on" in str(caught.value)) == (other is not None)
        assert other is None or f"`{other}`" in str(caught.value)


def test_a_server_is_named_as_a_whole_or_not_at_all(spark: SparkSession, tmp_path: Path) -> None:
    frame = Logs(spark, tmp_path).waiting()

    def refused(**options: Any) -> tailrace.TailraceError:  # noqa: ANN401
        with pytest.raises(tailrace.TailraceWatermarkError) as caught:
            tailrace.write_windows(frame, tmp_path / "out", "at", **options)
        return caught.value

    url = "http://127.0.0.1:7171"
    for options in ({"app": "clicks"}, {"token": "secret"}, {"upstreams": ["source"]}):
        error = refused(**options)
        assert error.condition == "TAILRACE_OPTION_NEEDS"
        assert error.parameters["argument"] == next(iter(options))
    assert refused(server=url).condition == "TAILRACE_OPTION_NEEDS"
    error = refused(server=url, app="clicks")
    assert error.condition == "TAILRACE_WINDOWS_SERVER"
    assert error.parameters["names"] == "watermark"
    assert "accurate_watermark" in str(error)
    assert "upstreams` is" not in str(error)


def test_a_batch_runs_again_and_lands_once_and_a_checkpoint_that_was_set_back_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs = Logs(spark, tmp_path)
    logs.land(("a", 1), ("b", 1))
    logs.land(("a", 12), ("b", 5))
    commits = tmp_path / "checkpoint" / "commits"
    max(commits.glob("[0-9]*")).unlink()
    # The batch that runs again has told its hosts' progress, too.
    metrics = logs.land(("b", 10))
    assert logs.rows(name(0)) == 3
    assert (logs.marker(0) or {}).get("rows") == 3
    assert metrics["rows"] == 1
    newest = max(commits.glob("[0-9]*"))
    offsets = tmp_path / "checkpoint" / "offsets" / newest.name
    newest.unlink()
    text = offsets.read_text()
    offsets.write_text(text.replace('{"logOffset":2}', '{"logOffset":1}'))
    offsets.with_name(f".{offsets.name}.crc").unlink(missing_ok=True)
    assert offsets.read_text() != text
    with pytest.raises(StreamingQueryException, match="TAILRACE_WINDOWS_ROLLED_BACK"):
        logs.land(("b", 11))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with running(f"sqlite:///{tmp_path / 'watermarks.db'}") as process:
        yield process


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
        listening.settimeout(_PATIENCE)
        for _ in range(connections):
            listening.accept()[0].close()


def test_hosts_of_a_source_that_two_queries_read_are_the_servers_and_nothing_closes_without_it(
    spark: SparkSession, tmp_path: Path, server: ServerProcess
) -> None:
    at = {"server": server.url, "app": "app"}
    source = {"hosts": ["a", "b", "c"], "completeness": "60%", "operator": "logs", **at}
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
