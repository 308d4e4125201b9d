"""`write_windows` into tables of a library. `test_write_table.py` runs this file in a process for each."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

import tailrace
from lakes import LAKE, table
from window_logs import NOON, SCHEMA, Logs, name

if TYPE_CHECKING:
    import datetime as dt

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.usefixtures("stopped_queries")
FORMAT: Any = LAKE
_NUMBERS = itertools.count()
# A window that closes with rows of two micro-batches, late rows, windows without rows, one that stays open.
ARRIVALS: list[list[tuple[str, float | None]]] = [
    [("a", 1), ("b", 2), ("a", 15)],
    [("b", 9), ("b", 16), ("a", 17)],
    [("a", 60), ("b", 61), ("a", 3), ("b", None)],
    [("a", 4), ("a", 65)],
]


class TableLogs(Logs):
    """Logs whose complete windows go to a table."""

    def __init__(self, spark: SparkSession, root: Path, **options: Any) -> None:  # noqa: ANN401 - as they are there
        self.table: Any = options.pop("table", None) or table(f"w{next(_NUMBERS)}")
        super().__init__(spark, root, format=FORMAT, table=self.table, **options)

    def written(self) -> DataFrame:
        # Iceberg's catalog keeps what the session has read.
        self.spark.catalog.refreshTable(self.table)
        return self.spark.table(self.table)

    def ids(self) -> list[tuple[dt.datetime, int]]:
        return sorted((row.window_start, row.id) for row in self.written().collect())

    def documents(self) -> list[dict[str, Any]]:
        """The reports in the table's commits, as a user of the library reads them; the oldest first."""
        if LAKE == "delta":
            history = self.spark.sql(f"DESCRIBE HISTORY {self.table}").orderBy("version")
            texts = [row.userMetadata for row in history.collect()]
        else:
            self.spark.catalog.refreshTable(self.table)
            snapshots = self.spark.table(f"{self.table}.snapshots").orderBy("committed_at")
            texts = [row.summary.get("tailrace.document") for row in snapshots.collect()]
        return [json.loads(text) for text in texts if text]


def _reports(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


def test_the_table_has_the_windows_of_the_folder_form(spark: SparkSession, tmp_path: Path) -> None:
    folder = Logs(spark, tmp_path / "folder")
    lake = TableLogs(spark, tmp_path / "lake")
    for number, arrived in enumerate(ARRIVALS):
        expected = folder.land(*arrived)
        assert lake.land(*arrived) == expected
        if number == 0:
            assert lake.ids() == []
            assert lake.rows(name(0)) == 2
    rows = spark.read.parquet(str(folder.out))
    closed = [second for second in range(0, 60, 10) if folder.marker(second)]
    assert closed == [0, 10, 20, 30, 40, 50]
    starts = [name(second).partition("=")[2] for second in closed]
    on_time = rows.where(rows.window_start.isin(starts)).collect()
    assert sorted(id_ for _, id_ in lake.ids()) == sorted(row.id for row in on_time)
    assert [id_ for _, id_ in lake.ids()] == [0, 1, 1000, 2, 1001, 1002]
    assert lake.written().columns == [*rows.columns[:-1], "window_start"]
    assert {at.timestamp() - NOON.timestamp() for at, _ in lake.ids()} == {0, 10}
    assert sorted(map(str, lake.written().drop("window_start").collect())) == sorted(
        str(row) for row in spark.createDataFrame(on_time, rows.schema).drop("window_start").collect()
    )
    # One commit for each window, with those that have no rows.
    documents = lake.documents()
    assert [d["rows"] for d in documents] == [3, 3, 0, 0, 0, 0]
    for second, document in zip(closed, documents, strict=True):
        assert sorted(p.name for p in (lake.out / name(second)).glob("[!.]*")) == ["_SUCCESS"]
        place = document.pop("folder")
        assert place == lake.out.as_uri().replace("file:///", "file:/")
        assert document == lake.marker(second)
        other = folder.marker(second)
        assert other is not None
        assert {**document, "closed_at": None} == {**other, "closed_at": None}
    for aside in (f"_late/{name(0)}", "_untimed", name(60)):
        assert lake.rows(aside) == folder.rows(aside) > 0


def test_the_report_of_the_table_is_that_of_the_folder(spark: SparkSession, tmp_path: Path) -> None:
    lake = TableLogs(spark, tmp_path)
    for rows in ARRIVALS:
        lake.land(*rows)
    of_folder = _reports(tailrace.window_report(spark, lake.out))
    of_table = tailrace.window_report(spark, lake.table, format=FORMAT)
    assert _reports(of_table) == of_folder
    assert [report["late_rows"] for report in of_folder] == [2, 0, 0, 0, 0, 0]
    # All counts of late rows are known in a folder, and its column isn't nullable.
    assert of_table.dtypes == tailrace.window_report(spark, lake.out).dtypes
    # Without the folder nobody knows of late rows.
    lake.out.rename(tmp_path / "moved")
    moved = _reports(tailrace.window_report(spark, lake.table, format=FORMAT))
    assert moved == [{**report, "late_rows": None} for report in of_folder]
    with pytest.raises(tailrace.TailraceWatermarkError, match="TAILRACE_WINDOWS_NOT_FOUND"):
        tailrace.window_report(spark, table("nobody"), format=FORMAT)


def test_a_batch_that_runs_again_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    lake = TableLogs(spark, tmp_path)
    for rows in ARRIVALS:
        lake.land(*rows)
        before = lake.ids(), lake.documents()
        lake.land_again()
        assert (lake.ids(), lake.documents()) == before
    assert len(before[0]) == 6


def test_a_kill_after_the_commit_of_the_table(spark: SparkSession, tmp_path: Path) -> None:
    lake = TableLogs(spark, tmp_path)
    for rows in ARRIVALS[:1]:
        lake.land(*rows)
    staged = shutil.copytree(lake.out / name(0), tmp_path / "staged")
    lake.land(("a", 11), ("b", 12))
    before = lake.ids(), lake.documents()
    assert [id_ for _, id_ in before[0]] == [0, 1]
    # As it was: the window is in the table, its files are there, and it has no mark. The batch isn't over.
    shutil.rmtree(lake.out / name(0))
    staged.rename(lake.out / name(0))
    lake.land_again()
    assert (lake.ids(), lake.documents()) == before
    assert lake.marker(0) is not None
    assert lake.rows(name(0)) == 0
    lake.land(("a", 21), ("b", 22))
    assert [id_ for _, id_ in lake.ids()] == [0, 1, 2, 1000, 1001]


def test_a_kill_between_the_closing_and_the_commit_and_files_that_are_gone(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = TableLogs(spark, tmp_path)
    lake.land(("a", 1), ("b", 2))
    (part,) = (lake.out / name(0)).glob("*.parquet")
    part.rename(tmp_path / part.name)
    for _ in range(2):
        # At first the query ends, and then it doesn't start: the window has closed.
        with pytest.raises(Exception, match="TAILRACE_WINDOWS_ROWS_MISSING"):
            lake.land(("a", 11), ("b", 12))
        assert lake.ids() == []
        assert lake.marker(0) is None
    (tmp_path / part.name).rename(part)
    lake.land()
    assert [id_ for _, id_ in lake.ids()] == [0, 1]
    assert [d["rows"] for d in lake.documents()] == [2]


def test_a_copy_of_checkpoint_and_folder_is_found_out(spark: SparkSession, tmp_path: Path) -> None:
    lake = TableLogs(spark, tmp_path / "one")
    lake.land(("a", 1), ("b", 2))
    shutil.copytree(tmp_path / "one", tmp_path / "two", ignore=shutil.ignore_patterns("in"))
    copy = TableLogs(spark, tmp_path / "two_logs", table=lake.table)
    copy.root = tmp_path / "one"
    lake.land(("a", 11), ("b", 12))
    # The same stream, with the copies of folder and checkpoint.
    copy.out = tmp_path / "two" / "out"
    writer = tailrace.write_windows(copy.waiting(), copy.out, "at", **copy.options)
    writer = writer.option("checkpointLocation", str(tmp_path / "two" / "checkpoint"))
    with pytest.raises(StreamingQueryException) as ended:
        writer.trigger(availableNow=True).start().awaitTermination()
    assert isinstance(ended.value, tailrace.TailraceWatermarkError)
    assert ended.value.condition == "TAILRACE_WINDOWS_TWO_WRITERS"
    assert [id_ for _, id_ in lake.ids()] == [0, 1]


def test_two_queries_write_one_table(spark: SparkSession, tmp_path: Path) -> None:
    one = TableLogs(spark, tmp_path / "one")
    other = TableLogs(spark, tmp_path / "other", table=one.table)
    for logs in (one, other):
        for rows in ARRIVALS:
            logs.land(*rows)
            logs.land_again()
    assert sorted(id_ for _, id_ in one.ids()) == sorted(2 * [0, 1, 2, 1000, 1001, 1002])
    reports = _reports(tailrace.window_report(spark, one.table, format=FORMAT))
    assert [report["rows"] for report in reports] == [3, 3, 3, 3, *[0] * 8]
    # Each query's late rows are counted with its own windows.
    assert [report["late_rows"] for report in reports] == [2, 2, *[0] * 10]


def test_rows_of_a_window_that_columns_were_added_in(spark: SparkSession, tmp_path: Path) -> None:
    lake = TableLogs(spark, tmp_path, target_file_size="1 MB")

    def run(**more: str) -> None:
        frame = lake.waiting().selectExpr("*", "id * 2 AS twice")
        writer = tailrace.write_windows(frame, lake.out, "at", **lake.options)
        writer = writer.options(checkpointLocation=str(tmp_path / "checkpoint"), **more)
        writer.trigger(availableNow=True).start().awaitTermination()

    lake.land(("a", 1), ("b", 2))
    lake.add(("a", 3))
    with pytest.raises(tailrace.TailraceTableError, match="TAILRACE_TABLE_COLUMNS"):
        run()
    run(mergeSchema="true")
    # And a column fewer again.
    lake.land(("a", 13), ("b", 14))
    found = sorted((row.id, row.twice) for row in lake.written().collect())
    assert found == [(0, None), (1, None), (1000, 2000)]


def test_columns_that_the_table_computes(spark: SparkSession, tmp_path: Path) -> None:
    if LAKE != "delta":
        pytest.skip("Iceberg computes no columns")
    lake = TableLogs(spark, tmp_path)
    made = f"CREATE TABLE {lake.table} (host STRING, at TIMESTAMP, id BIGINT, window_start TIMESTAMP"
    spark.sql(f"{made}, day DATE GENERATED ALWAYS AS (CAST(at AS DATE))) USING delta")
    for rows in ARRIVALS:
        lake.land(*rows)
    assert lake.written().where("day = CAST(at AS DATE)").count() == len(lake.ids()) == 6


def test_late_rows_that_a_user_adds(spark: SparkSession, tmp_path: Path) -> None:
    lake = TableLogs(spark, tmp_path)
    for rows in ARRIVALS:
        lake.land(*rows)
    # The guide's line.
    late = spark.read.parquet(f"{lake.out}/_late/*")
    late.writeTo(lake.table).append()
    assert sorted(second for second, _ in _seconds(lake)) == [0, 0, 0, 0, 0, 10, 10, 10]
    # The query goes on.
    lake.land(("a", 71), ("b", 72))
    assert len(lake.ids()) == 8 + 3


def _seconds(lake: TableLogs) -> list[tuple[float, int]]:
    return [(at.timestamp() - NOON.timestamp(), id_) for at, id_ in lake.ids()]


@pytest.mark.parametrize(
    "named",
    # A catalog of Iceberg's has namespaces in namespaces.
    ["a'b", "a`b", "db.`", "db..x", "nobody.db.x", *(["a.b.c.d", "/a`b"] if LAKE == "delta" else [])],
)
def test_names_that_are_no_table_are_refused(spark: SparkSession, tmp_path: Path, named: str) -> None:
    lake = TableLogs(spark, tmp_path, table=named)
    with pytest.raises(tailrace.TailraceTableError, match="TAILRACE_TABLE_NOT_MADE"):
        lake.start(availableNow=True)
    with pytest.raises(tailrace.TailraceError, match="TAILRACE_"):
        tailrace.window_report(spark, named, format=FORMAT)


def test_names_in_backticks(spark: SparkSession, tmp_path: Path) -> None:
    lake = TableLogs(spark, tmp_path, table=table("`it is a ``table``, 'quoted'`"))
    if LAKE == "delta":
        # Hive's rule for names.
        with pytest.raises(tailrace.TailraceTableError, match="TAILRACE_TABLE_NOT_MADE"):
            lake.start(availableNow=True)
        lake = TableLogs(spark, tmp_path / "path", table=str(tmp_path / "it is 'a' \"table\" of 1.0"))
    lake.land(("a", 1), ("b", 2))
    lake.land(("a", 11), ("b", 12))
    reports = tailrace.window_report(spark, lake.table, format=FORMAT)
    assert [row["rows"] for row in reports.collect()] == [2]
    rows = spark.read.format("delta").load(lake.table) if LAKE == "delta" else lake.written()
    assert rows.count() == 2


def test_partitions_and_the_wrong_form_of_a_folder(spark: SparkSession, tmp_path: Path) -> None:
    where = str(tmp_path / "a table") if LAKE == "delta" else None
    lake = TableLogs(spark, tmp_path / "logs", table=where, into="hour")
    writer = tailrace.write_windows(lake.waiting(), lake.out, "at", **lake.options).partitionBy("hour")
    lake.add(("a", 1), ("b", 2), ("a", 21), ("b", 22))
    writer = writer.option("checkpointLocation", str(tmp_path / "logs" / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    frame = spark.read.format("delta").load(where) if where else lake.written()
    assert sorted(row.hour.timestamp() - NOON.timestamp() for row in frame.collect()) == [0, 0]
    reports = tailrace.window_report(spark, lake.table, format=FORMAT)
    assert [row["rows"] for row in reports.collect()] == [2, 0]
    if where:
        assert len(list((tmp_path / "a table").glob("hour=*"))) == 1
    lake.options = {"window": "10 seconds", "into": "hour"}
    with pytest.raises(tailrace.TailraceWatermarkError, match=r"and not windows of .* as Parquet") as refused:
        lake.start(availableNow=True)
    assert refused.value.condition == "TAILRACE_WINDOWS_FOLDER"


@pytest.mark.parametrize("by", [(), ("window_start",), ("host",)])
def test_a_window_in_a_table_is_sorted_as_a_whole(
    spark: SparkSession, tmp_path: Path, by: tuple[str, ...]
) -> None:
    lake = TableLogs(spark, tmp_path)
    for number in range(3):
        lake.add(*(("ab"[n % 2], n * 7 % 10) for n in range(30)), *[("a", 61.0), ("b", 61.0)][: number and 2])
        frame = lake.waiting().selectExpr("*", "concat('u', id * 7919 % 5) AS user").repartition(4, "id")
        writer = tailrace.write_windows(frame, lake.out, "at", **lake.options, cluster_by="user")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).partitionBy(*by)
        writer.trigger(availableNow=True).start().awaitTermination()
    # The third round came too late.
    assert lake.written().count() == 60
    warehouse = Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:"))
    (folder,) = warehouse.rglob(lake.table.rpartition(".")[2])
    # A window without rows may have a file without rows.
    files = [file for file in folder.rglob("*.parquet") if pq.read_metadata(file).num_rows]
    # By partition and file a user's rows are in one piece, though two micro-batches have brought them.
    for file in files:
        rows = pq.ParquetFile(file).read(columns=["user", "at"]).to_pylist()
        assert rows == sorted(rows, key=lambda row: (row["user"], row["at"])), (by, file)
    assert sum(pq.read_metadata(file).num_rows for file in files) == 60
    assert len(files) == (2 if by == ("host",) else 1)


def test_complete_windows_of_a_table_are_reconciled(spark: SparkSession, tmp_path: Path) -> None:
    lake = TableLogs(spark, tmp_path)
    for rows in ARRIVALS:
        lake.land(*rows)
    answer = spark.read.schema(SCHEMA).parquet(str(lake.root / "in"))
    result = tailrace.reconcile(lake.table, answer, keys="id", time="at", format=FORMAT)
    windows = result.windows.collect()
    told = [(row.status, row.landed_rows, row.batch_rows, row.missing) for row in windows]
    # A row without a time, six complete windows, and an open one. Two rows were late: the table lacks them.
    assert told == [
        ("untimed", 0, 1, None),
        ("compared", 3, 5, 2),
        ("compared", 3, 3, 0),
        *[("compared", 0, 0, 0)] * 4,
        ("open", 0, 3, None),
    ]
    lost = result.differences.select("key.id", "kind", "reason").collect()
    assert sorted(map(tuple, lost)) == [(2002, "missing", None), (3000, "missing", None)]
