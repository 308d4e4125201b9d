"""What `observedMetrics["tailrace.examples"]` counts, and when it would be two counts."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from streams import at

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tailrace.testing import StreamTest

_SCHEMA = "id long, user long, at timestamp"
_NAME = "tailrace.examples"


def _made(impressions: DataFrame, clicks: DataFrame, name: str = "examples") -> tailrace.Examples:
    made = tailrace.examples(impressions, on="user", time="at", name=name)
    return made.label("click", clicks, time="at", after="9 seconds", max_matches=2)


@pytest.mark.slow
def test_rows_are_counted_once_however_often_a_batch_is_read(stream_test: StreamTest, tmp_path: Path) -> None:
    served, clicked = (stream_test.source(_SCHEMA) for _ in range(2))
    impressions, clicks = (source.frame.withWatermark("at", "1 second") for source in (served, clicked))
    served.add((1, 1, at(0)), (2, 1, at(1)), (3, 2, at(2)))
    clicked.add(*((i, 1, at(1)) for i in range(3)))
    read = tmp_path / "read"

    def read_in_parts(batch: DataFrame, _: int) -> None:
        counts = (batch.limit(1).count(), batch.count(), batch.where("size(click) > 0").count())
        with read.open("a") as file:
            print(*counts, file=file)

    writer = _made(impressions, clicks).stream().writeStream.foreachBatch(read_in_parts)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        stream_test.flush()
        query.processAllAvailable()
        for source in (served, clicked):
            source.add((-1, 9, at(5000)))
        stream_test.flush()
        query.processAllAvailable()
        told = [json.loads(p.json)["observedMetrics"][_NAME] for p in query.recentProgress]
    finally:
        query.stop()
    assert "1 3 2" in read.read_text().splitlines()
    of_click = {"label": "click", "matched": 2, "events": 4, "truncated": 2}
    assert [t for t in told if t["rows"]] == [{"rows": 3, "labels": [of_click], "sample": []}]


def test_an_observation_of_that_name_is_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, 1, at(0))], _SCHEMA)
    examples = _made(frame, frame).batch()
    assert examples.observe("mine", F.count("id")).count() == 1
    with pytest.raises(AnalysisException, match=_NAME) as refused:
        examples.observe(_NAME, F.count("id")).count()
    assert refused.value.getCondition() == "TAILRACE_EXAMPLES_NAME_EXISTS"


def test_two_definitions_of_one_query_need_names(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, 1, at(0))], _SCHEMA)

    def both(*names: str) -> DataFrame:
        return reduce(DataFrame.union, (_made(frame, frame, name=name).batch() for name in names))

    assert both("one", "other").count() == 2
    with pytest.raises(AnalysisException, match="one") as refused:
        both("one", "one").count()
    assert refused.value.getCondition() == "TAILRACE_EXAMPLES_NAME_EXISTS"


@pytest.mark.contract(any_spark=True)
def test_a_definition_that_is_used_twice_is_one(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, 1, at(0)), (2, 1, at(5)), (3, 2, at(5))], _SCHEMA)
    examples = _made(frame, frame).batch()
    rows = examples.union(examples).select("id", F.size("click").alias("clicks")).collect()
    assert sorted((row.id, row.clicks) for row in rows) == [(1, 2), (1, 2), (2, 1), (2, 1), (3, 1), (3, 1)]


def test_a_cached_definition_is_found_by_an_equal_one(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = spark.createDataFrame([(1, 1, at(0))], _SCHEMA)
    cached = _made(frame, frame).batch().cache()
    try:
        assert cached.count() == 1
        _made(frame, frame).batch().explain()
        assert "InMemoryTableScan" in capsys.readouterr().out
    finally:
        cached.unpersist()


@pytest.mark.slow
@pytest.mark.parametrize("attribution", [None, tailrace.linear()])
def test_state_of_examples_moves_with_their_query(
    stream_test: StreamTest, tmp_path: Path, attribution: tailrace.Attribution | None
) -> None:
    served, clicked = (stream_test.source(_SCHEMA) for _ in range(2))
    impressions, clicks = (source.frame.withWatermark("at", "1 second") for source in (served, clicked))
    made = tailrace.examples(impressions, on="user", time="at")
    stream = made.label("click", clicks, time="at", after="9 seconds", attribution=attribution).stream()
    with stream_test.query(stream) as query:
        served.add((1, 1, at(10)), (2, 2, at(11)), (3, 1, at(11)))
        clicked.add((5, 1, at(12)))
        query.run()
        query.stop()
        tailrace.export_state(stream_test.spark, query.checkpoint, tmp_path / "export")
        done = tailrace.import_state(stream, tmp_path / "made", export=tmp_path / "export")
        # With attribution, each impression has left a touch.
        assert (done.left, done.right) == (3, 1 if attribution is None else 4)
        query.checkpoint.rename(tmp_path / "before")
        (tmp_path / "made").rename(query.checkpoint)
        query.restart()
        for source in (served, clicked):
            source.add((-1, 9, at(5000)))
        query.run()
        shares = {row["id"]: [event.get("credit") for event in row["click"]] for row in query.rows()}
        share = None if attribution is None else Decimal("0.5")
        assert shares == {1: [share], 2: [], 3: [share]}
