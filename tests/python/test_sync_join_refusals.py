"""The synced join refuses what it can't do: options, columns, output modes, and changes on a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import tailrace
from synced import Row, Synced, shown

if TYPE_CHECKING:
    from tailrace.testing import StreamTest


@pytest.fixture
def streams(stream_test: StreamTest) -> Synced:
    return Synced(stream_test)


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"on": []}, "TAILRACE_JOIN_KEYS_MISSING"),
        ({"on": "nope"}, "TAILRACE_COLUMN_NOT_FOUND"),
        ({"left_time": "id"}, "TAILRACE_COLUMN_TYPE"),
        ({"left_partition": "nope"}, "TAILRACE_COLUMN_NOT_FOUND"),
        ({"window": "soon"}, "TAILRACE_OPTION_INVALID"),
        ({"sync_delay": "-1 second"}, "TAILRACE_OPTION_INVALID"),
        ({"on_stall": "hope"}, "TAILRACE_OPTION_INVALID"),
        ({"on_stall": "exclude"}, "TAILRACE_OPTION_NEEDS"),
        ({"on_left_stall": "fail"}, "TAILRACE_OPTION_NEEDS"),
        ({"on_left_stall": "hope"}, "TAILRACE_OPTION_INVALID"),
        ({"on_future": "mark"}, "TAILRACE_OPTION_NEEDS"),
        ({"on_future": "hope"}, "TAILRACE_OPTION_INVALID"),
        ({"on_duplicate": "all"}, "TAILRACE_OPTION_INVALID"),
        ({"on_unmatched_right": "mark"}, "TAILRACE_OPTION_INVALID"),
        ({"max_buffered": 0}, "TAILRACE_OPTION_INVALID"),
        ({"name": "a/b"}, "TAILRACE_OPTION_INVALID"),
        ({"suffix": ""}, "TAILRACE_OPTION_INVALID"),
    ],
)
def test_a_wrong_option_is_refused_at_once(streams: Synced, options: dict[str, Any], condition: str) -> None:
    with pytest.raises(tailrace.TailraceJoinError) as caught:
        streams.join(**options)
    assert caught.value.condition == condition
    assert "py4j" not in str(caught.value)


def test_batch_frames_and_clashing_names(streams: Synced) -> None:
    left = streams.frame("left")
    batch = streams.test.spark.createDataFrame([], left.schema)
    arguments = {"on": "id", "left_time": "created", "right_time": "created"}
    arguments |= {"window": "1 minute", "sync_delay": "1 second"}
    with pytest.raises(tailrace.TailraceJoinError) as caught:
        tailrace.sync_join(left, batch, **arguments)  # type: ignore[arg-type]
    assert caught.value.condition == "TAILRACE_SYNC_NOT_STREAMING"
    with pytest.raises(tailrace.TailraceJoinError) as caught:
        tailrace.sync_join(left.selectExpr("*", "1 AS created_right"), left, **arguments)  # type: ignore[arg-type]
    assert caught.value.condition == "TAILRACE_COLUMN_EXISTS"


def test_output_mode_and_names_of_two_joins(streams: Synced) -> None:
    joined = streams.join()
    with pytest.raises(Exception, match="TAILRACE_OUTPUT_MODE") as caught:
        joined.writeStream.format("noop").outputMode("update").option(
            "checkpointLocation", str(streams.test.directory / "c")
        ).start()
    assert isinstance(caught.value, tailrace.TailraceError)
    for other in (streams.join(), joined):
        both = joined.select("id").union(other.select("id"))
        with pytest.raises(Exception, match=r"TAILRACE_NAME_EXISTS.*one result is used twice"):
            both.writeStream.format("noop").option(
                "checkpointLocation", str(streams.test.directory / "c")
            ).start()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"name": "other"}, ["TAILRACE_SYNC_NAME_CHANGED", "sync_join"]),
        ({"right_partition": "id"}, ["`right_partition` was 'partition' and is now 'id'"]),
    ],
    ids=["another name", "other columns that tell partitions apart"],
)
def test_a_change_on_a_checkpoint_is_refused(
    streams: Synced, changed: dict[str, Any], told: list[str]
) -> None:
    streams.add(left=[Row(1, 0, 0)], right=[Row(1, 0, 1), Row(90, 0, 3)])
    with streams.query() as query:
        query.run()
    streams.add(left=[Row(2, 0, 3)], right=[Row(91, 0, 90)])
    with (
        streams.test.query(streams.join(**changed)) as query,
        pytest.raises(StreamingQueryException) as caught,
    ):
        query.run()
    for text in told:
        assert text in str(caught.value)
    with streams.query() as query:
        query.run()
        assert sorted(shown(row) for row in query.rows()) == [(1, 0, 1), (2, 3, None)]


def test_no_column_that_tells_partitions_apart(streams: Synced) -> None:
    left = streams.frame("left").drop("partition")
    with pytest.raises(tailrace.TailraceJoinError) as caught:
        streams.join(sides=(left, streams.frame("right")))
    assert caught.value.condition == "TAILRACE_SYNC_PARTITION_MISSING"
    assert "left_partition=" in str(caught.value)
