"""OpenLineage's listener sees a streaming query with a join of Tailrace's: what the guide says of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tailrace._installation.ivy import resolve

_VERSION = "1.37.0"
_PROGRAM = """
import sys
from pyspark.sql import SparkSession
import tailrace

root, jars = sys.argv[1:]
settings = {
    "spark.jars": jars,
    "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
    "spark.openlineage.transport.type": "file",
    "spark.openlineage.transport.location": f"{root}/events.json",
    "spark.openlineage.namespace": "test",
    "spark.sql.shuffle.partitions": "2",
}
spark = tailrace.configure(SparkSession.builder.master("local[2]").config(map=settings)).getOrCreate()


def stream(side):
    rows = spark.sql(f"SELECT 7 AS k, timestamp'2026-01-01 12:00:00Z' AS {side}_at")
    rows.write.parquet(f"{root}/{side}")
    return spark.readStream.schema(rows.schema).parquet(f"{root}/{side}")


def run(frame, name):
    writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{root}/{name}-checkpoint")
    writer.trigger(availableNow=True).start(f"{root}/{name}").awaitTermination()


served, clicked = stream("served"), stream("clicked")
run(served.where("k > 0"), "plain")
joined = tailrace.join(
    served.withWatermark("served_at", "1 minute"),
    clicked.withWatermark("clicked_at", "1 minute"),
    on="k", left_time="served_at", right_time="clicked_at", after="30 minutes",
)
run(joined, "joined")
spark.stop()
"""


@pytest.mark.campaign
def test_openlineage_sees_the_join_and_its_inputs(tmp_path: Path) -> None:
    modules = [("io.openlineage", "openlineage-spark_2.13", _VERSION)]
    folder = resolve(f"openlineage-spark-{_VERSION}", modules, transitive=False)
    jars = ",".join(map(str, folder.glob("*.jar")))
    line = [sys.executable, "-c", _PROGRAM, str(tmp_path), jars]
    environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environ, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    events = [json.loads(text) for text in (tmp_path / "events.json").read_text().splitlines()]

    def seen(*sides: str) -> list[tuple[str, list[Any]]]:
        """The job and the outputs of each micro-batch that read files of these folders and no others."""
        return [
            (event["job"]["name"].partition(".")[2], event["outputs"])
            for event in events
            if event["eventType"] == "COMPLETE"
            and {Path(one["name"]).parent for one in event["inputs"]} == {tmp_path / side for side in sides}
        ]

    assert seen("served", "clicked") == [("tailrace_label_join", [])]
    # The output of a streaming query isn't named for Spark's own operators either.
    assert seen("served") == [("filter", [])]
