"""The processes that the Kafka campaign kills.

    kafka_worker.py ROOT copy|read go-on|drain SERVERS

`copy` is pipeline 1, at-least-once, from kill-1 to kill-2; `read` is pipeline 2, which must see each record
once. `go-on` in small batches, so that there is much to kill, or `drain` what there is and end.
Says READY once the query is up, and DONE when it has drained its topic.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import worker_session

import tailrace
from tailrace.kafka import connector_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def _stream(spark: SparkSession, servers: str, topic: str, batch: int) -> DataFrame:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    return reader.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=str(batch)).load()


def _copy(spark: SparkSession, servers: str, batch: int) -> DataStreamWriter:
    pid = tailrace.producer_id(query="copy", stream="out", brokers=servers, path="kill-1")
    out = _stream(spark, servers, "kill-1", batch).select(
        tailrace.stream_metadata(pid, "partition", "offset").alias("key"),
        "value",
        tailrace.source_partition("partition", 2).alias("partition"),
    )
    writer = out.writeStream.format("kafka").option("kafka.bootstrap.servers", servers)
    return writer.option("topic", "kill-2")


def _read(spark: SparkSession, servers: str, batch: int, root: Path) -> DataStreamWriter:
    once = tailrace.filter_replays(_stream(spark, servers, "kill-2", batch))
    return worker_session.into_files(once.select("value"), root)


def main() -> None:
    root, pipeline, until, servers = Path(sys.argv[1]), *sys.argv[2:]
    spark = worker_session.start({"spark.jars": connector_jars()})
    batch = 10_000 if until == "drain" else 100
    writer = _copy(spark, servers, batch) if pipeline == "copy" else _read(spark, servers, 2 * batch, root)
    worker_session.run(writer, worker_session.at(root, f"{pipeline}-checkpoint"), drain=until == "drain")


if __name__ == "__main__":
    main()
