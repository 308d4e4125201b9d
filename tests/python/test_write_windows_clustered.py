"""`cluster_by`: rows of one user and session are adjacent in each file of a window, in the order of time."""

from __future__ import annotations

import random
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import tailrace
from window_logs import SCHEMA, Logs, name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.usefixtures("stopped_queries")

_TASKS = 6
_COLUMNS = {
    "user": "CASE WHEN id % 11 = 0 THEN null ELSE concat('u', id * 7919 % 5) END",
    "`the.session`": "CAST(id * 104729 % 3 AS DOUBLE)",
}
_BY = ["user", "the.session"]


def _frame(logs: Logs) -> DataFrame:
    columns = [f"{made} AS {column}" for column, made in _COLUMNS.items()]
    return logs.waiting().selectExpr("*", *columns).repartition(_TASKS, "id")


def _land(logs: Logs, *by: str, **options: Any) -> None:  # noqa: ANN401 - as they are there
    writer = tailrace.write_windows(_frame(logs), logs.out, "at", **logs.options, **options)
    writer = writer.option("checkpointLocation", str(logs.root / "checkpoint"))
    writer.partitionBy(*by).trigger(availableNow=True).start().awaitTermination()


def _arrivals(seed: int, rounds: int) -> list[list[tuple[str, float | None]]]:
    """Rows of three windows at a time, out of order, with late ones and some without a time."""
    pick = random.Random(seed)
    found = []
    for number in range(rounds):
        seconds = [10 * number + pick.randrange(30) for _ in range(60)]
        rows: list[tuple[str, float | None]] = [(pick.choice("ab"), second) for second in seconds]
        found.append([*rows, ("a", None), ("a", 10 * number + 30), ("b", 10 * number + 30)])
    return found


def _order(row: dict[str, Any]) -> tuple[Any, ...]:
    """As Spark sorts: nulls come first."""
    columns = [*_BY, "at"]
    return tuple((row[column] is not None, row[column] or 0) for column in columns)


def _files(out: Path) -> list[list[dict[str, Any]]]:
    return [pq.ParquetFile(file).read().to_pylist() for file in sorted(out.glob("**/*.parquet"))]


def _sorted(rows: list[dict[str, Any]]) -> bool:
    return [_order(row) for row in rows] == sorted(_order(row) for row in rows)


def _adjacent(rows: list[dict[str, Any]]) -> bool:
    sessions = [key for key, _ in groupby((row.get("user"), row["the.session"]) for row in rows)]
    return len(sessions) == len(set(sessions))


def _ids(files: Iterable[list[dict[str, Any]]]) -> Counter[int]:
    return Counter(row["id"] for rows in files for row in rows)


@pytest.mark.parametrize("by", [(), ("host",), ("user",)])
def test_rows_of_a_session_are_adjacent(spark: SparkSession, tmp_path: Path, by: tuple[str, ...]) -> None:
    plain, clustered = (Logs(spark, tmp_path / kind) for kind in ("plain", "clustered"))
    sizes = []
    for arrived in _arrivals(seed=17, rounds=3):
        for logs in (plain, clustered):
            logs.add(*arrived)
        _land(plain, *by)
        before = set(clustered.out.glob("**/*.parquet"))
        _land(clustered, *by, cluster_by=_BY)
        new = set(clustered.out.glob("**/*.parquet")) - before
        sizes.append(len(new))
        # So little comes to one task, which writes one file for each directory.
        assert len(new) == len({file.parent for file in new})
    assert len(sizes) == 3
    files = _files(clustered.out)
    assert (
        _ids(files)
        == _ids(_files(plain.out))
        == Counter(range(63)) + Counter(range(1000, 1063)) + Counter(range(2000, 2063))
    )
    # Whatever the order of users: none comes back in a file.
    assert all(map(_adjacent, files))
    assert not all(map(_adjacent, _files(plain.out)))
    if by != ("user",):
        assert all(map(_sorted, files))


def test_the_order_may_change_at_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    orders: list[dict[str, Any]] = [{}, {"cluster_by": "user"}, {"cluster_by": ["the.session"]}, {}]
    for number, options in enumerate(orders):
        logs.add(*_arrivals(number, 1)[0])
        before = set(logs.out.glob("**/*.parquet"))
        _land(logs, **options)
        for file in set(logs.out.glob("**/*.parquet")) - before:
            rows = pq.ParquetFile(file).read().to_pylist()
            if column := {1: "user", 2: "the.session"}.get(number):
                found = [(row[column] is not None, row[column] or 0) for row in rows]
                assert found == sorted(found)
    assert sum(_ids(_files(logs.out)).values()) == 4 * 63


def test_a_large_window_has_several_files_and_each_user_is_in_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs = Logs(spark, tmp_path)
    rows: list[tuple[str, float | None]] = [("a", n / 10_000) for n in range(90_000)]
    for _ in range(2):
        logs.add(*rows)
    # The first micro-batch finds out how many parts the shuffle needs.
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1").parquet(str(tmp_path / "in"))
    payload = ", ".join(f"sha2(CAST({number} + id AS STRING), 512)" for number in range(3))
    columns = "at", "host", "id % 97 AS user", f"concat({payload}) AS payload"
    wide = stream.selectExpr(*columns).repartition(_TASKS, "payload")
    frame = tailrace.accurate_watermark(wide, "at", host="host", **logs.source)
    writer = tailrace.write_windows(
        frame, logs.out, "at", window="10 seconds", cluster_by=["user", "host"], target_file_size="1 MB"
    )
    writer = writer.option("checkpointLocation", str(logs.root / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    batches: dict[str, list[set[Any]]] = {}
    for file in (logs.out / name(0)).glob("*.parquet"):
        users = set(pq.ParquetFile(file).read(columns=["user"])["user"].to_pylist())
        batches.setdefault(file.name.split("-")[2], []).append(users)
    assert sorted(batches) == ["0", "1"]
    for files in batches.values():
        assert sum(map(len, files)) == len(set().union(*files)) == 97
    assert len(batches["0"]) == 4
    assert len(batches["1"]) > 8
    assert logs.rows(name(0)) == 2 * len(rows)


def test_columns_that_nothing_can_be_sorted_by_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    frame = logs.waiting().selectExpr("*", "map(host, id) AS counts", "named_struct('c', id) AS s")

    def refused(by: Any) -> tuple[str | None, str]:  # noqa: ANN401 - anything
        with pytest.raises(tailrace.TailraceWatermarkError) as error:
            tailrace.write_windows(frame, logs.out, "at", cluster_by=by)
        return error.value.condition, str(error.value)

    assert refused("nobody")[0] == "TAILRACE_COLUMN_NOT_FOUND"
    assert refused(["host", "s.c"])[0] == "TAILRACE_COLUMN_NESTED"
    condition, text = refused(["host", "counts"])
    assert condition == "TAILRACE_COLUMN_TYPE"
    assert "cluster_by" in text
    assert "orderable" in text
    assert refused([])[0] == "TAILRACE_OPTION_INVALID"
    with pytest.raises(TypeError, match="cluster_by"):
        tailrace.write_windows(frame, logs.out, "at", cluster_by=7)  # type: ignore[arg-type]
    # A struct can be sorted by, and a column twice is once.
    tailrace.write_windows(frame, logs.out, "at", cluster_by=["s", "host", "HOST"])
