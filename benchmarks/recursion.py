"""Compares ways to count the descendants in a forest: recursively, by a topic that feeds itself, in a batch.

    python benchmarks/recursion.py --nodes 1000000 --runs 3

Makes a random forest, at most 30 deep, whose nodes arrive in any order, --batch of them a micro-batch, and
counts the nodes below each: with tailrace.recursively in one query; with three queries of Spark's around a
Kafka topic that results are written back to, until the last of them has read all; with Kafka Streams and
such a topic, on the same broker, until the last count, without loading its table of parents; and with Spark's
batch WITH RECURSIVE over all nodes once. Each engine runs in a fresh JVM, --runs times over; all of them join
the same table of parents. Checks the counts of tailrace and Kafka Streams against plain reckoning first. Then
measures a chain of --depth hops in one micro-batch, and a hop of the feedback mode. Prints the table and
writes it to benchmarks/results/NAME.txt.
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

import pyarrow as pa
import pyarrow.parquet as pq

import forest
import kafka_streams
import report
import session
import tailrace
from measure import Jvm
from tailrace.kafka import connector_jars, run_kafka

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from tailrace.options import Mode

_ENGINES = ("tailrace", "kafka-loop", "kafka-streams", "batch")
_ON_KAFKA = ("kafka-loop", "kafka-streams")


def _session() -> SparkSession:
    more = {
        "spark.jars": connector_jars(),
        "spark.sql.cteRecursionRowLimit": "-1",
        "spark.sql.autoBroadcastJoinThreshold": str(128 << 20),  # for all engines the same
    }
    return session.local("4g", more)


def _nodes(spark: SparkSession, root: Path) -> DataFrame:
    reader = spark.readStream.schema(forest.SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(root / "nodes"))


def _with_tailrace(spark: SparkSession, root: Path, checkpoint: str = "checkpoint", **_: str) -> Any:  # noqa: ANN401
    parents = spark.read.schema(forest.SCHEMA).parquet(str(root / "parents"))
    updates = _nodes(spark, root).selectExpr("parent AS node")
    above = tailrace.recursively(
        updates, lambda up: up.join(parents, "node").selectExpr("parent AS node"), max_depth=forest.DEEPEST
    )
    counts = updates.union(above).groupBy("node").count()
    writer = counts.writeStream.outputMode("update").option("checkpointLocation", str(root / checkpoint))
    return writer.format("noop").trigger(availableNow=True).start().awaitTermination()


def _with_topic(spark: SparkSession, root: Path, *, servers: str, total: str) -> None:
    parents = spark.read.schema(forest.SCHEMA).parquet(str(root / "parents"))
    kafka = {"kafka.bootstrap.servers": servers}

    def updates() -> DataFrame:
        reader = spark.readStream.format("kafka").options(**kafka, subscribe="updates")
        return (
            reader.option("startingOffsets", "earliest")
            .load()
            .selectExpr("CAST(CAST(value AS string) AS long) AS node")
        )

    value = "CAST(parent AS string) AS value"
    seeds = _nodes(spark, root).selectExpr(value)
    hops = updates().join(parents, "node").selectExpr(value)
    queries = []
    for frame, name in ((seeds, "seeds"), (hops, "hops")):
        writer = frame.writeStream.format("kafka").options(checkpointLocation=str(root / name), **kafka)
        queries.append(writer.option("topic", "updates").start())
    counts = updates().groupBy("node").count().writeStream.format("noop").outputMode("update")
    queries.append(counts.option("checkpointLocation", str(root / "counts")).start())
    seen: dict[int, int] = {}
    while sum(seen.values()) < int(total):
        time.sleep(0.02)
        seen |= {p.batchId: p.numInputRows for p in queries[-1].recentProgress}
        for query in queries:
            failure = query.exception()
            if failure is not None:
                raise failure
    for query in queries:
        query.stop()


def _as_batch(spark: SparkSession, root: Path, **_: str) -> None:
    spark.read.schema(forest.SCHEMA).parquet(str(root / "parents")).createOrReplaceTempView("tree")
    counts = spark.sql(
        "WITH RECURSIVE up(node) AS (SELECT parent FROM tree UNION ALL "
        "SELECT tree.parent FROM up JOIN tree ON up.node = tree.node) "
        "SELECT node, count(*) FROM up GROUP BY node"
    )
    counts.write.format("noop").mode("overwrite").save()


def run_once(engine: str, root: Path, warm: int = 0, **options: str) -> dict[str, float]:
    """Counts once, with one engine; returns seconds, and seconds of CPU where the engine is Spark.

    Before that, Tailrace counts `warm` times unmeasured, in the same JVM.
    """
    if engine == "kafka-streams":
        return {"seconds": kafka_streams.run(root, **options)}
    spark = _session()
    jvm = Jvm.of_this_process()
    run: Callable[..., None] = {"tailrace": _with_tailrace, "kafka-loop": _with_topic, "batch": _as_batch}[
        engine
    ]
    for number in range(warm):
        _with_tailrace(spark, root, checkpoint=f"warm-{number}")
    cpu, started = jvm.cpu_seconds(), time.monotonic()
    run(spark, root, **options)
    found = {"seconds": time.monotonic() - started, "cpu_seconds": jvm.cpu_seconds() - cpu}
    spark.stop()
    return found


def run_loops(depth: int, root: Path) -> dict[str, float]:
    """Milliseconds of a hop: of a chain in one micro-batch, and by the feedback log."""
    spark = _session()
    found = {}
    ways: tuple[tuple[Mode, int], ...] = (("fixpoint", depth), ("feedback", 20))
    for mode, hops in ways:
        for attempt in ("cold", "warm"):
            source = root / f"{mode}-{attempt}"
            source.mkdir()
            pq.write_table(pa.table([[hops], [0]], ["node", "parent"]), source / "0.parquet")
            chain = tailrace.recursively(
                spark.readStream.schema(forest.SCHEMA).parquet(str(source)),
                lambda u: u.where("node > 0").selectExpr("node - 1 AS node", "parent"),
                mode=mode,
            )
            checkpoint = source / "_checkpoint"
            writer = chain.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            observed = [p.observedMetrics["tailrace.recursion"] for p in query.recentProgress]
            if mode == "fixpoint":
                # The progress names the first hundred hops.
                ms = [hop["ms"] for hop in observed[0].hops]
                found[f"{mode}-{attempt}"] = sum(ms) / len(ms)
                whole = query.recentProgress[0].durationMs["triggerExecution"]
                found[f"batch-of-{hops}-hops-{attempt}"] = whole
            else:
                times = [p.durationMs["triggerExecution"] for p in query.recentProgress]
                found[f"{mode}-{attempt}"] = statistics.median(times)
                found[f"micro-batches-of-{hops}-hops-{attempt}"] = len(times)
                log = (checkpoint / "tailrace-recursion").rglob("*.rows")
                found[f"log-bytes-{attempt}"] = sum(f.stat().st_size for f in log)
    spark.stop()
    return found


def check(root: Path) -> bool:
    """Whether the counts are those of plain reckoning, on a forest of a thousand."""
    forest.make(root, 1000, 300)
    spark = _session()
    parents = spark.read.schema(forest.SCHEMA).parquet(str(root / "parents"))
    updates = _nodes(spark, root).selectExpr("parent AS node")
    above = tailrace.recursively(updates, lambda up: up.join(parents, "node").selectExpr("parent AS node"))
    writer = updates.union(above).writeStream.format("memory").queryName("checked")
    writer = writer.option("checkpointLocation", str(root / "check")).trigger(availableNow=True)
    writer.start().awaitTermination()
    found = {r["node"]: r["count"] for r in spark.table("checked").groupBy("node").count().collect()}
    spark.stop()
    return found == forest.descendants(root)


def _check_kafka_streams() -> bool:
    with tempfile.TemporaryDirectory() as scratch, run_kafka() as broker:
        total = forest.make(Path(scratch), 1000, 300)
        broker.create_topic("updates", 2)
        return kafka_streams.check(Path(scratch), broker.servers, str(total))


def _compare(a: argparse.Namespace) -> int:
    sizes = f"{a.nodes} nodes, {a.batch} a batch, at most {forest.DEEPEST} deep, runs {a.runs}, local[2], 4g"
    header = report.heading(sizes)
    seconds: dict[str, list[float]] = {engine: [] for engine in a.engines}
    with tempfile.TemporaryDirectory() as scratch:
        correct = session.launch(__file__, ["--check", "--root", scratch])
    if "kafka-streams" in a.engines:
        correct = _check_kafka_streams() and correct
    header.append(f"{'check':15}{'counts of 1000 nodes as reckoned' if correct else 'WRONG'}")
    if not correct:
        print(header[-1])
        return 1
    for n in range(a.runs):
        for engine in a.engines:
            with tempfile.TemporaryDirectory() as scratch, run_kafka() as broker:
                total = forest.make(Path(scratch), a.nodes, a.batch)
                broker.create_topic("updates", 2)
                more = ["--servers", broker.servers, "--total", str(total)]
                found = session.launch(__file__, ["--once", engine, "--root", scratch, *more])["seconds"]
                seconds[engine].append(found)
                print(f"run {n + 1} of {engine}: {found:.1f} s for {total} counts", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        loops = session.launch(__file__, ["--loops", str(a.depth), "--root", scratch])
    table = ["engine            seconds   times tailrace's"]
    base = statistics.median(seconds[a.engines[0]])
    medians = {engine: statistics.median(seconds[engine]) for engine in a.engines}
    table += [f"{engine:15}{median:10.1f}{median / base:19.2f}" for engine, median in medians.items()]
    table += ["", *(f"{name:40}{value:10.2f}" for name, value in loops.items())]
    report.save(a.name or f"recursion-{a.nodes}", [*header, "", *table, "", json.dumps(seconds)])
    return 0


def main() -> int:
    """Compares, or does one step of a comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=100_000, help="nodes of a micro-batch")
    parser.add_argument("--depth", type=int, default=1000, help="hops of the chain")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--engines", nargs="+", choices=_ENGINES, default=list(_ENGINES))
    parser.add_argument("--name")
    inner = parser.add_argument_group("one step, in a process of its own")
    inner.add_argument("--once", choices=_ENGINES)
    inner.add_argument("--loops", type=int)
    inner.add_argument("--check", action="store_true")
    inner.add_argument("--root", type=Path)
    inner.add_argument("--servers", default="")
    inner.add_argument("--total", default="0")
    inner.add_argument("--warm", type=int, default=0, help="how often it runs before in the same JVM")
    a = parser.parse_args()
    if a.check:
        print(json.dumps(check(a.root)))
    elif a.loops:
        print(json.dumps(run_loops(a.loops, a.root)))
    elif a.once:
        options = {"servers": a.servers, "total": a.total} if a.once in _ON_KAFKA else {}
        print(json.dumps(run_once(a.once, a.root, a.warm, **options)))
    else:
        return _compare(a)
    return 0


if __name__ == "__main__":
    sys.exit(main())
