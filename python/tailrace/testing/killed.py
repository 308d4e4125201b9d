"""The process that is killed: one run of a pipeline, from its first row or from the end of a dead one.

    python -m tailrace.testing.killed DIRECTORY

It starts Spark, and waits for a line on its standard input that names the run. Without one the test has
ended, and the process ends, too.
"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import tailrace
from tailrace._bridge import calls
from tailrace.testing.trial import Trial, appear


def main() -> None:
    """Runs the pipeline that the line names."""
    directory = Path(sys.argv[1])
    settings: dict[str, Any] = json.loads((directory / "settings.json").read_text())
    spark = tailrace.configure(SparkSession.builder.config(map=settings)).getOrCreate()
    line = sys.stdin.readline()
    if not line:
        return
    order = json.loads(line)
    told = Path(order["told"])
    faults = calls.hold("checkpoint_faults", spark)
    if order["step"] is not None:
        calls.invoke(faults, "beginToStand", order["step"], str(told / "reached"))
    # Written by the test itself a moment ago.
    pieces = pickle.loads((directory / "pieces").read_bytes())  # noqa: S301
    Trial(spark, pieces, Path(order["root"])).run_from(told / "fed")
    appear(told / "ended", "\n".join(calls.invoke(faults, "end")))


if __name__ == "__main__":
    main()
