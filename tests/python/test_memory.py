"""A join of more rows than a small driver has memory for, in a process of its own.

`TAILRACE_MEMORY`, as for the campaign of the Scala tests, adds the other ways of the join.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.campaign

SCRIPT = """
import sys

from pyspark.sql import SparkSession, functions as F

import tailrace

directory, way = sys.argv[1:]
rows, start, day = 500_000, 1_700_000_000, 86_400
builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "512m")
builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
builder = builder.config("spark.tailrace.join.strategy", "eager" if way == "eager" else "auto")
spark = tailrace.configure(builder).getOrCreate()


def stream(side, columns, first, last):
    for i, frame in enumerate((first, last)):
        frame.selectExpr(*columns).coalesce(1).write.parquet(f"{directory}/{side}/{i}")
    schema = spark.read.parquet(f"{directory}/{side}/0").schema
    reader = spark.readStream.schema(schema).option("recursiveFileLookup", True)
    reader = reader.option("maxFilesPerTrigger", 1)
    return reader.parquet(f"{directory}/{side}")


end = spark.range(1).selectExpr("-1L AS k", "-1L AS id", "'' AS pad")
end = end.withColumn("t", F.timestamp_seconds(F.lit(start + 3 * day)))
numbers = spark.range(rows).withColumn("k", F.col("id") % 50_000)
left = numbers.withColumn("t", F.timestamp_seconds(start + F.col("id") % 3600))
left = left.withColumn("pad", F.repeat(F.lit("x"), 300))
right = numbers.where("id < 1000").withColumn("t", F.timestamp_seconds(start + 3600 + F.col("id") % 3600))
lefts = stream("left", ["k", "t", "id", "pad"], left, end).withWatermark("t", "0 seconds")
rights = stream("right", ["k", "t AS rt", "id AS rid"], right, end).withWatermark("rt", "0 seconds")
inner = {"how": "inner"} if way == "inner" else {"into": "labels"}
joined = tailrace.join(lefts, rights, on="k", left_time="t", right_time="rt", after="1 day", **inner)
label = "rid" if way == "inner" else "aggregate(labels, 0L, (sum, label) -> sum + label.rid)"
totals = []


def add(frame, batch):
    found = frame.where("id >= 0").agg(F.count("*"), F.sum(F.expr(label))).first()
    totals.append((found[0], found[1] or 0))


writer = joined.writeStream.foreachBatch(add).option("checkpointLocation", f"{directory}/checkpoint")
writer.trigger(availableNow=True).start().awaitTermination()
print("TOTALS", *map(sum, zip(*totals)))
"""


# All of them take long.
WAYS = ["lazy", "eager", "inner"] if "TAILRACE_MEMORY" in os.environ else ["lazy"]


@pytest.mark.parametrize("way", WAYS)
def test_more_rows_than_a_small_driver_has_memory_for(way: str, tmp_path: Path) -> None:
    script = tmp_path / "join.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(tmp_path / "data"), way]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    # Ten left rows have each of the first 1,000 keys, which have a right row each.
    labels = 10 * sum(range(1000))
    expected = 10_000 if way == "inner" else 500_000
    assert f"TOTALS {expected} {labels}" in done.stdout, done.stderr[-3000:]
