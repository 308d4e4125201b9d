"""What DataFrames are to a client of Spark Connect: those of calls, and those that are given to calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from connect_server import ConnectServer

    RunPython = Callable[..., subprocess.CompletedProcess[str]]

# What a DataFrame of a call is to its client.
_FRAMES = """
import sys
import tailrace
from pyspark.sql import Observation, SparkSession, functions as F
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
times = {"left_time": "served_at", "right_time": "clicked_at", "after": "1 hour"}
left = spark.sql("SELECT 7 AS user, TIMESTAMP '2026-01-01 12:00:00' AS served_at")
right = spark.sql("SELECT 7 AS user, TIMESTAMP '2026-01-01 12:05:00' AS clicked_at, 1 AS n")
seen = Observation("seen")
counted = left.observe(seen, F.count(F.lit(1)).alias("rows"))
joined = tailrace.join(counted, right, on="user", **times)
print(joined.where(joined["user"] == 7).select(joined.labels[0]["n"]).collect())
print(seen.get)
again = tailrace.join(joined, right, on=[(joined["user"], right["user"])], into="again", **times)
print(again.select(again["user"], F.size(again["again"])).collect())
back = tailrace.recursively(left, lambda of: of.where(of["user"] > 5).withColumn("user", of["user"] - 1))
print(sorted(row[0] for row in back.select(back["user"]).collect()))
plain = tailrace.accurate_watermark(left.withColumn("host", F.lit("a")), "served_at", host="host")
print(plain.select(plain["user"]).collect())
other = SparkSession.builder.remote(sys.argv[1]).create()
try:
    tailrace.join(left, other.sql("SELECT 7 AS user, now() AS clicked_at"), on="user", **times)
except tailrace.TailraceSessionError as error:
    print(error)
other.stop()

from tailrace._bridge import connect
from tailrace.errors import TailraceVersionError

def differ(*_, **__):
    raise TailraceVersionError("versions differ")

connect.check_versions = differ
connect._compared.clear()
for _ in range(2):
    try:
        tailrace.join(left, right, on="user", **times)
    except TailraceVersionError as error:
        print(error)
spark.stop()
"""

# Frames as programs make them: of a hundred steps, and one for several labels.
_GIVEN = """
import sys
import tailrace
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
spark.conf.set("spark.connect.session.planCache.enabled", "false")
left = spark.sql("SELECT 7 AS user, TIMESTAMP '2026-01-01 12:00:00' AS served_at")
right = spark.sql("SELECT 7 AS user, TIMESTAMP '2026-01-01 12:05:00' AS clicked_at, 1 AS n")
for _ in range(100):
    left = left.withColumn("user", left["user"] + 0)
joined = tailrace.join(left, right, on="user", left_time="served_at", right_time="clicked_at", after="1 hour")
print(joined.count())
rate = spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
served, events = (rate.selectExpr("value AS user", f"timestamp AS {time}") for time in ("served_at", "at"))
made = tailrace.examples(served, on="user", time="served_at")
for name in ("click", "like", "buy"):
    made = made.label(name, events, time="at", after="1 minute")
query = made.stream().writeStream.format("noop").option("checkpointLocation", sys.argv[2]).start()
query.processAllAvailable()
print(len(query.lastProgress.sources))
query.stop()
"""


@pytest.mark.campaign
def test_a_result_is_a_frame_like_others(
    connect_server: ConnectServer, run_python: RunPython, tmp_path: Path
) -> None:
    script = tmp_path / "client.py"
    script.write_text(_FRAMES)
    done = run_python(str(script), connect_server.address)
    assert done.stdout.splitlines() == [
        "[Row(labels[0].n=1)]",
        "{'rows': 1}",
        "[Row(user=7, size(again)=1)]",
        "[5, 6]",
        "[Row(user=7)]",
        "The DataFrames are of two sessions of Spark Connect: make them in one.",
        *["versions differ"] * 2,
    ], done.stderr


@pytest.mark.campaign
def test_frames_of_many_steps_and_of_several_labels(
    connect_server: ConnectServer, run_python: RunPython, tmp_path: Path
) -> None:
    script = tmp_path / "client.py"
    script.write_text(_GIVEN)
    done = run_python(str(script), connect_server.address, str(tmp_path / "checkpoint"))
    assert done.stdout.splitlines() == ["1", "2"], done.stderr
