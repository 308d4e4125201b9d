"""MB/s a core of export, import and erasure: `python benchmarks/state_exchange.py [ROWS]`.

The bytes are those of the rows in the state before compression, as `tailrace inspect` says them, in both
directions.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

import tailrace

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

CORES = 2
PARTITIONS = 8


def rows(spark: SparkSession, count: int, side: str) -> DataFrame:
    """Rows of about 200 bytes, whose keys are spread over a million."""
    return spark.range(count).selectExpr(
        "id % 1000003 AS user",
        f"timestamp_micros(1767225600000000 + id * 1000) AS {side}_at",
        f"id AS {side}_id",
        *[f"hex(md5(CAST(id * {7 + i} AS STRING))) AS {side}_text_{i}" for i in range(2)],
    )


def joined(spark: SparkSession, root: Path) -> DataFrame:
    """The streaming query of both."""
    frames = []
    for side in ("left", "right"):
        schema = rows(spark, 1, side).schema
        (root / side).mkdir(exist_ok=True)
        frames.append(
            spark.readStream.schema(schema).parquet(str(root / side)).withWatermark(f"{side}_at", "1 minute")
        )
    return tailrace.join(
        *frames, on="user", left_time="left_at", right_time="right_at", after="30 days", release_every="batch"
    )


def waiting_bytes(checkpoint: Path) -> int:
    """Of the rows that wait, before compression."""
    command = [sys.executable, "-m", "tailrace", "inspect", "--json", str(checkpoint)]
    report = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return sum(operator["bytes"] for operator in report["operators"])


def cpu_seconds() -> float:
    """That this process's JVM has used: other programs may be on the machine."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        if int(fields[1]) == os.getpid():
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and CPU seconds, that a call takes."""
    begun, used = time.monotonic(), cpu_seconds()
    call()
    return time.monotonic() - begun, cpu_seconds() - used


def measured(spark: SparkSession, place: Path, count: int) -> tuple[int, dict[str, tuple[float, float]]]:
    """Bytes of the state, and what each command takes."""
    query = joined(spark, place)
    left, right = (rows(spark, count, side).localCheckpoint() for side in ("left", "right"))
    checkpoint, export, again = place / "checkpoint", place / "export", place / "again"
    commands: dict[str, Callable[[], object]] = {
        "import of tables": lambda: tailrace.import_state(query, checkpoint, left=left, right=right),
        "export": lambda: tailrace.export_state(spark, checkpoint, export),
        "import of the export": lambda: tailrace.import_state(spark, again, export=export),
        "erase": lambda: tailrace.erase(spark, again, "user = 7"),
    }
    seconds = {what: timed(command) for what, command in commands.items()}
    return waiting_bytes(checkpoint), seconds


def main() -> None:
    """Prints a line for each command."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    root = Path(tempfile.mkdtemp(prefix="state-exchange-"))
    builder = (
        SparkSession.builder.master(f"local[{CORES}]")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", str(PARTITIONS))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    spark = tailrace.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    # Code is compiled in a first round, of few rows.
    for number, size in (("warm", count // 10), ("measured", count)):
        (root / number).mkdir()
        size_bytes, seconds = measured(spark, root / number, size)
    print(f"{2 * count:,} rows, {size_bytes / 1e6:,.0f} MB of state, {PARTITIONS} partitions, {CORES} cores")
    for what, (took, used) in seconds.items():
        print(f"{what:<22}{took:6.1f} s{used:8.1f} CPU s{size_bytes / 1e6 / used:8.1f} MB a CPU s")
    spark.stop()
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
