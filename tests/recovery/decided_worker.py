"""The process that the campaign of decided rows kills: `worker.py` with the options in ROOT/options.json.

decided_worker.py ROOT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import worker_session

import tailrace


def main() -> None:
    root = Path(sys.argv[1])
    # Often, so that merges that leave rows out are killed too.
    spark = worker_session.start({"spark.tailrace.state.compactionRuns": "2"})
    options = json.loads((root / "options.json").read_text())
    sides = worker_session.sides(spark, root, "left", "right")
    joined = tailrace.join(*sides, on="key", left_time="l_ts", right_time="r_ts", **options)
    worker_session.run(worker_session.into_files(joined, root), worker_session.at(root, "checkpoint"))


if __name__ == "__main__":
    main()
