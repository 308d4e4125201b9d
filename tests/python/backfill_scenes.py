"""Tables, live streams and queries of backfills, and what one query over all rows gives."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f

import tailrace
from streams import Row, at
from tailrace.errors import TailraceStateError
from tailrace.testing.rows import as_dicts
from tailrace.testing.values import batch_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    Query = Callable[[DataFrame, DataFrame], DataFrame]

SCHEMAS = {
    side: f"{side[0]}_id long, key long, {side[0]}_ts timestamp, {side[0]}_note string"
    for side in ("left", "right")
}
TIME = {"left": "l_ts", "right": "r_ts"}
# Far behind all others, so that they move the watermark over all of them.
ENDS: Mapping[str, Sequence[Row]] = {
    "left": [Row(9000, -1, 90_000), Row(9002, -2, 90_000)],
    "right": [Row(9001, -3, 90_000), Row(9003, -4, 90_000)],
}
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
LOG_FORMAT = "spark.sql.streaming.offsetLog.formatVersion"
FAULTY = "io.tailrace.testing.FaultyFileManager"


def joined(left: DataFrame, right: DataFrame, **options: Any) -> DataFrame:  # noqa: ANN401 - those of join
    times = {"left_time": "l_ts", "right_time": "r_ts", "after": "100 seconds"}
    return tailrace.join(left, right, **{"on": "key", **times, **options})


def labelled(left: DataFrame, right: DataFrame) -> DataFrame:
    return joined(left, right, before="20 seconds").selectExpr(
        "l_id", "transform(labels, x -> x.r_id) AS r_ids"
    )


def _paired(left: DataFrame, right: DataFrame) -> DataFrame:
    return joined(left, right, how="inner").select("l_id", "r_id")


def outer(left: DataFrame, right: DataFrame) -> DataFrame:
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
    found = joined(left, distinct).selectExpr("l_ts", "size(labels) AS n")
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


def of_hosts(left: DataFrame, right: DataFrame) -> DataFrame:
    """A join behind an accurate watermark: the watermark is that of two hosts."""

    def hosts(frame: DataFrame, time: str) -> DataFrame:
        host = f.concat(f.lit("web-"), (f.abs("key") % 2).cast("string"))
        return tailrace.accurate_watermark(
            frame.withColumn("host", host), time, host="host", hosts=["web-0", "web-1"], name=time
        )

    return joined(hosts(left, "l_ts"), hosts(right, "r_ts"), after="40 seconds").selectExpr(
        "l_id", "transform(labels, x -> x.r_id) AS r_ids"
    )


QUERIES: Mapping[str, Query] = {
    "join": labelled,
    "inner": _paired,
    "outer": outer,
    "as_of": _as_of,
    "examples": _examples,
    "counted": _counted,
    "synced": _synced,
    "hosts": of_hosts,
}


def with_watermarks(query: Query, delay: str) -> Query:
    def watched(left: DataFrame, right: DataFrame) -> DataFrame:
        return query(left.withWatermark("l_ts", delay), right.withWatermark("r_ts", delay))

    return watched


OF_EACH_RUN = {"join", "examples", "counted"}


class Scene:
    """Rows of two sides: tables of history, files of the live streams, and a sink."""

    def __init__(self, spark: SparkSession, root: Path, query: Query, delay: str = "30 seconds") -> None:
        self.spark, self.root = spark, root
        self._query = query if query is of_hosts else with_watermarks(query, delay)
        self.checkpoint = root / "checkpoint"
        self._files = 0
        for side in SCHEMAS:
            (root / side).mkdir(parents=True)

    def frame(self, side: str, rows: Sequence[Row]) -> DataFrame:
        values = [(row.id, row.key, at(row.second), row.note) for row in rows]
        return batch_frame(self.spark, batch_schema(self.spark, SCHEMAS[side]), values)

    def tables(self, left: Sequence[Row], right: Sequence[Row]) -> dict[str, DataFrame]:
        return {"left": self.frame("left", left), "right": self.frame("right", right)}

    def pipeline(self, left: DataFrame, right: DataFrame) -> DataStreamWriter:
        found = self._query(left, right)
        return found.writeStream.format("parquet").option("path", str(self.root / "out"))

    def backfill(self, tables: Mapping[str, DataFrame], until: Any, **options: Any) -> tailrace.Backfill:  # noqa: ANN401
        asked = {"time": TIME, "until": until, "checkpoint": self.checkpoint, "step": "5 minutes", **options}
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
            for side, schema in SCHEMAS.items()
        }

    def run_live(self, history: tailrace.Backfill) -> None:
        history.live().trigger(availableNow=True).start().awaitTermination()

    def rows(self) -> list[Any]:
        return sorted_rows(self.spark.read.parquet(str(self.root / "out")))

    def expected(self, left: Sequence[Row], right: Sequence[Row]) -> list[Any]:
        """The batch form over all rows and those that end the streams, which are still open themselves."""
        frames = (self.frame(side, [*rows, *ENDS[side]]) for side, rows in (("left", left), ("right", right)))
        return [row for row in sorted_rows(self._query(*frames)) if is_emitted(row)]


def batch_schema(spark: SparkSession, text: str) -> Any:  # noqa: ANN401
    return spark.createDataFrame([], text).schema


def sorted_rows(frame: DataFrame) -> list[Any]:
    def plain(value: Any) -> Any:  # noqa: ANN401
        return sorted(value) if isinstance(value, list) else value

    rows = [{name: plain(value) for name, value in row.items()} for row in as_dicts(frame)]
    return sorted(map(str, rows))


def made_rows(seed: int, count: int = 60) -> tuple[list[Row], list[Row]]:
    """Rows of half an hour, some at equal times, some at the borders of minutes."""
    chance = random.Random(seed)

    def rows(first: int) -> list[Row]:
        seconds = [
            chance.choice([chance.randrange(0, 1800), 60 * chance.randrange(30)]) for _ in range(count)
        ]
        return [Row(first + i, chance.choice([1, 2, 3, None]), s) for i, s in enumerate(seconds)]

    return rows(0), rows(1000)


def split(rows: Sequence[Row], second: int) -> tuple[list[Row], list[Row]]:
    return [row for row in rows if row.second < second], [row for row in rows if row.second >= second]


def in_batches(rows: Sequence[Row]) -> list[list[Row]]:
    """By time, in files of some rows each."""
    ordered = sorted(rows, key=lambda row: row.second)
    return [ordered[n : n + 20] for n in range(0, len(ordered), 20)]


def feed_all(scene: Scene, sides: Mapping[str, Sequence[Row]], ends: Mapping[str, Sequence[Row]]) -> None:
    for side, rows in sides.items():
        for part in [*in_batches(rows), ends[side]]:
            scene.feed(side, part)


def run_both(scene: Scene, until: int, left: Sequence[Row], right: Sequence[Row]) -> tailrace.Backfill:
    """History up to a second, and live rows, of which some are of history again."""
    history, live = {}, {}
    for side, rows in (("left", left), ("right", right)):
        # The table has rows of the live side, and the stream rows of history: both are left out.
        earlier, later = split(rows, until)
        history[side] = scene.frame(side, [*earlier, *later[:3]])
        live[side] = [*earlier[-4:], *later]
    made = scene.backfill(history, at(until))
    feed_all(scene, live, ENDS)
    scene.run_live(made)
    return made


def is_emitted(row: str) -> bool:
    """The rows that end the streams are still open."""
    return "'l_id': 900" not in row and "2026, 1, 2" not in row


def refused_by(match: str, kind: type[Exception] = TailraceStateError) -> Any:  # noqa: ANN401
    return pytest.raises(kind, match=match)
