"""Invalid input is refused before a query starts: condition, parameters, and no py4j in the exception."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

import tailrace
from streams import Streams, join
from tailrace.errors import TailraceJoinError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tailrace.testing import StreamTest


@pytest.fixture
def streams(stream_test: StreamTest) -> Streams:
    return Streams(stream_test)


def refused(left: DataFrame, right: DataFrame, condition: str, **options: Any) -> dict[str, str]:  # noqa: ANN401
    with pytest.raises(tailrace.TailraceError) as caught:
        join(left, right, **options)
    error = caught.value
    assert error.condition == condition
    text = str(error)
    assert condition in text
    assert "py4j" not in text
    assert "\tat " not in text
    return dict(error.parameters)


def test_a_side_without_a_watermark_is_refused(streams: Streams) -> None:
    bare = streams.test.source("r_id long, key long, r_ts timestamp").frame
    parameters = refused(streams.frame("left"), bare, "TAILRACE_JOIN_WATERMARK_MISSING")
    assert (parameters["side"], parameters["column"]) == ("right", "r_ts")


def test_a_batch_dataframe_with_a_stream_is_refused(streams: Streams) -> None:
    batch = streams.test.spark.createDataFrame([], "r_id long, key long, r_ts timestamp")
    refused(streams.frame("left"), batch, "TAILRACE_JOIN_MIXED_BATCH_AND_STREAM")


@pytest.mark.contract
@pytest.mark.parametrize(
    ("options", "condition", "names"),
    [
        ({"on": "nope"}, "TAILRACE_COLUMN_NOT_FOUND", "nope"),
        ({"left_time": "nope"}, "TAILRACE_COLUMN_NOT_FOUND", "nope"),
        ({"on": []}, "TAILRACE_JOIN_KEYS_MISSING", None),
        ({"on": [("key", "r_note")]}, "TAILRACE_JOIN_KEY_TYPES_DIFFER", "r_note"),
        ({"left_time": "l_id"}, "TAILRACE_COLUMN_TYPE", "l_id"),
        ({"after": "-5 minutes"}, "TAILRACE_OPTION_INVALID", "after"),
        ({"before": "soon"}, "TAILRACE_OPTION_INVALID", "before"),
        ({"after": "1 month"}, "TAILRACE_OPTION_INVALID", "after"),
        ({"into": "l_note"}, "TAILRACE_COLUMN_EXISTS", "l_note"),
        ({"how": "outer"}, "TAILRACE_OPTION_INVALID", "how"),
        ({"match": "best"}, "TAILRACE_OPTION_INVALID", "match"),
        ({"max_matches": 10**12}, "TAILRACE_OPTION_INVALID", "a whole number of at most 2147483647"),
        ({"max_matches": -(2**63)}, "TAILRACE_OPTION_INVALID", "a whole number of 1 or more"),
        ({"on_late": "keep"}, "TAILRACE_OPTION_INVALID", "on_late"),
        ({"release_every": "now"}, "TAILRACE_OPTION_INVALID", "release_every"),
        ({"how": "inner", "release_every": "batch"}, "TAILRACE_JOIN_OPTION_CONFLICT", "release_every"),
        ({"how": "inner", "match": "first"}, "TAILRACE_JOIN_OPTION_CONFLICT", "match"),
        ({"how": "inner", "into": "clicks"}, "TAILRACE_JOIN_OPTION_CONFLICT", "into"),
    ],
)
def test_invalid_arguments_are_refused_by_name(
    streams: Streams, options: dict[str, Any], condition: str, names: str | None
) -> None:
    parameters = refused(streams.frame("left"), streams.frame("right"), condition, **options)
    assert names is None or names in parameters.values()


def test_an_ambiguous_column_is_refused(streams: Streams) -> None:
    left = streams.frame("left")
    refused(left.select("*", left["key"]), streams.frame("right"), "TAILRACE_COLUMN_AMBIGUOUS")


def test_pairs_refuse_two_columns_of_one_name(streams: Streams) -> None:
    right = streams.frame("right").withColumnRenamed("r_note", "l_note")
    refused(streams.frame("left"), right, "TAILRACE_COLUMN_EXISTS", how="inner")


@pytest.mark.parametrize(
    ("key", "condition"),
    [
        ("map('a', 1)", "TAILRACE_JOIN_KEY_TYPE_UNSUPPORTED"),
        ("collate('a', 'UNICODE_CI')", "TAILRACE_JOIN_KEY_COLLATED"),
    ],
)
def test_keys_without_a_byte_order_are_refused(streams: Streams, key: str, condition: str) -> None:
    left = streams.frame("left").selectExpr("l_id", "l_ts", f"{key} as key")
    right = streams.frame("right").selectExpr("r_id", "r_ts", f"{key} as key")
    refused(left, right, condition)


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_other_output_modes_are_refused_by_start(streams: Streams, mode: str) -> None:
    with pytest.raises(AnalysisException) as caught:
        streams.join().writeStream.format("noop").outputMode(mode).start()
    # Spark itself refuses complete mode first: it wants an aggregation. What it raises is its own.
    if mode == "update":
        refusal = caught.value
        assert isinstance(refusal, TailraceJoinError)
        assert refusal.condition == "TAILRACE_OUTPUT_MODE_UNSUPPORTED"
        assert refusal.parameters == {"operator": "tailrace.join", "mode": "Update"}


@pytest.mark.spark(">=4.2", reason="PySpark 4.1 has no trigger of real-time mode")
def test_real_time_mode_is_refused_by_start(streams: Streams) -> None:
    # The console is a sink that Spark lets into real-time mode. The stubs of 4.2.0 lack the argument.
    trigger: dict[str, Any] = {"realTime": "5 minutes"}
    writer = streams.join().writeStream.format("console").outputMode("update").trigger(**trigger)
    with pytest.raises(AnalysisException) as caught:
        writer.start()
    assert caught.value.getCondition() == "TAILRACE_REAL_TIME_MODE_UNSUPPORTED"
