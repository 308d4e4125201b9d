"""What `examples` does besides matching: a sample, features, late rows, refusals."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import tailrace
from example_frames import FAR, SCHEMA, examples, frame
from streams import at
from tailrace import TailraceJoinError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from tailrace.testing import StreamQuery, StreamTest


@pytest.mark.contract(any_spark=True)
def test_the_sample_is_that_of_its_seed(spark: SparkSession) -> None:
    impressions = frame(spark, *((i, i % 97, i % 60) for i in range(2000)))
    clicks = frame(spark, *((i, i, 100) for i in range(10)))
    made = examples(impressions).label("click", clicks, time="at", after="200 seconds")

    def kept(rates: dict[str, float], seed: int) -> dict[int, float]:
        rows = made.sample(rates, seed=seed).batch().collect()
        return {row["id"]: row["weight"] for row in rows}

    all_matched = {i for i in range(2000) if i % 97 < 10}
    tenth = kept({"size(click) = 0": 0.1, "id >= 0": 1}, 7)
    assert tenth == kept({"size(click) = 0": 0.1}, 7)
    assert all_matched <= tenth.keys()
    unmatched = {i for i in tenth if i not in all_matched}
    assert 120 < len(unmatched) < 240
    assert {tenth[i] for i in unmatched} == {10.0}
    assert {tenth[i] for i in all_matched} == {1.0}
    # Of one seed, a lower rate chooses among the rows of a higher one; another seed chooses others.
    assert kept({"size(click) = 0": 0.05}, 7).keys() < tenth.keys()
    assert kept({"size(click) = 0": 0.1}, 8).keys() != tenth.keys()
    assert kept({"true": 0}, 7) == {}


def test_a_stream_has_the_sample_of_a_batch_job(spark: SparkSession, stream_test: StreamTest) -> None:
    served, clicked = (stream_test.source(SCHEMA) for _ in range(2))
    rows = [(i, i % 7, i) for i in range(100)]

    def define(impressions: DataFrame, clicks: DataFrame, *, seed: int = 3) -> tailrace.Examples:
        made = examples(impressions, name="sampled").label("click", clicks, time="at", after="9 seconds")
        return made.sample({"id >= 50": 0.3, "size(click) = 0": 0.5}, seed=seed)

    impressions, clicks = (source.frame.withWatermark("at", "1 second") for source in (served, clicked))
    dropped: Counter[str] = Counter()
    matched = 0

    def count(query: StreamQuery) -> None:
        nonlocal matched
        for progress in query.progresses():
            told = progress["observedMetrics"].get("tailrace.examples.sampled", {})
            dropped.update({one["predicate"]: one["dropped"] for one in told.get("sample", [])})
            matched += sum(one["matched"] for one in told.get("labels", []))

    with stream_test.query(define(impressions, clicks).stream()) as query:
        for half in (rows[:50], rows[50:]):
            served.add(*((i, user, at(s)) for i, user, s in half))
            clicked.add((half[-1][0], 1, at(half[-1][2])))
            query.run()
            count(query)
            query.stop()
            query.restart()
        served.add((-1, 9, FAR))
        clicked.add((-1, 9, FAR))
        query.run()
        count(query)
        streamed = {row["id"]: row["weight"] for row in query.rows()}
        query.stop()
        query.restart(define(impressions, clicks, seed=4).stream())
        served.add((-2, 9, at(5001)))
        with pytest.raises(StreamingQueryException, match="`seed` of the sample was '3' and is now '4'"):
            query.run()
    batch = define(frame(spark, *rows), frame(spark, (49, 1, 49), (99, 1, 99))).batch().collect()
    assert streamed == {row["id"]: row["weight"] for row in batch}
    assert dropped.total() == len(rows) - len(streamed)
    assert len(+dropped) == 2
    # Those of user 1 that are within 9 seconds of one of its two clicks.
    assert matched == 3


@pytest.mark.slow
def test_a_sample_of_all_rows_is_taken_before_they_are_stored(
    spark: SparkSession, stream_test: StreamTest
) -> None:
    served, clicked = (stream_test.source(SCHEMA) for _ in range(2))
    rows = [(i, i % 7, i % 50) for i in range(200)]

    def define(impressions: DataFrame, clicks: DataFrame, **label: Any) -> tailrace.Examples:  # noqa: ANN401
        made = examples(impressions).label("click", clicks, time="at", after="60 seconds", **label)
        return made.sample({"true": 0.25, "size(click) = 0": 0.5}, seed=3)

    frames = [source.frame.withWatermark("at", "1 second") for source in (served, clicked)]
    with stream_test.query(define(*frames).stream()) as query:
        served.add(*((i, user, at(s)) for i, user, s in rows))
        clicked.add((1, 1, at(20)))
        query.run()
        (progress,) = (p for p in query.progresses() if p["numInputRows"])
        told = progress["observedMetrics"]["tailrace.examples.arriving"]["sample"]
        stored = progress["stateOperators"][0]["numRowsTotal"]
        served.add((-1, 9, FAR))
        clicked.add((-1, 9, FAR))
        query.run()
        streamed = {row["id"]: row["weight"] for row in query.rows()}
    clicks = frame(spark, (1, 1, 20))
    batch = {r["id"]: r["weight"] for r in define(frame(spark, *rows), clicks).batch().collect()}
    assert streamed == batch
    assert 20 < len(batch) < 80
    # The click is stored, too.
    assert stored == len(batch) + 1
    assert told == [{"predicate": "true", "dropped": len(rows) - len(batch)}]
    # Impressions that have a share of an event are stored, whether they come out or not.
    shared = define(frame(spark, *rows), clicks, attribution=tailrace.linear()).batch()
    assert {r["id"]: r["weight"] for r in shared.collect()} == batch
    whole = examples(frame(spark, *rows)).label(
        "click", clicks, time="at", after="60 seconds", attribution=tailrace.linear()
    )
    shares = {r["id"]: r["click"] for r in whole.batch().collect()}
    assert all(r["click"] == shares[r["id"]] for r in shared.collect())


@pytest.mark.contract(any_spark=True)
@pytest.mark.parametrize("predicate", ["size(click) = 0", "profile.id > 20"])
def test_features_are_those_of_the_impressions_time(
    spark: SparkSession, stream_test: StreamTest, predicate: str
) -> None:
    rows = [(i, i % 3, i) for i in range(60)], [(59, 1, 59)], [(i, i % 3, i) for i in range(0, 60, 7)]
    sources = [stream_test.source(SCHEMA) for _ in rows]

    def define(impressions: DataFrame, clicks: DataFrame, values: DataFrame) -> tailrace.Examples:
        made = examples(impressions).label("click", clicks, time="at", after="9 seconds")
        made = made.features("profile", values, time="at", delay="2 seconds", max_age="20 seconds")
        return made.sample({predicate: 0.5}, seed=1)

    def found(of: list[dict[str, Any]]) -> dict[int, int | None]:
        return {row["id"]: row["profile"] and row["profile"]["id"] for row in of}

    batch = define(*(frame(spark, *of) for of in rows)).batch().collect()
    frames = [source.frame.withWatermark("at", "1 second") for source in sources]
    with stream_test.query(define(*frames).stream()) as query:
        for source, of in zip(sources, rows, strict=True):
            source.add(*((i, user, at(s)) for i, user, s in of))
        query.run()
        for source in sources:
            source.add((-1, 9, FAR))
        query.run()
        streamed = query.rows()
    expected = {
        i: max((j for j in range(0, 60, 7) if j % 3 == i % 3 and i - 22 <= j <= i - 2), default=None)
        for i in range(60)
    }
    assert found(streamed) == found([row.asDict(recursive=True) for row in batch])
    assert found(streamed).items() <= expected.items()
    assert 20 < len(streamed) < 55


def test_late_rows_come_out_marked(stream_test: StreamTest) -> None:
    served, clicked, bought = (stream_test.source(SCHEMA) for _ in range(3))
    frames = [s.frame.withWatermark("at", "1 second") for s in (served, clicked, bought)]
    made = examples(frames[0], on_late="mark").label("click", frames[1], time="at", after="10 seconds")
    made = made.label("buy", frames[2], time="at", after="1 second", max_matches=1)
    made = made.sample({"true": 0}, seed=1)
    with stream_test.query(made.stream()) as query:
        for source in (served, clicked, bought):
            source.add((1, 7, at(1000)))
        query.run()
        served.add((2, 7, at(3)))
        bought.add((3, 8, at(4)))
        query.run()
        late = {row["_mark"]: row for row in query.rows() if row["_mark"]}
    assert late["late_left"]["id"] == 2
    # No sample leaves out a late row, which is no example.
    assert late["late_left"]["weight"] is None
    assert late["late_left"]["buy"] == []
    assert late["late_right"]["user"] == 8
    assert [e["id"] for e in late["late_right"]["buy"]] == [3]
    assert late["late_right"]["click"] == []
    assert late["late_right"]["buy_truncated"] is False


def _refused(name: str) -> Callable[[SparkSession], object]:
    def empty(spark: SparkSession) -> DataFrame:
        return frame(spark, (1, 7, 0))

    def label(spark: SparkSession, **options: Any) -> DataFrame:  # noqa: ANN401
        given = {"time": "at", "after": "1 second"} | options
        return examples(empty(spark)).label("click", empty(spark), **given).batch()

    calls: dict[str, Callable[[SparkSession], object]] = {
        "EXAMPLES_NO_LABEL": lambda spark: examples(empty(spark)).batch(),
        "EXAMPLES_NO_COMMON_KEY": lambda spark: (
            examples(empty(spark))
            .label("a", empty(spark), time="at", after="1 second")
            .label("b", empty(spark), on="id", time="at", after="1 second")
            .batch()
        ),
        "COLUMN_NOT_FOUND": lambda spark: label(spark, time="when"),
        "OPTION_INVALID": lambda spark: label(spark, after="soon"),
        "OPTION_INVALID: position": lambda spark: label(spark, attribution=tailrace.position(1, 1, 1)),
        "OPTION_INVALID: time_decay": lambda spark: label(
            spark, attribution=tailrace.time_decay("0 seconds")
        ),
        "COLUMN_EXISTS": lambda spark: (
            examples(empty(spark)).label("id", empty(spark), time="at", after="1 second").batch()
        ),
        "COLUMN_EXISTS: credit": lambda spark: (
            examples(empty(spark))
            .label(
                "buy",
                empty(spark).withColumnRenamed("id", "credit"),
                time="at",
                after="1 second",
                attribution=tailrace.linear(),
            )
            .batch()
        ),
        "OPTION_INVALID: names": lambda spark: (
            examples(empty(spark))
            .label("a", empty(spark), time="at", after="1 second")
            .label("A", empty(spark), time="at", after="1 second")
            .batch()
        ),
        "OPTION_INVALID: random": lambda spark: (
            examples(empty(spark))
            .label("a", empty(spark), time="at", after="1 second")
            .sample({"rand() < 0.5": 1}, seed=1)
            .batch()
        ),
        "OPTION_INVALID: random events": lambda spark: (
            examples(empty(spark))
            .label("a", empty(spark), time="at", after="1 second", where="rand() < 0.5")
            .batch()
        ),
        "OPTION_INVALID: passing": lambda spark: (
            examples(empty(spark))
            .label("a", empty(spark), time="at", after="1 second")
            .sample({"at < localtimestamp()": 1}, seed=1)
            .batch()
        ),
        "OPTION_INVALID: passing events": lambda spark: (
            examples(empty(spark))
            .label("a", empty(spark), time="at", after="1 second", where="at < now()")
            .batch()
        ),
        "OPTION_INVALID: rate": lambda spark: (
            examples(empty(spark))
            .label("a", empty(spark), time="at", after="1 second")
            .sample({"true": 1.1}, seed=1)
            .batch()
        ),
        "COLUMN_EXISTS: weight": lambda spark: (
            examples(empty(spark))
            .label("a", empty(spark), time="at", after="1 second")
            .sample({"true": 1}, seed=1, weight="user")
            .batch()
        ),
        "batch DataFrame": lambda spark: (
            examples(empty(spark)).label("a", empty(spark), time="at", after="1 second").stream()
        ),
    }
    return calls[name]


@pytest.mark.contract
@pytest.mark.parametrize(
    "name",
    [
        "EXAMPLES_NO_LABEL",
        "EXAMPLES_NO_COMMON_KEY",
        "COLUMN_NOT_FOUND",
        "OPTION_INVALID",
        "OPTION_INVALID: position",
        "OPTION_INVALID: time_decay",
        "COLUMN_EXISTS",
        "COLUMN_EXISTS: credit",
        "OPTION_INVALID: names",
        "OPTION_INVALID: random",
        "OPTION_INVALID: random events",
        "OPTION_INVALID: passing",
        "OPTION_INVALID: passing events",
        "OPTION_INVALID: rate",
        "COLUMN_EXISTS: weight",
        "batch DataFrame",
    ],
)
def test_a_wrong_definition_is_refused(spark: SparkSession, name: str) -> None:
    with pytest.raises(TailraceJoinError, match=name.split(":", maxsplit=1)[0]):
        _refused(name)(spark)
