"""Measures `tailrace.examples` with an attribution where one key has very many impressions.

    python benchmarks/attribution.py

All impressions are of one user and within an hour, and each shares each of ten orders: an engine that
compares impressions with one another takes the square of their number. Each attribution runs over a batch and
over a stream, in one warm JVM. A run counts only if the credits of each order sum to 1. Prints the table and
writes it to benchmarks/results/attribution.txt.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import report
import tailrace
from session import local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SIZES = (20_000, 200_000, 1_000_000)
_ORDERS = 10
_SERVED = "id long, user long, at timestamp"
_ATTRIBUTIONS = {
    "none": None,
    "last_touch": tailrace.last_touch(),
    "first_touch": tailrace.first_touch(),
    "linear": tailrace.linear(),
    "time_decay 10 minutes": tailrace.time_decay("10 minutes"),
    "position 0.4 0.2 0.4": tailrace.position(0.4, 0.2, 0.4),
}


def _write(spark: SparkSession, folder: Path, impressions: int) -> None:
    """Three files of each side: the rows, and two that let the watermark pass all windows."""
    orders = "timestamp_millis(3600000 + id * 60000) AS at"
    served = f"timestamp_micros(id * {3_600_000_000 // impressions}) AS at"
    for name, rows, at in (("served", impressions, served), ("orders", _ORDERS, orders)):
        spark.range(0, rows, 1, 1).selectExpr("id", "7L AS user", at).write.parquet(f"{folder}/{name}")
        for day in (10, 20):
            far = f"timestamp'1970-01-{day} 00:00:00' AS at"
            late = spark.range(0, 1, 1, 1).selectExpr("-1L AS id", "-1L AS user", far)
            late.write.mode("append").parquet(f"{folder}/{name}")


def _made(served: DataFrame, orders: DataFrame, attribution: tailrace.Attribution | None) -> DataFrame:
    made = tailrace.examples(served, on="user", time="at").label(
        "buy", orders, time="at", after="2 hours", attribution=attribution
    )
    return made.stream() if served.isStreaming else made.batch()


def _credits(frame: DataFrame, attribution: tailrace.Attribution | None) -> tuple[int, int]:
    """How many rows there are, and the sum of all credits in billionths."""
    shared = attribution is not None and not str(attribution).endswith("_touch")
    one = "CAST(e.credit * 1000000000 AS LONG)" if shared else "1000000000L"
    credit = F.expr(f"aggregate(buy, 0L, (sum, e) -> sum + {one})")
    rows, total = frame.where("user >= 0").agg(F.count("*"), F.sum(credit)).first() or (0, 0)
    return rows, total or 0


def _batch(spark: SparkSession, folder: Path, attribution: tailrace.Attribution | None) -> tuple[int, int]:
    served, orders = (spark.read.schema(_SERVED).parquet(f"{folder}/{name}") for name in ("served", "orders"))
    return _credits(_made(served, orders, attribution), attribution)


def _stream(
    spark: SparkSession, folder: Path, attribution: tailrace.Attribution | None, checkpoint: str
) -> tuple[int, int]:
    reader = spark.readStream.schema(_SERVED).option("maxFilesPerTrigger", 1)
    served, orders = (
        reader.parquet(f"{folder}/{name}").withWatermark("at", "1 second") for name in ("served", "orders")
    )
    found: list[tuple[int, int]] = []

    def count(rows: DataFrame, _: int) -> None:
        found.append(_credits(rows, attribution))

    writer = _made(served, orders, attribution).writeStream.foreachBatch(count)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return sum(rows for rows, _ in found), sum(total for _, total in found)


def main() -> int:
    """Runs the command line. Returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--impressions", type=int, nargs="+", default=_SIZES)
    parser.add_argument("--memory", default="6g", help="of the driver")
    a = parser.parse_args()
    lines = [
        *report.heading(str(vars(a))),
        "",
        f"seconds{'':25}" + "".join(f"{n:>12,}" for n in a.impressions),
    ]
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
        spark = local(a.memory)
        for n in a.impressions:
            _write(spark, Path(folder) / str(n), n)
        for kind in ("batch", "stream"):
            for name, attribution in _ATTRIBUTIONS.items():
                seconds = []
                for number, n in enumerate((a.impressions[0], *a.impressions)):
                    data = Path(folder) / str(n)
                    begin = time.perf_counter()
                    if kind == "batch":
                        rows, total = _batch(spark, data, attribution)
                    else:
                        checkpoint = f"{folder}/{name.replace(' ', '-')}-{number}"
                        rows, total = _stream(spark, data, attribution, checkpoint)
                    seconds.append(time.perf_counter() - begin)
                    expected = _ORDERS * 10**9 * (n if attribution is None else 1)
                    if (rows, total) != (n, expected):
                        raise RuntimeError(f"{kind}, {name}, {n}: {rows} rows, {total} billionths")
                # The first run warms the code.
                lines.append(f"{kind + ', ' + name:32}" + "".join(f"{s:12.1f}" for s in seconds[1:]))
                print(lines[-1], flush=True)
        spark.stop()
    report.save("attribution", lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
