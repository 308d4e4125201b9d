"""The process that the campaign kills: a join that begins with tables, and then reads folders.

    backfill_worker.py ROOT

It says READY before history begins and again when the live query is up, and DONE when all files are read.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import worker_session

import tailrace
from streams import at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

STEP = 20
_SCHEMA = "id long, key long, ts timestamp, note string"


def main() -> None:
    root = Path(sys.argv[1])
    spark = worker_session.start()
    print("READY", flush=True)

    def named(side: str, frame: DataFrame) -> DataFrame:
        return frame.toDF(f"{side[0]}_id", "key", f"{side[0]}_ts", f"{side[0]}_note")

    def pipeline(left: DataFrame, right: DataFrame) -> DataStreamWriter:
        joined = tailrace.join(
            left.withWatermark("l_ts", "10 seconds"),
            right.withWatermark("r_ts", "10 seconds"),
            on="key",
            left_time="l_ts",
            right_time="r_ts",
            before="5 seconds",
            after="30 seconds",
        )
        return worker_session.into_files(joined, root)

    reader = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1)
    sides = ("left", "right")
    history = tailrace.backfill(
        pipeline,
        {
            side: named(side, spark.read.schema(_SCHEMA).parquet(str(root / f"{side}-table")))
            for side in sides
        },
        {side: named(side, reader.parquet(str(root / side))) for side in sides},
        time={"left": "l_ts", "right": "r_ts"},
        until=at(int((root / "until").read_text())),
        checkpoint=worker_session.at(root, "checkpoint"),
        step=f"{STEP} seconds",
    )
    worker_session.run(history.live(), worker_session.at(root, "checkpoint"))


if __name__ == "__main__":
    main()
