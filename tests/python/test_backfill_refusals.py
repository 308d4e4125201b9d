"""What `tailrace.backfill` refuses, and its dry run."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, cast

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

import tailrace
from backfill_scenes import ENDS, SCHEMAS, TIME, Scene, feed_all, labelled, refused_by, with_watermarks
from streams import Row, at

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    Query = Callable[[DataFrame, DataFrame], DataFrame]


@pytest.mark.parametrize(
    ("rows", "end"), [([Row(1, 1, 5)], "ends at 2026-01-01 12:00:05+00:00"), ([], "has no rows")]
)
def test_a_gap_behind_a_table_is_told(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, rows: Sequence[Row], end: str
) -> None:
    scene = Scene(spark, tmp_path, labelled)
    tables = scene.tables(rows, [Row(2, 1, 590)])
    scene.backfill(tables, at(600), dry_run=True)
    told = [
        record.getMessage() for record in caplog.records if "TAILRACE_BACKFILL_GAP" in record.getMessage()
    ]
    assert len(told) == 1
    assert f"the table 'left' {end}" in told[0]


def test_a_dry_run_refuses_what_the_call_refuses(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, labelled)
    tables = scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)])
    with pytest.raises(AnalysisException, match="l_id"):
        scene.backfill({**tables, "left": tables["left"].drop("l_id")}, at(600), dry_run=True)
    scene.backfill(tables, at(600))
    with refused_by("steps of 5 minutes, not 2 minutes"):
        scene.backfill(tables, at(600), step="2 minutes", dry_run=True)


def test_a_backfill_that_has_read_nothing_may_be_another_one(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, labelled)
    tables = scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)])

    def without_path(left: DataFrame, right: DataFrame) -> DataStreamWriter:
        return with_watermarks(labelled, "30 seconds")(left, right).writeStream.format("parquet")

    asked: Any = {"time": TIME, "checkpoint": scene.checkpoint}
    with pytest.raises(Exception, match="path"):
        tailrace.backfill(without_path, tables, scene.streams(), until=at(600), **asked)
    assert scene.backfill(tables, at(700)).done


def test_another_backfill_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, labelled)
    tables = scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)])
    scene.backfill(tables, at(600))
    with refused_by(
        "has begun with until 2026-01-01T12:10:00Z for 'left', not 2026-01-01T12:10:01Z"
    ) as refused:
        scene.backfill(tables, at(601))
    assert refused.value.condition == "TAILRACE_BACKFILL_CHANGED"
    with refused_by("until 2026-01-01T12:10:00Z for 'right', not none"):
        scene.backfill(tables, {"left": at(600), "right": None})
    with refused_by("steps of 5 minutes, not 2 minutes"):
        scene.backfill(tables, at(600), step="2 minutes")
    with refused_by("steps of 5 minutes, not 2 minutes"):
        scene.backfill(tables, at(600), step="2 minutes", dry_run=True)
    twice = {side: frame.withColumn("seen", f.col(TIME[side])) for side, frame in tables.items()}
    streams = {side: frame.withColumn("seen", f.col(TIME[side])) for side, frame in scene.streams().items()}
    with refused_by("time l_ts for 'left', not seen"):
        scene.backfill(twice, at(600), streams=streams, time="seen")


def test_a_checkpoint_of_a_query_that_runs_already_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, labelled)
    feed_all(scene, {"left": [Row(1, 1, 5)], "right": [Row(2, 1, 6)]}, ENDS)
    writer = scene.pipeline(**scene.streams()).option("checkpointLocation", str(scene.checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    with refused_by("began without a backfill") as refused:
        scene.backfill(scene.tables([Row(3, 1, 5)], []), at(600))
    assert refused.value.condition == "TAILRACE_BACKFILL_OTHER_QUERY"
    with refused_by("began without a backfill"):
        scene.backfill(scene.tables([Row(3, 1, 5)], []), at(600), dry_run=True)


def test_the_event_time_may_be_spelled_otherwise_the_next_time(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, labelled)
    tables = scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)])
    scene.backfill(tables, at(600), time={"left": "L_ts", "right": "r_ts"})
    assert scene.backfill(tables, at(600)).done


def test_a_limit_of_buffered_rows_is_of_the_live_streams(spark: SparkSession, tmp_path: Path) -> None:
    """Files can't be held back, and Spark's rates can. A table is read whole, as with `availableNow`."""
    scene = Scene(spark, tmp_path, labelled)
    rate = spark.readStream.format("rate").load()
    streams = {
        side: rate.selectExpr(
            f"value AS {side[0]}_id", "value AS key", f"timestamp AS {side[0]}_ts", f"'' AS {side[0]}_note"
        )
        for side in SCHEMAS
    }

    def synced(left: DataFrame, right: DataFrame) -> DataStreamWriter:
        found = tailrace.sync_join(
            left.withWatermark("l_ts", "1 minute"),
            right.withWatermark("r_ts", "1 minute"),
            on="key",
            left_time="l_ts",
            right_time="r_ts",
            window="1 hour",
            sync_delay="1 hour",
            left_partition="l_note",
            right_partition="r_note",
            max_buffered=1000,
        )
        return found.writeStream.format("noop")

    asked: Any = {"time": TIME, "until": at(600), "checkpoint": scene.checkpoint, "dry_run": True}
    tables = scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)])
    assert tailrace.backfill(synced, tables, streams, **asked).steps == 1


def test_a_stream_that_is_no_argument_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Its directory in the checkpoint would be that of another stream when the live streams begin."""
    scene = Scene(spark, tmp_path, labelled)
    tables = scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)])

    def pipeline(left: DataFrame, right: DataFrame) -> DataStreamWriter:
        return scene.pipeline(left.union(scene.streams()["left"]), right)

    asked: Any = {"time": TIME, "until": at(600), "checkpoint": scene.checkpoint}
    with refused_by("reads a stream that is none of its arguments: .*FileSource") as refused:
        tailrace.backfill(pipeline, tables, scene.streams(), **asked)
    assert refused.value.condition == "TAILRACE_BACKFILL_OTHER_SOURCE"
    # Nothing was read.
    assert scene.backfill(tables, at(600)).done


def test_a_stream_of_two_sources_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, labelled)
    streams = scene.streams()
    two = {**streams, "left": streams["left"].union(scene.streams()["left"])}
    for is_dry in (True, False):
        with refused_by(
            "`streams.'left'.` of tailrace.backfill is '2 sources'. It has to be a stream of one"
        ):
            scene.backfill(scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)]), at(600), streams=two, dry_run=is_dry)


def test_a_sink_that_lasts_for_one_run_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, labelled)

    def in_memory(left: DataFrame, right: DataFrame) -> DataStreamWriter:
        found = with_watermarks(labelled, "30 seconds")(left, right)
        return found.writeStream.format("memory").queryName(tmp_path.name.replace("-", "_"))

    tables = scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)])
    asked: Any = {"time": TIME, "until": at(600), "checkpoint": scene.checkpoint}
    with refused_by("keeps its rows in one run only") as refused:
        tailrace.backfill(in_memory, tables, scene.streams(), **asked)
    assert refused.value.condition == "TAILRACE_BACKFILL_SINK"


def test_wrong_arguments_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, labelled)
    tables = scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)])
    with refused_by("`tables` of tailrace.backfill is 'left'. It has to be a batch DataFrame"):
        scene.backfill({**tables, "left": scene.streams()["left"]}, at(600))
    with refused_by("`time.'right'.` of tailrace.backfill names the column `r_note`"):
        scene.backfill(tables, at(600), time={"left": "l_ts", "right": "r_note"})
    many = spark.range(100_001).selectExpr(
        "id AS l_id", "1L AS key", "timestamp_micros(id) AS l_ts", "'' AS l_note"
    )
    with refused_by("It has to be a length with which the tables have at most 100,000 steps"):
        scene.backfill({**tables, "left": many}, at(600), step="1 microsecond")
    with refused_by("without a time zone", TypeError):
        scene.backfill(tables, dt.datetime(2026, 1, 1))
    with refused_by("`until` has nothing for the table 'right'", TypeError):
        scene.backfill(tables, {"left": at(600)})
    with refused_by("`time` has 'middle', which is no table", TypeError):
        scene.backfill(tables, at(600), time={**TIME, "middle": "l_ts"})
    with refused_by("must return a DataStreamWriter", TypeError):
        tailrace.backfill(
            lambda left, right: left.join(right, "key"),
            tables,
            scene.streams(),
            time=TIME,
            until=at(600),
            checkpoint=tmp_path / "c",
        )
    with refused_by("returned StreamingQuery", TypeError):
        tailrace.backfill(
            lambda **streams: cast(
                "Any", scene.pipeline(**streams).option("checkpointLocation", f"{tmp_path}/own").start()
            ),
            tables,
            scene.streams(),
            time=TIME,
            until=at(600),
            checkpoint=tmp_path / "c",
        )
    assert not spark.streams.active
    with refused_by("`streams` has nothing for the table 'right'", TypeError):
        scene.backfill(tables, at(600), streams={"left": scene.streams()["left"]})
    with refused_by("`streams` of tailrace.backfill is 'left'. It has to be a stream"):
        scene.backfill(tables, at(600), streams=tables)
    other = scene.streams()["right"].withColumn("key", f.col("key").cast("int"))
    with refused_by("has the column `key` of the type int, and the table has bigint. Cast it"):
        scene.backfill(tables, at(600), streams={**scene.streams(), "right": other})
    # Before any row of history is read.
    fewer = {**scene.streams(), "left": scene.streams()["left"].drop("l_id")}
    with pytest.raises(AnalysisException, match="l_id"):
        scene.backfill(tables, at(600), streams=fewer)
    assert not scene.checkpoint.exists()
