"""Credits of events, and definitions of examples that change at a restart."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import tailrace
from example_frames import FAR, SCHEMA, examples, frame, ids
from streams import at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tailrace.testing import StreamTest


def test_a_label_that_comes_later_is_null_before(stream_test: StreamTest) -> None:
    # Both labels are of one stream, which is read once: Spark refuses a source more.
    served = stream_test.source(SCHEMA)
    events = stream_test.source("id long, user long, kind string, at timestamp")
    impressions, event = (s.frame.withWatermark("at", "1 second") for s in (served, events))
    first = examples(impressions).label("click", event, where="kind = 'click'", time="at", after="10 seconds")
    both = first.label("buy", event, where="kind = 'buy'", time="at", after="30 seconds", since=at(20))
    with stream_test.query(first.stream()) as query:
        served.add((1, 7, at(5)), (2, 7, at(19)))
        events.add((10, 7, "click", at(6)), (11, 7, "click", at(20)))
        query.run()
        query.stop()
        query.restart(both.stream())
        served.add((3, 7, at(20)))
        events.add((20, 7, "buy", at(20)), (21, 7, "buy", at(25)))
        query.run()
        query.stop()
        query.restart()
        served.add((-1, 9, FAR))
        events.add((-1, 9, "buy", FAR))
        query.run()
        rows = query.rows()
    assert ids(rows, "click") == {1: [10], 2: [11], 3: [11]}
    assert ids([row for row in rows if "buy" in row], "buy") == {2: None, 3: [20, 21]}


@pytest.mark.parametrize(
    ("first", "then", "told"),
    [
        (
            {"attribution": tailrace.last_touch()},
            {"attribution": tailrace.linear()},
            "`attribution` was 'last_touch' and is now 'linear'",
        ),
        ({"on": ["user", "id"]}, {"on": ["id", "user"]}, None),
        ({"on": ["user", "id"]}, {}, "`on`, besides the common keys, was 'id BIGINT' and is not given now"),
    ],
)
def test_keys_and_attribution_of_a_label_stay_what_they_are(
    stream_test: StreamTest, first: dict[str, Any], then: dict[str, Any], told: str | None
) -> None:
    served, events = stream_test.source(SCHEMA), stream_test.source(SCHEMA)
    impressions, event = (s.frame.withWatermark("at", "1 second") for s in (served, events))
    base = examples(impressions).label("share", event, where="id < 0", time="at", after="9 seconds")

    def made(options: dict[str, Any]) -> DataFrame:
        return base.label("click", event, where="id > 0", time="at", after="9 seconds", **options).stream()

    with stream_test.query(made(first)) as query:
        served.add((1, 7, at(5)))
        events.add((1, 7, at(6)))
        query.run()
        query.stop()
        query.restart(made(then))
        events.add((1, 7, at(7)))
        if told is not None:
            with pytest.raises(StreamingQueryException, match=f"label 'click': {told}"):
                query.run()
            return
        query.run()
        query.stop()
        # One label less.
        query.restart(base.stream())
        for source in (served, events):
            source.add((-1, 9, FAR))
        query.run()
        rows = query.rows()
    assert [(row["id"], row["share"], "click" in row) for row in rows] == [(1, [], False)]


@pytest.mark.parametrize(
    ("attribution", "shared"),
    [
        (tailrace.last_touch(), False),
        (tailrace.first_touch(), False),
        (tailrace.linear(), True),
        (tailrace.time_decay("3 seconds"), True),
        (tailrace.position(0.2, 0.7, 0.1), True),
        (tailrace.position(0, 1, 0), True),
    ],
)
def test_the_credits_of_an_event_sum_to_one(
    spark: SparkSession, attribution: tailrace.Attribution, shared: bool
) -> None:
    # Several impressions of each time, events before and after them, and weights that are no billionths.
    impressions = frame(spark, *((i, i % 3, i % 11) for i in range(100)))
    events = frame(spark, *((i, i % 4, i % 30) for i in range(90)))
    made = examples(impressions).label(
        "buy", events, time="at", before="2 seconds", after="9 seconds", attribution=attribution
    )
    of_event: dict[int, list[Decimal]] = defaultdict(list)
    for row in made.batch().collect():
        for event in row["buy"]:
            of_event[event["id"]].append(event["credit"] if shared else Decimal(1))
    # Each impression is of the first 10 seconds, and a user of each of them.
    reached = {i for i in range(90) if i % 4 < 3 and i % 30 <= 19}
    assert of_event.keys() == reached
    assert {sum(of) for of in of_event.values()} == {Decimal(1)}
    assert all(credit > 0 for of in of_event.values() for credit in of)


def test_equal_impressions_have_shares_of_their_own(spark: SparkSession) -> None:
    impressions = frame(spark, (1, 7, 0), (1, 7, 0), (2, 7, 5))
    made = examples(impressions).label(
        "buy", frame(spark, (1, 7, 9)), time="at", after="9 seconds", attribution=tailrace.linear()
    )
    rows = made.batch().collect()
    third = Decimal("0.333333333")
    assert sorted(row["buy"][0]["credit"] for row in rows) == [third, third, third + Decimal("1e-9")]
