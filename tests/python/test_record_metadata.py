"""The columns that carry a record's origin, against golden vectors that the Scala tests read too."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from tailrace import errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "record-metadata.json").read_text(encoding="utf-8")
)


def test_the_golden_vectors_both_ways(spark: SparkSession) -> None:
    records = GOLDEN["records"]
    rows = [(r["pid"], r["partition"], r["offset"], bytearray.fromhex(r["hex"])) for r in records]
    frame = spark.createDataFrame(rows, "pid bigint, partition int, offset bigint, bytes binary")
    written = tailrace.stream_metadata("pid", "partition", "offset").alias("written")
    read = tailrace.parse_stream_metadata("bytes").alias("read")
    found = frame.select(written, read).collect()
    assert [row.written and row.written.hex() for row in found] == [r["tagged"] for r in records]
    assert [tuple(row.read) for row in found] == [(r["pid"], r["partition"], r["offset"]) for r in records]


def test_the_20_bytes_of_sqe(spark: SparkSession) -> None:
    """Read as SQE's documentation says: PID (long), partition (int), offset (long), in this order."""
    rows = [(r["pid"], r["partition"], r["offset"]) for r in GOLDEN["records"]]
    frame = spark.createDataFrame(rows, "pid bigint, partition int, offset bigint").repartition(1)
    metadata = tailrace.stream_metadata("pid", "partition", "offset", format="sqe").alias("sqe")
    found = frame.select("*", metadata, tailrace.parse_stream_metadata(metadata).alias("read")).collect()
    assert [row.sqe and row.sqe.hex() for row in found] == [r["sqe"] for r in GOLDEN["records"]]
    written = [row for row in found if row.sqe is not None]
    assert len(written) == len(found) - 1
    for row in written:
        assert (
            struct.unpack(">qiq", bytes(row.sqe)) == tuple(row.read) == (row.pid, row.partition, row.offset)
        )


def test_records_of_sqe_are_filtered(spark: SparkSession) -> None:
    frame = spark.range(40).selectExpr(
        "'t' AS topic", "0 AS partition", "id AS offset", "CAST(id % 2 AS INT) AS part", "id DIV 4 AS at"
    )
    keyed = frame.withColumn("key", tailrace.stream_metadata(7, "part", "at", format="sqe"))
    once = tailrace.filter_replays(keyed).select("part", "at").collect()
    assert sorted(tuple(row) for row in once) == [(part, at) for part in range(2) for at in range(10)]


@pytest.mark.contract
def test_the_tagged_form_is_the_default(spark: SparkSession) -> None:
    default = tailrace.stream_metadata(1, F.lit(2), F.lit(3))
    named = tailrace.stream_metadata(1, F.lit(2), F.lit(3), format="tagged")
    in_sql = F.expr("stream_metadata(1, 2, 3, 'tagged')")
    row = spark.range(1).select(default, named, in_sql).collect()[0]
    assert {bytes(column).hex() for column in row} == {GOLDEN["records"][1]["tagged"]}


def test_other_forms_are_refused(spark: SparkSession) -> None:
    for form in ("SQE", "", "avro"):
        with pytest.raises(tailrace.TailraceReplayError, match="'tagged' or 'sqe'"):
            spark.range(1).select(tailrace.stream_metadata(1, F.lit(2), F.lit(3), format=form)).collect()  # type: ignore[arg-type]
    for sql in ("stream_metadata(1, 2, 3, 4)", "stream_metadata(1, 2, 3, string(id))"):
        with pytest.raises(tailrace.TailraceReplayError, match="'tagged' or 'sqe'"):
            spark.range(1).selectExpr(sql).collect()
    with pytest.raises(TypeError, match="format"):
        tailrace.stream_metadata(1, F.lit(2), F.lit(3), format=20)  # type: ignore[arg-type]


def test_bytes_that_are_no_metadata_read_as_null(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(bytearray.fromhex(h),) for h in GOLDEN["invalid"]], "bytes binary")
    assert [row[0] for row in frame.select(tailrace.parse_stream_metadata(F.col("bytes"))).collect()] == [
        None
    ] * len(GOLDEN["invalid"])


def test_producers(spark: SparkSession) -> None:
    producers = [
        {k: v for k, v in p.items() if k != "pid" and (k != "epoch" or v)} for p in GOLDEN["producers"]
    ]
    row = spark.range(1).select(*(tailrace.producer_id(**p) for p in producers)).head()
    assert row is not None
    assert list(row) == [p["pid"] for p in GOLDEN["producers"]]


@pytest.mark.contract
def test_an_epoch_may_be_a_number(spark: SparkSession) -> None:
    parts = {"query": "sessions", "stream": "clicks", "brokers": "b1:9092,b2:9092", "path": "topic-1"}
    row = spark.range(1).select(
        tailrace.producer_id(**parts, epoch=2), tailrace.producer_id(**parts, epoch="2")
    )
    assert [tuple(r) for r in row.collect()] == [(GOLDEN["producers"][4]["pid"],) * 2]


@pytest.mark.contract
def test_a_record_written_and_merged(spark: SparkSession) -> None:
    frame = spark.range(100).selectExpr("CAST(id % 4 AS INT) AS partition", "id AS offset")
    keyed = frame.select("partition", tailrace.stream_metadata(7, "partition", "offset").alias("key"))
    merged = keyed.groupBy("partition").agg(tailrace.merge_stream_metadata("key").alias("key"))
    found = merged.select(tailrace.parse_stream_metadata("key").alias("m")).select("m.*").collect()
    assert sorted(tuple(r) for r in found) == [(7, p, 96 + p) for p in range(4)]


@pytest.mark.contract
def test_destinations(spark: SparkSession) -> None:
    frame = spark.range(6).select(F.col("id").cast("int").alias("p"))
    found = frame.select(tailrace.source_partition("p", 4), tailrace.source_partition("p", 6)).collect()
    assert [tuple(r) for r in found] == [(0, 0), (1, 1), (2, 2), (3, 3), (0, 4), (1, 5)]


def test_wrong_values_are_refused(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="VALUE_OUT_OF_RANGE"):
        # Over Spark Connect the function is looked at when its columns are asked for.
        spark.range(1).select(tailrace.source_partition(F.lit(1), 0)).schema  # noqa: B018
    with pytest.raises(TypeError, match="destination_partitions"):
        tailrace.source_partition("p", "8")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="brokers"):
        tailrace.producer_id(query="q", stream="s", brokers=["b1"], path="p")  # type: ignore[arg-type]


@pytest.mark.contract
def test_conditions_have_a_class() -> None:
    for condition in ("TAILRACE_FUNCTION_ARGUMENTS", "TAILRACE_METADATA_MIXED"):
        assert isinstance(errors.from_condition(condition, "text"), tailrace.TailraceReplayError)
