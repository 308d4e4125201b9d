"""A topic that is history up to some offset, or up to some time, and live from there on."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from kafka_topics import Scenario

_RECORDS = 400
_FIRST = 1_767_268_800


def by_position(scenario: Scenario) -> dict[str, Any]:
    """The records of an at-least-once topic, each once: the table is the topic itself up to some offsets."""
    records = scenario.spark.range(_RECORDS).selectExpr(
        "CAST(id AS STRING) AS value", "CAST(id % 4 AS INT) AS partition"
    )
    scenario.write(records, "topic-1")
    scenario.copy("topic-1", "topic-2", 2, "copier")
    scenario.forget_batches("copier", 1)
    offsets = _ends(scenario, "topic-2")
    # Written again: records that the table has, and that the stream's filter must know.
    scenario.copy("topic-1", "topic-2", 2, "copier")
    table = scenario.spark.read.format("kafka").options(
        **{"kafka.bootstrap.servers": scenario.servers, "subscribe": "topic-2", "endingOffsets": offsets}
    )

    def pipeline(records: DataFrame) -> DataStreamWriter:
        return _written(scenario, tailrace.filter_replays(records).select("value"), "by-position")

    live = scenario.spark.readStream.format("kafka").options(
        **{
            "kafka.bootstrap.servers": scenario.servers,
            "subscribe": "topic-2",
            "startingOffsets": offsets,
        }
    )
    history = tailrace.backfill(
        pipeline,
        {"records": table.load()},
        {"records": live.load()},
        time="timestamp",
        until=None,
        checkpoint=scenario.root / "by-position-checkpoint",
    )
    _run(history.live())
    return {
        "written": scenario.batch("topic-2").count(),
        "of the table": table.load().count(),
        "read": scenario.values("by-position"),
    }


def by_time(scenario: Scenario) -> dict[str, Any]:
    """Files until noon, and then the topic, which has records of before noon, too."""
    spark, noon = scenario.spark, dt.datetime.fromtimestamp(_FIRST + 200, dt.UTC)
    at = "timestamp_seconds({} + id)"

    def rows(first: int, last: int) -> DataFrame:
        return spark.range(first, last).selectExpr("id", f"{at.format(_FIRST)} AS at", "id % 10 AS key")

    rows(0, 260).write.parquet(str(scenario.root / "table"))
    sent = rows(150, 400).selectExpr("CAST(id AS STRING) AS value", "at AS timestamp")
    scenario.write(sent, "timed")

    def pipeline(records: DataFrame) -> DataStreamWriter:
        timed = records.withWatermark("at", "5 seconds")
        pairs = tailrace.join(
            timed.selectExpr("id AS l_id", "key", "at AS l_at"),
            timed.selectExpr("id AS r_id", "key", "at AS r_at"),
            on="key",
            left_time="l_at",
            right_time="r_at",
            after="10 seconds",
            how="inner",
        )
        return _written(scenario, pairs.select("l_id", "r_id"), "by-time")

    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", scenario.servers)
    margin = str((_FIRST + 190) * 1000)
    # A partition without such a record is read from its end on, and not refused.
    options = {"startingTimestamp": margin, "startingOffsetsByTimestampStrategy": "latest"}
    stream = reader.options(subscribe="timed", **options).load()
    number = F.col("value").cast("string").cast("long").alias("id")
    timed = stream.select(number).selectExpr("id", f"{at.format(_FIRST)} AS at", "id % 10 AS key")
    history = tailrace.backfill(
        pipeline,
        {"records": spark.read.parquet(str(scenario.root / "table"))},
        {"records": timed},
        time="at",
        until=noon,
        checkpoint=scenario.root / "by-time-checkpoint",
        step="1 minute",
    )
    _run(history.live())
    found = spark.read.parquet(str(scenario.root / "by-time-out")).collect()
    return {"pairs": sorted([row.l_id, row.r_id] for row in found)}


def _written(scenario: Scenario, frame: DataFrame, name: str) -> DataStreamWriter:
    return frame.writeStream.format("parquet").option("path", str(scenario.root / f"{name}-out"))


def _run(writer: DataStreamWriter) -> None:
    writer.trigger(availableNow=True).start().awaitTermination()


def _ends(scenario: Scenario, topic: str) -> str:
    ends = scenario.batch(topic).groupBy("partition").agg(F.max("offset").alias("last")).collect()
    offsets: Mapping[str, int] = {str(row.partition): row.last + 1 for row in ends}
    return json.dumps({topic: offsets})
