"""Spark's classes as a JVM has them in memory, in a file that others map: half of what a Spark's start costs.

Run as a script it uses of Spark what tests use: what its JVM has loaded is what the archive has.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import local_spark
import tailrace

# A JVM with other jars on its class path can't use it, and is as slow as without.
_SILENT = "-Xlog:cds*=off -Xlog:class+path=off"


def make(path: Path) -> str:
    """Makes an archive, in seconds. Returns the options that JVMs use it by."""
    base = os.environ.get("SPARK_SUBMIT_OPTS", "")
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["SPARK_SUBMIT_OPTS"] = f"{base} -XX:ArchiveClassesAtExit={path} {_SILENT}"
    done = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert path.is_file(), f"the JVM has left no archive of its classes: {done.stderr}"
    return f"{base} -XX:SharedArchiveFile={path} {_SILENT}"


def _use(spark: SparkSession, root: Path) -> None:
    rows = spark.range(10).select("id", F.current_timestamp().alias("at"))
    rows.write.parquet(str(root / "in"))
    stream = spark.readStream.schema(rows.schema).parquet(str(root / "in"))
    left = stream.withWatermark("at", "0 seconds")
    right = left.select("id", F.col("at").alias("later"))
    joined = tailrace.join(left, right, on="id", left_time="at", right_time="later", after="1 second")
    writer = joined.writeStream.format("parquet").option("path", str(root / "out"))
    query = writer.option("checkpointLocation", str(root / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.lastProgress is not None
    spark.read.parquet(str(root / "out")).groupBy("id").count().collect()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        spark = local_spark.start("1g")
        _use(spark, Path(folder))
        gateway = SparkContext._gateway
        assert gateway is not None
        spark.stop()
        # The archive is whole when the JVM has ended, and it ends with its input.
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=120)


if __name__ == "__main__":
    main()
