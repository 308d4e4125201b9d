"""The topics of a scenario on a real broker: a Spark that reads, writes and copies them."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

import local_spark
import tailrace
from tailrace.kafka import connector_jars

if TYPE_CHECKING:
    from pathlib import Path

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
