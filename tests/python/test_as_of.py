"""`tailrace.as_of`: what comes out, in streams and in batch, and what the tools say of its state."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from oracles import AsOfOracle, looked
from streams import Row, Streams, at, join, next_rows
from tailrace.commands import waiting
from tailrace.errors import TailraceJoinError, TailraceStateError
from tailrace.testing import StreamTest

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tailrace.testing import StreamQuery


def as_of(left: DataFrame, right: DataFrame, **options: Any) -> DataFrame:  # noqa: ANN401 - those of as_of
    given = {"on": "key", "left_time": "l_ts", "right_time": "r_ts"} | options
    return tailrace.as_of(left, right, **given)


def _stream(streams: Streams, **options: Any) -> DataFrame:  # noqa: ANN401
    return as_of(streams.frame("left"), streams.frame("right"), **options)


LEFT = [Row(1, 7, 10), Row(2, 7, 20), Row(3, 8, 20), Row(4, None, 20), Row(5, 9, 20)]
RIGHT = [
    Row(101, 7, 10),
    Row(102, 7, 15),
    Row(103, 7, 15),
    Row(104, 8, 21),
    Row(105, None, 1),
    Row(106, 9, 1),
]
FOUND: list[tuple[int, int | None]] = [(1, 101), (2, 103), (3, None), (4, None), (5, 106)]
END = ([Row(900, 99, 1000)], [Row(901, 98, 1000)])


@pytest.mark.contract
def test_streams_and_batch_give_the_same_rows(stream_test: StreamTest) -> None:
    streams = Streams(stream_test)
    with streams.query(_stream(streams)) as query:
        streams.add(LEFT, RIGHT)
        # The watermark is at 10.
        assert looked(next_rows(query)) == FOUND[:1]
        streams.add(*END)
        assert looked(next_rows(query)) == FOUND[1:]
    batch = as_of(*streams.batch_frames(LEFT, RIGHT))
    assert looked(row.asDict(recursive=True) for row in batch.collect()) == FOUND
    assert batch.select("features.*").columns == ["r_id", "r_ts", "r_note"]
    aged = as_of(*streams.batch_frames(LEFT, RIGHT), max_age="5 seconds", delay="5 seconds", into="f")
    assert sorted((r.l_id, r.f and r.f.r_id) for r in aged.collect()) == [
        (1, None),
        (2, 103),
        (3, None),
        (4, None),
        (5, None),
    ]


def test_a_key_of_another_numeric_type_is_widened(spark: SparkSession) -> None:
    left = spark.sql("select 1 as key, timestamp'2026-01-01 12:00:10' as l_ts")
    right = spark.sql("select 1L as key, timestamp'2026-01-01 12:00:05' as r_ts, 5 as v")
    result = as_of(left, right)
    assert dict(result.dtypes)["key"] == "int"
    assert [row.features.v for row in result.collect()] == [5]


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"delay": "-1 seconds"}, "TAILRACE_OPTION_INVALID"),
        ({"max_age": "1 month"}, "TAILRACE_OPTION_INVALID"),
        ({"into": ""}, "TAILRACE_OPTION_INVALID"),
        ({"into": "l_id"}, "TAILRACE_COLUMN_EXISTS"),
        ({"on": "no"}, "TAILRACE_COLUMN_NOT_FOUND"),
        ({"left_time": "key"}, "TAILRACE_COLUMN_TYPE"),
    ],
)
def test_refusals(spark: SparkSession, options: dict[str, Any], condition: str) -> None:
    left, right = (spark.sql(f"select 1 as key, 1 as {s}_id, current_timestamp() as {s}_ts") for s in "lr")
    with pytest.raises(TailraceJoinError) as refusal:
        as_of(left, right, **options)
    assert refusal.value.condition == condition


def test_a_stream_without_a_watermark_is_refused(stream_test: StreamTest) -> None:
    streams = Streams(stream_test)
    with pytest.raises(TailraceJoinError, match="has no watermark on its time column `r_ts`"):
        as_of(streams.frame("left"), streams.sources["right"].frame)


@pytest.fixture(scope="module")
def stopped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StreamQuery:
    """A query that has stopped while rows wait, the watermark 4 seconds before noon."""
    with StreamTest(spark, tmp_path_factory.mktemp("as-of"), "12:00") as test:
        streams = Streams(test)
        query = streams.query(_stream(streams, max_age="1 hour", delay="2 seconds"))
        streams.add([Row(1, 7, 0), Row(2, None, 6)], [Row(101, 7, -3), Row(102, 7, 6), Row(103, 8, 1)])
        query.run()
    return query


@pytest.mark.slow
def test_the_state_shows_its_rows(spark: SparkSession, stopped: StreamQuery) -> None:
    rows = spark.read.format("tailrace-state").load(str(stopped.checkpoint))
    found = rows.selectExpr("side", "key.key", "coalesce(left.l_id, right.r_id) as id").collect()
    assert sorted(tuple(row) for row in found if row.key is not None) == [
        ("left", 7, 1),
        ("right", 7, 101),
        ("right", 7, 102),
        ("right", 8, 103),
    ]
    assert rows.where("key.key = 8").count() == 1


@pytest.mark.slow
def test_why_says_what_holds_a_row(stopped: StreamQuery) -> None:
    report = waiting.explain(str(stopped.checkpoint), "key=7", 10)
    (operator,) = report["operators"]
    assert operator["name"] == "tailraceAsOf"
    assert "2 left rows and 3 right rows are in the state." in operator["text"]
    leaves = {(r["side"], r["time"]): (r["leaves"], r["matches"]) for r in operator["rows"]}
    assert leaves == {
        ("left", "2026-01-01T12:00:00Z"): ("2026-01-01T11:59:58Z", 1),
        ("right", "2026-01-01T11:59:57Z"): ("2026-01-01T12:59:59Z", None),
        ("right", "2026-01-01T12:00:06Z"): ("2026-01-01T13:00:08Z", None),
    }
    assert any(
        "It is emitted when the watermark has reached 2026-01-01T11:59:58Z" in t for t in operator["text"]
    )


def test_an_export_has_its_rows_and_an_import_is_refused_by_name(
    spark: SparkSession, stopped: StreamQuery, tmp_path: Path
) -> None:
    exported = tmp_path / "export"
    tailrace.export_state(spark, stopped.checkpoint, exported)
    rights = spark.read.parquet(str(exported / "operator-0" / "right"))
    assert sorted(row.r_id for row in rights.collect()) == [101, 102, 103]
    with pytest.raises(TailraceStateError, match=r"operator 0 \(tailraceAsOf\)"):
        tailrace.import_state(spark, tmp_path / "moved", export=exported)


@pytest.mark.campaign
def test_erased_rows_are_gone_and_a_rescaled_query_goes_on(
    spark: SparkSession, stream_test: StreamTest
) -> None:
    streams = Streams(stream_test)
    with streams.query(_stream(streams)) as query:
        streams.add(LEFT, RIGHT)
        query.run()
        query.stop()
        erased = tailrace.erase(spark, query.checkpoint, "key = 9")
        assert [(s.side, s.erased) for s in erased.sides] == [("left", 1), ("right", 1)]
        assert tailrace.rescale(spark, query.checkpoint, 5).after == 5
        query.restart()
        streams.add(*END)
        query.run()
        assert looked(query.rows()) == FOUND[:4]
        query.stop()
        assert tailrace.rescale(spark, query.checkpoint, 1).after == 1
        query.restart()
        streams.add([Row(906, 7, 2000), Row(907, 8, 2000)], [Row(908, 98, 2000)])
        query.run()
        streams.add([Row(910, 99, 3000)], [Row(911, 98, 3000)])
        # The values of before both changes are still found.
        assert looked(next_rows(query))[-2:] == [(906, 103), (907, 104)]


def test_a_column_that_is_added_on_the_right_is_null_in_values_of_before(stream_test: StreamTest) -> None:
    source = {side: stream_test.source(f"{side}_id long, key long, {side}_ts timestamp") for side in "lr"}

    def joined(*further: str) -> DataFrame:
        left, right = (source[side].frame.withWatermark(f"{side}_ts", "0 seconds") for side in "lr")
        return as_of(left, right.selectExpr("*", *further))

    source["l"].add((1, 7, at(0)))
    source["r"].add((1, 7, at(-1)), (2, 8, at(-1)))
    with stream_test.query(joined()) as query:
        query.run()
        query.restart(joined("'Bonn' as city"))
        source["l"].add((2, 7, at(50)), (3, 8, at(50)))
        source["r"].add((3, 8, at(40)))
        query.run()
        source["l"].add((4, 9, at(100)))
        source["r"].add((4, 9, at(100)))
        query.run()
        found = {row["l_id"]: row["features"] for row in query.rows()}
        assert (found[2]["r_id"], found[2]["city"]) == (1, None)
        assert (found[3]["r_id"], found[3]["city"]) == (3, "Bonn")


@pytest.mark.contract
def test_a_changed_delay_or_age_is_refused(stream_test: StreamTest) -> None:
    streams = Streams(stream_test)
    with streams.query(_stream(streams, max_age="1 hour")) as query:
        streams.add(LEFT, RIGHT)
        query.run()
        query.restart(_stream(streams, max_age="2 hours", delay="1 second"))
        streams.add(*END)
        with pytest.raises(
            Exception, match=r"`delay` was '0 seconds' and is now '1 second'.*`max_age` was '1 hour'"
        ):
            query.run()


def test_behind_a_label_join_and_another_as_of(stream_test: StreamTest) -> None:
    streams = Streams(stream_test)
    labelled = join(streams.frame("left"), streams.frame("right"), after="30 seconds", release_every="batch")
    once = as_of(labelled, streams.frame("right"))
    twice = as_of(once, streams.frame("right"), into="earlier", delay="6 seconds")
    with streams.query(twice) as query:
        streams.add(LEFT, RIGHT)
        assert next_rows(query) == []
        streams.add(*END)
        rows = next_rows(query)
    assert looked(rows) == FOUND
    earlier = sorted((r["l_id"], r["earlier"] and r["earlier"]["r_id"]) for r in rows)
    assert earlier == [(1, None), (2, 101), (3, None), (4, None), (5, 106)]
    assert {r["l_id"]: [m["r_id"] for m in r["labels"]] for r in rows}[1] == [101, 102, 103]


@pytest.mark.campaign
@pytest.mark.parametrize("seed", [3])
def test_random_streams_with_restarts_and_rescaling(
    spark: SparkSession, stream_test: StreamTest, seed: int
) -> None:
    rng = random.Random(seed)
    delay, max_age = rng.choice([0, 3, 15]), rng.choice([None, 5, 60])
    oracle = AsOfOracle(delay, max_age, watermark_delay=10)
    ages = {} if max_age is None else {"max_age": f"{max_age} seconds"}
    streams = Streams(stream_test)
    number = 0
    with streams.query(_stream(streams, delay=f"{delay} seconds", **ages)) as query:
        for step in range(12):
            if step and rng.random() < 0.4:
                query.stop()
                if rng.random() < 0.5:
                    tailrace.rescale(spark, query.checkpoint, rng.randint(1, 5))
                query.restart()
                oracle.spark.restart()
            sides = []
            for _ in "lr":
                rows = []
                for _ in range(rng.randint(1, 8)):
                    number += 1
                    second = step * 15 + rng.randrange(15) - rng.randrange(12)
                    rows.append(Row(number, rng.choice([None, 1, 2, 3, 4]), second))
                sides.append(rows)
            streams.add(*sides)
            assert looked(next_rows(query)) == oracle.step(*sides)
