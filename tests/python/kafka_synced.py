"""Scenarios of `kafka_scenario.py`: the synced join of two topics, its metrics and its restarts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafka_topics import Scenario


def synced(scenario: Scenario) -> dict[str, Any]:
    """Bids and impressions from two topics; a partition of the impressions is silent at first."""
    noon = 1767268800

    def produce(topic: str, *rows: tuple[str, int, int]) -> None:
        lines = [(f"{key} {second}", partition) for key, second, partition in rows]
        frame = scenario.spark.createDataFrame(lines, "value string, partition int")
        scenario.write(frame.coalesce(1), topic)

    def side(topic: str) -> DataFrame:
        words = F.split(F.col("value").cast("string"), " ")
        created = F.timestamp_seconds(words[1].cast("int") + noon)
        return scenario.stream(topic).select(words[0].alias("id"), created.alias("at"), "topic", "partition")

    joined = tailrace.sync_join(
        side("bids"),
        side("impressions"),
        on="id",
        left_time="at",
        right_time="at",
        window="1 hour",
        sync_delay="5 seconds",
        max_buffered=20,
    )
    pairs = joined.select("id", (F.unix_seconds("at_right") - noon).alias("second"))
    produce("bids", ("a", 0, 0), ("b", 3, 0))
    produce("impressions", ("x", 20, 0))
    query = pairs.writeStream.format("memory").queryName("joined").start()
    found: dict[str, Any] = {}

    def ends() -> dict[str, int]:
        sources = query.recentProgress[-1].sources
        offsets = [json.loads(source.endOffset) for source in sources]
        return {f"{t}-{p}": end for o in offsets for t, parts in o.items() for p, end in parts.items()}

    def look(name: str) -> None:
        query.processAllAvailable()
        waits = query.recentProgress[-1].observedMetrics["tailrace.syncJoin"].heldBackBy
        found[name] = {
            "waits for": [[w["side"], w["partition"], w["condition"]] for w in waits],
            "rows": sorted([row.id, row.second] for row in scenario.spark.table("joined").collect()),
            "read": ends(),
        }

    look("silent")
    # More than may be held, twice: what comes then is left where it is.
    for _ in range(2):
        produce("bids", *((f"n{i}", 10, 0) for i in range(30)))
        produce("impressions", *((f"m{i}", 30, 0) for i in range(30)))
        query.processAllAvailable()
    look("held back")
    produce("impressions", ("a", 1, 1), ("y", 40, 1))
    look("back")
    query.stop()
    return found


def synced_again(scenario: Scenario) -> dict[str, Any]:
    """A query fails between a batch's offsets and its commit, and the next start runs the batch again."""
    noon = 1767268800
    for topic, partitions in (("asks", 1), ("shows", 2)):
        lines = [(f"k{i} {noon + i}", i % partitions) for i in range(20)]
        frame = scenario.spark.createDataFrame(lines, "value string, partition int")
        scenario.write(frame.coalesce(1), topic)

    def side(topic: str) -> DataFrame:
        words = F.split(F.col("value").cast("string"), " ")
        at = F.timestamp_seconds(words[1].cast("long"))
        return scenario.stream(topic).select(words[0].alias("id"), at.alias("at"), "topic", "partition")

    def run_twice(name: str, trigger: dict[str, Any], max_buffered: int | None = None) -> dict[str, Any]:
        joined = tailrace.sync_join(
            side("asks"),
            side("shows"),
            on="id",
            left_time="at",
            right_time="at",
            window="1 minute",
            sync_delay="5 seconds",
            max_buffered=max_buffered,
        ).select("id", F.col("at_right").isNotNull().alias("matched"))
        rows: list[list[Any]] = []
        failures = ["as the test wants it"]

        def take(batch: DataFrame, _: int) -> None:
            found = [[row.id, row.matched] for row in batch.collect()]
            if failures:
                raise RuntimeError(failures.pop())
            rows.extend(found)

        writer = joined.writeStream.foreachBatch(take).trigger(**trigger)
        ends = []
        for _ in range(2):
            query = writer.option("checkpointLocation", str(scenario.root / name)).start()
            try:
                query.processAllAvailable()
                ends.append("done")
            except StreamingQueryException as error:
                ends.append("failed" if "as the test wants it" in str(error) else str(error))
            query.stop()
        return {"ends": ends, "rows": sorted(rows)}

    return {
        "plain": run_twice("again-1", {"processingTime": "0 seconds"}),
        "held back": run_twice("again-2", {"processingTime": "0 seconds"}, max_buffered=5),
        "available now": run_twice("again-3", {"availableNow": True}, max_buffered=5),
    }
