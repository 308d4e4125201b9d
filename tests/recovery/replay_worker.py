"""The process that the replay campaign kills: reads a topic, which is a folder of files, once.

replay_worker.py ROOT
"""

from __future__ import annotations

import sys
from pathlib import Path

import worker_session

import tailrace

SCHEMA = "topic string, partition int, offset bigint, pid bigint, source int, position bigint"


def main() -> None:
    root = Path(sys.argv[1])
    spark = worker_session.start()
    topic = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(root / "topic"))
    keyed = topic.select("*", tailrace.stream_metadata("pid", "source", "position").alias("key"))
    once = tailrace.filter_replays(keyed, disorder=3).select("pid", "source", "position")
    worker_session.run(worker_session.into_files(once, root), worker_session.at(root, "checkpoint"))


if __name__ == "__main__":
    main()
