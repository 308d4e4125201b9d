"""`tailrace.backfill`: history and live rows give what one query over all rows gives."""

from __future__ import annotations

import datetime as dt
import random
from typing import TYPE_CHECKING, Any, cast

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

import tailrace
from streams import Row, at
from tailrace._bridge import calls
from tailrace.backfill import HistoryTable
from tailrace.errors import TailraceStateError
from tailrace.testing.rows import as_dicts
from tailrace.testing.values import batch_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    Query = Callable[[DataFrame, DataFrame], DataFrame]

_SCHEMAS = {
    side: f"{side[0]}_id long, key long, {side[0]}_ts timestamp, {side[0]}_note string"
    for side in ("left", "right")
}
_TIME = {"left": "l_ts", "right": "r_ts"}
# Far behind all others, so that they move the watermark over all of them.
_ENDS: Mapping[str, Sequence[Row]] = {
    "left": [Row(9000, -1, 90_000), Row(9002, -2, 90_000)],
    "right": [Row(9001, -3, 90_000), Row(9003, -4, 90_000)],
}
_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_LOG_FORMAT = "spark.sql.streaming.offsetLog.formatVersion"
_FAULTY = "io.tailrace.testing.FaultyFileManager"


def _join(left: DataFrame, right: DataFrame, **options: Any) -> DataFrame:  # noqa: ANN401 - those of join
    times = {"left_time": "l_ts", "right_time": "r_ts", "after": "100 seconds"}
    return tailrace.join(left, right, **{"on": "key", **times, **options})


def _labelled(left: DataFrame, right: DataFrame) -> DataFrame:
    return _join(left, right, before="20 seconds").selectExpr(
        "l_id", "transform(labels, x -> x.r_id) AS r_ids"
    )


def _paired(left: DataFrame, right: DataFrame) -> DataFrame:
    return _join(left, right, how="inner").select("l_id", "r_id")


def _outer(left: DataFrame, right: DataFrame) -> DataFrame:
    """Spark's own join, whose state has the columns by position."""
    left, right = left.alias("l"), right.alias("r")
    near = f.expr("l.key = r.key AND r_ts >= l_ts AND r_ts <= l_ts + INTERVAL 100 SECONDS")
    return left.join(right, near, "left").select("l_id", "l_note", "r_id", "r_note")


def _as_of(left: DataFrame, right: DataFrame) -> DataFrame:
    found = tailrace.as_of(left, right, on="key", left_time="l_ts", right_time="r_ts")
    return found.selectExpr("l_id", "features.r_id AS r_id")


def _examples(left: DataFrame, right: DataFrame) -> DataFrame:
    definition = (
        tailrace.examples(left, on="key", time="l_ts")
        .label("click", right, time="r_ts", after="60 seconds")
        .label("late", right.where("r_id % 2 = 0"), time="r_ts", after="150 seconds")
        .features("known", right, time="r_ts")
    )
    examples = definition.stream() if left.isStreaming else definition.batch()
    return examples.selectExpr(
        "l_id",
        "transform(click, x -> x.r_id) AS clicks",
        "transform(late, x -> x.r_id) AS lates",
        "known.r_id AS known",
    )


def _counted(left: DataFrame, right: DataFrame) -> DataFrame:
    """Spark's own operators, and a join of Tailrace's behind them."""
    distinct = (
        right.dropDuplicatesWithinWatermark(["r_id"]) if right.isStreaming else right.dropDuplicates(["r_id"])
    )
    found = _join(left, distinct).selectExpr("l_ts", "size(labels) AS n")
    return found.groupBy(f.window("l_ts", "40 seconds").alias("w")).agg(
        f.sum("n").alias("n"), f.count("*").alias("c")
    )


def _synced(left: DataFrame, right: DataFrame) -> DataFrame:
    """Each id once on either side, from one partition, which is read in the order of time."""
    left, right = left.withColumn("id", f.col("l_id")), right.withColumn("id", f.col("r_id") - 1000)
    if not left.isStreaming:
        return left.join(right, "id", "left").select("l_id", "r_id")
    found = tailrace.sync_join(
        left,
        right,
        on="id",
        left_time="l_ts",
        right_time="r_ts",
        window="1 hour",
        sync_delay="1 hour",
        left_partition="l_note",
        right_partition="r_note",
        max_buffered=None,
    )
    return found.selectExpr("l_id", "r_id")


def _of_hosts(left: DataFrame, right: DataFrame) -> DataFrame:
    """A join behind an accurate watermark: the watermark is that of two hosts."""

    def hosts(frame: DataFrame, time: str) -> DataFrame:
        host = f.concat(f.lit("web-"), (f.abs("key") % 2).cast("string"))
        return tailrace.accurate_watermark(
            frame.withColumn("host", host), time, host="host", hosts=["web-0", "web-1"], name=time
        )

    return _join(hosts(left, "l_ts"), hosts(right, "r_ts"), after="40 seconds").selectExpr(
        "l_id", "transform(labels, x -> x.r_id) AS r_ids"
    )


_QUERIES: Mapping[str, Query] = {
    "join": _labelled,
    "inner": _paired,
    "outer": _outer,
    "as_of": _as_of,
    "examples": _examples,
    "counted": _counted,
    "synced": _synced,
    "hosts": _of_hosts,
}


def _with_watermarks(query: Query, delay: str) -> Query:
    def watched(left: DataFrame, right: DataFrame) -> DataFrame:
        return query(left.withWatermark("l_ts", delay), right.withWatermark("r_ts", delay))

    return watched


_OF_EACH_RUN = {"join", "examples", "counted"}


class Scene:
    """Rows of two sides: tables of history, files of the live streams, and a sink."""

    def __init__(self, spark: SparkSession, root: Path, query: Query, delay: str = "30 seconds") -> None:
        self.spark, self.root = spark, root
        self._query = query if query is _of_hosts else _with_watermarks(query, delay)
        self.checkpoint = root / "checkpoint"
        self._files = 0
        for side in _SCHEMAS:
            (root / side).mkdir(parents=True)

    def frame(self, side: str, rows: Sequence[Row]) -> DataFrame:
        values = [(row.id, row.key, at(row.second), row.note) for row in rows]
        return batch_frame(self.spark, batch_schema(self.spark, _SCHEMAS[side]), values)

    def tables(self, left: Sequence[Row], right: Sequence[Row]) -> dict[str, DataFrame]:
        return {"left": self.frame("left", left), "right": self.frame("right", right)}

    def pipeline(self, left: DataFrame, right: DataFrame) -> DataStreamWriter:
        found = self._query(left, right)
        return found.writeStream.format("parquet").option("path", str(self.root / "out"))

    def backfill(self, tables: Mapping[str, DataFrame], until: Any, **options: Any) -> tailrace.Backfill:  # noqa: ANN401
        asked = {"time": _TIME, "until": until, "checkpoint": self.checkpoint, "step": "5 minutes", **options}
        streams = asked.pop("streams", None) or self.streams()
        return tailrace.backfill(self.pipeline, tables, streams, **asked)

    def feed(self, side: str, rows: Sequence[Row]) -> None:
        """A file that the live stream reads."""
        self._files += 1
        self.frame(side, rows).coalesce(1).write.parquet(str(self.root / side / f"part={self._files:05}"))

    def streams(self) -> dict[str, DataFrame]:
        return {
            side: self.spark.readStream.schema(schema)
            .option("maxFilesPerTrigger", 3)
            .parquet(str(self.root / side / "part=*"))
            for side, schema in _SCHEMAS.items()
        }

    def run_live(self, history: tailrace.Backfill) -> None:
        history.live().trigger(availableNow=True).start().awaitTermination()

    def rows(self) -> list[Any]:
        return _sorted(self.spark.read.parquet(str(self.root / "out")))

    def expected(self, left: Sequence[Row], right: Sequence[Row]) -> list[Any]:
        """The batch form over all rows and those that end the streams, which are still open themselves."""
        frames = (
            self.frame(side, [*rows, *_ENDS[side]]) for side, rows in (("left", left), ("right", right))
        )
        return [row for row in _sorted(self._query(*frames)) if _is_emitted(row)]


def batch_schema(spark: SparkSession, text: str) -> Any:  # noqa: ANN401
    return spark.createDataFrame([], text).schema


def _sorted(frame: DataFrame) -> list[Any]:
    def plain(value: Any) -> Any:  # noqa: ANN401
        return sorted(value) if isinstance(value, list) else value

    rows = [{name: plain(value) for name, value in row.items()} for row in as_dicts(frame)]
    return sorted(map(str, rows))


def _made(seed: int, count: int = 60) -> tuple[list[Row], list[Row]]:
    """Rows of half an hour, some at equal times, some at the borders of minutes."""
    chance = random.Random(seed)

    def rows(first: int) -> list[Row]:
        seconds = [
            chance.choice([chance.randrange(0, 1800), 60 * chance.randrange(30)]) for _ in range(count)
        ]
        return [Row(first + i, chance.choice([1, 2, 3, None]), s) for i, s in enumerate(seconds)]

    return rows(0), rows(1000)


def _split(rows: Sequence[Row], second: int) -> tuple[list[Row], list[Row]]:
    return [row for row in rows if row.second < second], [row for row in rows if row.second >= second]


def _in_batches(rows: Sequence[Row]) -> list[list[Row]]:
    """By time, in files of some rows each."""
    ordered = sorted(rows, key=lambda row: row.second)
    return [ordered[n : n + 20] for n in range(0, len(ordered), 20)]


def _feed_all(scene: Scene, sides: Mapping[str, Sequence[Row]], ends: Mapping[str, Sequence[Row]]) -> None:
    for side, rows in sides.items():
        for part in [*_in_batches(rows), ends[side]]:
            scene.feed(side, part)


def _run(scene: Scene, until: int, left: Sequence[Row], right: Sequence[Row]) -> tailrace.Backfill:
    """History up to a second, and live rows, of which some are of history again."""
    history, live = {}, {}
    for side, rows in (("left", left), ("right", right)):
        # The table has rows of the live side, and the stream rows of history: both are left out.
        earlier, later = _split(rows, until)
        history[side] = scene.frame(side, [*earlier, *later[:3]])
        live[side] = [*earlier[-4:], *later]
    made = scene.backfill(history, at(until))
    _feed_all(scene, live, _ENDS)
    scene.run_live(made)
    return made


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.contract if name in _OF_EACH_RUN else pytest.mark.slow)
        for name in _QUERIES
    ],
)
def test_history_and_live_rows_are_one_run(spark: SparkSession, tmp_path: Path, name: str) -> None:
    left, right = _made(1)
    # A row at exactly the border is live, on either side.
    left, right = [*left, Row(500, 1, 900), Row(501, 1, 899)], [*right, Row(1500, 1, 900), Row(1501, 1, 899)]
    scene = Scene(spark, tmp_path, _QUERIES[name])
    made = _run(scene, 900, left, right)
    assert (made.done, made.read, made.steps) == (True, 3, 3)
    assert scene.rows() == scene.expected(left, right)


def _is_emitted(row: str) -> bool:
    """The rows that end the streams are still open."""
    return "'l_id': 900" not in row and "2026, 1, 2" not in row


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", _QUERIES)
def test_any_border_will_do(spark: SparkSession, tmp_path: Path, name: str, seed: int) -> None:
    left, right = _made(seed + 10)
    until = random.Random(seed).choice([0, 1, 59, 60, 61, 600, 1799, 1800, 5000])
    scene = Scene(spark, tmp_path, _QUERIES[name])
    _run(scene, until, left, right)
    assert scene.rows() == scene.expected(left, right)


@pytest.mark.contract
@pytest.mark.parametrize("name", ["outer"])
def test_columns_that_tables_declare_otherwise(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """NOT NULL, in another order, with another spelling. Two columns of one type change places."""
    left, right = ([row for row in rows if row.key is not None] for rows in _made(7, count=30))
    scene = Scene(spark, tmp_path, _QUERIES[name])
    (old, new), (known, later) = _split(left, 900), _split(right, 900)
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
    _feed_all(scene, {"left": new, "right": later}, _ENDS)
    scene.run_live(made)
    assert scene.rows() == scene.expected(left, right)


def test_a_key_that_has_no_nulls_inside_in_the_stream(spark: SparkSession, tmp_path: Path) -> None:
    left, right = ([row for row in rows if row.key is not None] for rows in _made(9, count=30))
    scene = Scene(spark, tmp_path, _labelled)
    (old, new), (known, later) = _split(left, 900), _split(right, 900)

    def nested(frames: Mapping[str, DataFrame], key: str) -> dict[str, DataFrame]:
        return {
            side: frame.withColumn("key", f.expr(f"named_struct('of', {key})"))
            for side, frame in frames.items()
        }

    streams = nested(scene.streams(), "coalesce(key, 0L)")
    made = scene.backfill(nested(scene.tables(old, known), "key"), at(900), streams=streams)
    _feed_all(scene, {"left": new, "right": later}, _ENDS)
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

    scene = Scene(spark, tmp_path, _labelled)
    left = [Row(0, 1, 0, "dead"), *(Row(i, 1, 60 * i, "live") for i in range(1, 15))]
    asked: Any = {"time": _TIME, "until": at(900), "checkpoint": scene.checkpoint, "step": "1 minute"}
    tailrace.backfill(pipeline, scene.tables(left, []), scene.streams(), **asked)
    assert scene.rows() == []


@pytest.mark.contract
def test_a_border_by_position_and_a_time_of_its_own_for_each_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    left, right = _made(2)
    # A late row of history comes only with the stream, which has no row of the table.
    late = [Row(1600, 1, 30), Row(1601, 2, 880)]
    scene = Scene(spark, tmp_path, _labelled, delay="1 hour")
    old, new = _split(left, 600)
    known, later = _split(right, 900)
    made = scene.backfill(scene.tables([*old, *new], known), {"left": at(600), "right": None})
    _feed_all(scene, {"left": left, "right": [*late, *later]}, _ENDS)
    scene.run_live(made)
    assert scene.rows() == scene.expected(left, [*right, *late])


@pytest.mark.contract
def test_a_program_that_starts_again_goes_on_with_the_live_query(spark: SparkSession, tmp_path: Path) -> None:
    left, right = _made(3)
    scene = Scene(spark, tmp_path, _labelled)
    (old, new), (known, later) = _split(left, 900), _split(right, 900)
    tables = scene.tables(old, known)
    made = scene.backfill(tables, at(900))
    assert made.tables is not None
    assert made.tables["left"].rows == len(old)
    first, rest = ({"left": _split(new, 1300)[i], "right": _split(later, 1300)[i]} for i in (0, 1))
    _feed_all(scene, first, {"left": [], "right": []})
    scene.run_live(made)
    again = scene.backfill(tables, at(900))
    assert (again.done, again.read, again.tables) == (True, made.steps, None)
    _feed_all(scene, rest, _ENDS)
    scene.run_live(again)
    assert scene.rows() == scene.expected(left, right)


@pytest.mark.contract
def test_a_pipeline_of_views(spark: SparkSession, tmp_path: Path) -> None:
    """Over Spark Connect a view is looked up when the query is started."""
    scene = Scene(spark, tmp_path, _labelled)

    def pipeline(left: DataFrame, right: DataFrame) -> DataStreamWriter:
        left.createOrReplaceTempView("backfilled_left")
        right.createOrReplaceTempView("backfilled_right")
        rows = spark.sql("SELECT l_id AS id FROM backfilled_left UNION ALL SELECT r_id FROM backfilled_right")
        return rows.writeStream.format("parquet").option("path", str(tmp_path / "out"))

    asked: Any = {"time": _TIME, "until": at(600), "checkpoint": scene.checkpoint}
    tables = scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)])
    made = tailrace.backfill(pipeline, tables, scene.streams(), **asked)
    _feed_all(scene, {"left": [Row(3, 1, 700)], "right": [Row(4, 1, 700)]}, {"left": [], "right": []})
    scene.run_live(made)
    assert scene.rows() == [str({"id": number}) for number in (1, 2, 3, 4)]


def test_a_checkpoint_is_rescaled_between_history_and_the_live_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    left, right = _made(6)
    scene = Scene(spark, tmp_path, _labelled)
    (old, new), (known, later) = _split(left, 900), _split(right, 900)
    made = scene.backfill(scene.tables(old, known), at(900))
    tailrace.rescale(spark, scene.checkpoint, 3)
    _feed_all(scene, {"left": new, "right": later}, _ENDS)
    scene.run_live(made)
    assert scene.rows() == scene.expected(left, right)


@pytest.mark.spark(">=4.2", reason="format 2 of the offset log is new in Spark 4.2")
def test_an_offset_log_of_format_2(spark: SparkSession, tmp_path: Path) -> None:
    left, right = _made(8, count=20)
    scene = Scene(spark, tmp_path, _labelled)
    spark.conf.set(_LOG_FORMAT, "2")
    try:
        _run(scene, 900, left, right)
    finally:
        spark.conf.unset(_LOG_FORMAT)
    assert scene.rows() == scene.expected(left, right)


def test_a_damaged_description_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, _labelled)
    tables = scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)])
    scene.backfill(tables, at(600))
    file = scene.checkpoint / "tailrace-backfill.json"
    file.write_bytes(file.read_bytes().replace(b"left", b"lift"))
    (scene.checkpoint / ".tailrace-backfill.json.crc").unlink(missing_ok=True)
    with _refused("checksum doesn't fit") as refused:
        scene.backfill(tables, at(600))
    assert refused.value.condition == "TAILRACE_STATE_FILE_CORRUPT"


def test_a_dry_run_counts_and_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, _labelled)
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
    scene = Scene(spark, tmp_path, _labelled)

    def untimed(*rows: Row) -> DataFrame:
        """Those with even ids have no time."""
        return scene.frame("left", rows).withColumn("l_ts", f.expr("if(l_id % 2 = 0, null, l_ts)"))

    made = scene.backfill(
        {"left": untimed(Row(1, 1, 5), Row(2, 1, 6)), "right": scene.frame("right", [])}, at(600)
    )
    untimed(Row(3, 1, 605), Row(4, 1, 5), Row(5, 1, 599)).coalesce(1).write.parquet(
        str(scene.root / "left" / "part=0")
    )
    for side, rows in _ENDS.items():
        scene.feed(side, rows)
    scene.run_live(made)
    found = spark.read.parquet(str(tmp_path / "out"))
    assert sorted(row["l_id"] for row in found.collect()) == [1, 2, 3, 4]


def test_tables_without_rows_hand_over(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, _labelled)
    left, right = _made(4, count=20)
    made = scene.backfill(scene.tables([], []), at(0))
    _feed_all(scene, {"left": left, "right": right}, _ENDS)
    scene.run_live(made)
    assert scene.rows() == scene.expected(left, right)


@pytest.mark.slow
def test_a_crash_at_any_step_loses_nothing_and_repeats_nothing(spark: SparkSession, tmp_path: Path) -> None:
    left, right = _made(5, count=30)
    (old, new), (known, later) = _split(left, 900), _split(right, 900)
    faults = calls.hold("checkpoint_faults", spark)

    def run(root: Path, step: int) -> list[str]:
        """Fails at a step and at all later ones, and then runs to the end."""
        scene = Scene(spark, root, _labelled)
        tables = scene.tables(old, known)
        calls.invoke(faults, "begin", step)
        try:
            scene.backfill(tables, at(900))
        except Exception as error:  # noqa: BLE001  whatever a file system's failure becomes
            assert "simulated failure" in str(error)  # noqa: PT017
        reached = list(calls.invoke(faults, "end"))
        made = scene.backfill(tables, at(900))
        _feed_all(scene, {"left": new, "right": later}, _ENDS)
        scene.run_live(made)
        assert scene.rows() == scene.expected(left, right), reached[-1]
        return reached

    spark.conf.set(_MANAGER, _FAULTY)
    try:
        steps = run(tmp_path / "undisturbed", 2**31 - 1)
        # The description, and both entries of the hand-over, are among the last and the first ones.
        for step in sorted({1, 2, 3, *range(4, len(steps), 7), *range(len(steps) - 8, len(steps) + 1)}):
            run(tmp_path / f"step-{step}", step)
    finally:
        calls.invoke(faults, "end")
        spark.conf.unset(_MANAGER)


def _refused(match: str, kind: type[Exception] = TailraceStateError) -> Any:  # noqa: ANN401
    return pytest.raises(kind, match=match)


@pytest.mark.parametrize(
    ("rows", "end"), [([Row(1, 1, 5)], "ends at 2026-01-01 12:00:05+00:00"), ([], "has no rows")]
)
def test_a_gap_behind_a_table_is_told(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, rows: Sequence[Row], end: str
) -> None:
    scene = Scene(spark, tmp_path, _labelled)
    tables = scene.tables(rows, [Row(2, 1, 590)])
    scene.backfill(tables, at(600), dry_run=True)
    told = [
        record.getMessage() for record in caplog.records if "TAILRACE_BACKFILL_GAP" in record.getMessage()
    ]
    assert len(told) == 1
    assert f"the table 'left' {end}" in told[0]


def test_a_dry_run_refuses_what_the_call_refuses(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, _labelled)
    tables = scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)])
    with pytest.raises(AnalysisException, match="l_id"):
        scene.backfill({**tables, "left": tables["left"].drop("l_id")}, at(600), dry_run=True)
    scene.backfill(tables, at(600))
    with _refused("steps of 5 minutes, not 2 minutes"):
        scene.backfill(tables, at(600), step="2 minutes", dry_run=True)


def test_a_backfill_that_has_read_nothing_may_be_another_one(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, _labelled)
    tables = scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)])

    def without_path(left: DataFrame, right: DataFrame) -> DataStreamWriter:
        return _with_watermarks(_labelled, "30 seconds")(left, right).writeStream.format("parquet")

    asked: Any = {"time": _TIME, "checkpoint": scene.checkpoint}
    with pytest.raises(Exception, match="path"):
        tailrace.backfill(without_path, tables, scene.streams(), until=at(600), **asked)
    assert scene.backfill(tables, at(700)).done


def test_another_backfill_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, _labelled)
    tables = scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)])
    scene.backfill(tables, at(600))
    with _refused(
        "has begun with until 2026-01-01T12:10:00Z for 'left', not 2026-01-01T12:10:01Z"
    ) as refused:
        scene.backfill(tables, at(601))
    assert refused.value.condition == "TAILRACE_BACKFILL_CHANGED"
    with _refused("until 2026-01-01T12:10:00Z for 'right', not none"):
        scene.backfill(tables, {"left": at(600), "right": None})
    with _refused("steps of 5 minutes, not 2 minutes"):
        scene.backfill(tables, at(600), step="2 minutes")
    with _refused("steps of 5 minutes, not 2 minutes"):
        scene.backfill(tables, at(600), step="2 minutes", dry_run=True)
    twice = {side: frame.withColumn("seen", f.col(_TIME[side])) for side, frame in tables.items()}
    streams = {side: frame.withColumn("seen", f.col(_TIME[side])) for side, frame in scene.streams().items()}
    with _refused("time l_ts for 'left', not seen"):
        scene.backfill(twice, at(600), streams=streams, time="seen")


def test_a_checkpoint_of_a_query_that_runs_already_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, _labelled)
    _feed_all(scene, {"left": [Row(1, 1, 5)], "right": [Row(2, 1, 6)]}, _ENDS)
    writer = scene.pipeline(**scene.streams()).option("checkpointLocation", str(scene.checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    with _refused("began without a backfill") as refused:
        scene.backfill(scene.tables([Row(3, 1, 5)], []), at(600))
    assert refused.value.condition == "TAILRACE_BACKFILL_OTHER_QUERY"
    with _refused("began without a backfill"):
        scene.backfill(scene.tables([Row(3, 1, 5)], []), at(600), dry_run=True)


def test_the_event_time_may_be_spelled_otherwise_the_next_time(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, _labelled)
    tables = scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)])
    scene.backfill(tables, at(600), time={"left": "L_ts", "right": "r_ts"})
    assert scene.backfill(tables, at(600)).done


def test_a_limit_of_buffered_rows_is_of_the_live_streams(spark: SparkSession, tmp_path: Path) -> None:
    """Files can't be held back, and Spark's rates can. A table is read whole, as with `availableNow`."""
    scene = Scene(spark, tmp_path, _labelled)
    rate = spark.readStream.format("rate").load()
    streams = {
        side: rate.selectExpr(
            f"value AS {side[0]}_id", "value AS key", f"timestamp AS {side[0]}_ts", f"'' AS {side[0]}_note"
        )
        for side in _SCHEMAS
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

    asked: Any = {"time": _TIME, "until": at(600), "checkpoint": scene.checkpoint, "dry_run": True}
    tables = scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)])
    assert tailrace.backfill(synced, tables, streams, **asked).steps == 1


def test_a_stream_that_is_no_argument_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Its directory in the checkpoint would be that of another stream when the live streams begin."""
    scene = Scene(spark, tmp_path, _labelled)
    tables = scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)])

    def pipeline(left: DataFrame, right: DataFrame) -> DataStreamWriter:
        return scene.pipeline(left.union(scene.streams()["left"]), right)

    asked: Any = {"time": _TIME, "until": at(600), "checkpoint": scene.checkpoint}
    with _refused("reads a stream that is none of its arguments: .*FileSource") as refused:
        tailrace.backfill(pipeline, tables, scene.streams(), **asked)
    assert refused.value.condition == "TAILRACE_BACKFILL_OTHER_SOURCE"
    # Nothing was read.
    assert scene.backfill(tables, at(600)).done


def test_a_stream_of_two_sources_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, _labelled)
    streams = scene.streams()
    two = {**streams, "left": streams["left"].union(scene.streams()["left"])}
    for is_dry in (True, False):
        with _refused("`streams.'left'.` of tailrace.backfill is '2 sources'. It has to be a stream of one"):
            scene.backfill(scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)]), at(600), streams=two, dry_run=is_dry)


def test_a_sink_that_lasts_for_one_run_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, _labelled)

    def in_memory(left: DataFrame, right: DataFrame) -> DataStreamWriter:
        found = _with_watermarks(_labelled, "30 seconds")(left, right)
        return found.writeStream.format("memory").queryName(tmp_path.name.replace("-", "_"))

    tables = scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)])
    asked: Any = {"time": _TIME, "until": at(600), "checkpoint": scene.checkpoint}
    with _refused("keeps its rows in one run only") as refused:
        tailrace.backfill(in_memory, tables, scene.streams(), **asked)
    assert refused.value.condition == "TAILRACE_BACKFILL_SINK"


def test_wrong_arguments_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(spark, tmp_path, _labelled)
    tables = scene.tables([Row(1, 1, 5)], [Row(2, 1, 6)])
    with _refused("`tables` of tailrace.backfill is 'left'. It has to be a batch DataFrame"):
        scene.backfill({**tables, "left": scene.streams()["left"]}, at(600))
    with _refused("`time.'right'.` of tailrace.backfill names the column `r_note`"):
        scene.backfill(tables, at(600), time={"left": "l_ts", "right": "r_note"})
    many = spark.range(100_001).selectExpr(
        "id AS l_id", "1L AS key", "timestamp_micros(id) AS l_ts", "'' AS l_note"
    )
    with _refused("It has to be a length with which the tables have at most 100,000 steps"):
        scene.backfill({**tables, "left": many}, at(600), step="1 microsecond")
    with _refused("without a time zone", TypeError):
        scene.backfill(tables, dt.datetime(2026, 1, 1))
    with _refused("`until` has nothing for the table 'right'", TypeError):
        scene.backfill(tables, {"left": at(600)})
    with _refused("`time` has 'middle', which is no table", TypeError):
        scene.backfill(tables, at(600), time={**_TIME, "middle": "l_ts"})
    with _refused("must return a DataStreamWriter", TypeError):
        tailrace.backfill(
            lambda left, right: left.join(right, "key"),
            tables,
            scene.streams(),
            time=_TIME,
            until=at(600),
            checkpoint=tmp_path / "c",
        )
    with _refused("returned StreamingQuery", TypeError):
        tailrace.backfill(
            lambda **streams: cast(
                "Any", scene.pipeline(**streams).option("checkpointLocation", f"{tmp_path}/own").start()
            ),
            tables,
            scene.streams(),
            time=_TIME,
            until=at(600),
            checkpoint=tmp_path / "c",
        )
    assert not spark.streams.active
    with _refused("`streams` has nothing for the table 'right'", TypeError):
        scene.backfill(tables, at(600), streams={"left": scene.streams()["left"]})
    with _refused("`streams` of tailrace.backfill is 'left'. It has to be a stream"):
        scene.backfill(tables, at(600), streams=tables)
    other = scene.streams()["right"].withColumn("key", f.col("key").cast("int"))
    with _refused("has the column `key` of the type int, and the table has bigint. Cast it"):
        scene.backfill(tables, at(600), streams={**scene.streams(), "right": other})
    # Before any row of history is read.
    fewer = {**scene.streams(), "left": scene.streams()["left"].drop("l_id")}
    with pytest.raises(AnalysisException, match="l_id"):
        scene.backfill(tables, at(600), streams=fewer)
    assert not scene.checkpoint.exists()
