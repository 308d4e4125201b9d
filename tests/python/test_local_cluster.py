"""Driver and executors in processes of their own: nothing may depend on sharing one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

_SCRIPT = """
import sys
from pathlib import Path
import tailrace
from pyspark.sql import SparkSession, functions as F
sys.path.insert(0, sys.argv[2])
from streams import Row, Streams, at, groups
from tailrace.testing import StreamTest
from tailrace.testing.rows import as_dicts
from tailrace.testing.values import batch_frame

builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.shuffle.partitions", "3").config("spark.log.level", "OFF")
builder = builder.config("spark.driver.memory", "1g").config("spark.executor.memory", "1g")
builder = builder.config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1")
spark = tailrace.configure(builder).getOrCreate()
with StreamTest(spark, Path(sys.argv[1]), "12:00") as test:
    streams = Streams(test)
    query = streams.query(streams.join())
    streams.add([Row(i, i, 100) for i in range(20)], [Row(100 + i, i, 110) for i in range(20)])
    query.run()
    query.restart()
    streams.add([Row(900, 999, 1000)], [Row(900, 999, 1000)])
    query.run()
    assert groups(query.rows()) == [(i, [100 + i]) for i in range(20)]

# One definition over both kinds of DataFrames, with all that tasks have to carry along.
def defined(left, right, profiles):
    made = tailrace.examples(left, on="key", time="l_ts")
    made = made.label("click", right, time="r_ts", after="10 minutes", attribution=tailrace.linear())
    made = made.horizons("5 minutes", "10 minutes")
    made = made.sample({"size(click) = 0": 0.5}, seed=3, weight="weight")
    return made.features("profile", profiles, on="key", time="p_ts", max_age="1 hour")
with StreamTest(spark, Path(sys.argv[1]) / "examples", "12:00") as test:
    streams = Streams(test)
    profiles = test.source("p_id long, key long, p_ts timestamp")
    stream = profiles.frame.withWatermark("p_ts", "10 seconds")
    query = test.query(defined(streams.frame("left"), streams.frame("right"), stream).stream())
    lefts = [Row(i, i % 30, 100 + i) for i in range(90)]
    rights = [Row(100 + i, i % 40, 110 + 5 * i) for i in range(60)]
    values = [(i, i % 20, at(90 + i)) for i in range(40)]
    streams.add(lefts, rights)
    profiles.add(*values)
    query.run()
    query.restart()
    end = [Row(900, 999, 100_000)]
    streams.add(end, end)
    profiles.add((900, 999, at(100_000)))
    query.run()
    left, right = streams.batch_frames(lefts, rights)
    whole = defined(left, right, batch_frame(spark, profiles.schema, values)).batch()
    found = [row for row in query.rows() if row["l_id"] != 900]
    assert sorted(map(str, found)) == sorted(map(str, as_dicts(whole))) and len(found) > 90, len(found)

logs = str(Path(sys.argv[1]) / "logs")
def log(*rows):
    frame = spark.createDataFrame(rows, "host string, second int")
    frame = frame.selectExpr("host", "timestamp_seconds(second) AS at").repartition(3)
    frame.write.mode("append").parquet(logs)
def closed():
    stream = spark.readStream.schema("host string, at timestamp").parquet(logs)
    waiting = tailrace.accurate_watermark(stream, "at", host="host", completeness="100%", hosts=["a", "b"])
    once = waiting.dropDuplicates(["host", "at"]).groupBy(F.window("at", "10 seconds")).count()
    writer = once.writeStream.format("parquet").option("path", str(Path(sys.argv[1]) / "counts"))
    writer = writer.option("checkpointLocation", str(Path(sys.argv[1]) / "counting"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return [row["count"] for row in spark.read.parquet(str(Path(sys.argv[1]) / "counts")).collect()]
log(("a", 1), ("b", 2), ("b", 2), ("a", 30))
assert closed() == []
log(("b", 40))
assert closed() == [2]

records = str(Path(sys.argv[1]) / "records")
types = "topic string, partition int, offset bigint, pid bigint, p int, o bigint"
def write(file):
    # Each record is written twice, and the last one of each file again in the next file.
    rows = [
        ("t", p, 100 * file + 10 * n + again, 7, p, 3 * file + n)
        for p in range(3) for n in range(4) for again in range(2)
    ]
    spark.createDataFrame(rows, types).coalesce(1).write.mode("append").parquet(records)
def once():
    stream = spark.readStream.schema(types).option("maxFilesPerTrigger", 1).parquet(records)
    new = tailrace.filter_replays(stream, pid="pid", partition="p", offset="o")
    writer = new.writeStream.format("parquet").option("path", str(Path(sys.argv[1]) / "once"))
    writer = writer.option("checkpointLocation", str(Path(sys.argv[1]) / "filtering"))
    writer.trigger(availableNow=True).start().awaitTermination()
    out = spark.read.parquet(str(Path(sys.argv[1]) / "once")).select("p", "o").collect()
    return sorted(tuple(row) for row in out)
for start, files in enumerate((range(5), range(5, 8))):
    for file in files:
        write(file)
    assert once() == [(p, o) for p in range(3) for o in range(3 * files[-1] + 4)], start
marks = sorted(path.name for path in (Path(sys.argv[1]) / "filtering/tailrace-replay/replays").glob("[0-9]*"))
assert marks == [f"{batch}.marks" for batch in range(8)], marks
print("DONE")
spark.stop()
"""


@pytest.mark.campaign
def test_join_examples_watermark_and_replays_run_on_executors_of_their_own(
    run_python: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, repository: Path
) -> None:
    done = run_python("-c", _SCRIPT, str(tmp_path), str(repository / "tests" / "python"))
    assert "DONE" in done.stdout, done.stderr[-4000:]
