"""The process that the campaign kills: finds the values of a table and of one folder for the rows of another.

    as_of_worker.py ROOT

Runs until all files are read, says READY once the query is up, and DONE at the end.
"""

from __future__ import annotations

import sys
from pathlib import Path

import worker_session

import tailrace


def main() -> None:
    root = Path(sys.argv[1])
    # Often, so that merges that leave values out are killed too.
    spark = worker_session.start({"spark.tailrace.state.compactionRuns": "2"})
    left, right = worker_session.sides(spark, root, "left", "right")
    labelled = tailrace.join(left, right, on="key", left_time="l_ts", right_time="r_ts", after="15 seconds")
    found = tailrace.as_of(
        labelled,
        right,
        on="key",
        left_time="l_ts",
        right_time="r_ts",
        delay="5 seconds",
        max_age="60 seconds",
        initial=spark.read.parquet(str(root / "initial")).toDF(*right.columns),
    )
    worker_session.run(worker_session.into_files(found, root), worker_session.at(root, "checkpoint"))


if __name__ == "__main__":
    main()
