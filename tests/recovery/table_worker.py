"""The process that the campaign of tables kills: a join into a table of the library of ROOT/table.json.

table_worker.py ROOT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import worker_session

import lakes
import tailrace


def main() -> None:
    root = Path(sys.argv[1])
    lake, keys = json.loads((root / "table.json").read_text())
    spark = worker_session.start(lakes.settings(lake, root / "warehouse"))
    sides = worker_session.sides(spark, root, "left", "right")
    options: dict[str, Any] = {"on": "key", "left_time": "l_ts", "right_time": "r_ts", "after": "30 seconds"}
    joined = tailrace.join(*sides, **options)
    # Each process has a session catalog of its own, and Delta's is that one.
    name = f"delta.`{root / 'table'}`" if lake == "delta" else lakes.table("examples", lake)
    writer = tailrace.write_table(joined, name, format=lake, keys=keys)
    writer = writer.option("checkpointLocation", str(root / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    print("READY", flush=True)
    query.awaitTermination()
    batch = [
        spark.read.parquet(str(root / side)).toDF(*frame.columns)
        for side, frame in zip(("left", "right"), sides, strict=True)
    ]
    found = {"found": spark.table(name), "expected": tailrace.join(*batch, **options)}
    for of, frame in found.items():
        rows = frame.selectExpr("l_id", "transform(labels, label -> label.r_id) AS r_ids").collect()
        (root / f"{of}.json").write_text(json.dumps(sorted(map(list, rows))))
    print("DONE", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
