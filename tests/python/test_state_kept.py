"""`tailrace-state` of operators that keep no rows: marks, hosts, partitions, and rows that go round."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import tailrace
from tailrace.testing import at
from tailrace.testing.rows import as_tuples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tailrace.testing import StreamTest
    from trees import Trees

_RECORDS = (
    "topic string, partition int, offset bigint, pid bigint, p int, o bigint, host string, at timestamp"
)


@pytest.fixture
def read(spark: SparkSession) -> Callable[..., list[tuple[Any, ...]]]:
    def rows(path: Path, **options: object) -> list[tuple[Any, ...]]:
        reader = spark.read.format("tailrace-state").options(**{k: str(v) for k, v in options.items()})
        return sorted(as_tuples(reader.load(str(path))), key=str)

    return rows


def _once(frame: DataFrame) -> DataFrame:
    once = tailrace.filter_replays(
        frame,
        pid="pid",
        partition="p",
        offset="o",
        name="topic-2",
        disorder=4,
        event_time="at",
        forget_after="30 days",
    )
    return tailrace.accurate_watermark(once, "at", host="host", hosts=["a", "b", "c"], completeness="60%")


@pytest.mark.contract
def test_marks_and_hosts(stream_test: StreamTest, read: Callable[..., list[tuple[Any, ...]]]) -> None:
    records = stream_test.source(_RECORDS)
    query = stream_test.query(_once(records.frame))
    records.add(("t", 0, 0, 7, 0, 10, "a", "11:50"), ("t", 0, 1, 7, 0, 13, "a", "11:51"))
    query.run()
    first = len(list((query.checkpoint / "commits").glob("[0-9]*")))
    records.add(("t", 1, 0, 7, 1, 5, "b", "11:52"), ("t", 0, 2, 7, 0, 12, "a", "11:53"))
    query.run()
    marks = [("topic-2", 7, 0, "t/0", 13, 1, at("11:53")), ("topic-2", 7, 1, "t/1", 5, 0, at("11:52"))]
    assert read(query.checkpoint, of="marks") == marks
    assert read(query.checkpoint, of="marks", operator="topic-2", version=first) == [
        ("topic-2", 7, 0, "t/0", 13, 2, at("11:51"))
    ]
    (name, *_), *_ = hosts = read(query.checkpoint, of="hosts")
    assert [(row[1], row[2], row[3]) for row in hosts] == [
        ("a", at("11:53"), 0),
        ("b", at("11:52"), 0),
        ("c", None, 0),
    ]
    assert {row[4] for row in hosts} == {at("11:52")}
    assert [row[:3] for row in read(query.checkpoint, of="HOSTS", operator=name, version=first)] == [
        (name, "a", at("11:51")),
        (name, "b", None),
        (name, "c", None),
    ]
    for options, told in (
        ({"of": "marks", "version": 99}, "CHECKPOINT_VERSION_NOT_RETAINED.*1 to "),
        ({"of": "marks", "operator": "topic"}, "one of topic-2"),
        ({"of": "partitions"}, "one of rows, hosts, marks"),
        ({"of": "everything"}, "one of rows, marks, hosts, partitions, rows_in_flight"),
    ):
        with pytest.raises(Exception, match=told):
            read(query.checkpoint, **options)
    file = query.checkpoint / "tailrace-replay" / "topic-2" / f"{first}.marks"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.raises(Exception, match=r"TAILRACE_STATE_FILE_CORRUPT[^$]*\.marks"):
        read(query.checkpoint, of="marks")
    file.write_bytes(whole)
    assert read(query.checkpoint, of="marks") == marks


@pytest.mark.contract
def test_partitions_of_a_synced_join(
    stream_test: StreamTest, read: Callable[..., list[tuple[Any, ...]]]
) -> None:
    columns = "id long, partition int, created timestamp"
    left, right = stream_test.source(columns), stream_test.source(columns)
    joined = tailrace.sync_join(
        left.frame,
        right.frame,
        on="id",
        left_time="created",
        right_time="created",
        left_partition="partition",
        right_partition="partition",
        sync_delay="5 seconds",
        window="1 minute",
        name="orders",
    )
    query = stream_test.query(joined)
    left.add((1, 0, "12:00"), (2, 1, "12:00:10"))
    right.add((1, 0, "12:00:01"))
    query.run()
    still = dt.timedelta(0)
    assert read(query.checkpoint, of="partitions") == [
        ("orders", "left", "0", at("12:00"), still, False, at("12:00")),
        ("orders", "left", "1", at("12:00:10"), still, False, at("12:00")),
        ("orders", "right", "0", at("12:00:01"), still, False, at("12:00:01")),
    ]


def _rows(depth: int, *rows: tuple[int, int]) -> list[tuple[Any, ...]]:
    return [("tree", depth, {"node": node, "parent": parent}) for node, parent in rows]


def test_rows_that_go_round(trees: Trees, read: Callable[..., list[tuple[Any, ...]]]) -> None:
    def down(frame: DataFrame) -> DataFrame:
        return frame.where("node > 0").selectExpr("node - 1 AS node", "parent")

    def break_off(rows: DataFrame, batch: int) -> None:
        rows.collect()
        if batch == 2:
            raise RuntimeError("enough")

    trees.add("nodes", [(4, 0), (9, 1)])
    looped = tailrace.recursively(
        trees.stream("nodes"), down, name="tree", mode="feedback", depth_column="hop"
    )
    checkpoint = trees.root / "broken-off"
    writer = looped.writeStream.foreachBatch(break_off).option("checkpointLocation", str(checkpoint))
    with pytest.raises(StreamingQueryException):
        writer.start().awaitTermination()
    assert read(checkpoint, of="rows_in_flight") == _rows(2, (2, 0), (7, 1))
    assert read(checkpoint, of="rows_in_flight", version=1) == _rows(1, (3, 0), (8, 1))
    names = trees.spark.read.format("tailrace-state").option("of", "rows_in_flight").load(str(checkpoint))
    assert names.select("row.*").columns == ["node", "parent"]
