"""The queries compared: Tailrace, what a user of plain Spark would write, and the floors under any join."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from workload import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    # Left and right stream, window and number of shuffle partitions to the frame that is run.
    Query = Callable[[DataFrame, DataFrame, str, int], DataFrame]

_STATE = "spark.sql.streaming.stateStore"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def tailrace_join(left: DataFrame, right: DataFrame, window: str, _partitions: int) -> DataFrame:
    """The left columns and `labels`, an array of the matching right rows' id, time and value."""
    return tailrace.join(
        left,
        right,
        on=[("l_key", "r_key")],
        left_time="l_ts",
        right_time="r_ts",
        after=window,
    )


def _join_with(**options: Any) -> Query:  # noqa: ANN401 - the options of tailrace.join
    def join(left: DataFrame, right: DataFrame, window: str, _partitions: int) -> DataFrame:
        on = [("l_key", "r_key")]
        return tailrace.join(left, right, on=on, left_time="l_ts", right_time="r_ts", after=window, **options)

    return join


def tailrace_waits(left: DataFrame, right: DataFrame, window: str, partitions: int) -> DataFrame:
    """The same with the rows held for two hours more: what else a user has for late labels."""
    return tailrace_join(left, right, f"{window} 2 hours", partitions)


def tailrace_as_of(left: DataFrame, right: DataFrame, _window: str, _partitions: int) -> DataFrame:
    """The left columns and `features`, the newest right row of the key."""
    return tailrace.as_of(left, right, on=[("l_key", "r_key")], left_time="l_ts", right_time="r_ts")


def spark_join(left: DataFrame, right: DataFrame, window: str, _partitions: int) -> DataFrame:
    """The same in plain Spark: its left outer interval join, then the pairs of a left row grouped again."""
    condition = f"l_key = r_key AND r_ts >= l_ts AND r_ts <= l_ts + interval {window}"
    pairs = left.join(right, F.expr(condition), "leftOuter")
    return pairs.groupBy("l_id", "l_key", "l_ts").agg(
        F.first("l_value").alias("l_value"),
        F.collect_list(F.struct("r_id", "r_ts", "r_value")).alias("labels"),
    )


def floor(left: DataFrame, right: DataFrame, _window: str, partitions: int) -> DataFrame:
    """The same scan and the same shuffle by key, and no state at all."""
    return left.union(right).repartition(partitions, "l_key")


def floor_two_shuffles(left: DataFrame, right: DataFrame, _window: str, partitions: int) -> DataFrame:
    """A join's plan without the join: each side shuffled by key, one last stage that reads both, no state.

    Spark's union keeps a partitioning that its children share, so that stage has a join's tasks, not twice as
    many.
    """
    return left.repartition(partitions, "l_key").union(right.repartition(partitions, "r_key"))


# State format 4 is Spark's newest for joins, indexed by time, and off by default in 4.2; 2 is its default.
QUERIES: Mapping[str, Query] = {
    "tailrace": tailrace_join,
    "tailrace-not-durable": tailrace_join,
    "tailrace-eager": tailrace_join,
    "tailrace-amends": _join_with(amend_for="2 hours"),
    "tailrace-orphans": _join_with(orphans=True),
    "tailrace-no-late-impressions": _join_with(late_impressions=False),
    "tailrace-waits": tailrace_waits,
    "tailrace-as-of": tailrace_as_of,
    "tailrace-first": _join_with(match="first"),
    "tailrace-first-decided": _join_with(match="first", release="decided"),
    "tailrace-inner": _join_with(how="inner"),
    "tailrace-inner-exactly-one": _join_with(how="inner", one_to_one=True),
    "spark-format-4": spark_join,
    "spark-format-3": spark_join,
    "spark-format-2": spark_join,
    "floor": floor,
    "floor-tailrace-files": floor,
    "floor-two-shuffles": floor_two_shuffles,
}

_TAILRACE: Mapping[str, Mapping[str, str]] = {
    "tailrace": {},
    "tailrace-not-durable": {"spark.tailrace.state.durability": "none"},
    "tailrace-eager": {"spark.tailrace.join.strategy": "eager"},
}


# The floor with Tailrace's way of writing Spark's logs on a local disk: how much of a ratio is theirs.
_CONFIGURED = {*_TAILRACE, "floor-tailrace-files"}


def is_tailrace(engine: str) -> bool:
    """Whether an engine is Tailrace, however it is set: its output is `tailrace_join`'s."""
    return engine in _TAILRACE


def settings(engine: str) -> dict[str, str]:
    """The settings of an engine's session beyond those that all have, and those of `tailrace.configure`."""
    if is_tailrace(engine):
        return dict(_TAILRACE[engine])
    if not engine.startswith("spark-format-"):
        return {}
    version = engine.removeprefix("spark-format-").partition("-")[0]
    return {
        f"{_STATE}.providerClass": _ROCKSDB,
        f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
        # It reads before each write, and only to count: off, in favour of plain Spark.
        f"{_STATE}.rocksdb.trackTotalNumberOfRows": "false",
        "spark.sql.streaming.join.stateFormatV4.enabled": "true",
        "spark.sql.streaming.join.stateFormatVersion": version,
    }


def session(engine: str, conf: Mapping[str, str]) -> SparkSession:
    """Starts Spark for one engine. `conf` wins over the engine's own settings."""
    builder: SparkSession.Builder = SparkSession.builder
    for key, value in {**settings(engine), **conf}.items():
        builder = builder.config(key, value)
    if engine in _CONFIGURED or engine.startswith(("examples", "join", "tailrace")):
        builder = tailrace.configure(builder)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def stream(spark: SparkSession, path: str, delay: str, prefix: str) -> DataFrame:
    """One side of the workload, a file a micro-batch, with a watermark on its time.

    Its columns get their names below the watermark: above it, the new names would cost every engine but the
    floors one more copy of each row.
    """
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    side = reader.parquet(path)
    renamed = side.select(*(F.col(column).alias(f"{prefix}{column}") for column in side.columns))
    return renamed.withWatermark(f"{prefix}ts", delay)


def label_ids(joined: DataFrame) -> DataFrame:
    """What `oracle.check` wants of Tailrace's output: the left row's id and its labels' ids."""
    return joined.select(
        F.col("l_id").alias("id"), F.transform("labels", lambda label: label["r_id"]).alias("labels")
    )


def found_ids(looked: DataFrame) -> DataFrame:
    """The left row's id and that of the right row that it has found."""
    return looked.select(F.col("l_id").alias("id"), F.col("features.r_id").alias("found"))


# What is checked of an engine's output, where it isn't a group of labels.
CHECKED: Mapping[str, Callable[[DataFrame], DataFrame]] = {"tailrace-as-of": found_ids}
