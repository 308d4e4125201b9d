"""Scenarios of `kafka_scenario.py`: producers of metadata that do what they mustn't, and their readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kafka_topics import Scenario


def _key(scenario: Scenario, topic: str | Column, epoch: str = "") -> Column:
    pid = tailrace.producer_id(query="q", stream="s", brokers=scenario.servers, path=topic, epoch=epoch)
    return tailrace.stream_metadata(pid, "partition", "offset").alias("key")


def _outcome(scenario: Scenario, frame: DataFrame, checkpoint: str) -> str:
    """The condition that a query is refused with when it starts, or that it has failed with; or "done"."""
    writer = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", scenario.servers)
    writer = writer.options(topic="copied", checkpointLocation=str(scenario.root / checkpoint))
    try:
        writer.trigger(availableNow=True).start().awaitTermination()
    except AnalysisException as refused:
        return refused.getCondition() or str(refused)
    return "done"


def misuse(scenario: Scenario) -> dict[str, Any]:
    """Producers that are refused when they start."""
    to = tailrace.source_partition("partition", 2).alias("partition")

    def copy(*more: Column, topics: str = "first", epoch: str = "", **options: str) -> DataFrame:
        return scenario.stream(topics, **options).select(_key(scenario, topics, epoch), "value", *more)

    frames = {
        "right": copy(to),
        "one partition": copy(F.lit(0).alias("partition")),
        "no partition": copy(),
        "by the value": copy(F.expr("CAST(value AS STRING)").cast("int").alias("partition")),
        "several tasks": copy(to, minPartitions="8"),
        "several topics": copy(to, topics="first,second"),
        "several topics, told apart": scenario.stream("first,second").select(
            _key(scenario, F.col("topic")), "value", to
        ),
    }
    return {name: _outcome(scenario, frame, name) for name, frame in frames.items()}


def anew(scenario: Scenario) -> dict[str, Any]:
    """The query "right" above after its topic was made anew; with another epoch, with a new checkpoint."""
    found = {}
    for name, epoch in (("right", ""), ("right", "2"), ("new checkpoint", "")):
        to = tailrace.source_partition("partition", 2).alias("partition")
        out = scenario.stream("first", failOnDataLoss="false").select(
            _key(scenario, "first", epoch), "value", to
        )
        found[f"{name} {epoch}".strip()] = _outcome(scenario, out, name)
    return found


def spread(scenario: Scenario) -> dict[str, Any]:
    """A reader of a topic whose producer has forgotten `source_partition`."""
    found: dict[str, Any] = {}
    for name, options in {"plain": {}, "split": {"minPartitions": "8"}}.items():
        query = (
            tailrace.filter_replays(scenario.stream("spread", **options))
            .select("value")
            .writeStream.format("parquet")
            .options(path=str(scenario.root / f"{name}-out"), checkpointLocation=str(scenario.root / name))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except Exception as failed:  # noqa: BLE001  whatever it is, the test looks at it
            found[name] = failed.condition if isinstance(failed, tailrace.TailraceError) else str(failed)
        out = scenario.root / f"{name}-out" / "_spark_metadata"
        found[f"{name}, batches out"] = len(list(out.glob("[0-9]*"))) if out.exists() else 0
    return found


def merged(scenario: Scenario) -> dict[str, Any]:
    """Records made of several, ten to one, written again after a failure, and read once."""

    def run() -> None:
        def merge(rows: DataFrame, _: int) -> None:
            keyed = rows.select(
                _key(scenario, "numbers"), "partition", F.col("value").cast("string").cast("int").alias("n")
            )
            whole = keyed.groupBy("partition").agg(
                tailrace.merge_stream_metadata("key").alias("key"),
                F.concat_ws(",", F.sort_array(F.collect_list("n"))).alias("value"),
            )
            writer = whole.write.format("kafka").option("kafka.bootstrap.servers", scenario.servers)
            writer.option("topic", "merged").save()

        query = scenario.stream("numbers", maxOffsetsPerTrigger="40").writeStream.foreachBatch(merge)
        query = query.option("checkpointLocation", str(scenario.root / "merging"))
        query.trigger(availableNow=True).start().awaitTermination()

    run()
    scenario.forget_batches("merging", 2)
    run()
    once = tailrace.filter_replays(scenario.stream("merged", maxOffsetsPerTrigger="7"))
    scenario.to_parquet(once.select("value"), "once")
    rows = scenario.spark.read.parquet(str(scenario.root / "once-out")).selectExpr(
        "CAST(value AS STRING) AS v"
    )
    return {
        "written": scenario.batch("merged").count(),
        "numbers": sorted(int(n) for row in rows.collect() for n in row.v.split(",")),
    }
