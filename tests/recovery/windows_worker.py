"""The process that the campaign of windows kills: lands logs in windows that wait for the hosts that lag.

windows_worker.py ROOT
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import worker_session

import tailrace


def main() -> None:
    root = Path(sys.argv[1])
    spark = worker_session.start()
    logs = (
        spark.readStream.schema("host string, at timestamp, id long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(root / "logs"))
    )
    waiting = tailrace.accurate_watermark(logs, "at", host="host", completeness="100%")
    # Half of the runs gather rows for their files: a run may choose otherwise than the one before it.
    size = "1 MB" if os.getpid() % 2 else None
    out = worker_session.at(root, "out")
    writer = tailrace.write_windows(
        waiting.repartition(2), out, "at", window="40 seconds", target_file_size=size
    )
    worker_session.run(writer, worker_session.at(root, "checkpoint"))


if __name__ == "__main__":
    main()
