"""`tailrace.backfill`: history and live rows give what one query over all rows gives."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f

import tailrace
from backfill_scenes import (
    ENDS,
    FAULTY,
    LOG_FORMAT,
    MANAGER,
    OF_EACH_RUN,
    QUERIES,
    TIME,
    Scene,
    feed_all,
    labelled,
    made_rows,
    refused_by,
    run_both,
    split,
)
from streams import Row, at
from tailrace._bridge import calls
from tailrace.backfill import HistoryTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    Query = Callable[[DataFrame, DataFrame], DataFrame]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.contract if name in OF_EACH_RUN else pytest.mark.slow)
        for name in QUERIES
    ],
)
def test_history_and_live_rows_are_one_run(spark: SparkSession, tmp_path: Path, name: str) -> None:
    left, right = made_rows(1)
    # A row at exactly the border is live, on either side.
    left, right = [*left, Row(500, 1, 900), Row(501, 1, 899)], [*right, Row(1500, 1, 900), Row(1501, 1, 899)]
    scene = Scene(spark, tmp_path, QUERIES[name])
    made = run_both(scene, 900, left, right)
    assert (made.done, made.read, made.steps) == (True, 3, 3)
    assert scene.rows() == scene.expected(left, right)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", QUERIES)
def test_any_border_will_do(spark: SparkSession, tmp_path: Path, name: str, seed: int) -> None:
    left, right = made_rows(seed + 10)
    until = random.Random(seed).choice([0, 1, 59, 60, 61, 600, 1799, 1800, 5000])
    scene = Scene(spark, tmp_path, QUERIES[name])
    run_both(scene, until, left, right)
    assert scene.rows() == scene.expected(left, right)


@pytest.mark.contract
@pytest.mark.parametrize("name", ["outer"])
def test_columns_that_tables_declare_otherwise(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """NOT NULL, in another order, with another spelling. Two columns of one type change places."""
    left, right = ([row for row in rows if row.key is not None] for rows in made_rows(7, count=30))
    scene = Scene(spark, tmp_path, QUERIES[name])
    (old, new), (known, later) = split(left, 900), split(right, 900)
    tables = {
        side: rows.selectExpr(
            "coalesce(key, 0L) AS KEY",
            f"coalesce({side[0]}_id, 0L) AS {side[0]}_id",
            f"{side[0]}_note",
            f"{side[0]}_ts",
        )
        for side, rows in scene.tables(old, known).items()
    }
    made = scene.backfill(tables, at(900))
    feed_all(scene, {"left": new, "right": later}, ENDS)
    scene.run_live(made)
    assert scene.rows() == scene.expected(left, right)


def test_a_key_that_has_no_nulls_inside_in_the_stream(spark: SparkSession, tmp_path: Path) -> None:
    left, right = ([row for row in rows if row.key is not None] for rows in made_rows(9, count=30))
    scene = Scene(spark, tmp_path, labelled)
    (old, new), (known, later) = split(left, 900), split(right, 900)

    def nested(frames: Mapping[str, DataFrame], key: str) -> dict[str, DataFrame]:
        return {
            side: frame.withColumn("key", f.expr(f"named_struct('of', {key})"))
            for side, frame in frames.items()
        }

    streams = nested(scene.streams(), "coalesce(key, 0L)")
    made = scene.backfill(nested(scene.tables(old, known), "key"), at(900), streams=streams)
    feed_all(scene, {"left": new, "right": later}, ENDS)
    scene.run_live(made)
    assert scene.rows() == scene.expected(left, right)


def test_a_host_is_not_idle_while_history_is_unread(spark: SparkSession, tmp_path: Path) -> None:
    """Micro-batches of history take longer than a host may be idle, which has no row for days of it."""

    def pipeline(left: DataFrame, right: DataFrame) -> DataStreamWriter:
        assert right.isStreaming
        hosts = tailrace.accurate_watermark(
            left, "l_ts", host="l_note", completeness="100%", idle_after="80 milliseconds"
        )
        counts = hosts.groupBy(f.window("l_ts", "1 minute").alias("w")).count()
        return counts.writeStream.format("parquet").option("path", str(tmp_path / "out"))

    scene = Scene(spark, tmp_path, labelled)
    left = [Row(0, 1, 0, "dead"), *(Row(i, 1, 60 * i, "live") for i in range(1, 15))]
    asked: Any = {"time": TIME, "until": at(900), "checkpoint": scene.checkpoint, "step": "1 minute"}
    tailrace.backfill(pipeline, scene.tables(left, []), scene.streams(), **asked)
    assert scene.rows() == []


@pytest.mark.contract
def test_a_border_by_position_and_a_time_of_its_own_for_each_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    left, right = made_rows(2)
    # A late row of history comes only with the stream, which has no row of the table.
    late = [Row(1600, 1, 30), Row(1601, 2, 880)]
    scene = Scene(spark, tmp_path, labelled, delay="1 hour")
    old, new = split(left, 600)
    known, later = split(right, 900)
    made = scene.backfill(scene.tables([*old, *new], known), {"left": at(600), "right": None})
    feed_all(scene, {"left": left, "right": [*late, *later]}, ENDS)
    scene.run_live(made)
    assert scene.rows() == scene.expected(left, [*right, *late])


@pytest.mark.contract
def test_a_program_that_starts_again_goes_on_with_the_live_query(spark: SparkSession, tmp_path: Path) -> None:
    left, right = made_rows(3)
    scene = Scene(spark, tmp_path, labelled)
    (old, new), (known, later) = split(left, 900), split(right, 900)
    tables = scene.tables(old, known)
    made = scene.backfill(tables, at(900))
    assert made.tables is not None
    assert made.tables["left"].rows == len(old)
    first, rest = ({"left": split(new, 1300)[i], "right": split(later, 1300)[i]} for i in (0, 1))
    feed_all(scene, first, {"left": [], "right": []})
    scene.run_live(made)
    again = scene.backfill(tables, at(900))
    assert (again.done, again.read, again.tables) == (True, made.steps, None)
    feed_all(scene, rest, ENDS)
    scene.run_live(again)
    assert scene.rows() == scene.expected(left, right)


@pytest.mark.contract
def test_a_pipeline_of_views(spark: SparkSession, tmp_path: Path) -> None:
    """Over Spark Connect a view is looked up when the query is started."""
    scene = Scene(spark, tmp_path, labelled)

    def pipeline(left: DataFrame, right: DataFrame) -> DataStreamWriter:
        left.createOrReplaceTempView("backfilled_left")
        right.createOrReplaceTempView("backfilled_right")
        rows = spark.sql("SELECT l_id AS id FROM backfilled_left UNION ALL SELECT r_id FROM backfilled_right")
        return rows.writeStream.format("parquet").option("path", str(tmp_path / "out"))

    asked: Any = {"time": TIME, "until": at(600), "checkpoint": scene.checkpoint}
    tables = scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)])
    made = tailrace.backfill(pipeline, tables, scene.streams(), **asked)
    feed_all(scene, {"left": [Row(3, 1, 700)], "right": [Row(4, 1, 700)]}, {"left": [], "right": []})
    scene.run_live(made)
    assert scene.rows() == [str({"id": number}) for number in (1, 2, 3, 4)]


def test_a_checkpoint_is_rescaled_between_history_and_the_live_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    left, right = made_rows(6)
    scene = Scene(spark, tmp_path, labelled)
    (old, new), (known, later) = split(left, 900), split(right, 900)
    made = scene.backfill(scene.tables(old, known), at(900))
    tailrace.rescale(spark, scene.checkpoint, 3)
    feed_all(scene, {"left": new, "right": later}, ENDS)
    scene.run_live(made)
    assert scene.rows() == scene.expected(left, right)


@pytest.mark.spark(">=4.2", reason="format 2 of the offset log is new in Spark 4.2")
def test_an_offset_log_of_format_2(spark: SparkSession, tmp_path: Path) -> None:
    left, right = made_rows(8, count=20)
    scene = Scene(spark, tmp_path, labelled)
    spark.conf.set(LOG_FORMAT, "2")
    try:
        run_both(scene, 900, left, right)
    finally:
        spark.conf.unset(LOG_FORMAT)
    assert scene.rows() == scene.expected(left, right)


def test_a_damaged_description_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, labelled)
    tables = scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)])
    scene.backfill(tables, at(600))
    file = scene.checkpoint / "tailrace-backfill.json"
    file.write_bytes(file.read_bytes().replace(b"left", b"lift"))
    (scene.checkpoint / ".tailrace-backfill.json.crc").unlink(missing_ok=True)
    with refused_by("checksum doesn't fit") as refused:
        scene.backfill(tables, at(600))
    assert refused.value.condition == "TAILRACE_STATE_FILE_CORRUPT"


def test_a_dry_run_counts_and_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, labelled)
    untimed = scene.frame("left", [Row(1, 1, 5), Row(2, 1, 179), Row(3, 1, 180), Row(4, 2, 181)]).selectExpr(
        "l_id", "key", "if(l_id = 2, null, l_ts) AS l_ts", "l_note"
    )
    tables = {"left": untimed, "right": scene.frame("right", [])}
    made = scene.backfill(tables, at(180), dry_run=True)
    assert made.tables == {
        "left": HistoryTable(2, 1, 2, at(5), at(5)),
        "right": HistoryTable(0, 0, 0, None, None),
    }
    assert (made.steps, made.read, made.done) == (1, 0, False)
    assert not scene.checkpoint.exists()
    with pytest.raises(TypeError, match="A dry run has no live query"):
        made.live()


def test_rows_without_a_time_come_from_the_table_and_from_the_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    scene = Scene(spark, tmp_path, labelled)

    def untimed(*rows: Row) -> DataFrame:
        """Those with even ids have no time."""
        return scene.frame("left", rows).withColumn("l_ts", f.expr("if(l_id % 2 = 0, null, l_ts)"))

    made = scene.backfill(
        {"left": untimed(Row(1, 1, 5), Row(2, 1, 6)), "right": scene.frame("right", [])}, at(600)
    )
    untimed(Row(3, 1, 605), Row(4, 1, 5), Row(5, 1, 599)).coalesce(1).write.parquet(
        str(scene.root / "left" / "part=0")
    )
    for side, rows in ENDS.items():
        scene.feed(side, rows)
    scene.run_live(made)
    found = spark.read.parquet(str(tmp_path / "out"))
    assert sorted(row["l_id"] for row in found.collect()) == [1, 2, 3, 4]


def test_tables_without_rows_hand_over(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, labelled)
    left, right = made_rows(4, count=20)
    made = scene.backfill(scene.tables([], []), at(0))
    feed_all(scene, {"left": left, "right": right}, ENDS)
    scene.run_live(made)
    assert scene.rows() == scene.expected(left, right)


@pytest.mark.slow
def test_a_crash_at_any_step_loses_nothing_and_repeats_nothing(spark: SparkSession, tmp_path: Path) -> None:
    left, right = made_rows(5, count=30)
    (old, new), (known, later) = split(left, 900), split(right, 900)
    faults = calls.hold("checkpoint_faults", spark)

    def run(root: Path, step: int) -> list[str]:
        """Fails at a step and at all later ones, and then runs to the end."""
        scene = Scene(spark, root, labelled)
        tables = scene.tables(old, known)
        calls.invoke(faults, "begin", step)
        try:
            scene.backfill(tables, at(900))
        except Exception as error:  # noqa: BLE001  whatever a file system's failure becomes
            assert "simulated failure" in str(error)  # noqa: PT017
        reached = list(calls.invoke(faults, "end"))
        made = scene.backfill(tables, at(900))
        feed_all(scene, {"left": new, "right": later}, ENDS)
        scene.run_live(made)
        assert scene.rows() == scene.expected(left, right), reached[-1]
        return reached

    spark.conf.set(MANAGER, FAULTY)
    try:
        steps = run(tmp_path / "undisturbed", 2**31 - 1)
        # The description, and both entries of the hand-over, are among the last and the first ones.
        for step in sorted({1, 2, 3, *range(4, len(steps), 7), *range(len(steps) - 8, len(steps) + 1)}):
            run(tmp_path / f"step-{step}", step)
    finally:
        calls.invoke(faults, "end")
        spark.conf.unset(MANAGER)
