"""`initial` of features: the first examples have values from before the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from example_frames import FAR, SCHEMA, examples, frame
from streams import at
from tailrace.errors import TailraceJoinError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    import tailrace
    from tailrace.testing import StreamTest

_VALUE = "v long, user long, at timestamp"


def _define(frames: list[DataFrame], **of_features: Any) -> tailrace.Examples:  # noqa: ANN401
    impressions, clicks, values, prices = frames
    made = examples(impressions).label("click", clicks, time="at", after="60 seconds")
    made = made.features("profile", values, time="at", **of_features)
    return made.features("price", prices, time="at")


def _found(rows: list[Any]) -> dict[int, tuple[int | None, int | None]]:
    return {
        row["id"]: tuple(row[name] and row[name]["v"] for name in ("profile", "price"))
        for row in rows
        if row["user"] < 90
    }


@pytest.mark.contract
def test_the_first_examples_have_values_and_a_batch_has_the_same(
    spark: SparkSession, stream_test: StreamTest
) -> None:
    initial = frame(spark, (201, 7, -30), (202, 7, -20), (203, 8, -4000), (204, None, -1), schema=_VALUE)
    sources = [stream_test.source(schema) for schema in (SCHEMA, SCHEMA, _VALUE, _VALUE)]
    streams = [source.frame.withWatermark("at", "10 seconds") for source in sources]
    rows: list[list[tuple[Any, ...]]] = [
        [(1, 7, 0), (2, 8, 5), (3, 7, 50), (4, 6, 50)],
        [(11, 7, 1)],
        [(101, 7, 40)],
        [(301, 7, -5)],
    ]
    expected = {1: (202, 301), 2: (None, None), 3: (101, 301), 4: (None, None)}
    definition = _define(streams, initial=initial, max_age="1 hour")
    assert "initial" not in repr(definition)
    with stream_test.query(definition.stream()) as query:
        for source, some in zip(sources, rows, strict=True):
            source.add(*((*row[:-1], at(row[-1])) for row in some))
        query.run()
        # The checkpoint has them: other ones, or none, change nothing.
        query.restart(_define(streams, max_age="1 hour").stream())
        for source in sources:
            source.add((900, 99, FAR))
        query.run()
        assert _found(query.rows()) == expected
    schemas = (SCHEMA, SCHEMA, _VALUE, _VALUE)
    tables = [frame(spark, *some, schema=of) for some, of in zip(rows, schemas, strict=True)]
    batch = _define(tables, initial=initial, max_age="1 hour").batch()
    assert _found(batch.collect()) == expected
    by_name = dict(zip(("impressions", "click", "profile", "price"), tables, strict=True))
    assert _found(definition.batch(**by_name).collect()) == expected


@pytest.mark.contract
def test_refusals_name_the_features(spark: SparkSession, stream_test: StreamTest) -> None:
    streams = [
        stream_test.source(schema).frame.withWatermark("at", "10 seconds")
        for schema in (SCHEMA, SCHEMA, _VALUE, _VALUE)
    ]
    with pytest.raises(TailraceJoinError) as refusal:
        _define(streams, initial=streams[2]).stream()
    assert refusal.value.condition == "TAILRACE_OPTION_INVALID"
    assert refusal.value.parameters["call"] == "tailrace.examples, features 'profile'"
    with pytest.raises(TailraceJoinError) as lacking:
        _define(streams, initial=frame(spark, (1, 7, 0))).stream()
    assert lacking.value.condition == "TAILRACE_JOIN_INITIAL_COLUMNS"
    assert lacking.value.parameters == {
        "call": "tailrace.examples, features 'profile'",
        "columns": "v BIGINT",
    }
    with pytest.raises(TypeError, match="`initial` must be a pyspark"):
        _define(streams, initial=7)
