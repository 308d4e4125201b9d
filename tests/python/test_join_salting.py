"""`salted_keys`: keys whose left rows are split over several partitions."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.functions import col, expr, lit, rand, timestamp_seconds

import tailrace
from streams import Row, Streams, groups, join
from tailrace._bridge import arguments
from tailrace.errors import TailraceJoinError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.testing import StreamTest

END = ([Row(900, 9, 1000)], [Row(901, 9, 1000)])


@pytest.fixture
def streams(stream_test: StreamTest) -> Streams:
    streams = Streams(stream_test)
    left = [Row(i, (1, 1, 1, 2, None)[i % 5], 100 + i // 3) for i in range(40)]
    streams.add(left, [Row(100 + i, 1 + i % 2, 105 + i) for i in range(12)])
    return streams


def test_the_rows_are_those_of_a_join_that_splits_nothing(streams: Streams) -> None:
    hot = streams.join(salted_keys=[1], salt_buckets=3)
    plain = streams.join()
    assert hot.schema == plain.schema
    with streams.query(hot) as query, streams.query(plain, "plain") as other:
        query.run()
        streams.add(*END)
        query.run()
        other.run()
        assert groups(query.rows()) == groups(other.rows())
        assert len(query.rows()) == 40


def test_a_checkpoint_is_bound_to_the_keys(streams: Streams) -> None:
    with streams.query(streams.join(salted_keys=[1])) as query:
        query.run()
        streams.add(*END)
        query.restart(streams.join(salted_keys=[1, 2]))
        with pytest.raises(StreamingQueryException, match="`salted_keys` was '1 in 8 parts' and is now"):
            query.run()


@pytest.mark.parametrize(
    "key",
    [
        dt.date(1, 1, 1),
        dt.date(999, 12, 31),
        dt.date(1500, 2, 28),
        dt.datetime(1, 1, 2, tzinfo=dt.UTC),
        dt.datetime(1500, 1, 1, 12, 0, 0, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))),
    ],
)
def test_dates_and_times_from_the_year_1_on(spark: SparkSession, key: dt.date) -> None:
    kind = "timestamp" if isinstance(key, dt.datetime) else "date"
    text = key.astimezone(dt.UTC).isoformat() if isinstance(key, dt.datetime) else key.isoformat()
    ((literal,),) = arguments.values([key], "salted_keys")
    of_sql = expr(f"CAST('{text}' AS {kind})")
    row = spark.range(1).select((literal == of_sql).alias("same")).head()
    assert row is not None
    assert row.same
    left = spark.range(6).select(
        of_sql.alias("key"), col("id").alias("l_id"), timestamp_seconds("id").alias("l_ts")
    )
    right = left.selectExpr("key", "l_id AS r_id", "l_ts AS r_ts")
    assert len(join(left, right, salted_keys=[key], salt_buckets=3).collect()) == 6


@pytest.mark.parametrize("key", [(1, "a"), [1, "a"]])
def test_keys_of_several_columns(spark: SparkSession, key: Any) -> None:  # noqa: ANN401
    left = spark.range(20).select(
        (col("id") % 2).alias("k"), lit("a").alias("t"), timestamp_seconds("id").alias("at"), "id"
    )
    right = left.select("k", "t", col("at").alias("seen"), col("id").alias("n"))
    options: dict[str, Any] = {
        "on": ["k", "t"],
        "left_time": "at",
        "right_time": "seen",
        "after": "5 seconds",
    }
    split = tailrace.join(left, right, salted_keys=[key], **options).orderBy("id").collect()
    assert split == tailrace.join(left, right, **options).orderBy("id").collect()


@pytest.mark.parametrize("wrong", ["1", {"key": 1}, 7, [None], [(1, None)], [{"key": 1}]])
def test_what_is_no_list_of_keys(streams: Streams, wrong: Any) -> None:  # noqa: ANN401
    with pytest.raises(TypeError, match="`salted_keys`"):
        streams.join(salted_keys=wrong)


@pytest.mark.contract
@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"salt_buckets": 1}, "INVALID"),
        ({"salted_keys": [(1, 2)]}, "INVALID"),
        ({"on_late": "mark"}, "CONFLICT"),
    ],
)
def test_what_cannot_be(streams: Streams, options: dict[str, Any], condition: str) -> None:
    with pytest.raises(TailraceJoinError, match=f"TAILRACE_OPTION_{condition}"):
        streams.join(**{"salted_keys": [1], **options})


@pytest.mark.parametrize("wrong", ["x", 3.5, True, 2**70, 10**37])
def test_what_is_no_value_of_the_column(streams: Streams, wrong: Any) -> None:  # noqa: ANN401
    with pytest.raises(
        TailraceJoinError, match=r"`salted_keys` of tailrace.join is .* values of `key`, which is comp"
    ):
        streams.join(salted_keys=[1, wrong])


def test_a_number_that_no_column_can_hold(streams: Streams) -> None:
    with pytest.raises(TypeError, match="39 digits"):
        streams.join(salted_keys=[10**38])


@pytest.mark.parametrize("value", ["1", 1.0, 2**40])
def test_a_value_of_another_type_that_is_one_of_the_column(streams: Streams, value: Any) -> None:  # noqa: ANN401
    with streams.query(streams.join(salted_keys=[value])) as query:
        query.run()
        streams.add(*END)
        query.run()
        assert len(query.rows()) == 40


@pytest.mark.slow
def test_as_many_keys_as_there_may_be(streams: Streams) -> None:
    with streams.query(streams.join(salted_keys=list(range(1000)))) as query:
        query.run()
        streams.add(*END)
        query.run()
        assert len(query.rows()) == 40
    with pytest.raises(TailraceJoinError, match="from 1 to 1000"):
        streams.join(salted_keys=list(range(1001)))


def test_an_error_of_the_checkpoint_names_hot_alone(streams: Streams) -> None:
    with streams.query(streams.join()) as query:
        query.run()
        streams.add(*END)
        query.restart(streams.join(salted_keys=[1]))
        with pytest.raises(
            StreamingQueryException, match="`salted_keys` was not given and is now '1 in 8 parts'"
        ) as found:
            query.run()
        assert "__tailrace_part" not in str(found.value)


@pytest.mark.parametrize(
    ("value", "kind"),
    [(b"k1", "binary"), (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "timestamp"), ("k1", "string")],
)
def test_a_query_goes_on_with_a_key_of_another_type(streams: Streams, value: Any, kind: str) -> None:  # noqa: ANN401
    text = (
        "'k' || key" if kind != "timestamp" else "timestamp'2026-01-01 00:00:00Z' + make_dt_interval(key - 1)"
    )
    left, right = (
        streams.frame(side).withColumn("key", expr(f"CAST({text} AS {kind})")) for side in ("left", "right")
    )
    with streams.query(join(left, right, salted_keys=[value])) as query:
        query.run()
        streams.add(*END)
        zone = streams.test.spark.conf.get("spark.sql.session.timeZone")
        streams.test.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        try:
            query.restart(join(left, right, salted_keys=[value]))
        finally:
            streams.test.spark.conf.set("spark.sql.session.timeZone", str(zone))
        query.run()
        assert len(query.rows()) == 40


@pytest.mark.parametrize(
    ("l_key", "r_key", "value"),
    [("int", "decimal(5,1)", 1), ("decimal(38,0)", "decimal(3,0)", Decimal(1)), ("float", "double", 1.0)],
)
def test_keys_of_two_types_are_hot_on_both_sides(
    spark: SparkSession, l_key: str, r_key: str, value: object
) -> None:
    left = spark.range(20).selectExpr(f"CAST(id % 2 AS {l_key}) AS k", "timestamp_seconds(id) AS at", "id")
    right = left.selectExpr(f"CAST(k AS {r_key}) AS k", "at AS seen", "id AS n")
    options: dict[str, Any] = {"on": "k", "left_time": "at", "right_time": "seen", "after": "5 seconds"}
    split = tailrace.join(left, right, salted_keys=[value], **options).orderBy("id").collect()
    assert split == tailrace.join(left, right, **options).orderBy("id").collect()


@pytest.mark.parametrize("buckets", [4, 8])
def test_buckets_need_keys(streams: Streams, buckets: int) -> None:
    with pytest.raises(
        TailraceJoinError,
        match=rf"(?s)`salt_buckets`.*'{buckets}', which needs another argument: salted_keys",
    ):
        streams.join(salt_buckets=buckets)


@pytest.mark.parametrize("wrong", ["column", "random"])
def test_a_column_that_is_no_literal(streams: Streams, wrong: str) -> None:
    value = col("key") if wrong == "column" else rand()
    with pytest.raises(TailraceJoinError, match="TAILRACE_OPTION_INVALID"):
        streams.join(salted_keys=[value])


@pytest.mark.parametrize("on", ["nosuch", [("key", "nosuch")]])
def test_a_key_that_is_no_column(streams: Streams, on: object) -> None:
    with pytest.raises(TailraceJoinError, match=r"`on` of tailrace\.join names the column `nosuch`"):
        streams.join(on=on, salted_keys=[1])


@pytest.mark.parametrize(
    "value", [Decimal("NaN"), Decimal("Infinity"), Decimal("1E+400"), Decimal("1E-400"), "\udc80"]
)
def test_what_no_column_can_hold(streams: Streams, value: object) -> None:
    with pytest.raises(TypeError, match="`salted_keys` has"):
        streams.join(salted_keys=[value])


def test_a_zero_with_many_zeros(spark: SparkSession) -> None:
    ((literal,),) = arguments.values([Decimal("0E-400")], "salted_keys")
    assert spark.range(1).select(literal).first() == (0,)
