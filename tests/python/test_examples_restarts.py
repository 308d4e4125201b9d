"""What the error of a checkpoint says of a definition that has changed: in the arguments of `examples`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import tailrace
from example_frames import SCHEMA
from streams import at

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from tailrace.testing import StreamTest

_MADE_BY_US = ("microseconds", "unset", "__tailrace", "examples:", "on (left)", "right column", "STRUCT")


def _click(made: tailrace.Examples, events: DataFrame, **given: Any) -> tailrace.Examples:  # noqa: ANN401
    return made.label("click", events, **({"time": "at", "after": "10 seconds"} | given))


def _buy(made: tailrace.Examples, events: DataFrame, **given: Any) -> tailrace.Examples:  # noqa: ANN401
    return made.label("buy", events, **({"time": "at", "after": "100 seconds"} | given))


def _both(made: tailrace.Examples, events: DataFrame, **buy: Any) -> tailrace.Examples:  # noqa: ANN401
    return _buy(_click(made, events), events, **buy)


# For each: the label's definitions before and after, and what is told.
_CHANGES: dict[str, tuple[Callable[..., tailrace.Examples], Callable[..., tailrace.Examples], str]] = {
    "the longest label, with horizons": (
        lambda made, events: _both(made, events).horizons("5 seconds"),
        lambda made, events: _click(made, events).horizons("5 seconds"),
        "the longest `after` of a label was '1 minute 40 seconds' and is now '10 seconds', that of label ",
    ),
    "horizons": (
        lambda made, events: _click(made, events).horizons("5 seconds"),
        lambda made, events: _click(made, events).horizons("4 seconds", "5 seconds"),
        "`horizons` was '5 seconds' and is now '4 seconds, 5 seconds'",
    ),
    "no horizons": (
        lambda made, events: _click(made, events).horizons("5 seconds"),
        _click,
        "`horizons` was '5 seconds' and is not given now",
    ),
    "a longer before": (
        _click,
        lambda made, events: _both(made, events, before="7 seconds", since=at(0)),
        "the longest `before` of a label was '0 seconds' and is now '7 seconds', that of label 'buy': it ",
    ),
    "an attribution, which looks for rivals": (
        _click,
        lambda made, events: _both(made, events, since=at(0), attribution=tailrace.last_touch()),
        r"'1 minute 40 seconds', that of label 'buy', whose attribution needs `before` \+ `after`",
    ),
    "a label without a key that the others have": (
        lambda made, events: _buy(_click(made, events, on=["user", "id"]), events),
        lambda made, events: _click(made, events, on=["user", "id"]),
        "are now 'id BIGINT, user BIGINT': a label without 'id' can't be left out, nor get it. With where=",
    ),
    "a label more without a key that the others have": (
        lambda made, events: _click(made, events, on=["user", "id"]),
        lambda made, events: _buy(_click(made, events, on=["user", "id"]), events, since=at(0)),
        "and are now 'user BIGINT': a label without 'id' can't be added, and none can lose it",
    ),
    "a narrower column of a label": (
        _click,
        lambda made, events: _click(made, events.withColumn("id", events.id.cast("int"))),
        "label 'click', column `id` was BIGINT and is now INT",
    ),
}


@pytest.mark.parametrize("name", _CHANGES)
def test_a_change_is_told_in_the_words_of_the_definition(stream_test: StreamTest, name: str) -> None:
    first, then, told = _CHANGES[name]
    served, events = stream_test.source(SCHEMA), stream_test.source(SCHEMA)
    impressions, event = (s.frame.withWatermark("at", "1 second") for s in (served, events))
    made = tailrace.examples(impressions, on="user", time="at")
    with stream_test.query(first(made, event).stream()) as query:
        served.add((1, 7, at(5)))
        events.add((1, 7, at(6)))
        query.run()
        query.stop()
        query.restart(then(made, event).stream())
        events.add((1, 7, at(7)))
        with pytest.raises(StreamingQueryException, match=told) as caught:
            query.run()
    changes = str(caught.value).split("with other settings: ")[1].split("Start the query with")[0]
    # Nothing has changed of the label that is there in both.
    assert "besides the common keys" not in changes
    assert [word for word in _MADE_BY_US if word in changes] == [], changes


def test_two_keys_in_common_may_be_in_any_order_at_a_restart(stream_test: StreamTest) -> None:
    schema = "id long, user long, item string, at timestamp"
    served, events = stream_test.source(schema), stream_test.source(schema)
    event = events.frame.withWatermark("at", "1 second")

    def made(keys: list[str], *columns: str) -> DataFrame:
        impressions = served.frame.select(*columns).withWatermark("at", "1 second")
        one = tailrace.examples(impressions, on=keys, time="at")
        return _click(one, event).stream()

    # More keys than partitions: a row that went to another one than its events would lose them.
    def add(second: int) -> None:
        for n in range(second, second + 8):
            served.add((n, n % 4, f"i{n % 3}", at(second)))
            events.add((n, n % 4, f"i{n % 3}", at(second + 1)))

    with stream_test.query(made(["user", "item"], "id", "user", "item", "at")) as query:
        add(0)
        query.run()
        query.restart(made(["item", "user"], "item", "at", "user", "id"))
        # Events for rows of both starts.
        for n in range(8):
            events.add((100 + n, n % 4, f"i{n % 3}", at(2)))
        add(8)
        query.run()
        query.stop()
        tailrace.rescale(stream_test.spark, query.checkpoint, 3)
        query.restart(made(["user", "item"], "at", "item", "id", "user"))
        add(16)
        query.run()
        served.add((99, 99, "x", at(500)))
        events.add((99, 99, "x", at(500)))
        query.run()
        query.run()
        clicks = {row["id"]: sorted(e["id"] for e in row["click"]) for row in query.rows()}
    times = {n: n - n % 8 for n in range(24)}
    later = {100 + n: (n % 4, n % 3, 2) for n in range(8)}
    all_events = {n: (n % 4, n % 3, times[n] + 1) for n in range(24)} | later
    expected = {
        n: sorted(
            e
            for e, (user, item, second) in all_events.items()
            if (user, item) == (n % 4, n % 3) and 0 <= second - times[n] <= 10
        )
        for n in range(24)
    }
    assert {n: clicks[n] for n in expected} == expected
    assert sum(map(len, expected.values())) > 24


def test_a_narrower_column_of_the_impressions_is_theirs(stream_test: StreamTest) -> None:
    served, events = stream_test.source(SCHEMA), stream_test.source(SCHEMA)
    impressions, event = (s.frame.withWatermark("at", "1 second") for s in (served, events))

    def made(kind: str) -> DataFrame:
        narrowed = impressions.selectExpr(f"cast(id as {kind}) as id", "user", "at")
        return _click(tailrace.examples(narrowed, on="user", time="at"), event).stream()

    with stream_test.query(made("long")) as query:
        served.add((1, 7, at(5)))
        events.add((1, 7, at(6)))
        query.run()
        query.stop()
        query.restart(made("int"))
        events.add((1, 7, at(7)))
        with pytest.raises(
            StreamingQueryException, match="the impressions' column `id` was BIGINT and is now"
        ):
            query.run()
