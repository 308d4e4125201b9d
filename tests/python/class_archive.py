"""Spark's classes as a JVM has them in memory, in a file that others map: half of what a Spark's start costs.

The file is kept in `build/classes`, one for each pyspark and Java. Run as a script this module uses of Spark
what tests use: what its JVM has loaded is what the archive has.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import local_spark
import tailrace
from tailrace._installation.java import find_java

# A JVM with other jars on its class path can't use it, and is as slow as without.
_SILENT = "-Xlog:cds*=off -Xlog:class+path=off"


def options(folder: Path, *, make: bool) -> str | None:
    """The options by which JVMs use the archive; None if there is none.

    Args:
        folder: of the archives.
        make: whether one is made, in seconds, if there is none.
    """
    java = find_java(os.environ).path.resolve()
    of = f"{java} {java.stat().st_mtime_ns} {Path(pyspark.__file__).resolve()}"
    stem = f"spark-{pyspark.__version__}-"
    archive = folder / f"{stem}{hashlib.sha256(of.encode()).hexdigest()[:12]}.jsa"
    base = os.environ.get("SPARK_SUBMIT_OPTS", "")
    if not archive.is_file():
        if not make:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        # Another session may make it, too: each has a whole one, under its own name first.
        made = _made(folder / f"{archive.name}.{os.getpid()}", base)
        for old in folder.glob(f"{stem}*.jsa"):
            old.unlink(missing_ok=True)
        made.replace(archive)
    return f"{base} -XX:SharedArchiveFile={archive} {_SILENT}"


def _made(path: Path, base: str) -> Path:
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["SPARK_SUBMIT_OPTS"] = f"{base} -XX:ArchiveClassesAtExit={path} {_SILENT}"
    done = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert path.is_file(), f"the JVM has left no archive of its classes: {done.stderr}"
    return path


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
