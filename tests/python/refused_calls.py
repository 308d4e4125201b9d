"""Calls that are refused, of each public function, and what is said: the same in both kinds of sessions.

    python tests/python/refused_calls.py FOLDER [sc://127.0.0.1:15002]

prints a line of JSON for each call: its name, class, condition, parameters and text.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import local_spark
import tailrace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame


class Frames(NamedTuple):
    """What calls are made with."""

    spark: SparkSession
    served: DataFrame
    clicked: DataFrame
    rate: DataFrame
    folder: str


def _frames(spark: SparkSession, folder: str) -> Frames:
    served = spark.sql("SELECT 7 AS user, timestamp_seconds(0) AS served_at, 'top' AS place")
    clicked = spark.sql("SELECT 7 AS user, timestamp_seconds(60) AS clicked_at, 1 AS n")
    return Frames(spark, served, clicked, spark.readStream.format("rate").load(), folder)


def _join(f: Frames, **options: Any) -> DataFrame:  # noqa: ANN401
    given: dict[str, Any] = {"on": "user", "left_time": "served_at", "right_time": "clicked_at"}
    return tailrace.join(f.served, f.clicked, **{**given, "after": "1 hour", **options})


def _examples(f: Frames, **options: Any) -> DataFrame:  # noqa: ANN401
    given: dict[str, Any] = {"time": "clicked_at", "after": "1 hour", **options}
    return tailrace.examples(f.served, on="user", time="served_at").label("click", f.clicked, **given).batch()


def _examples_of_streams(f: Frames) -> DataFrame:
    rate = f.rate.withWatermark("timestamp", "1 second")
    begun = tailrace.examples(rate, on="value", time="timestamp")
    return begun.label("again", rate, time="timestamp", after="1 minute").stream()


_TIMES: Mapping[str, Any] = {"left_time": "served_at", "right_time": "clicked_at"}

CALLS: Mapping[str, Callable[[Frames], object]] = {
    "join, unknown key": lambda f: _join(f, on="nobody"),
    "join, unknown time": lambda f: _join(f, left_time="then"),
    "join, no time": lambda f: _join(f, left_time="place"),
    "join, no duration": lambda f: _join(f, after="soon"),
    "join, a month": lambda f: _join(f, after="1 month"),
    "join, how": lambda f: _join(f, how="outer"),
    "join, no key": lambda f: _join(f, on=[]),
    "join, types of keys": lambda f: _join(f, on=[("place", "n")]),
    "join, a name that is there": lambda f: _join(f, into="place"),
    "join, options in conflict": lambda f: _join(f, how="inner", into="clicks"),
    "join, an expression": lambda f: _join(f, left_time=F.col("served_at") + F.expr("INTERVAL 1 SECOND")),
    "join, a literal": lambda f: _join(f, on=[(F.lit(1), "user")]),
    "join, another name": lambda f: _join(f, left_time=F.col("served_at").alias("then")),
    "join, a stream with a table": lambda f: tailrace.join(
        f.rate,
        f.clicked,
        on=[("value", "user")],
        left_time="timestamp",
        right_time="clicked_at",
        after="1 hour",
    ),
    "join, no watermark": lambda f: tailrace.join(
        f.rate, f.rate, on="value", left_time="timestamp", right_time="timestamp", after="1 hour"
    ),
    "join, twice a column": lambda f: tailrace.join(
        f.served.select("*", "user"), f.clicked, on="user", after="1 hour", **_TIMES
    ),
    "as_of, unknown key": lambda f: tailrace.as_of(f.served, f.clicked, on="nobody", **_TIMES),
    "as_of, a name that is there": lambda f: tailrace.as_of(
        f.served, f.clicked, on="user", into="place", **_TIMES
    ),
    "sync_join, tables": lambda f: tailrace.sync_join(
        f.served, f.clicked, on="user", window="1 hour", sync_delay="5 seconds", **_TIMES
    ),
    "sync_join, no duration": lambda f: tailrace.sync_join(
        f.served, f.clicked, on="user", window="soon", sync_delay="5 seconds", **_TIMES
    ),
    "examples, no label": lambda f: tailrace.examples(f.served, on="user", time="served_at").batch(),
    "examples, no duration": lambda f: _examples(f, after="soon"),
    "examples, unknown key": lambda f: _examples(f, on="nobody"),
    "examples, condition": lambda f: _examples(f, where="n +"),
    "filter_replays, unknown column": lambda f: tailrace.filter_replays(f.served, key="nobody"),
    "filter_replays, unknown producer": lambda f: tailrace.filter_replays(
        f.served, pid="nobody", partition="user", offset="user"
    ),
    "accurate_watermark, unknown host": lambda f: tailrace.accurate_watermark(
        f.served, "served_at", host="nobody"
    ),
    "accurate_watermark, no share": lambda f: tailrace.accurate_watermark(
        f.served, "served_at", host="place", completeness="120%"
    ),
    "stamp_watermark, a table": lambda f: tailrace.stamp_watermark(f.served, into="place"),
    "stamped_watermark, unknown column": lambda f: tailrace.stamped_watermark(
        f.served, "served_at", stamp="nobody"
    ),
    "write_windows, a table": lambda f: tailrace.write_windows(f.served, f.folder, "served_at"),
    "write_windows, no watermark": lambda f: tailrace.write_windows(f.rate, f.folder, "timestamp"),
    "window_report, no folder": lambda f: tailrace.window_report(f.spark, f"{f.folder}/nowhere").collect(),
    "recursively, other columns": lambda f: tailrace.recursively(f.served, lambda u: u.select("user")),
    "recursively, the argument itself": lambda f: tailrace.recursively(f.served, lambda u: u),
    "recursively, without the argument": lambda f: tailrace.recursively(f.served, lambda _: f.served),
    "recursively, too deep": lambda f: tailrace.recursively(
        f.served.select("user"), lambda u: u.where("user > 0").selectExpr("user - 1 AS user"), max_depth=2
    ).collect(),
    "recursively, no key": lambda f: tailrace.recursively(
        f.served, lambda u: u.where("user > 9"), path_columns="nobody"
    ),
    "recursively, no name": lambda f: tailrace.recursively(
        f.rate, lambda u: u.where("value > 9"), name="a b"
    ),
    "label_maturity, unknown label": lambda f: tailrace.label_maturity(
        f.spark, f.served, labels={"clicks": "clicked_at"}, time="served_at"
    ),
    "label_maturity, no labels": lambda f: tailrace.label_maturity(
        f.spark, f.served, labels={}, time="served_at"
    ),
    "reconcile, unknown key": lambda f: tailrace.reconcile(
        f.served, f.served, keys="nobody", time="served_at"
    ),
    "preflight, no duration": lambda f: tailrace.preflight(
        f.served, f.clicked, on="user", after=["soon"], **_TIMES
    ),
    "rescale, no checkpoint": lambda f: tailrace.rescale(f.spark, f"{f.folder}/nowhere", 4),
    "erase, no checkpoint": lambda f: tailrace.erase(f.spark, f"{f.folder}/nowhere", where="user = 7"),
    "erase, no condition": lambda f: tailrace.erase(f.spark, f"{f.folder}/nowhere"),
    "export_state, no checkpoint": lambda f: tailrace.export_state(
        f.spark, f"{f.folder}/nowhere", f"{f.folder}/exported"
    ),
    "import_state, no export": lambda f: tailrace.import_state(
        f.spark, f"{f.folder}/new", export=f"{f.folder}/nowhere"
    ),
    "state, no checkpoint": lambda f: (
        f.spark.read.format("tailrace-state").load(f"{f.folder}/nowhere").collect()
    ),
    "metadata, too few": lambda f: f.spark.sql("SELECT stream_metadata(7L)").collect(),
    "start, output mode": lambda f: (
        _examples_of_streams(f).writeStream.format("noop").outputMode("update").start()
    ),
}

# Those with an expression in their text, which Spark shows in another way over Spark Connect.
SHOWN_BY_SPARK = ("join, an expression",)


def refusals(spark: SparkSession, folder: str) -> Iterator[dict[str, Any]]:
    """What is said of each call."""
    frames = _frames(spark, folder)
    for name, call in CALLS.items():
        try:
            call(frames)
        except tailrace.TailraceError as error:
            kind, condition, parameters = type(error).__name__, error.condition, error.parameters
            yield {
                "call": name,
                "kind": kind,
                "condition": condition,
                "parameters": parameters,
                "text": str(error),
            }
        except Exception as error:  # noqa: BLE001  it is told
            yield {"call": name, "kind": type(error).__name__, "condition": None, "text": str(error)[:300]}
        else:
            yield {"call": name, "kind": None, "condition": None, "text": "it isn't refused"}


def main(folder: str, address: str | None = None) -> None:
    """Prints them."""
    spark = local_spark.start("1g") if address is None else SparkSession.builder.remote(address).getOrCreate()
    for refusal in refusals(spark, folder):
        print(json.dumps(refusal), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
