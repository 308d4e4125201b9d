"""The process that the campaign of amendments kills: `worker.py` with rows that late labels amend.

amend_worker.py ROOT
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
        after="20 seconds",
        amend_for="40 seconds",
        release_every="batch",
    )
    worker_session.run(worker_session.into_files(joined, root), worker_session.at(root, "checkpoint"))


if __name__ == "__main__":
    main()
