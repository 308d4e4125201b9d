"""None for an argument that doesn't take it is a TypeError that names the argument, in every function."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

TIMES = {"on": "id", "left_time": "at", "right_time": "at", "after": "1 minute"}
SYNCED = {"on": "id", "left_time": "at", "right_time": "at", "window": "1 minute", "sync_delay": "1 second"}
# Each with arguments that it takes but for the None.
CALLS: dict[Callable[..., Any], dict[str, Any]] = {
    tailrace.join: TIMES,
    tailrace.sync_join: SYNCED,
    tailrace.accurate_watermark: {"event_time": "at", "host": "host"},
    tailrace.stamped_watermark: {"event_time": "at"},
    tailrace.stamp_watermark: {},
    tailrace.write_windows: {"path": "out", "event_time": "at"},
    tailrace.window_report: {"path": "out"},
    tailrace.write_table: {"table": "out"},
    tailrace.filter_replays: {},
    tailrace.recursively: {"op": lambda frame: frame},
    tailrace.producer_id: {"query": "q", "stream": "s", "brokers": "b:1", "path": "t"},
    tailrace.stream_metadata: {"pid": "pid", "partition": "partition", "offset": "offset"},
    tailrace.source_partition: {"partition": "partition", "destination_partitions": 2},
    tailrace.parse_stream_metadata: {"metadata": "key"},
    tailrace.merge_stream_metadata: {"metadata": "key"},
}
ARGUMENTS = [
    (call, name)
    for call in CALLS
    for name, parameter in inspect.signature(call).parameters.items()
    if parameter.default is not None and "None" not in parameter.annotation
]


@pytest.fixture(scope="module")
def logs(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load().selectExpr("value AS id", "timestamp AS at", "'a' AS host")


@pytest.mark.parametrize(("call", "name"), ARGUMENTS, ids=[f"{c.__name__}-{n}" for c, n in ARGUMENTS])
def test_none_is_refused_by_the_name_of_its_argument(
    spark: SparkSession, logs: DataFrame, call: Callable[..., Any], name: str
) -> None:
    sides = {"frame": logs, "left": logs, "right": logs, "spark": spark}
    parameters = inspect.signature(call).parameters
    given = {side: frame for side, frame in sides.items() if side in parameters} | CALLS[call]
    with pytest.raises(TypeError, match=rf"`{name}`"):
        call(**given | {name: None})


@pytest.mark.parametrize("wrap", [lambda on: on, lambda on: [on], lambda on: [(on, "id")]])
@pytest.mark.parametrize("call", [tailrace.join, tailrace.sync_join])
def test_pysparks_join_condition_is_refused(
    logs: DataFrame, call: Callable[..., Any], wrap: Callable[[Any], Any]
) -> None:
    other = logs.withColumnRenamed("host", "other")
    equal = logs["id"] == other["id"]
    for condition in (equal, equal & (logs["at"] == other["at"]), logs["id"].eqNullSafe(F.col("id"))):
        with pytest.raises(TypeError, match=r"no conditions.*write on=\[\(\"user_id\", \"user_id\"\)\]"):
            call(logs, other, **CALLS[call] | {"on": wrap(condition)})
