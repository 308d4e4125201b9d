"""Compares the replay filter with the same query without one, and with dropDuplicates, over a real broker.

    python benchmarks/replay_filter.py --records 5000000 --runs 3

Writes a topic of 8 partitions in which every eleventh record is a replay, whatever the number of producers,
then reads it with each engine in turn, --runs times over, each time in a fresh JVM. Checks first that what
comes out is each record once, and that as many were dropped as were written again.
Prints the table and writes it to benchmarks/results/NAME.txt. State bytes are all that the checkpoint keeps
of it: every batch that Spark may be told to go back to.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

import report
import session
import tailrace
from measure import Jvm
from tailrace.kafka import connector_jars, run_kafka

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import StreamingQueryProgress

_TOPIC = "records"
_PARTITIONS = 8
_ENGINES = ("no-filter", "tailrace", "tailrace-shuffled", "drop-duplicates", "drop-duplicates-changelog")
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def _session(engine: str) -> SparkSession:
    builder: SparkSession.Builder = SparkSession.builder
    for key, value in {
        "spark.master": "local[2]",
        "spark.jars": connector_jars(),
        "spark.driver.memory": "4g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "ERROR",
    }.items():
        builder = builder.config(key, value)
    if engine.startswith("drop-duplicates"):
        changelog = str(engine.endswith("changelog")).lower()
        builder = builder.config("spark.sql.streaming.stateStore.providerClass", _ROCKSDB)
        builder = builder.config(
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", changelog
        )
        # The file manager alone: all engines write Spark's logs alike.
        builder = builder.config("spark.jars", f"{connector_jars()},{tailrace.jar_path()}")
        manager = "io.tailrace.checkpoint.TailraceFileManager"
        return builder.config("spark.sql.streaming.checkpointFileManagerClass", manager).getOrCreate()
    return tailrace.configure(builder).getOrCreate()


def _stream(spark: SparkSession, servers: str, topic: str, engine: str, batch: int) -> DataFrame:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    reader = reader.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=str(batch))
    if engine == "tailrace-shuffled":
        # More tasks than partitions: Kafka's order is lost, and records are shuffled and sorted for it.
        reader = reader.option("minPartitions", str(2 * _PARTITIONS))
    records = reader.load()
    if engine.startswith("tailrace"):
        return tailrace.filter_replays(records)
    return records.dropDuplicates(["key"]) if engine.startswith("drop-duplicates") else records


def load(servers: str, topic: str, records: int, producers: int) -> None:
    """Writes the topic: in each of its partitions a thousand records, then the last hundred of them again."""
    spark = _session("no-filter")
    partition, step = f"CAST(id % {_PARTITIONS} AS INT)", f"(id DIV {_PARTITIONS})"
    # The record's number in its partition, without those that were written again: producers take turns.
    number = f"({step} DIV 1100 * 1000 + {step} % 1100 - IF({step} % 1100 >= 1000, 100, 0))"
    pid, position = f"({number} % {producers})", f"({number} DIV {producers})"
    rows = spark.range(records).selectExpr(
        "id",
        f"stream_metadata({pid}, {partition}, {position}) AS key",
        "rpad(CAST(id AS STRING), 180, 'x') AS value",
        f"{partition} AS partition",
    )
    ordered = rows.repartition(_PARTITIONS, "partition").sortWithinPartitions("id").drop("id")
    ordered.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", topic).save()
    spark.stop()


def _originals(records: int) -> int:
    """How many of the topic's records aren't replays."""
    per_partition = [len(range(p, records, _PARTITIONS)) for p in range(_PARTITIONS)]
    return sum(n // 1100 * 1000 + min(n % 1100, 1000) for n in per_partition)


def _replays(progress: StreamingQueryProgress) -> int:
    return sum(row["replays"] for name, row in progress.observedMetrics.items() if "replay" in name)


def run_once(a: argparse.Namespace) -> dict[str, Any]:
    """Reads the topic to its end, as the arguments of one step say; into Parquet if it is to be checked."""
    engine: str = a.once
    checkpoint: Path = a.checkpoint
    out: Path | None = a.out
    spark = _session(engine)
    jvm = Jvm.of_this_process()
    frame = _stream(spark, a.servers, a.topic, engine, a.batch)
    if out is None:
        writer = frame.writeStream.format("noop")
    else:
        key = tailrace.parse_stream_metadata("key").alias("m")
        writer = frame.select(key).select("m.*").writeStream.format("parquet").option("path", str(out))
    writer = writer.trigger(availableNow=True)
    for number in range(a.warm):
        unmeasured = checkpoint.with_name(f"{checkpoint.name}-warm-{number}")
        writer.option("checkpointLocation", str(unmeasured)).start().awaitTermination()
    query = writer.option("checkpointLocation", str(checkpoint))
    cpu, started = jvm.cpu_seconds(), time.monotonic()
    running = query.start()
    running.awaitTermination()
    seconds, cpu = time.monotonic() - started, jvm.cpu_seconds() - cpu
    read = sum(p.numInputRows for p in running.recentProgress)
    parts = [checkpoint / "tailrace-replay", checkpoint / "state"]
    if engine.startswith("tailrace") and not sum(_replays(p) for p in running.recentProgress):
        raise RuntimeError("no record was a replay: the filter doesn't know the topic's metadata")
    state = sum(f.stat().st_size for part in parts for f in part.rglob("*") if f.is_file())
    found: dict[str, Any] = {"engine": engine, "seconds": seconds, "cpu_seconds": cpu, "rows": read}
    found["state_bytes"] = state
    if out is not None:
        rows = spark.read.parquet(str(out))
        found["out"] = rows.count()
        found["distinct"] = rows.distinct().count()
    spark.stop()
    return found


def _compare(a: argparse.Namespace) -> int:
    kind = f"{a.records} records of 200 bytes, {_PARTITIONS} partitions, {a.producers} producers"
    header = report.heading(
        f"{kind}, every eleventh a replay, {a.batch} a batch, runs {a.runs}, local[2], 4g"
    )
    runs: list[dict[str, Any]] = []
    with run_kafka() as broker, tempfile.TemporaryDirectory() as scratch:
        broker.create_topic(_TOPIC, _PARTITIONS)
        sizes = ["--records", str(a.records), "--producers", str(a.producers)]
        session.launch(__file__, ["--load", "--servers", broker.servers, *sizes])

        def once(engine: str, name: str, *more: str) -> dict[str, Any]:
            checkpoint = str(Path(scratch) / name)
            base = ["--once", engine, "--servers", broker.servers, "--batch", str(a.batch)]
            found: dict[str, Any] = session.launch(__file__, [*base, "--checkpoint", checkpoint, *more])
            return found

        for engine in [e for e in a.engines if e.startswith("tailrace")]:
            found = once(engine, f"check-{engine}", "--out", str(Path(scratch) / f"out-{engine}"))
            line = f"check of {engine}: {found['out']} out of {found['rows']}, {found['distinct']} distinct"
            print(line, flush=True)
            header.append(line)
            right = _originals(a.records)
            if not found["out"] == found["distinct"] == right < found["rows"] == a.records:
                print(f"{engine} gives {found['out']} records, and {right} aren't replays", file=sys.stderr)
                return 1
        for n in range(a.runs):
            for engine in [*a.engines[n % len(a.engines) :], *a.engines[: n % len(a.engines)]]:
                found = once(engine, f"{engine}-{n}")
                runs.append(found)
                print(f"run {n + 1} of {engine}: {found['seconds']:.1f} s", flush=True)
    table = ["engine                         rows/s   of no-filter   us a row over it   state bytes"]
    rate = {
        e: statistics.median(r["rows"] / r["seconds"] for r in runs if r["engine"] == e) for e in a.engines
    }
    for engine in a.engines:
        state = statistics.median(r["state_bytes"] for r in runs if r["engine"] == engine)
        ratio = rate[engine] / rate[a.engines[0]]
        over = 1e6 / rate[engine] - 1e6 / rate[a.engines[0]]
        table.append(f"{engine:27}{rate[engine]:10,.0f}{ratio:15.2f}{over:19.2f}{state:14,.0f}")
    name = a.name or f"replay-filter-{a.records}-{a.producers}-producers"
    report.save(name, [*header, "", *table, "", *(json.dumps(r) for r in runs)])
    return 0


def main() -> int:
    """Compares, or does one step of a comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--producers", type=int, default=1)
    parser.add_argument("--batch", type=int, default=500_000, help="records of a micro-batch")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--engines", nargs="+", choices=_ENGINES, default=list(_ENGINES))
    parser.add_argument("--name")
    inner = parser.add_argument_group("one step, in a process of its own")
    inner.add_argument("--load", action="store_true")
    inner.add_argument("--once", choices=_ENGINES)
    inner.add_argument("--servers")
    inner.add_argument("--topic", default=_TOPIC)
    inner.add_argument("--checkpoint", type=Path)
    inner.add_argument("--out", type=Path)
    inner.add_argument("--warm", type=int, default=0, help="how often it runs before in the same JVM")
    a = parser.parse_args()
    if a.load:
        load(a.servers, a.topic, a.records, a.producers)
        print(json.dumps(a.records))
        return 0
    if a.once:
        print(json.dumps(run_once(a)))
        return 0
    return _compare(a)


if __name__ == "__main__":
    sys.exit(main())
