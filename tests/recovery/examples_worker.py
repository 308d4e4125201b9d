"""The process that the campaign kills: training examples with two labels, one of them credited, and features.

    examples_worker.py ROOT

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
    left, clicks, orders, profiles = worker_session.sides(spark, root, "left", "click", "order", "profile")
    examples = (
        tailrace.examples(left, on="key", time="l_ts")
        .label("click", clicks, time="c_ts", after="15 seconds", match="first")
        .label("buy", orders, time="o_ts", after="30 seconds", attribution=tailrace.linear())
        .features("profile", profiles, time="p_ts", delay="5 seconds", max_age="60 seconds")
        .stream()
    )
    worker_session.run(worker_session.into_files(examples, root), worker_session.at(root, "checkpoint"))


if __name__ == "__main__":
    main()
