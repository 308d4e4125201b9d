"""`tailrace state export` and `import`, and `tailrace.import_state`: state as Parquet, and back."""

from __future__ import annotations

import dataclasses
import datetime as dt
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from kept_batches import KeptBatches
from streams import Row, Streams, at, groups, join
from tailrace.errors import TailraceStateError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tailrace.testing import StreamTest

    RunPython = Callable[..., subprocess.CompletedProcess[str]]

LEFT = [Row(i, i % 4, i) for i in range(12)]
RIGHT = [Row(100 + i, i % 4, i + 1) for i in range(12)]
END = ([Row(900, 9, 1000)], [Row(901, 9, 1000)])


@pytest.mark.campaign
def test_the_commands_between_two_starts(
    spark: SparkSession, stream_test: StreamTest, run_python: RunPython, tmp_path: Path
) -> None:
    streams = Streams(stream_test)
    with streams.query(streams.join()) as query:
        streams.add(LEFT, RIGHT)
        query.run()
        query.stop()
        exported, moved = tmp_path / "export", tmp_path / "moved"
        done = run_python("-m", "tailrace", "state", "export", str(query.checkpoint), "--to", str(exported))
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[:2] == [
            "operator-0/left              12 rows",
            "operator-0/right             12 rows",
        ]
        rows = spark.read.parquet(str(exported / "operator-0" / "left"))
        assert sorted(row.l_id for row in rows.collect()) == list(range(12))
        done = run_python("-m", "tailrace", "state", "import", str(moved), "--from", str(exported))
        assert done.returncode == 0, done.stderr
        assert "has 12 left and 12 right rows. The query resumes after batch " in done.stdout
        query.checkpoint.rename(tmp_path / "old")
        moved.rename(query.checkpoint)
        query.restart()
        streams.add(*END)
        query.run()
        assert groups(query.rows()) == [
            (r.id, [m.id for m in RIGHT if m.key == r.key and m.second >= r.second]) for r in LEFT
        ]


@pytest.mark.contract
def test_a_query_begins_with_rows_of_tables(stream_test: StreamTest, tmp_path: Path) -> None:
    streams = Streams(stream_test)
    result = streams.join()
    left, right = streams.batch_frames(LEFT, RIGHT[:6])
    with streams.query(result) as query:
        query.stop()
        made = tmp_path / "made"
        done = tailrace.import_state(result, made, left=left, right=right, watermark=at(4))
        assert (done.batch, done.left, done.right) == (0, 12, 6)
        query.checkpoint.rename(tmp_path / "empty")
        made.rename(query.checkpoint)
        query.restart()
        # The last one is behind the watermark of the import, and its left rows wait.
        late = Row(300, 1, 3)
        streams.add([], [*RIGHT[6:], late])
        query.run()
        streams.add(*END)
        query.run()
        labels = sorted([*RIGHT, late], key=lambda row: row.second)
        expected = [(r.id, [m.id for m in labels if m.key == r.key and m.second >= r.second]) for r in LEFT]
        assert groups(query.rows()) == expected


def _files(directory: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in directory.rglob("*") if file.is_file()}


@pytest.mark.long
def test_files_that_have_come_since_the_export_are_read(spark: SparkSession, tmp_path: Path) -> None:
    schema = "key int, ts timestamp, n int"

    def add(second: int, n: int) -> None:
        for side in "lr":
            rows = spark.createDataFrame([(n, at(second), n)], schema)
            rows.coalesce(1).write.mode("append").parquet(str(tmp_path / side))

    def joined() -> DataFrame:
        left, right = (
            spark.readStream.schema(schema).parquet(str(tmp_path / side)).withWatermark("ts", "1 minute")
            for side in "lr"
        )
        return tailrace.join(left, right, on="key", left_time="ts", right_time="ts", after="30 minutes")

    def run(checkpoint: str) -> list[tuple[int, int]]:
        kept = KeptBatches(tmp_path / "kept")
        rows = joined().writeStream.foreachBatch(kept).trigger(availableNow=True)
        rows.option("checkpointLocation", str(tmp_path / checkpoint)).start().awaitTermination()
        return sorted((row["n"], len(row["labels"])) for row in kept.rows())

    export = tmp_path / "export"
    add(0, 1)
    assert run("before") == []
    tailrace.export_state(spark, tmp_path / "before", export)
    add(600, 2)
    tailrace.import_state(spark, tmp_path / "same", export=export)
    tailrace.import_state(joined(), tmp_path / "moved", export=export)
    add(6000, 3)
    for checkpoint in ("same", "moved"):
        assert run(checkpoint) == [(1, 1), (2, 1)]
    shutil.rmtree(export / "sources")
    with pytest.raises(TailraceStateError, match=r"EXCHANGE_INCOMPLETE.*sources/"):
        tailrace.import_state(spark, tmp_path / "none", export=export)


@pytest.mark.contract(any_spark=True)
def test_a_dry_run_says_what_would_be_written_and_writes_nothing(
    spark: SparkSession, stream_test: StreamTest, tmp_path: Path
) -> None:
    streams = Streams(stream_test)
    result = streams.join()
    left, right = streams.batch_frames(LEFT, RIGHT[:6])
    with streams.query(result) as query:
        streams.add(LEFT, RIGHT)
        query.run()
    export, new = tmp_path / "export", tmp_path / "new"
    before = _files(tmp_path)
    planned = tailrace.export_state(spark, query.checkpoint, export, dry_run=True)
    assert planned.dry_run
    assert planned.joins[0].rows == {"left": 12, "right": 12}
    imported = tailrace.import_state(result, new, left=left, right=right, dry_run=True)
    assert (imported.dry_run, imported.left, imported.right) == (True, 12, 6)
    assert not export.exists()
    assert _files(tmp_path) == before
    done = tailrace.export_state(spark, query.checkpoint, export)
    assert planned == dataclasses.replace(done, dry_run=True)
    before = _files(tmp_path)
    imported = tailrace.import_state(spark, new, export=export, dry_run=True)
    assert (imported.left, imported.right, imported.batch) == (12, 12, done.batch)
    assert _files(tmp_path) == before
    # What would be refused is refused.
    with pytest.raises(TailraceStateError, match="TAILRACE_STATE_EXCHANGE_EXISTS"):
        tailrace.export_state(spark, query.checkpoint, export, dry_run=True)
    with pytest.raises(TailraceStateError, match="TAILRACE_STATE_EXCHANGE_COLUMNS"):
        tailrace.import_state(result, new, left=right, right=left, dry_run=True)


def test_structs_with_fields_in_another_order_are_refused(stream_test: StreamTest, tmp_path: Path) -> None:
    """Spark casts them by the places of the fields: each would have the other's values."""
    streams = Streams(stream_test)
    known, other = (
        "map('m', array(named_struct('a', 5, 'b', 6)))",
        "map('m', array(named_struct('b', 6, 'a', 5)))",
    )
    result = join(streams.frame("left").selectExpr("*", f"{known} AS context"), streams.frame("right"))
    left, right = streams.batch_frames(LEFT, RIGHT)

    def imported(context: str) -> int:
        rows = left.selectExpr("*", f"{context} AS context")
        return tailrace.import_state(result, tmp_path / "new", left=rows, right=right, dry_run=True).left

    assert imported(known) == 12
    with pytest.raises(TailraceStateError, match=r"TAILRACE_STATE_EXCHANGE_COLUMNS.* context MAP"):
        imported(other)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"export": "export", "offsets": ["0"]},
        {"export": "export", "watermark": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)},
    ],
)
def test_a_session_takes_an_export_alone(spark: SparkSession, tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="export"):
        tailrace.import_state(spark, tmp_path / "new", **wrong)


@pytest.mark.slow
def test_columns_whose_parts_are_never_null(
    spark: SparkSession, stream_test: StreamTest, tmp_path: Path
) -> None:
    streams = Streams(stream_test)
    left, right = (
        streams.frame(side).selectExpr("*", f"named_struct('a', 5, 'b', array(1)) as {side[0]}_s")
        for side in ("left", "right")
    )
    result = join(left, right)
    with streams.query(result) as query:
        streams.add(LEFT[:2], RIGHT[:2])
        query.run()
    tailrace.export_state(spark, query.checkpoint, tmp_path / "export")
    tailrace.import_state(spark, tmp_path / "moved", export=tmp_path / "export")
    streams.add(*END)
    with streams.query(result, "moved") as moved:
        moved.run()
        told = moved.rows("l_id", "l_s.a", "l_s.b[0]", "labels.r_s.a", "labels[0].r_s.b")
        assert sorted(told) == [(0, 5, 1, [5], [1]), (1, 5, 1, [5], [1])]


def test_logs_of_a_checkpoint_that_are_cut_off(spark: SparkSession, tmp_path: Path) -> None:
    for log in ("commits", "offsets"):
        (tmp_path / log).mkdir()
        (tmp_path / log / "0").write_text('v1\n{"batchWatermarkMs": 0, "conf": {"spark.sql.')
    with pytest.raises(
        TailraceStateError, match=r"TAILRACE_STATE_FILE_CORRUPT.*/0 is damaged: it isn't JSON"
    ):
        tailrace.export_state(spark, tmp_path, tmp_path / "export")


@pytest.mark.contract
def test_what_is_no_export(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TailraceStateError, match="TAILRACE_STATE_EXCHANGE_NO_EXPORT"):
        tailrace.import_state(spark, tmp_path / "new", export=tmp_path)
    with pytest.raises(TailraceStateError, match="TAILRACE_CHECKPOINT_NOT_FOUND"):
        tailrace.export_state(spark, tmp_path, tmp_path / "export")
