"""The process that the campaign of windows kills: lands logs in windows that wait for the hosts that lag.

windows_worker.py ROOT

With ROOT/lake, the name of a format, complete windows go to a table.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import worker_session

import lakes
import tailrace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main() -> None:
    root = Path(sys.argv[1])
    lake = (root / "lake").read_text() if (root / "lake").exists() else ""
    spark = worker_session.start(lakes.settings(lake, root / "warehouse"))
    logs = (
        spark.readStream.schema("host string, at timestamp, id long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(root / "logs"))
    )
    waiting = tailrace.accurate_watermark(logs, "at", host="host", completeness="100%")
    # Half of the runs gather rows for their files: a run may choose otherwise than the one before it.
    size = "1 MB" if os.getpid() % 2 else None
    out = worker_session.at(root, "out")
    options: dict[str, Any] = {"window": "40 seconds", "target_file_size": size}
    # Each process has a session catalog of its own, and Delta's is that one.
    table = str(root / "table") if lake == "delta" else lakes.table("windows", lake)
    if lake:
        options |= {"format": lake, "table": table}
    writer = tailrace.write_windows(waiting.repartition(2), out, "at", **options)
    if not lake:
        worker_session.run(writer, worker_session.at(root, "checkpoint"))
        return
    query = writer.option("checkpointLocation", str(root / "checkpoint")).trigger(availableNow=True).start()
    print("READY", flush=True)
    query.awaitTermination()
    _tell(spark, root, lake, table)
    print("DONE", flush=True)
    spark.stop()


def _tell(spark: SparkSession, root: Path, lake: Any, table: str) -> None:  # noqa: ANN401  a format
    """Writes what the table has, by window."""
    rows = spark.table(f"delta.`{table}`" if lake == "delta" else table)
    name = "concat('window_start=', date_format(window_start, \"yyyyMMdd'T'HHmmss'Z'\"))"
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    ids = [list(row) for row in rows.selectExpr(name, "id").collect()]
    reports = tailrace.window_report(spark, table, format=lake).selectExpr(name, "rows").collect()
    (root / "found.json").write_text(json.dumps([ids, [list(row) for row in reports]]))


if __name__ == "__main__":
    main()
