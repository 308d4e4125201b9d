"""What a user of Kafka does, in a process of its own: the connector has to be there when its JVM starts.

    kafka_scenario.py SERVERS ROOT SCENARIO

Prints what came out as one line of JSON.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import kafka_producers
import local_spark
import tailrace
from tailrace.kafka import connector_jars

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

RECORDS = 1000


class Scenario:
    def __init__(self, servers: str, root: Path) -> None:
        self.spark = local_spark.start("1g", {"spark.jars": connector_jars()})
        self.servers = servers
        self.root = root

    def stream(self, topic: str, **options: str) -> DataFrame:
        reader = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.servers)
        return reader.options(subscribe=topic, startingOffsets="earliest", **options).load()

    def batch(self, topic: str) -> DataFrame:
        reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.servers)
        return reader.option("subscribe", topic).load()

    def write(self, frame: DataFrame, topic: str) -> None:
        writer = frame.write.format("kafka").option("kafka.bootstrap.servers", self.servers)
        writer.option("topic", topic).save()

    def copy(self, source: str, destination: str, partitions: int, name: str) -> None:
        """Pipeline 1: at-least-once, as Spark's Kafka sink is."""
        pid = tailrace.producer_id(query=name, stream="out", brokers=self.servers, path=source)
        out = self.stream(source, maxOffsetsPerTrigger="250").select(
            tailrace.stream_metadata(pid, "partition", "offset").alias("key"),
            "value",
            tailrace.source_partition("partition", partitions).alias("partition"),
        )
        writer = out.writeStream.format("kafka").option("kafka.bootstrap.servers", self.servers)
        query = writer.options(topic=destination, checkpointLocation=str(self.root / name))
        query.trigger(availableNow=True).start().awaitTermination()

    def to_parquet(self, frame: DataFrame, name: str) -> str:
        """Runs a query until it has read all that is there. @return the plan of its last batch"""
        writer = frame.writeStream.format("parquet").option("path", str(self.root / f"{name}-out"))
        writer = writer.option("checkpointLocation", str(self.root / f"{name}-checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        plan = io.StringIO()
        with redirect_stdout(plan):
            query.explain()
        return plan.getvalue()

    def values(self, name: str) -> list[int]:
        rows = self.spark.read.parquet(str(self.root / f"{name}-out")).selectExpr(
            "CAST(value AS STRING) AS v"
        )
        return sorted(int(row.v) for row in rows.collect())

    def forget_batches(self, name: str, first: int) -> None:
        """As if the process had died before it could note that these batches were written."""
        for log in ("commits", "offsets"):
            for file in (self.root / name / log).iterdir():
                if file.name.isdigit() and int(file.name) >= first + (log == "offsets"):
                    file.unlink()


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
        max_pending=20,
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
        waits = query.recentProgress[-1].observedMetrics["tailrace.syncJoin"].waitsFor
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

    def run_twice(name: str, trigger: dict[str, Any], max_pending: int | None = None) -> dict[str, Any]:
        joined = tailrace.sync_join(
            side("asks"),
            side("shows"),
            on="id",
            left_time="at",
            right_time="at",
            window="1 minute",
            sync_delay="5 seconds",
            max_pending=max_pending,
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
        "held back": run_twice("again-2", {"processingTime": "0 seconds"}, max_pending=5),
        "available now": run_twice("again-3", {"availableNow": True}, max_pending=5),
    }


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
    }
    scenario = Scenario(servers, Path(root))
    # Several of them in one Spark, if they are named with commas between.
    found = {each: scenarios[each](scenario) for each in name.split(",")}
    print(json.dumps(found if "," in name else found[name]), flush=True)
    scenario.spark.stop()


if __name__ == "__main__":
    main()
