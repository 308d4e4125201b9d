"""A path means itself in each call, whatever characters it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tailrace
from modes import CONNECT
from streams import Row, Streams, groups, join
from tailrace import watermark
from tailrace.commands import cli
from tailrace.demo import query as demo_query
from tailrace.errors import TailraceError
from tailrace.testing import StreamTest, assert_stream_equals_batch
from window_logs import Logs

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.usefixtures("stopped_queries")

# Each with a name that it would stand for as a pattern, or as a part of a URI.
NAMES = {
    "all *?[a]{b}\\c %20 \u00fc": "all XXabc %20 \u00fc",
    "12:00 at 100%25 *": "12:00 at 100% x",
}


@pytest.fixture(params=NAMES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A directory, beside one that its name may mean."""
    for name in (request.param, NAMES[request.param]):
        (tmp_path / name).mkdir()
    return tmp_path / str(request.param)


def _is_unreadable(place: Path) -> bool:
    """Over Connect a path is a pattern, and Hadoop's have no colon."""
    return CONNECT and ":" in place.name and "*" in place.name


def _near(place: Path) -> Path:
    return place.with_name(NAMES[place.name])


@pytest.mark.slow
def test_windows_and_their_report(spark: SparkSession, place: Path) -> None:
    for directory, late in ((_near(place), 3), (place, 1)):
        logs = Logs(spark, place.parent / f"logs-{late}")
        logs.out = directory / "out"
        logs.land(("a", 1), ("b", 2), ("a", 60))
        logs.land(("b", 61), ("a", 62))
        logs.land(*[("a", 3 + n) for n in range(late)])
        assert [row["late_rows"] for row in tailrace.window_report(spark, logs.out).collect()][:1] == [late]


def test_examples_that_mature(spark: SparkSession, place: Path) -> None:
    for directory, rows in ((_near(place), 5), (place, 2)):
        frame = spark.range(rows).selectExpr(
            "timestamp'2026-01-01 12:00:00' AS t", "CAST(NULL AS STRUCT<at: TIMESTAMP>) AS click"
        )
        frame.write.parquet(str(directory / "examples"))
        if _is_unreadable(directory):
            with pytest.raises(TailraceError, match="TAILRACE_PATH_INVALID"):
                tailrace.label_maturity(spark, directory / "examples", labels={"click": "at"}, time="t")
            continue
        report = tailrace.label_maturity(
            spark, directory / "examples", labels={"click": "at"}, time="t", window="1 hour"
        )
        assert [row["rows"] for row in report.collect()] == [rows]


def test_a_roster(spark: SparkSession, place: Path) -> None:
    for directory, host in ((_near(place), "other"), (place, "web-1")):
        (directory / "hosts").write_text(f"{host}\n")
    if _is_unreadable(place):
        with pytest.raises(TailraceError, match="TAILRACE_PATH_INVALID"):
            watermark._roster(place / "hosts", spark)
        return
    assert watermark._roster(place / "hosts", spark) == ["web-1"]


@pytest.mark.slow
def test_the_testing_kit_and_the_state_of_its_queries(spark: SparkSession, place: Path) -> None:
    with StreamTest(spark, place, "12:00") as test:
        streams = Streams(test)
        with streams.query(streams.join()) as query:
            streams.add([Row(1, 1, 0)], [Row(2, 1, 1)])
            query.run()
            assert len(query.state()) == 2
            query.restart()
            streams.add([Row(9, 9, 1000)], [Row(10, 9, 1000)])
            query.run()
            assert groups(query.rows()) == [(1, [2])]

    def definition(left: DataFrame, right: DataFrame) -> DataFrame:
        if left.isStreaming:
            left, right = left.withWatermark("l_ts", "0 seconds"), right.withWatermark("r_ts", "0 seconds")
        return join(left, right)

    assert_stream_equals_batch(
        spark,
        place / "compared",
        definition,
        ("l_id long, key long, l_ts timestamp", [(1, 1, "12:00"), (2, 1, "12:01")]),
        ("r_id long, key long, r_ts timestamp", [(3, 1, "12:00")]),
        runs=1,
    )


@pytest.mark.slow
def test_what_a_command_reads(
    stream_test: StreamTest, spark: SparkSession, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    streams = Streams(stream_test)
    with streams.query(streams.join()) as query:
        streams.add([Row(1, 1, 0)], [])
        query.run()
        query.stop()
        query.checkpoint.rename(place / "checkpoint")
    for words in (["inspect"], ["why"]):
        assert cli.main([*words, str(place / "checkpoint"), "--json"]) == 0, capsys.readouterr()
    assert spark.read.format("tailrace-state").load(str(place / "checkpoint")).count() == 1


@pytest.mark.classic("the demo has a session of its own")
def test_the_demo_refuses_a_temporary_directory_that_is_a_pattern(spark: SparkSession, place: Path) -> None:
    with pytest.raises(TailraceError, match="TAILRACE_PATH_INVALID"):
        demo_query._stream(spark, place, "t timestamp", "t")
