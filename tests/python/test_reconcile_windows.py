"""`tailrace.reconcile` on folders of `write_windows`: complete and late windows, and the command."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tailrace
from modes import environ_of_classic
from streams import at, second
from tailrace.commands import cli

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

Rows = tuple[int, int, int]
_NAMES = ("impressions", "click")
_SCHEMA = "id long, user long, host string, at timestamp"


class Landing:
    """Files of impressions and clicks, and a query that lands their examples in windows of a minute."""

    def __init__(self, spark: SparkSession, root: Path, **options: Any) -> None:  # noqa: ANN401
        self.spark, self.root, self.options = spark, root, options
        self.out = root / "out"
        self._files = 0
        for name in _NAMES:
            (root / name).mkdir(parents=True)

    def add(self, **rows: Sequence[Rows]) -> None:
        """Adds a file for each side: an id, a user, a second."""
        for name, of in rows.items():
            table = {
                "id": pa.array([row[0] for row in of], pa.int64()),
                "user": pa.array([row[1] for row in of], pa.int64()),
                "host": pa.array(["a"] * len(of), pa.string()),
                "at": pa.array([at(row[2]) for row in of], pa.timestamp("us", "UTC")),
            }
            pq.write_table(pa.table(table), self.root / f"{self._files}.parquet")
            self._files += 1
            (self.root / f"{self._files - 1}.parquet").rename(self.root / name / f"{self._files:05}.parquet")

    def definition(self, *, streaming: bool) -> tailrace.Examples:
        def side(name: str) -> DataFrame:
            folder = str(self.root / name)
            if not streaming:
                return self.spark.read.schema(_SCHEMA).parquet(folder)
            stream = self.spark.readStream.schema(_SCHEMA).parquet(folder)
            return tailrace.accurate_watermark(
                stream, "at", host="host", hosts=["a"], completeness="100%", name=name
            )

        return tailrace.examples(
            side("impressions"), on="user", time="at", release_every="batch", **self.options
        ).label("click", side("click"), time="at", after="10 seconds")

    def land(self, **rows: Sequence[Rows]) -> None:
        """Adds files, and runs the query until it has read them."""
        self.add(**rows)
        writer = tailrace.write_windows(
            self.definition(streaming=True).stream(), self.out, "at", window="1 minute"
        )
        writer = writer.option("checkpointLocation", str(self.root / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    def reconciled(self, **asked: Any) -> tailrace.Reconciliation:  # noqa: ANN401
        return tailrace.reconcile(self.out, self.definition(streaming=False), **asked)


def _started(row: Any) -> int:  # noqa: ANN401
    return second(row.window_start.astimezone(dt.UTC))


def _users(result: tailrace.Reconciliation) -> list[tuple[Any, ...]]:
    rows = result.differences.collect()
    return sorted(((row.key.user, row.kind, row.reason) for row in rows), key=str)


@pytest.mark.contract(any_spark=True)
def test_complete_windows_of_a_stream_are_equal_and_others_are_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    landing = Landing(spark, tmp_path, on_late="mark")
    # No window is complete.
    landing.land(impressions=[(1, 7, 0), (2, 8, 30)], click=[(1, 7, 5), (2, 9, 30)])
    before = landing.reconciled()
    assert [(_started(r), r.status) for r in before.windows.collect()] == [(0, "open")]
    assert not before.equal
    # The windows of 0 and of 60 are complete; 120 has no rows, 180 is open.
    landing.land(impressions=[(3, 7, 61), (4, 8, 200)], click=[(3, 7, 65), (4, 8, 200)])
    result = landing.reconciled()
    windows = result.windows.collect()
    told = [(_started(r), r.status, r.landed_rows, r.batch_rows, r.missing) for r in windows]
    assert told == [
        (0, "compared", 2, 2, 0),
        (60, "compared", 1, 1, 0),
        (120, "compared", 0, 0, 0),
        (180, "open", 0, 1, None),
    ]
    assert result.equal
    reports = tailrace.window_report(spark, landing.out).collect()
    for row, report in zip(windows, reports, strict=False):
        names = ("rows", "expected", "passed", "completeness", "low_watermark", "closed_at", "late_rows")
        assert [row.report[name] for name in names] == [report[name] for name in names]
    assert windows[-1].report is None
    rates = [(_started(r), r.landed_rate, r.batch_rate) for r in result.summary.collect()]
    assert rates == [(0, 0.5, 0.5), (60, 1.0, 1.0), (120, None, None), (180, None, 0.0 + 1.0)]

    # Late: an impression of a complete window, and one of an open one; clicks of emitted impressions.
    landing.land(impressions=[(5, 6, 1), (6, 5, 183)], click=[(5, 8, 33), (6, 7, 66)])
    late = landing.reconciled()
    assert _users(late) == [
        (6, "missing", "late_left"),
        (7, "differing", "late_right"),
        (8, "differing", "late_right"),
    ]
    assert late.explained
    assert not late.equal
    assert [r.report and r.report.late_rows for r in late.windows.collect()] == [1, 0, 0, None]
    late.write_parquet(tmp_path / "report")
    for name in ("windows", "summary", "differences"):
        frame: DataFrame = getattr(late, name)
        written = spark.read.parquet(str(tmp_path / "report" / name))
        assert written.columns == frame.columns
        assert sorted(map(str, written.collect())) == sorted(map(str, frame.collect()))


def test_a_row_that_was_landed_late_without_a_mark(spark: SparkSession, tmp_path: Path) -> None:
    landing = Landing(spark, tmp_path)
    landing.land(impressions=[(1, 7, 0), (2, 8, 1)], click=[(1, 7, 5)])
    landing.land(impressions=[(3, 7, 200)], click=[(3, 7, 200)])
    # As if the rows of the window had come after it was complete.
    (folder,) = landing.out.glob("window_start=20260101T120000Z")
    late = landing.out / "_late" / folder.name
    late.mkdir(parents=True)
    for file in folder.glob("*.parquet"):
        file.rename(late / file.name)
    assert _users(landing.reconciled()) == [(7, "missing", "late"), (8, "missing", "late")]
    landing.add(click=[(2, 8, 4)])
    assert _users(landing.reconciled()) == [(7, "missing", "late"), (8, "missing", None)]


@pytest.mark.parametrize(
    ("lost", "landed"),
    [("20260101T120100Z", [1, 0]), ("20260101T120100Z/_SUCCESS", [1, 1]), ("20260101T120000Z", [0, 1])],
)
def test_windows_that_somebody_has_deleted(
    spark: SparkSession, tmp_path: Path, lost: str, landed: list[int]
) -> None:
    landing = Landing(spark, tmp_path)
    landing.land(impressions=[(1, 7, 0), (2, 8, 61)], click=[(1, 7, 5)])
    landing.land(impressions=[(3, 7, 200)], click=[(3, 7, 200)])
    path = landing.out / f"window_start={lost}"
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    # The folder knows the windows that it has closed last, and the user where it begins.
    result = landing.reconciled(since=at(0))
    told = [(_started(r), r.status, r.landed_rows) for r in result.windows.collect()]
    assert told[:2] == [(0, "compared", landed[0]), (60, "compared", landed[1])]
    assert result.totals.missing == landed.count(0)
    assert result.equal == (0 not in landed)


def test_a_folder_that_is_not_there_and_windows_of_a_day(spark: SparkSession, tmp_path: Path) -> None:
    landing = Landing(spark, tmp_path)
    landing.land(impressions=[(1, 7, 0)], click=[(1, 7, 5)])
    with pytest.raises(tailrace.TailraceWatermarkError, match="TAILRACE_WINDOWS_NOT_FOUND"):
        tailrace.reconcile(tmp_path / "nowhere", landing.definition(streaming=False))
    landing.land(impressions=[(3, 7, 600)], click=[(3, 7, 600)])
    told = landing.reconciled(window="5 minutes").windows.collect()
    assert [(_started(r), r.status, r.report) for r in told] == [
        (0, "compared", None),
        (600, "open", None),
    ]


_PIPELINE = """
import tailrace
from pyspark.sql import SparkSession

def side(spark, name):
    return spark.read.parquet(f"ROOT/{name}")

def definition(spark):
    made = tailrace.examples(side(spark, "impressions"), on="user", time="at", on_late="mark")
    return made.label("click", side(spark, "click"), time="at", after="10 seconds")

def answer(spark):
    return definition(spark).batch()

shared = definition(SparkSession.builder.getOrCreate())
"""


def _command(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "tailrace", "reconcile", str(root / "out"), *arguments]
    return subprocess.run(
        line, env=environ_of_classic(), cwd=root, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.slow
@pytest.mark.classic("the command starts a session of its own")
def test_the_command_tells_a_scheduler_what_differs(spark: SparkSession, tmp_path: Path) -> None:
    landing = Landing(spark, tmp_path, on_late="mark")
    landing.land(impressions=[(1, 7, 0), (2, 8, 30)], click=[(1, 7, 5), (2, 9, 30)])
    landing.land(impressions=[(4, 8, 200)], click=[(4, 8, 200)])
    landing.land(click=[(5, 8, 33)])
    (tmp_path / "pipeline.py").write_text(_PIPELINE.replace("ROOT", str(tmp_path)))
    known = _command(
        tmp_path, "pipeline.py:definition", "--json", "--html", "page.html", "--parquet", "report"
    )
    assert known.returncode == 0, known.stderr
    told = json.loads(known.stdout)
    assert (told["equal"], told["explained"], told["totals"]["windows"]) == (False, True, 3)
    assert told["totals"]["reasons"] == [{"kind": "differing", "reason": "late_right", "rows": 1}]
    assert "late_right" in (tmp_path / "page.html").read_text()
    assert spark.read.parquet(str(tmp_path / "report/differences")).count() == 1
    assert spark.read.parquet(str(tmp_path / "report/summary")).count() == 4
    assert spark.read.parquet(str(tmp_path / "report/windows")).where("status = 'open'").count() == 1

    # With another table of clicks, an order is missing that nothing explains.
    landing.add(click=[(9, 7, 6)])
    unknown = _command(tmp_path, "pipeline:answer", "--keys", "user,at", "--time", "at", "--labels", "click")
    assert unknown.returncode == 1, unknown.stderr
    assert "2 differences" in unknown.stdout
    assert "1 of them unexplained" in unknown.stdout
    other = _command(tmp_path, "pipeline:side")
    assert other.returncode == 1
    assert "side of pipeline can't be called with the Spark session alone" in other.stderr
    replaced = _command(
        tmp_path,
        "pipeline:shared",
        "--table",
        f"impressions={tmp_path}/impressions",
        "--until",
        "2026-01-01 11:00",
    )
    assert replaced.returncode == 1
    assert "No window was compared" in replaced.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["out"], "DEFINITION"),
        (["out", "pipeline"], "pipeline isn't FILE.py:NAME or MODULE:NAME"),
        (["out", "nowhere.py:definition"], "there is no file nowhere.py"),
        (["out", "pipeline:definition", "--table", "click"], "click isn't NAME=PATH"),
        (["out", "pipeline:definition", "--keys", "a,,b"], "isn't a list of names"),
        (["out", "pipeline:definition", "--format", "csv"], "invalid choice"),
    ],
)
def test_arguments_that_make_no_sense(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["reconcile", *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
