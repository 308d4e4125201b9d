"""Measures micro-batches whose checkpoint is in an object store: S3A on S3Proxy, where each request waits.

    python benchmarks/object_store.py --latency 0 30 --partitions 16

Small micro-batches, so that what is seen is the store: 2,000 rows each, one after the other. Each query runs
in a fresh JVM, with as many task slots as partitions, which a cluster would have. S3Proxy runs beside it on
the same cores. `bare` keeps no state: what it asks is Spark's offset log and commit log. `spark-distinct` is
Spark's own state, in its RocksDB provider with changelogs, behind the same file manager. Seconds are medians
of the batches after the first ones, requests are averages over the same batches.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import report
import session
import tailrace
from measure import Jvm

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "python"))
from stores import S3, run_s3

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_ROWS = 2000
# Until the JVM is warm, and windows close.
_WARM = 12
_LANDINGS = {"write_windows": None, "write_windows-128-MB": "128 MB"}
_QUERIES = ("bare", "spark-distinct", "join", "sync_join", "filter_replays", *_LANDINGS)
_ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def _stream(spark: SparkSession) -> DataFrame:
    """Ten seconds of event time a batch; four partitions, each in the order of its values."""
    rate = spark.readStream.format("rate-micro-batch").options(
        rowsPerBatch=_ROWS, numPartitions=4, startTimestamp=1_700_000_000_000, advanceMillisPerBatch=10_000
    )
    return rate.load().selectExpr(
        "value AS id", "timestamp AS at", "int(value % 4) AS partition", "string(value % 100) AS host"
    )


def _writer(query: str, spark: SparkSession, root: str) -> DataStreamWriter:
    stream = _stream(spark)
    if query in _LANDINGS:
        waiting = tailrace.accurate_watermark(stream, "at", host="host", completeness="100%")
        shuffled = waiting.repartition(int(spark.conf.get("spark.sql.shuffle.partitions") or "0"), "id")
        size = _LANDINGS[query]
        return tailrace.write_windows(
            shuffled, f"{root}/out", "at", window="40 seconds", target_file_size=size
        )
    return _results(query, stream, spark).writeStream.format("noop")


def _results(query: str, stream: DataFrame, spark: SparkSession) -> DataFrame:
    other = _stream(spark)
    if query == "join":
        left = stream.toDF("id", "l_at", "l_partition", "l_host").withWatermark("l_at", "10 seconds")
        right = other.toDF("id", "r_at", "r_partition", "r_host").withWatermark("r_at", "10 seconds")
        return tailrace.join(left, right, on="id", left_time="l_at", right_time="r_at", after="30 seconds")
    if query == "sync_join":
        named: dict[str, Any] = {"left_time": "at", "right_time": "at"}
        named |= {"left_partition": "partition", "right_partition": "partition"}
        return tailrace.sync_join(stream, other, on="id", window="1 minute", sync_delay="5 seconds", **named)
    if query == "filter_replays":
        records = stream.selectExpr("'t' AS topic", "partition", "id AS offset", "bigint(host) AS pid")
        ordered = ("topic", "partition", "offset")
        return tailrace.filter_replays(
            records, pid="pid", partition="partition", offset="offset", order=ordered
        )
    if query == "spark-distinct":
        return stream.withWatermark("at", "10 seconds").dropDuplicatesWithinWatermark(["id"])
    return stream


def _once(arguments: argparse.Namespace) -> None:
    """One query until `--batches` are done; prints what it has measured as JSON."""
    spark = session.local("2g", json.loads(arguments.settings))
    writer = _writer(arguments.once, spark, arguments.root)
    query = writer.option("checkpointLocation", f"{arguments.root}/checkpoint").start()
    jvm = Jvm.of_this_process()

    def wait_for(batch: int) -> float:
        while (progress := query.lastProgress) is None or progress.batchId < batch:
            error = query.exception()
            if error is not None:
                raise error
            time.sleep(0.05)
        return jvm.cpu_seconds()

    before = wait_for(_WARM)
    cpu = wait_for(_WARM + arguments.batches) - before
    steady = [p for p in query.recentProgress if _WARM < p.batchId <= _WARM + arguments.batches]
    query.stop()
    names = sorted({name for p in steady for name in p.durationMs})
    phases = {name: median(p.durationMs.get(name, 0) for p in steady) for name in names}
    rows = sum(p.numInputRows for p in steady)
    print(json.dumps({"phases": phases, "cpu": cpu / arguments.batches, "rows": rows}))
    spark.stop()


def _steady(requests: Sequence[str], batches: int) -> Counter[tuple[str, str]]:
    """The requests between two commits: method, and the folder of the checkpoint that the key is in."""
    commits = [i for i, line in enumerate(requests) if "/checkpoint/commits/" in line and line[:3] == "PUT"]
    counts: Counter[tuple[str, str]] = Counter()
    for line in requests[commits[_WARM] + 1 : commits[_WARM + batches] + 1]:
        method, path, query, *_ = line.split("\t")
        kind = (
            "LIST" if "list-type" in query else "DELETE" if method == "POST" and query == "delete" else method
        )
        counts[kind, _folder(path)] += 1
    return counts


def _folder(path: str) -> str:
    parts = path.split("/")[3:]
    return (parts[1] if parts[:1] == ["checkpoint"] and len(parts) > 1 else "".join(parts[:1])) or "(list)"


def _measure(
    store: S3, query: str, latency: int, arguments: argparse.Namespace, work: Path
) -> dict[str, Any]:
    slots = arguments.partitions
    settings = {
        **store.settings,
        "spark.master": f"local[{slots}]",
        "spark.sql.shuffle.partitions": str(slots),
        **(_ROCKSDB if query == "spark-distinct" else {}),
    }
    store.set_latency(latency)
    store.take_requests(work / "requests")
    name = f"{query}-{latency}"
    cpu = store.cpu_seconds()
    line = ["--once", query, "--root", store.url(name), "--settings", json.dumps(settings)]
    measured: dict[str, Any] = session.launch(__file__, [*line, "--batches", str(arguments.batches)])
    store_cpu = (store.cpu_seconds() - cpu) / (_WARM + arguments.batches)
    requests = store.take_requests(work / "requests")
    counts = _steady(requests, arguments.batches)
    per_batch = {" ".join(key): round(n / arguments.batches, 2) for key, n in sorted(counts.items())}
    return {"query": query, "latency": latency, **measured, "store cpu": store_cpu, "requests": per_batch}


def _row(run: dict[str, Any]) -> dict[str, float]:
    methods: Counter[str] = Counter()
    for name, count in run["requests"].items():
        methods[name.split()[0]] += count
    return {
        "batch s": run["phases"]["triggerExecution"] / 1000,
        "tasks s": run["phases"].get("addBatch", 0) / 1000,
        **{name: methods[name] for name in ("PUT", "GET", "HEAD", "LIST", "DELETE", "COPY")},
        "CPU s": run["cpu"],
        "store CPU s": run["store cpu"],
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", nargs="+", default=_QUERIES, choices=_QUERIES)
    parser.add_argument("--latency", nargs="+", type=int, default=[0, 30], help="milliseconds a request")
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--batches", type=int, default=20, help="that are measured")
    parser.add_argument("--name", default="object-store", help="of the file in benchmarks/results")
    for name in ("--once", "--root", "--settings"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    return parser


def main() -> None:
    """Measures all queries, or one where this is the process of its own."""
    arguments = _parser().parse_args()
    if arguments.once:
        _once(arguments)
        return
    runs = []
    with tempfile.TemporaryDirectory() as directory, run_s3(Path(directory)) as store:
        for latency in arguments.latency:
            for query in arguments.queries:
                runs.append(_measure(store, query, latency, arguments, Path(directory)))
                print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
    parts = ["\n".join(report.heading(" ".join(sys.argv[1:])))]
    for latency in arguments.latency:
        rows = {run["query"]: _row(run) for run in runs if run["latency"] == latency}
        parts.append(f"{latency} ms a request; requests and CPU a micro-batch\n{report.table(rows)}")
    report.save(arguments.name, "\n\n".join([*parts, "\n".join(map(json.dumps, runs))]).splitlines())


if __name__ == "__main__":
    main()
