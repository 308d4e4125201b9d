"""A query with state that writes a topic by the recipe of the guide, and a reader of the topic.

    kafka_sink_worker.py ROOT write SERVERS HALF WHOLE
    kafka_sink_worker.py ROOT read SERVERS

The recipe is the guide's code, in ROOT/recipe.py. `write` says WRITTEN and waits to be killed when half of
the micro-batch HALF is in the topic, or all of WHOLE, and neither has been committed; -1 is none of them.
Both read all that there is, and then say DONE.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import worker_session

import tailrace
from tailrace.kafka import connector_jars

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

TOPIC = "examples"
PARTITIONS = 2


def _wait_to_be_killed() -> None:
    print("WRITTEN", flush=True)
    sys.stdin.read()


def _write(spark: SparkSession, root: Path, servers: str, half: int, whole: int) -> DataStreamWriter:
    names: dict[str, Any] = {}
    exec((root / "recipe.py").read_text(), names)  # noqa: S102
    into: Callable[[DataFrame, int], None] = names["into_topic"](TOPIC, PARTITIONS, servers, ["l_id", "l_ts"])

    def each(rows: DataFrame, batch: int) -> None:
        if batch == half:
            into(rows.where(f"pmod(xxhash64(l_id), {PARTITIONS}) = 0"), batch)
            _wait_to_be_killed()
        into(rows, batch)
        if batch == whole:
            _wait_to_be_killed()

    left, right = worker_session.sides(spark, root, "left", "right")
    joined = tailrace.join(left, right, on="key", left_time="l_ts", right_time="r_ts", after="30 seconds")
    return joined.writeStream.foreachBatch(each)


def _read(spark: SparkSession, root: Path, servers: str) -> DataStreamWriter:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    records = reader.options(subscribe=TOPIC, startingOffsets="earliest").load()
    return worker_session.into_files(tailrace.filter_replays(records).selectExpr("value"), root)


def main() -> None:
    root, task, servers, *moments = Path(sys.argv[1]), *sys.argv[2:]
    spark = worker_session.start({"spark.jars": connector_jars()})
    if task == "write":
        writer = _write(spark, root, servers, *map(int, moments))
    else:
        writer = _read(spark, root, servers)
    worker_session.run(writer, worker_session.at(root, f"{task}-checkpoint"))


if __name__ == "__main__":
    main()
