"""The process that the campaign of horizons kills: `worker.py` with versions of each left row.

horizons_worker.py ROOT
"""

from __future__ import annotations

import sys
from pathlib import Path

import worker_session

import tailrace


def main() -> None:
    root = Path(sys.argv[1])
    # The test reads in Spark's logs which files each micro-batch has read.
    spark = worker_session.start({"spark.sql.streaming.minBatchesToRetain": "10000"})
    joined = tailrace.join(
        *worker_session.sides(spark, root, "left", "right"),
        on="key",
        left_time="l_ts",
        right_time="r_ts",
        before="5 seconds",
        after="60 seconds",
        horizons=["10 seconds", "30 seconds"],
        emit="all",
    )
    worker_session.run(worker_session.into_files(joined, root), worker_session.at(root, "checkpoint"))


if __name__ == "__main__":
    main()
