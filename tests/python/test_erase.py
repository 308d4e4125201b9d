"""`tailrace state erase` and `tailrace.erase`: rows that leave the state of a stopped query."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from streams import Row, Streams, groups
from tailrace.commands import cli, local_session
from tailrace.errors import TailraceError, TailraceStateError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tailrace.testing import StreamTest

    RunPython = Callable[..., subprocess.CompletedProcess[str]]

LEFT = [Row(i, i % 4, i, "of a person" if i % 4 == 1 else "") for i in range(12)]
RIGHT = [Row(100 + i, i % 4, i + 1) for i in range(12)]
END = ([Row(900, 9, 1000)], [Row(901, 9, 1000)])


def _bytes(checkpoint: Path, text: str) -> int:
    files = [file for file in checkpoint.rglob("*") if file.is_file()]
    return sum(text.encode() in file.read_bytes() for file in files)


@pytest.mark.campaign
def test_the_command_between_two_starts(
    spark: SparkSession, stream_test: StreamTest, run_python: RunPython, tmp_path: Path
) -> None:
    streams = Streams(stream_test)
    with streams.query(streams.join()) as query:
        streams.add(LEFT, RIGHT)
        query.run()
        with pytest.raises(TailraceStateError, match="TAILRACE_STATE_IN_USE"):
            tailrace.erase(spark, query.checkpoint, "key = 1")
        query.stop()
        assert _bytes(query.checkpoint, "of a person") > 0
        planned = tailrace.erase(spark, query.checkpoint, "key = 1", dry_run=True)
        assert planned.dry_run
        assert [(s.side, s.applies, s.erased) for s in planned.sides] == [
            ("left", True, 3),
            ("right", True, 3),
        ]
        assert _bytes(query.checkpoint, "of a person") > 0
        spark.createDataFrame([(1,), (3,)], "key long").write.parquet(str(tmp_path / "subjects"))
        done = run_python(
            "-m",
            "tailrace",
            "state",
            "erase",
            str(query.checkpoint),
            "--subjects",
            str(tmp_path / "subjects"),
        )
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert lines[0] == "operator 0, tailraceLabelJoin, left               6 rows erased"
        assert lines[1] == "operator 0, tailraceLabelJoin, right              6 rows erased"
        assert "12 rows are left" in lines[2]
        assert "  the query's sources and its sink" in lines
        assert _bytes(query.checkpoint, "of a person") == 0
        assert len(query.state()) == 12
        query.restart()
        streams.add(*END)
        query.run()
        assert [row[0] for row in groups(query.rows())] == [i for i in range(12) if i % 2 == 0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"where": 7},
        {"where": "key = 1", "subjects": "subjects.parquet"},
        {"where": "key = 1", "dry_run": "yes"},
        {"where": "key = 1", "only_tailrace": 1},
        {"where": "key = 1", "operators": ["0"]},
    ],
)
def test_arguments_of_other_types(spark: SparkSession, tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        tailrace.erase(spark, tmp_path, **wrong)


@pytest.mark.contract
def test_rows_that_nobody_has_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TailraceStateError, match="TAILRACE_CHECKPOINT_NOT_FOUND"):
        tailrace.erase(spark, tmp_path, "key = 1")


@pytest.mark.classic("a command has a local session of its own, whose tasks its bar follows")
def test_a_table_that_spark_refuses_is_told_in_a_line(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local_session, "local_session", lambda *_: nullcontext(spark))
    missing = str(tmp_path / "missing.parquet")
    assert cli.main(["state", "erase", str(tmp_path), "--subjects", missing]) == 1
    told = capsys.readouterr().err
    assert told.startswith("tailrace: [PATH_NOT_FOUND]")
    assert "Traceback" not in told


def test_what_touches_and_events_of_a_label_do_not_have_is_refused(
    spark: SparkSession, stream_test: StreamTest
) -> None:
    """The examples are kept by user. The events of item 5 would have stayed, and touches of impressions."""
    columns = "id long, user long, item long, at timestamp"
    served, clicks = (stream_test.source(columns) for _ in range(2))
    frames = [source.frame.withWatermark("at", "10 seconds") for source in (served, clicks)]
    made = tailrace.examples(frames[0], on=["user", "item"], time="at")
    made = made.label("seen", frames[1], time="at", after="30 seconds", attribution=tailrace.last_touch())
    made = made.label("click", frames[1], on="user", time="at", after="30 seconds")
    with stream_test.query(made.stream()) as query:
        served.add((1, 7, 5, "12:00"), (2, 7, 6, "12:00"), (3, 8, 5, "12:00"))
        clicks.add((4, 7, 5, "12:00:01"))
        query.run()
        query.stop()
        subjects = spark.createDataFrame([(5,)], "item long")
        for given in ({"where": "item = 5"}, {"where": "user = 7 OR item = 5"}, {"subjects": subjects}):
            with pytest.raises(TailraceError, match=r"key of label 'seen'.*Erase by user") as refused:
                tailrace.erase(spark, query.checkpoint, **given)
            assert refused.value.condition == "TAILRACE_STATE_ERASE_LABEL_KEY"
        for where in ("id = 1", "left.item = 5", "user = 7 AND id = 1"):
            with pytest.raises(TailraceError, match=r"Label 'seen' has an attr") as refused:
                tailrace.erase(spark, query.checkpoint, where)
            assert refused.value.condition == "TAILRACE_STATE_ERASE_TOUCHES"
        done = tailrace.erase(spark, query.checkpoint, "user = 7")
        # Each impression has a touch.
        assert [(s.side, s.erased) for s in done.sides] == [("left", 2), ("right", 3)]
