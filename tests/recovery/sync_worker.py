"""The process that the synced join's campaign kills: joins two partitioned streams of a folder.

sync_worker.py ROOT

A file `exactly-one` in the folder says that pairs come out at once.
"""

from __future__ import annotations

import sys
from pathlib import Path

import worker_session

import tailrace

EXACTLY_ONE = "exactly-one"
SCHEMA = "id long, partition int, created timestamp"


def main() -> None:
    root = Path(sys.argv[1])
    spark = worker_session.start()
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    joined = tailrace.sync_join(
        reader.parquet(str(root / "left")),
        reader.parquet(str(root / "right")),
        on="id",
        left_time="created",
        right_time="created",
        window="20 seconds",
        sync_delay="4 seconds",
        on_unmatched_right="emit",
        one_to_one=(root / EXACTLY_ONE).exists(),
    )
    worker_session.run(worker_session.into_files(joined, root), worker_session.at(root, "checkpoint"))


if __name__ == "__main__":
    main()
