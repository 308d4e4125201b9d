"""The process that the watermark campaign kills: counts rows in windows that wait for the hosts that lag.

watermark_worker.py ROOT
"""

from __future__ import annotations

import sys
from pathlib import Path

import worker_session
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace


def main() -> None:
    root = Path(sys.argv[1])
    spark = worker_session.start()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    logs = (
        spark.readStream.schema("host string, at timestamp")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(root / "logs"))
    )
    waiting = tailrace.accurate_watermark(logs, "at", host="host", completeness="100%")
    counts = waiting.groupBy(F.window("at", "10 seconds")).count()
    flat = counts.select(F.unix_seconds("window.start").alias("start"), "count")
    worker_session.run(worker_session.into_files(flat, root), worker_session.at(root, "checkpoint"))


if __name__ == "__main__":
    main()
