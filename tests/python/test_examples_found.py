"""Faults of `tailrace.examples` that brute force has found: keys, late rows and changes of columns."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import tailrace
from streams import at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tailrace.testing import StreamTest

_SCHEMA = "id long, user long, at timestamp"
_FAR = at(5000)


def _frame(spark: SparkSession, rows: list[tuple[Any, ...]], schema: str = _SCHEMA) -> DataFrame:
    return spark.createDataFrame([(*row[:-1], at(row[-1])) for row in rows], schema)


def _streams(test: StreamTest, *schemas: str) -> tuple[list[Any], list[DataFrame]]:
    sources = [test.source(schema) for schema in schemas]
    return sources, [source.frame.withWatermark("at", "1 second") for source in sources]


def test_a_touch_keeps_a_key_that_labels_have_in_a_narrower_type(spark: SparkSession) -> None:
    cents, finer = Decimal("2.25"), Decimal("2.2501")
    impressions = _frame(spark, [(1, cents, 0), (2, finer, 5)], "id long, user decimal(12,4), at timestamp")
    events = _frame(spark, [(1, cents, 6)], "id long, user decimal(10,2), at timestamp")
    made = tailrace.examples(impressions, on="user", time="at").label(
        "buy", events, time="at", after="9 seconds", attribution=tailrace.last_touch()
    )
    assert {row.id: len(row.buy) for row in made.batch().collect()} == {1: 1, 2: 0}


@pytest.mark.parametrize("content", ["map('a', id)", "parse_json(concat('', id))", "id"])
def test_impressions_that_differ_in_any_column_are_several_touches(spark: SparkSession, content: str) -> None:
    # Two columns of one name and one content, too.
    columns = ["user", "at", f"{content} as held", f"{content} as held"]
    impressions = _frame(spark, [(1, 7, 0), (2, 7, 0)]).selectExpr(*columns)
    made = tailrace.examples(impressions, on="user", time="at").label(
        "buy", _frame(spark, [(1, 7, 3)]), time="at", after="9 seconds", attribution=tailrace.linear()
    )
    assert [e.credit for row in made.batch().collect() for e in row.buy] == [Decimal("0.5")] * 2


def test_the_sample_is_of_keys_whatever_their_type_and_order(spark: SparkSession) -> None:
    events = _frame(spark, [(1, 1, 0)]).selectExpr("user", "user as item", "at")

    def chosen(kind: str, on: list[str], **options: Any) -> set[int]:  # noqa: ANN401
        columns = ["id", f"cast(id % 50 as {kind}) as user", "cast(id % 7 as int) as item"]
        impressions = spark.range(300).selectExpr(*columns, "timestamp_millis(id * 1000) as at")
        made = tailrace.examples(impressions, on=on, time="at", **options)
        made = made.label("buy", events, time="at", after="1 second").sample({"true": 0.3}, seed=7)
        return {row.id for row in made.batch().select("id").collect()}

    first = chosen("int", ["user", "item"])
    assert 60 < len(first) < 120
    assert chosen("long", ["user", "item"]) == first
    assert chosen("int", ["item", "user"]) == first
    assert chosen("int", ["USER", "item"]) == first
    assert chosen("int", ["user", "item"], on_late="mark") == first


@pytest.mark.slow
def test_a_late_event_is_shared_by_nobody(stream_test: StreamTest) -> None:
    (served, bought), (impressions, orders) = _streams(stream_test, _SCHEMA, _SCHEMA)
    made = tailrace.examples(impressions, on="user", time="at", on_late="mark", release_every="batch")
    made = made.label("buy", orders, time="at", after="30 seconds", attribution=tailrace.linear())
    with stream_test.query(made.stream()) as query:
        served.add((1, 7, at(0)), (2, 7, at(20)))
        bought.add((0, 9, at(0)))
        query.run()
        for source in (served, bought):
            source.add((3, 9, at(41)))
        query.run()
        # The first impression has come out, and the second one hasn't.
        bought.add((5, 7, at(25)))
        query.run()
        for source in (served, bought):
            source.add((-1, 9, _FAR))
        query.run()
        rows = query.rows()
    assert {row["id"]: row["buy"] for row in rows if row["id"] in {1, 2}} == {1: [], 2: []}
    (late,) = (row for row in rows if row["_mark"] == "late_right")
    assert [(e["id"], e["credit"]) for e in late["buy"]] == [(5, Decimal(1))]


@pytest.mark.contract(any_spark=True)
def test_a_marked_row_comes_out_with_features(stream_test: StreamTest) -> None:
    sources, (impressions, clicks, values) = _streams(stream_test, _SCHEMA, _SCHEMA, _SCHEMA)
    made = tailrace.examples(impressions, on="user", time="at", on_late="mark")
    made = made.label("click", clicks, time="at", after="9 seconds").features("value", values, time="at")
    with stream_test.query(made.stream()) as query:
        for second in (1000, 1100):
            for source in sources:
                source.add((1, 7, at(second)))
            query.run()
        sources[0].add((3, 7, at(3)))
        query.run()
        late = [row for row in query.rows() if row["_mark"]]
    assert [(row["id"], row["_mark"], row["value"]) for row in late] == [(3, "late_left", None)]


@pytest.mark.contract(any_spark=True)
@pytest.mark.parametrize("attributed", [False, True])
def test_a_late_impression_is_an_example_with_its_features(stream_test: StreamTest, attributed: bool) -> None:
    sources, (impressions, clicks, values) = _streams(stream_test, _SCHEMA, _SCHEMA, _SCHEMA)
    made = tailrace.examples(impressions, on="user", time="at")
    attribution = tailrace.last_touch() if attributed else None
    made = made.label("click", clicks, time="at", after="60 seconds", attribution=attribution)
    with stream_test.query(made.features("value", values, time="at").stream()) as query:
        for number, second in enumerate((1000, 1100)):
            for source in sources:
                source.add((1 + number, 7, at(second)))
            query.run()
        sources[1].add((5, 7, at(1070)))
        # The windows up to 1040 or so have closed, and 1000 is the newest value of 1050.
        sources[0].add((3, 7, at(1060)), (4, 7, at(1010)))
        query.run()
        for source in sources:
            source.add((9, 8, at(2000)))
        query.run()
        rows = {row["id"]: row for row in query.rows()}
        total = query.total("lateLeftRowsAccepted", 1)
    found = {number: ([e["id"] for e in row["click"]], row["value"]["id"]) for number, row in rows.items()}
    late = {} if attributed else {3: ([5, 2], 1)}
    assert found == {1: ([1], 1), 2: ([2], 2), **late}
    assert total == len(late)


def test_touches_are_found_when_columns_of_impressions_have_changed(stream_test: StreamTest) -> None:
    (served, bought), (impressions, orders) = _streams(
        stream_test, "id long, user long, item int, note string, at timestamp", _SCHEMA
    )

    def made(*columns: str) -> DataFrame:
        return (
            tailrace.examples(impressions.selectExpr(*columns), on="user", time="at")
            .label("buy", orders, time="at", after="9 seconds", attribution=tailrace.last_touch())
            .stream()
        )

    with stream_test.query(made("*")) as query:
        served.add(*((i, 7, i, "a note", at(0)) for i in range(4)))
        query.run()
        query.stop()
        # One column in a wider type, and one less.
        query.restart(made("id", "user", "cast(item as long) as item", "at"))
        bought.add((1, 7, at(3)))
        query.run()
        served.add((-1, 9, 0, "", _FAR))
        bought.add((-1, 9, _FAR))
        query.run()
        rows = query.rows()
    assert sum(len(row["buy"]) for row in rows if row["id"] >= 0) == 1


@pytest.mark.contract
def test_a_label_that_comes_back_has_the_keys_that_it_had(stream_test: StreamTest) -> None:
    schema = "id long, user long, item long, page long, at timestamp"
    (served, clicked), (impressions, clicks) = _streams(stream_test, schema, schema)
    base = tailrace.examples(impressions, on="user", time="at")
    base = base.label("share", clicks, where="id < 0", time="at", after="20 seconds")

    def clicked_by(key: str) -> DataFrame:
        return base.label("click", clicks, on=["user", key], time="at", after="10 seconds").stream()

    with stream_test.query(clicked_by("item")) as query:
        served.add((1, 7, 1, 2, at(5)))
        clicked.add((1, 7, 2, 9, at(6)))
        query.run()
        query.stop()
        query.restart(base.stream())
        served.add((2, 7, 1, 2, at(6)))
        query.run()
        query.stop()
        query.restart(clicked_by("page"))
        served.add((3, 7, 1, 2, at(7)))
        # The click of item 2 isn't one of page 2.
        with pytest.raises(
            StreamingQueryException,
            match=r"label 'click': `on`, besides the common keys, was 'item BIGINT' and is now 'page",
        ):
            query.run()


@pytest.mark.contract(any_spark=True)
def test_impressions_may_be_examples_themselves(stream_test: StreamTest) -> None:
    (served, bought), (impressions, orders) = _streams(stream_test, _SCHEMA, _SCHEMA)
    inner = tailrace.examples(impressions, on="user", time="at", name="inner", release_every="batch")
    inner = inner.label("buy", orders, time="at", after="9 seconds", attribution=tailrace.linear())
    outer = tailrace.examples(inner.stream(), on="user", time="at", name="outer", release_every="batch")
    outer = outer.label("later", orders, time="at", after="20 seconds")
    with stream_test.query(outer.stream()) as query:
        served.add((1, 7, at(0)), (2, 7, at(5)))
        bought.add((3, 7, at(6)))
        query.run()
        for second in (5000, 10000):
            for source in (served, bought):
                source.add((-1, 9, at(second)))
            query.run()
        rows = {row["id"]: row for row in query.rows()}
    assert [[e["credit"] for e in rows[i]["buy"]] for i in (1, 2)] == [[Decimal("0.5")]] * 2
    assert [[e["id"] for e in rows[i]["later"]] for i in (1, 2)] == [[3]] * 2


def test_the_watermark_goes_by_all_rows_of_a_labels_stream(stream_test: StreamTest) -> None:
    (served, happened), frames = _streams(
        stream_test, _SCHEMA, "id long, user long, kind string, at timestamp"
    )
    made = tailrace.examples(frames[0], on="user", time="at").label(
        "buy", frames[1], time="at", after="9 seconds", where="kind = 'buy'"
    )
    with stream_test.query(made.stream()) as query:
        served.add((1, 7, at(0)), (2, 7, at(100)))
        happened.add((10, 7, "buy", at(2)), (11, 7, "view", at(100)), (12, 7, "view", None))
        query.run()
        (row,) = query.rows()
    assert row["id"] == 1
    assert [event["id"] for event in row["buy"]] == [10]


def test_a_label_that_comes_later_needs_its_beginning(stream_test: StreamTest) -> None:
    (served, happened), frames = _streams(stream_test, _SCHEMA, _SCHEMA)

    def define(*names: str, **later: Any) -> DataFrame:  # noqa: ANN401
        made = tailrace.examples(frames[0], on="user", time="at")
        for name in names:
            more = later if name == "purchase" else {}
            made = made.label(name, frames[1], time="at", after="9 seconds", **more)
        return made.stream()

    with stream_test.query(define("buy")) as query:
        served.add((1, 7, at(0)))
        happened.add((10, 7, at(2)))
        query.run()
        query.stop()
        # Another name is another label.
        query.restart(define("purchase"))
        happened.add((11, 8, at(3)))
        with pytest.raises(StreamingQueryException, match=r"label 'purchase' is new: .* `since`"):
            query.run()
        query.restart(define("buy", "purchase", since=at(50)))
        served.add((2, 7, _FAR))
        happened.add((12, 7, _FAR))
        query.run()
        (row,) = query.rows()
    assert row["purchase"] is None
    assert [event["id"] for event in row["buy"]] == [10]
