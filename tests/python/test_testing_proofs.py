"""`tailrace.testing`: crashes at each step, and streams compared with batches, right ones and wrong ones."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f

import tailrace
from served_clicks import CLICKED, SERVED, labels
from tailrace.testing import assert_stream_equals_batch, crash_at_every_step

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_FEEDS: list[tuple[list[Any], list[Any]]] = [
    ([(7, "12:00"), (8, "12:05")], [(7, "12:01")]),
    ([], [(8, "12:10"), (7, "12:20")]),
]


def written(root: Path, served: DataFrame, clicks: DataFrame) -> DataStreamWriter:
    rows = labels(served, clicks).select("user", "labels.clicked_at")
    return rows.writeStream.format("parquet").option("path", str(root / "out"))


def appended(*, by_batch: bool) -> Callable[..., DataStreamWriter]:
    """A pipeline whose sink is a file of JSON lines: one for each batch, or one that each batch adds to."""

    def pipeline(root: Path, served: DataFrame, clicks: DataFrame) -> DataStreamWriter:
        def take(rows: DataFrame, batch: int) -> None:
            out = root / "out"
            out.mkdir(exist_ok=True)
            lines = [json.dumps(row.asDict()) for row in rows.collect()]
            with (out / (f"{batch}.json" if by_batch else "all.json")).open("w" if by_batch else "a") as file:
                file.writelines(f"{line}\n" for line in lines)

        return labels(served, clicks).selectExpr("user", "size(labels) n").writeStream.foreachBatch(take)

    return pipeline


def lines(root: Path) -> list[str]:
    return [line for file in (root / "out").glob("*.json") for line in file.read_text().splitlines()]


@pytest.mark.campaign
def test_a_sink_by_batch_is_proven(spark: SparkSession, tmp_path: Path) -> None:
    before = spark.conf.get(_MANAGER, None)
    steps = crash_at_every_step(
        spark, tmp_path, appended(by_batch=True), [SERVED, CLICKED], _FEEDS, lines, most=4
    )
    assert len(steps) == 4
    assert spark.conf.get(_MANAGER, None) == before
    assert {step.split()[0] for step in steps} <= {"create", "finish", "finished", "delete"}


@pytest.mark.long
def test_many_steps_of_sparks_file_sink(spark: SparkSession, tmp_path: Path) -> None:
    def read(root: Path) -> list[Any]:
        return spark.read.parquet(str(root / "out")).collect()

    steps = crash_at_every_step(spark, tmp_path, written, [SERVED, CLICKED], _FEEDS, read, most=16)
    what = Counter(step.split()[1].split("/")[0] for step in steps)
    assert set(what) >= {"offsets", "commits", "state"}


@pytest.mark.long
def test_a_sink_that_appends_is_found_out(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(
        AssertionError, match=r"(?s)2 rows are too many after a crash at step .* of \d+, create commits/"
    ):
        # One batch less, so that it has fewer steps: they come in their order, and that one comes late.
        crash_at_every_step(spark, tmp_path, appended(by_batch=False), [SERVED, CLICKED], _FEEDS[:1], lines)


def test_a_few_steps_find_out_a_sink_that_appends(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"2 rows are too many after .*, create commits/"):
        crash_at_every_step(
            spark, tmp_path, appended(by_batch=False), [SERVED, CLICKED], _FEEDS[:1], lines, most=2
        )


@pytest.mark.contract(any_spark=True)
def test_a_query_that_ends_by_itself_sees_all_batches(spark: SparkSession, tmp_path: Path) -> None:
    def pipeline(root: Path, served: DataFrame) -> DataStreamWriter:
        path = str(root / "out")
        return served.writeStream.format("parquet").option("path", path).trigger(availableNow=True)

    def read(root: Path) -> list[Any]:
        users.append([row.user for row in spark.read.parquet(str(root / "out")).collect()])
        return users[-1]

    users: list[list[int]] = []
    feeds = [([(user, "12:00")],) for user in (7, 8, 9)]
    crash_at_every_step(spark, tmp_path, pipeline, [SERVED], feeds, read, most=3)
    assert [sorted(found) for found in users] == [[7, 8, 9]] * 4


@pytest.mark.contract
def test_a_batch_needs_rows_for_each_stream(spark: SparkSession, tmp_path: Path) -> None:
    batches: tuple[Any, ...] = ([(7, "12:00")], [[(7, "12:00")]])
    for batch in batches:
        with pytest.raises(ValueError, match="a list of rows for each of the 2 streams"):
            crash_at_every_step(spark, tmp_path, appended(by_batch=True), [SERVED, CLICKED], [batch], lines)


def test_a_pipeline_without_rows_proves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    def read(_: Path) -> list[Any]:
        return []

    with pytest.raises(ValueError, match="gives no rows without a crash"):
        crash_at_every_step(spark, tmp_path, appended(by_batch=True), [SERVED, CLICKED], _FEEDS[:1], read)


@pytest.mark.contract
def test_an_error_of_the_pipelines_own_is_no_crash(spark: SparkSession, tmp_path: Path) -> None:
    def pipeline(root: Path, served: DataFrame) -> DataStreamWriter:
        assert root.is_dir()
        return served.select(f.raise_error(f.lit("broken"))).writeStream.format("noop")

    with pytest.raises(Exception, match="broken"):
        crash_at_every_step(spark, tmp_path, pipeline, [SERVED], [([(1, "12:00")],)], lines)


SERVED_ROWS = [(user, f"12:{minute:02}") for minute in range(0, 60, 7) for user in (7, 8, None)]
CLICKED_ROWS = [(user, f"12:{minute:02}:30") for minute in range(0, 60, 4) for user in (7, 9)]


@pytest.mark.contract(any_spark=True)
def test_a_join_of_streams_is_that_of_batches(spark: SparkSession, tmp_path: Path) -> None:
    def pairs(served: DataFrame, clicks: DataFrame) -> DataFrame:
        joined = labels(served, clicks)
        return joined.withColumn("labels", f.array_sort("labels"))

    assert_stream_equals_batch(
        spark, tmp_path, pairs, (SERVED, SERVED_ROWS), (CLICKED, CLICKED_ROWS), runs=1, seed=3
    )


@pytest.mark.contract(any_spark=True)
def test_rows_that_are_late_in_the_stream_are_missing(spark: SparkSession, tmp_path: Path) -> None:
    def counted(served: DataFrame) -> DataFrame:
        return tailrace.join(
            served.withWatermark("served_at", "1 minute"),
            served.select(f.col("user"), f.col("served_at").alias("again")).withWatermark(
                "again", "1 minute"
            ),
            on="user",
            left_time="served_at",
            right_time="again",
            after="1 minute",
        ).select("user", "served_at")

    rows = [(1, "12:00"), (2, "13:00"), *((3, "12:01") for _ in range(40))]
    with pytest.raises(
        AssertionError, match=r"rows are missing from streams with seed 0, compared with those as a"
    ):
        assert_stream_equals_batch(spark, tmp_path, counted, (SERVED, rows))
