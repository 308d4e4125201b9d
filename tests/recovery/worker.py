"""The process that the campaign kills: joins the streams of a folder into its output, through the public API.

    worker.py ROOT

Runs until all files are read, says READY once the query is up, and DONE at the end.
"""

from __future__ import annotations

import sys
from pathlib import Path

import worker_session

import tailrace


def main() -> None:
    root = Path(sys.argv[1])
    spark = worker_session.start()
    joined = tailrace.join(
        *worker_session.sides(spark, root, "left", "right"),
        on="key",
        left_time="l_ts",
        right_time="r_ts",
        before="5 seconds",
        after="30 seconds",
    )
    worker_session.run(worker_session.into_files(joined, root), worker_session.at(root, "checkpoint"))


if __name__ == "__main__":
    main()
