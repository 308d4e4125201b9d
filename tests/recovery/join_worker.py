"""The process that campaigns of joins kill: `worker.py` with what `joins.configure` has written into ROOT.

join_worker.py ROOT
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import joins
import worker_session

import tailrace


def main() -> None:
    root = Path(sys.argv[1])
    settings, options = joins.configured(root)
    spark = worker_session.start(settings)
    sides = worker_session.sides(spark, root, "left", "right")
    joined = tailrace.join(*sides, on="key", left_time="l_ts", right_time="r_ts", **options)
    feed = partial(joins.feed, root) if joins.later(root).exists() else None
    worker_session.run(
        worker_session.into_files(joined, root), worker_session.at(root, "checkpoint"), meanwhile=feed
    )


if __name__ == "__main__":
    main()
