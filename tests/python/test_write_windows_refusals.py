"""`write_windows` refuses wrong arguments, other sinks, and folders and checkpoints of other queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from window_logs import NOON, SCHEMA, Logs, name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from tailrace.options import WindowFormat

pytestmark = pytest.mark.usefixtures("stopped_queries")


def test_a_wrong_argument_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
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
    assert refused(frame.select("*", "id")) == "TAILRACE_COLUMN_AMBIGUOUS"
    assert (
        refused(frame.withColumn("x", F.lit(1)).withColumnRenamed("x", "ID")) == "TAILRACE_COLUMN_AMBIGUOUS"
    )
    assert refused(into="host") == "TAILRACE_COLUMN_EXISTS"
    for options in (
        {"window": "1 month"},
        {"window": "0 seconds"},
        {"offset": "1 hour"},
        {"into": "a/b"},
        {"missing": -1},
        {"target_file_size": "1000 kB"},
        {"target_file_size": "17 GB"},
        {"target_file_size": "128 megs"},
        {"server": "http://127.0.0.1:7171", "app": "clicks", "upstreams": []},
        {"format": "hudi", "table": "clicks"},
        {"format": "delta", "table": " "},
        {"format": "iceberg", "table": "/data/clicks"},
    ):
        assert refused(**options) == "TAILRACE_OPTION_INVALID", options
    assert refused(format="delta") == refused(table="clicks") == "TAILRACE_OPTION_NEEDS"
    with pytest.raises(TypeError, match="window"):
        tailrace.write_windows(frame, tmp_path / "out", "at", window=10)  # type: ignore[arg-type]
    with pytest.raises(tailrace.TailraceWatermarkError, match=f"{windows}_NOT_FOUND"):
        tailrace.window_report(spark, tmp_path / "out")
    with pytest.raises(tailrace.TailraceWatermarkError, match="'parquet' or 'delta' or 'iceberg'"):
        tailrace.window_report(spark, "clicks", format="hudi")  # type: ignore[arg-type]


@pytest.mark.parametrize("lake", ["delta", "iceberg"])
def test_a_library_that_is_missing_is_named(spark: SparkSession, tmp_path: Path, lake: WindowFormat) -> None:
    logs = Logs(spark, tmp_path, format=lake, table="clicks")
    for call in (logs.start, lambda: tailrace.window_report(spark, "clicks", format=lake)):
        with pytest.raises(tailrace.TailraceTableError, match=r"spark\.jars\.packages") as refused:
            call()
        assert refused.value.condition == "TAILRACE_TABLE_LIBRARY"
    assert not (tmp_path / "checkpoint").exists()


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
    for options in ({"app": "clicks"}, {"operator": "sink"}, {"token": "secret"}, {"upstreams": ["source"]}):
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
