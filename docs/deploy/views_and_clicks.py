"""The demo of compose.yaml: views and clicks pass Kafka, and each view is emitted once, with its clicks.

    python views_and_clicks.py

KAFKA is the address of the broker, WATERMARKS the URL of the watermark server, TOKEN_FILE has its token, and
DATA is the folder for output and checkpoints. The topics `views` and `clicks` must exist, with two partitions
each. One query writes them: twenty views a second, and a click for one view in five, two seconds after it.
The other one joins them. It waits for each partition, reports to the watermark server, and writes a folder
for each half minute, which gets _SUCCESS when it is complete.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import tailrace
from tailrace.kafka import connector_jars

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DATA = os.environ["DATA"]
KAFKA = {"kafka.bootstrap.servers": os.environ["KAFKA"]}
TOKEN = Path(os.environ["TOKEN_FILE"]).read_text(encoding="utf-8").strip()
PARTITIONS = ["0", "1"]
SCHEMA = "user long, time timestamp"


def session() -> SparkSession:
    """A session with Tailrace, Spark's Kafka connector, and the metrics for Prometheus."""
    builder = SparkSession.builder.master("local[2]").appName("views and clicks")
    builder = builder.config("spark.jars", connector_jars()).config("spark.driver.memory", "1g")
    builder = builder.config("spark.sql.shuffle.partitions", 2).config("spark.sql.session.timeZone", "UTC")
    listener = "io.tailrace.monitor.MetricsListener"
    return tailrace.configure(
        builder.config("spark.sql.streaming.streamingQueryListeners", listener)
    ).getOrCreate()


def traffic(spark: SparkSession) -> DataFrame:
    """Records of both topics. A user's views and clicks are in one partition, in the order of their times."""
    beats = spark.readStream.format("rate").options(rowsPerSecond=20, numPartitions=1).load()

    def record(topic: str, user: str) -> Column:
        value = f.to_json(f.struct(f.expr(user).alias("user"), f.col("timestamp").alias("time")))
        partition = f.expr("CAST(value % 2 AS INT)").alias("partition")
        return f.struct(f.lit(topic).alias("topic"), partition, value.alias("value"))

    click = f.when(f.expr("value >= 40 AND value % 10 < 2"), record("clicks", "value - 40"))
    records = f.array_compact(f.array(record("views", "value"), click))
    return beats.select(f.explode(records).alias("record")).select("record.*")


def read(spark: SparkSession, topic: str, time: str) -> DataFrame:
    """A topic with a watermark that waits for both partitions, and that other queries may wait for."""
    reader = spark.readStream.format("kafka").options(**KAFKA, subscribe=topic, startingOffsets="earliest")
    row = f.from_json(f.col("value").cast("string"), SCHEMA).alias("row")
    rows = reader.load().select(f.col("partition").cast("string").alias("host"), row)
    rows = rows.select("host", f.col("row.user").alias("user"), f.col("row.time").alias(time))
    return tailrace.accurate_watermark(
        rows,
        time,
        host="host",
        hosts=PARTITIONS,
        completeness="100%",
        server=os.environ["WATERMARKS"],
        app="demo",
        token=TOKEN,
        operator=topic,
        name=topic,
    ).drop("host")


def main() -> None:
    """Runs both queries until one of them ends."""
    spark = session()
    writer = traffic(spark).writeStream.format("kafka").options(**KAFKA).queryName("traffic")
    writer.option("checkpointLocation", f"{DATA}/checkpoints/traffic").trigger(
        processingTime="2 seconds"
    ).start()
    examples = tailrace.join(
        read(spark, "views", "viewed_at"),
        read(spark, "clicks", "clicked_at"),
        on="user",
        left_time="viewed_at",
        right_time="clicked_at",
        after="10 seconds",
    )
    folders = tailrace.write_windows(
        examples,
        f"{DATA}/examples",
        "viewed_at",
        window="30 seconds",
        server=os.environ["WATERMARKS"],
        app="demo",
        token=TOKEN,
        operator="examples",
    ).queryName("examples")
    folders.option("checkpointLocation", f"{DATA}/checkpoints/examples").trigger(
        processingTime="5 seconds"
    ).start()
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()
