"""`tailrace.testing`: crashes by kill -9 of a process that has the pipeline."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from served_clicks import CLICKED, SERVED
from tailrace.testing import crash_at_every_step, kills
from test_testing_proofs import _FEEDS, appended, lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_ROWS = [([(7,), (8,)],), ([(9,)],)]


def remembering() -> Callable[..., DataStreamWriter]:
    """A pipeline whose sink remembers in memory which batches it has: that is lost with the process."""
    taken: set[tuple[str, int]] = set()

    def pipeline(root: Path, rows: DataFrame) -> DataStreamWriter:
        def take(batch: DataFrame, number: int) -> None:
            if (str(root), number) in taken:
                return
            taken.add((str(root), number))
            out = root / "out"
            out.mkdir(exist_ok=True)
            with (out / "all.json").open("a") as file:
                file.writelines(f"{row.user}\n" for row in batch.collect())

        return rows.writeStream.foreachBatch(take)

    return pipeline


@pytest.mark.campaign
def test_a_sink_by_batch_is_proven(spark: SparkSession, tmp_path: Path) -> None:
    steps = crash_at_every_step(
        spark, tmp_path, appended(by_batch=True), [SERVED, CLICKED], _FEEDS, lines, most=2, by="kill"
    )
    assert len(steps) == 2
    assert all(step.startswith("create commits/") for step in steps)


@pytest.mark.campaign
def test_what_a_sink_remembers_is_lost_with_its_process(spark: SparkSession, tmp_path: Path) -> None:
    def check(**options: Any) -> list[str]:  # noqa: ANN401
        return crash_at_every_step(
            spark, tmp_path, remembering(), ["user int"], _ROWS, lines, most=2, **options
        )

    assert check()[0].startswith("create commits/")
    with pytest.raises(AssertionError, match=r"rows are too many after a kill -9 at step .*create commits/"):
        check(by="kill")


@pytest.mark.campaign
def test_a_pipeline_that_fails_by_itself_says_why(spark: SparkSession, tmp_path: Path) -> None:
    def pipeline(_: Path, rows: DataFrame) -> DataStreamWriter:
        return rows.selectExpr("raise_error('broken by itself')").writeStream.format("noop")

    with pytest.raises(RuntimeError, match=r"(?s)the process of the pipeline has failed.*broken by itself"):
        crash_at_every_step(spark, tmp_path, pipeline, ["user int"], _ROWS, lines, by="kill")


def test_a_pipeline_that_hangs_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kills, "_LONGEST_SECONDS", 0)
    with pytest.raises(TimeoutError, match=r"the process of the pipeline isn't at its end after 0 seconds"):
        crash_at_every_step(spark, tmp_path, remembering(), ["user int"], _ROWS, lines, by="kill")


def test_what_cannot_be_sent_is_refused_with_a_cure(spark: SparkSession, tmp_path: Path) -> None:
    lock = threading.Lock()

    def pipeline(_: Path, rows: DataFrame) -> DataStreamWriter:
        with lock:
            return rows.writeStream.format("noop")

    def of_the_session(_: Path, rows: DataFrame) -> DataStreamWriter:
        return rows.join(spark.range(3), "id").writeStream.format("noop")

    for one in (pipeline, of_the_session):
        with pytest.raises(ValueError, match=r"can't be sent to another process .*`clicks.sparkSession`"):
            crash_at_every_step(spark, tmp_path, one, ["user int"], _ROWS, lines, by="kill")


def test_another_way_to_crash(spark: SparkSession, tmp_path: Path) -> None:
    wrong: Any = "fire"
    with pytest.raises(ValueError, match="`by` is 'fault' or 'kill', and not 'fire'"):
        crash_at_every_step(spark, tmp_path, remembering(), ["user int"], _ROWS, lines, by=wrong)
