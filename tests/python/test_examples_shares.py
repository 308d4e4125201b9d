"""The credits of an event sum to one, or to zero if no impression may have it. What can't hold is refused."""

from __future__ import annotations

import os
import random
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

import tailrace
from credit_cases import as_counted, batch, random_case, streamed
from example_frames import FAR, SCHEMA, examples, frame, ids
from streams import at
from tailrace.testing import StreamTest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

_SEEDS = range(100, 100 + int(os.environ.get("SEEDS", "4")))
_BUFFER = "spark.tailrace.state.batchBufferBytes"


@contextmanager
def _setting(spark: SparkSession, name: str, value: str | None) -> Iterator[None]:
    if value is not None:
        spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)


def _check(
    spark: SparkSession, folder: Path, seed: int, *, settings: tuple[str, str] | None = None, **options: bool
) -> None:
    case = random_case(seed, **options)
    found = batch(spark, case)
    case.check(found, (seed, "batch"))
    name, value = settings or (_BUFFER, None)
    with _setting(spark, name, value), StreamTest(spark, folder, "12:00") as test:
        rows = streamed(case, test, random.Random(seed), starts=2)
    case.check(rows, (seed, "stream"))
    # Which of the impressions of one time has which share doesn't depend on how they come.
    assert as_counted(rows) == as_counted(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        None,
        # A left row at a time, and a key whose rows have no room.
        (_BUFFER, "1"),
        ("spark.tailrace.join.strategy", "eager"),
    ],
)
def test_credits_sum_to_one(spark: SparkSession, tmp_path: Path, settings: tuple[str, str] | None) -> None:
    _check(spark, tmp_path, 1, since=True, settings=settings)


@pytest.mark.slow
def test_credits_of_final_versions_sum_to_one(spark: SparkSession, tmp_path: Path) -> None:
    _check(spark, tmp_path, 3, horizons=True, settings=(_BUFFER, "1000"))


@pytest.mark.long
def test_credits_of_many_cases_sum_to_one(spark: SparkSession, tmp_path: Path) -> None:
    draw = random.Random(7)
    for seed in _SEEDS:
        settings = draw.choice(
            [None, (_BUFFER, "1"), (_BUFFER, "3000"), ("spark.tailrace.join.strategy", "eager")]
        )
        horizons = draw.random() < 0.3
        since = not horizons and draw.random() < 0.5
        _check(spark, tmp_path / str(seed), seed, horizons=horizons, since=since, settings=settings)


def _check_later(spark: SparkSession, folder: Path, seed: int) -> None:
    case = random_case(seed, starts=3)
    with StreamTest(spark, folder, "12:00") as test:
        rows = streamed(case, test, random.Random(seed), starts=3)
    case.check(rows, (seed, "stream"))


@pytest.mark.slow
def test_credits_of_labels_that_come_later_sum_to_one(spark: SparkSession, tmp_path: Path) -> None:
    _check_later(spark, tmp_path, 5)


@pytest.mark.long
def test_credits_of_many_labels_that_come_later_sum_to_one(spark: SparkSession, tmp_path: Path) -> None:
    for seed in _SEEDS:
        _check_later(spark, tmp_path / str(seed), seed)


def _credits(rows: list[Any], label: str = "buy") -> list[Decimal]:
    return sorted(event["credit"] for row in rows for event in row[label])


@pytest.mark.parametrize(
    "content",
    [
        # One of them on each Spark and over Connect: the others differ in what is compared.
        pytest.param(
            "if(id = 1, array(1, null), array(null, 1))", marks=pytest.mark.contract(any_spark=True)
        ),
        "if(id = 1, named_struct('p', 1, 'q', null), named_struct('p', null, 'q', 1))",
        "if(id = 1, map('a', 'b, c -> d'), map('a', 'b', 'c', 'd'))",
        "if(id = 1, array(named_struct('p', null)), array(null))",
        "if(id = 1, -0.0D, 0.0D)",
        "0",
    ],
)
def test_impressions_that_are_nearly_equal_share_an_event(spark: SparkSession, content: str) -> None:
    impressions = frame(spark, (1, 7, 0), (2, 7, 0)).selectExpr("user", "at", f"{content} AS held")
    events = frame(spark, (1, 7, 3))
    shared = examples(impressions).label(
        "buy", events, time="at", after="9 seconds", attribution=tailrace.linear()
    )
    assert _credits(shared.batch().collect()) == [Decimal("0.5")] * 2
    for one in (tailrace.last_touch(), tailrace.first_touch()):
        made = examples(impressions).label("buy", events, time="at", after="9 seconds", attribution=one)
        assert sum(len(row["buy"]) for row in made.batch().collect()) == 1


def test_impressions_before_the_label_began_have_no_share(
    spark: SparkSession, stream_test: StreamTest
) -> None:
    served, happened = [(1, 7, 0), (2, 7, 10), (3, 7, 20), (4, 7, 30)], [(5, 7, 35), (6, 7, 12)]

    def made(impressions: DataFrame, events: DataFrame) -> tailrace.Examples:
        return examples(impressions).label(
            "buy", events, time="at", after="60 seconds", attribution=tailrace.linear(), since=at(15)
        )

    sources = [stream_test.source(SCHEMA) for _ in range(2)]
    frames = [source.frame.withWatermark("at", "1 second") for source in sources]
    with stream_test.query(made(*frames).stream()) as query:
        for source, rows in zip(sources, (served, happened), strict=True):
            source.add(*((i, user, at(second)) for i, user, second in rows), (-1, 9, FAR))
        query.run()
        streamed = [row for row in query.rows() if row["id"] > 0]
    found = [
        row.asDict(recursive=True)
        for row in made(frame(spark, *served), frame(spark, *happened)).batch().collect()
    ]
    assert ids(streamed, "buy") == ids(found, "buy") == {1: None, 2: None, 3: [5], 4: [5]}
    assert _credits([row for row in found if row["buy"]]) == [Decimal("0.5")] * 2


@pytest.mark.contract
def test_an_attribution_is_not_for_examples_that_silence_lets_out(
    spark: SparkSession, stream_test: StreamTest
) -> None:
    streams = [stream_test.source(SCHEMA).frame.withWatermark("at", "1 second") for _ in range(2)]
    for impressions, events in (streams, [frame(spark, (1, 7, 0))] * 2):
        made = examples(impressions, idle_timeout="1 hour").label(
            "buy", events, time="at", after="9 seconds", attribution=tailrace.last_touch()
        )
        with pytest.raises(AnalysisException, match=r"`idle_timeout` .* attribution of label 'buy'"):
            made.stream() if impressions.isStreaming else made.batch()


def test_a_late_impression_has_no_share_though_its_window_is_open(stream_test: StreamTest) -> None:
    served, bought = sources = [stream_test.source(SCHEMA) for _ in range(2)]
    frames = [source.frame.withWatermark("at", "1 second") for source in sources]
    made = examples(frames[0], release_every="batch").label(
        "buy", frames[1], time="at", after="20 seconds", attribution=tailrace.linear()
    )
    with stream_test.query(made.stream()) as query:
        served.add((1, 7, at(0)), (9, 8, at(10)))
        bought.add((5, 7, at(12)))
        query.run()
        # Another impression of the order may have been emitted with its share.
        served.add((2, 7, at(3)))
        query.run()
        for source in sources:
            source.add((99, 99, FAR))
        query.run()
        rows = query.rows()
        assert ids(rows, "buy") == {1: [5], 9: []}
        assert _credits([row for row in rows if row["buy"]]) == [Decimal(1)]
        assert query.total("lateLeftRows") == 1


def test_impressions_that_change_when_they_are_read_again_are_refused(spark: SparkSession) -> None:
    impressions = frame(spark, (1, 7, 0), (2, 7, 0)).selectExpr("*", "uuid() AS key")

    def rows(of: DataFrame) -> int:
        made = examples(of).label(
            "buy", frame(spark, (1, 7, 3)), time="at", after="9 seconds", attribution=tailrace.last_touch()
        )
        return sum(len(row["buy"]) for row in made.batch().collect())

    with pytest.raises(AnalysisException, match="EXAMPLES_IMPRESSIONS_CHANGE"):
        rows(impressions)
    assert rows(impressions.localCheckpoint()) == 1


_CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a shorter window": ({}, {"after": "5 seconds"}),
    "a longer window": ({}, {"after": "20 seconds"}),
    "a longer window before": ({}, {"before": "5 seconds"}),
    "a later beginning": ({"since": at(0)}, {"since": at(10)}),
    "a beginning": ({}, {"since": at(10)}),
    "no beginning": ({"since": at(0)}, {}),
}


def _label_of(test: StreamTest) -> tuple[list[Any], Callable[..., DataFrame]]:
    """Two sources, and a definition with a label `buy`, beside one that looks far in both directions."""
    sources = [test.source(SCHEMA) for _ in range(2)]
    impressions, events = (source.frame.withWatermark("at", "1 second") for source in sources)
    base = examples(impressions).label("share", events, time="at", before="2 minutes", after="2 minutes")

    def made(*, without: bool = False, **options: Any) -> DataFrame:  # noqa: ANN401
        chosen: dict[str, Any] = {"after": "10 seconds", "attribution": tailrace.linear()} | options
        return (base if without else base.label("buy", events, time="at", **chosen)).stream()

    return sources, made


@pytest.mark.slow
@pytest.mark.parametrize("change", _CHANGES)
def test_a_label_shares_its_events_as_it_did(stream_test: StreamTest, change: str) -> None:
    sources, made = _label_of(stream_test)
    first, then = _CHANGES[change]
    with stream_test.query(made(**first)) as query:
        sources[0].add((1, 7, at(0)), (2, 7, at(8)))
        sources[1].add((3, 7, at(9)))
        query.run()
        query.stop()
        query.restart(made(**then))
        sources[0].add((4, 7, at(300)))
        with pytest.raises(StreamingQueryException, match=r"label 'buy': `before`, `after` or `since` were"):
            query.run()
        # Nothing was written: the old definition goes on.
        query.restart(made(**first))
        for source in sources:
            source.add((-1, 9, FAR))
        query.run()
        rows = [row for row in query.rows() if row["id"] in {1, 2}]
    assert _credits(rows) == [Decimal("0.5")] * 2


@pytest.mark.contract(any_spark=True)
@pytest.mark.parametrize("options", [{}, {"since": at(20)}])
def test_a_label_with_an_attribution_does_not_come_back(
    stream_test: StreamTest, options: dict[str, Any]
) -> None:
    sources, made = _label_of(stream_test)
    with stream_test.query(made(**options)) as query:
        sources[0].add((1, 7, at(0)))
        query.run()
        query.stop()
        query.restart(made(without=True))
        sources[0].add((2, 7, at(3)))
        query.run()
        query.stop()
        query.restart(made(**options))
        sources[1].add((3, 7, at(5)))
        with pytest.raises(StreamingQueryException, match=r"'buy' has an attribution\. It was left out"):
            query.run()


@pytest.mark.slow
def test_impressions_may_have_very_many_columns(spark: SparkSession, stream_test: StreamTest) -> None:
    many = [f"id + {i} AS c{i}" for i in range(1200)]
    sources = [stream_test.source(SCHEMA) for _ in range(2)]
    frames = [source.frame.withWatermark("at", "1 second") for source in sources]

    def made(impressions: DataFrame, events: DataFrame) -> tailrace.Examples:
        return examples(impressions.selectExpr("*", *many)).label(
            "buy", events, time="at", after="9 seconds", attribution=tailrace.linear()
        )

    with stream_test.query(made(*frames).stream().select("id", "buy")) as query:
        sources[0].add((1, 7, at(0)), (2, 7, at(0)), (-1, 9, FAR))
        sources[1].add((3, 7, at(3)), (-1, 9, FAR))
        query.run()
        assert _credits([row for row in query.rows() if row["id"] > 0]) == [Decimal("0.5")] * 2
    batch_of = made(frame(spark, (1, 7, 0), (2, 7, 0)), frame(spark, (3, 7, 3))).batch()
    assert _credits(batch_of.select("buy").collect()) == [Decimal("0.5")] * 2


def _own(spark: SparkSession, name: str) -> DataFrame:
    return frame(spark, (1, 7, 0)).selectExpr("*", f"id AS {name}")


_CALLS: dict[str, Callable[[SparkSession, str], object]] = {
    "examples": lambda spark, name: (
        examples(_own(spark, name)).label("buy", frame(spark, (1, 7, 0)), time="at", after="1 second").batch()
    ),
    "examples, a label's": lambda spark, name: (
        examples(frame(spark, (1, 7, 0))).label("buy", _own(spark, name), time="at", after="1 second").batch()
    ),
    "examples, its name": lambda spark, name: (
        examples(frame(spark, (1, 7, 0)))
        .label(name, frame(spark, (1, 7, 0)), time="at", after="1 second")
        .batch()
    ),
    "join": lambda spark, name: tailrace.join(
        frame(spark, (1, 7, 0)).withColumnRenamed("at", "l_at"),
        _own(spark, name),
        on="user",
        left_time="l_at",
        right_time="at",
        after="1 second",
    ),
    "as_of": lambda spark, name: tailrace.as_of(
        _own(spark, name), frame(spark, (1, 7, 0)), on="user", left_time="at", right_time="at", into="x"
    ),
    "accurate_watermark": lambda spark, name: tailrace.accurate_watermark(_own(spark, name), "at", host="id"),
    "stamp_watermark": lambda spark, name: tailrace.stamp_watermark(_own(spark, name)),
    "recursively": lambda spark, name: tailrace.recursively(_own(spark, name), lambda rows: rows.limit(0)),
}


@pytest.mark.parametrize("call", _CALLS)
@pytest.mark.parametrize("name", ["__tailrace_touch", "__Tailrace_place"])
def test_columns_with_names_of_our_own_are_refused(spark: SparkSession, call: str, name: str) -> None:
    with pytest.raises(AnalysisException, match=f"COLUMN_RESERVED.*{name}"):
        _CALLS[call](spark, name)
