"""Nexmark's queries 8 and 20, and 20 as a left join: Tailrace's, and what a user of plain Spark would write.

Query 20 as published joins without a bound in time. A bid's auction begins at most 100 auctions before it or
10 after it, which is less than a second, so with a window of 10 seconds the same rows come out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from nexmark_events import AUCTION, BID, PERSON, SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    NexmarkQuery = Callable[[SparkSession, str], DataFrame]

DELAY = "4 seconds"
WINDOW = "10 seconds"

# The kinds that a query reads.
READS: Mapping[str, tuple[str, str]] = {
    "q20": (BID, AUCTION),
    "q20-left": (BID, AUCTION),
    "q8": (PERSON, AUCTION),
}
# The columns of an auction in the result of query 20, behind those of the bid.
OF_AUCTION = (
    "itemName",
    "description",
    "initialBid",
    "reserve",
    "auction_dateTime",
    "expires",
    "seller",
    "category",
    "auction_extra",
)
_CATEGORY = "category = 10"


def _stream(spark: SparkSession, data: str, kind: str, prefix: str) -> DataFrame:
    """The events of a kind, a file a micro-batch; two columns of them get a prefix below the watermark."""
    reader = spark.readStream.schema(SCHEMAS[kind]).option("maxFilesPerTrigger", 1)
    named = {name: f"{prefix}_{name}" for name in ("dateTime", "extra")}
    return reader.parquet(f"{data}/{kind}").withColumnsRenamed(named).withWatermark(named["dateTime"], DELAY)


def _bids_and_auctions(spark: SparkSession, data: str) -> tuple[DataFrame, DataFrame]:
    auctions = _stream(spark, data, AUCTION, "auction").where(_CATEGORY)
    return _stream(spark, data, BID, "bid"), auctions


def _joined(spark: SparkSession, data: str, **options: Any) -> DataFrame:  # noqa: ANN401
    """Bids with their auctions, by `tailrace.join`."""
    bids, auctions = _bids_and_auctions(spark, data)
    return tailrace.join(
        bids,
        auctions,
        on=[("auction", "id")],
        left_time="bid_dateTime",
        right_time="auction_dateTime",
        before=WINDOW,
        after=WINDOW,
        **options,
    )


def _tailrace_q20(spark: SparkSession, data: str) -> DataFrame:
    return _joined(spark, data, how="inner")


def _tailrace_q20_left(spark: SparkSession, data: str) -> DataFrame:
    joined = _joined(spark, data, match="first", into="found")
    bid = [name for name in joined.columns if name != "found"]
    return joined.select(*bid, *(F.get("found", F.lit(0))[name].alias(name) for name in OF_AUCTION))


def _spark_q20(how: str) -> NexmarkQuery:
    def query(spark: SparkSession, data: str) -> DataFrame:
        bids, auctions = _bids_and_auctions(spark, data)
        near = (
            f"auction_dateTime >= bid_dateTime - interval {WINDOW} "
            f"AND auction_dateTime <= bid_dateTime + interval {WINDOW}"
        )
        return bids.join(auctions, F.expr(f"auction = id AND {near}"), how).drop("id")

    return query


def _tailrace_q8(spark: SparkSession, data: str) -> DataFrame:
    persons = _stream(spark, data, PERSON, "person")
    auctions = _stream(spark, data, AUCTION, "auction")
    joined = tailrace.join(
        persons.select("id", "name", "person_dateTime", _start("person_dateTime").alias("starttime")),
        auctions.select("seller", "auction_dateTime", _start("auction_dateTime").alias("auction_start")),
        on=[("id", "seller"), ("starttime", "auction_start")],
        left_time="person_dateTime",
        right_time="auction_dateTime",
        before=WINDOW,
        after=WINDOW,
        match="first",
        into="opened",
    )
    return joined.where("size(opened) > 0").select("id", "name", "starttime")


def _start(time: str) -> Column:
    """Of the window of 10 seconds that a time is in."""
    return F.timestamp_seconds(F.floor(F.unix_seconds(time) / 10) * 10)


def _spark_q8(spark: SparkSession, data: str) -> DataFrame:
    """The published SQL: both sides grouped by their windows, and the groups joined."""
    persons = _stream(spark, data, PERSON, "person")
    auctions = _stream(spark, data, AUCTION, "auction")
    entered = persons.groupBy(F.window("person_dateTime", WINDOW).alias("entered"), "id", "name").count()
    opened = auctions.groupBy(F.window("auction_dateTime", WINDOW).alias("opened"), "seller").count()
    joined = entered.join(opened, F.expr("id = seller AND entered = opened"))
    return joined.select("id", "name", F.col("entered.start").alias("starttime"))


NEXMARK_QUERIES: Mapping[str, NexmarkQuery] = {
    "tailrace-q20": _tailrace_q20,
    "tailrace-q20-left": _tailrace_q20_left,
    "tailrace-q8": _tailrace_q8,
    "spark-format-4-q20": _spark_q20("inner"),
    "spark-format-4-q20-left": _spark_q20("leftOuter"),
    "spark-format-4-q8": _spark_q8,
}


def whole(result: DataFrame) -> DataFrame:
    """All columns, with times as numbers of milliseconds: what all engines' outputs are compared by."""
    return result.select(
        *(
            F.unix_millis(name).alias(name) if kind == "timestamp" else F.col(name)
            for name, kind in result.dtypes
        )
    )
