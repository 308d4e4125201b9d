"""Rows of several starts of a query, each with other columns, are read by the columns that they came with."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from nested_shapes import ShapedRows, changed, made

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.conf import RuntimeConfig

    from tailrace.testing import StreamTest

_CAMPAIGN = pytest.mark.campaign

# A field that comes again in another type, in a struct, in an array's elements and in a map's values; and one
# that is narrower when it comes again.
_AGAIN: list[dict[str, Any]] = [
    {
        "d": {"p": "string", "q": "bigint"},
        "l": ["array", {"p": "string", "q": "int"}],
        "m": ["map", {"p": "bigint"}],
    },
    {"d": {"q": "bigint"}, "l": ["array", {"q": "int"}], "m": ["map", {"q": "int"}]},
    {
        "m": ["map", {"q": "bigint", "p": "int"}],
        "d": {"q": "bigint", "p": "int"},
        "l": ["array", {"p": "bigint", "q": "bigint"}],
    },
]


def _random(seed: int, starts: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    shapes = [{name: made(rng, 2) for name in "pq"}]
    while len(shapes) < starts:
        shapes.append(changed(shapes[-1], rng))
    return shapes


@pytest.fixture
def conf(stream_test: StreamTest) -> Iterator[RuntimeConfig]:
    yield stream_test.spark.conf
    stream_test.spark.conf.unset("spark.tailrace.join.strategy")


def _joined(left: DataFrame, right: DataFrame, kind: str) -> DataFrame:
    sides = (left.withWatermark("l_ts", "0 seconds"), right.withWatermark("r_ts", "0 seconds"))
    if kind == "as_of":
        return tailrace.as_of(*sides, on="key", left_time="l_ts", right_time="r_ts", into="labels")
    return tailrace.join(*sides, on="key", left_time="l_ts", right_time="r_ts", after="1 hour")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "shapes", "rescaled_before"),
    [
        ("lazy", _AGAIN, None),
        pytest.param("eager", _AGAIN, 2, marks=_CAMPAIGN),
        pytest.param("as_of", _AGAIN, None, marks=_CAMPAIGN),
        ("lazy", _random(1, 4), 2),
        *(
            pytest.param(
                ("lazy", "eager", "as_of")[seed % 3], _random(seed, 5), seed % 4 or None, marks=_CAMPAIGN
            )
            for seed in range(2, 11)
        ),
    ],
)
def test_a_row_keeps_each_value_that_has_a_place_in_the_newest_columns(
    stream_test: StreamTest,
    conf: RuntimeConfig,
    tmp_path: Path,
    kind: str,
    shapes: list[dict[str, Any]],
    rescaled_before: int | None,
) -> None:
    conf.set("spark.tailrace.join.strategy", "eager" if kind == "eager" else "lazy")
    # A left row of an as-of join takes a right row of any start.
    left, right = ShapedRows(stream_test, "l", 10), ShapedRows(stream_test, "r", 0 if kind == "as_of" else 10)

    def joined(shape: dict[str, Any]) -> DataFrame:
        return _joined(left.frame(shape), right.frame(shape), kind)

    with stream_test.query(joined(shapes[0])) as query:
        for start, shape in enumerate(shapes):
            query.stop()
            if start == rescaled_before:
                tailrace.rescale(stream_test.spark, query.checkpoint, 3)
                for side in (left, right):
                    side.are_rewritten(shapes[start - 1])
            query.restart(joined(shape))
            for side in (left, right):
                side.add(2 * start, shape)
                side.add(2 * start + 1, shape)
            query.run()
        query.stop()
        last = shapes[-1]
        read = stream_test.spark.read
        buffered = read.format("tailrace-state").load(str(query.checkpoint)).where("side = 'left'")
        left.check_all(buffered.select("left.*"), last)
        tailrace.export_state(stream_test.spark, query.checkpoint, tmp_path / "export")
        left.check_all(read.parquet(str(tmp_path / "export/operator-0/left")), last)
        right.check_some(read.parquet(str(tmp_path / "export/operator-0/right")), last)
        query.restart(joined(last))
        for side in (left, right):
            side.add(9999, last)
        query.run()
        query.run()
        rows = {row["l_id"]: row for row in query.rows()}
    # The last ones wait until something passes them.
    assert set(left.rows) - {9999} <= set(rows)
    for number in set(left.rows) - {9999}:
        left.check(rows[number], last)
        labels = rows[number]["labels"]
        found = [labels] if kind == "as_of" else labels
        assert found
        for label in found:
            right.check(label, last)
