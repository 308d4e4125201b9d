"""The process that the campaign kills: joins the streams of a folder into its output, through the public API.

    worker.py ROOT

Runs until all files are read, says READY once the query is up, and DONE at the end.
"""

from __future__ import annotations

import sys
from pathlib import Path

import worker_session

import tailrace

SCHEMA = "id long, key long, ts timestamp, note string"


def main() -> None:
    root = Path(sys.argv[1])
    spark = worker_session.start()
    sides = []
    for side in ("left", "right"):
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(root / side))
        prefix = side[0]
        renamed = stream.toDF(f"{prefix}_id", "key", f"{prefix}_ts", f"{prefix}_note")
        sides.append(renamed.withWatermark(f"{prefix}_ts", "10 seconds"))
    joined = tailrace.join(
        *sides, on="key", left_time="l_ts", right_time="r_ts", before="5 seconds", after="30 seconds"
    )
    worker_session.run(worker_session.into_files(joined, root), worker_session.at(root, "checkpoint"))


if __name__ == "__main__":
    main()
