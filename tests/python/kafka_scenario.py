"""Scenarios of a user of Kafka, in a process of their own: the connector must be there when the JVM starts.

    kafka_scenario.py SERVERS ROOT SCENARIO

Prints what came out as one line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import kafka_backfill
import kafka_producers
import tailrace
from kafka_synced import synced, synced_again
from kafka_topics import RECORDS, Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame


def replays(scenario: Scenario) -> dict[str, Any]:
    spark = scenario.spark
    records = spark.range(RECORDS).selectExpr(
        "CAST(id AS STRING) AS value", "CAST(id % 4 AS INT) AS partition"
    )
    scenario.write(records, "topic-1")
    scenario.copy("topic-1", "topic-2", 2, "copier")
    scenario.forget_batches("copier", 2)
    scenario.copy("topic-1", "topic-2", 2, "copier")
    in_order = tailrace.filter_replays(scenario.stream("topic-2", maxOffsetsPerTrigger="300"))
    split = tailrace.filter_replays(scenario.stream("topic-2", maxOffsetsPerTrigger="300", minPartitions="7"))
    plans = {
        "in order": scenario.to_parquet(in_order.select("value"), "in-order"),
        "split": scenario.to_parquet(split.select("value"), "split"),
    }
    after_the_first = scenario.values("in-order")
    # The next failure, met by a query that was stopped meanwhile.
    scenario.forget_batches("copier", 1)
    scenario.copy("topic-1", "topic-2", 2, "copier")
    scenario.to_parquet(in_order.select("value"), "in-order")
    once = tailrace.filter_replays(scenario.batch("topic-2"))
    return {
        "shuffled": {name: "Exchange" in plan for name, plan in plans.items()},
        "filtered": all("ReplayFilter" in plan for plan in plans.values()),
        "written": scenario.batch("topic-2").count(),
        "after the first failure": after_the_first,
        "in order": scenario.values("in-order"),
        "split": scenario.values("split"),
        "batch": sorted(int(row.v) for row in once.selectExpr("CAST(value AS STRING) AS v").collect()),
        "partitions kept": scenario.batch("topic-2")
        .select("partition", tailrace.parse_stream_metadata("key").alias("m"))
        .where("m.partition % 2 != partition OR m IS NULL")
        .count(),
    }


def label_join(scenario: Scenario) -> dict[str, Any]:
    """Two topics to Parquet; first the labels lag behind, then the impressions do."""
    spark = scenario.spark
    second = "timestamp_seconds(1767268800 + CAST(value AS INT))"

    def side(topic: str, prefix: str) -> DataFrame:
        number = F.expr("CAST(CAST(value AS STRING) AS INT)")
        return (
            scenario.stream(topic)
            .select(number.alias("value"))
            .selectExpr("value % 10 AS k", f"value AS {prefix}_id", f"{second} AS {prefix}_ts")
            .withWatermark(f"{prefix}_ts", "30 seconds")
        )

    def produce(topic: str, first: int, last: int) -> None:
        scenario.write(spark.range(first, last).selectExpr("CAST(id AS STRING) AS value"), topic)

    joined = tailrace.join(
        side("left", "l"), side("right", "r"), on="k", left_time="l_ts", right_time="r_ts", after="20 seconds"
    )

    def run() -> None:
        scenario.to_parquet(joined.selectExpr("l_id AS value", "labels"), "joined")

    produce("left", 0, 300)
    produce("right", 0, 100)
    run()
    produce("right", 100, 500)
    run()
    produce("left", 300, 500)
    run()
    produce("left", 1000, 1001)
    produce("right", 1000, 1001)
    run()
    rows = spark.read.parquet(str(scenario.root / "joined-out")).collect()
    return {"groups": sorted([r.value, sorted(m.r_id for m in r.labels)] for r in rows)}


def stamps(scenario: Scenario) -> dict[str, Any]:
    """Two queries with a topic between them; the second one's windows wait for what the first has read."""
    spark = scenario.spark
    noon = 1767268800

    def log(*rows: tuple[str, int]) -> None:
        header = F.array(F.struct(F.lit("trace").alias("key"), F.lit(b"7").alias("value")))
        lines = spark.createDataFrame([(f"{host} {second}",) for host, second in rows], "value string")
        scenario.write(lines.coalesce(1).withColumn("headers", header), "log-lines")

    def upstream() -> None:
        words = F.split(F.col("value").cast("string"), " ")
        lines = scenario.stream("log-lines", includeHeaders="true").select(
            words[0].alias("host"),
            F.timestamp_seconds(words[1].cast("int") + noon).alias("at"),
            "headers",
        )
        waiting = tailrace.accurate_watermark(lines, "at", host="host", completeness="50%", hosts=["a", "b"])
        out = tailrace.stamp_watermark(waiting, headers=True).select(
            F.unix_seconds("at").cast("string").alias("value"),
            "headers",
            F.when(F.col("host") == "a", 0).otherwise(1).alias("partition"),
        )
        writer = out.writeStream.format("kafka").option("kafka.bootstrap.servers", scenario.servers)
        writer = writer.options(topic="stamped", checkpointLocation=str(scenario.root / "up"))
        writer.trigger(availableNow=True).start().awaitTermination()

    def downstream() -> list[list[int]]:
        topic = scenario.stream("stamped", includeHeaders="true").withColumn(
            "at", F.timestamp_seconds(F.col("value").cast("string").cast("long"))
        )
        waiting = tailrace.stamped_watermark(
            topic, "at", stamp="headers", partitions=["stamped-0", "stamped-1"]
        )
        counts = waiting.groupBy(F.window("at", "10 seconds")).count()
        flat = counts.select((F.unix_seconds("window.start") - noon).alias("start"), "count")
        scenario.to_parquet(flat, "down")
        rows = spark.read.schema("start long, count long").parquet(str(scenario.root / "down-out")).collect()
        return sorted([row["start"], row["count"]] for row in rows)

    found: dict[str, Any] = {}
    rounds = {
        "b lags": [("a", 1), ("b", 2), ("a", 30)],
        "stamped in one partition": [("a", 31), ("a", 40)],
        "stamped in both": [("b", 32)],
    }
    for name, rows in rounds.items():
        log(*rows)
        upstream()
        found[name] = downstream()
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", scenario.servers)
    written = reader.options(subscribe="stamped", includeHeaders="true").load()
    found["headers"] = sorted({tuple(h["key"] for h in row.headers) for row in written.collect()})
    return found


def main() -> None:
    servers, root, name = sys.argv[1:]
    scenarios: dict[str, Callable[[Scenario], dict[str, Any]]] = {
        "replays": replays,
        "label-join": label_join,
        "stamps": stamps,
        "synced": synced,
        "synced-again": synced_again,
        "misuse": kafka_producers.misuse,
        "anew": kafka_producers.anew,
        "spread": kafka_producers.spread,
        "merged": kafka_producers.merged,
        "backfill-by-position": kafka_backfill.by_position,
        "backfill-by-time": kafka_backfill.by_time,
    }
    scenario = Scenario(servers, Path(root))
    # Several of them in one Spark, if they are named with commas between.
    found = {each: scenarios[each](scenario) for each in name.split(",")}
    print(json.dumps(found if "," in name else found[name]), flush=True)
    scenario.spark.stop()


if __name__ == "__main__":
    main()
