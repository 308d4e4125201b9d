"""`tailrace.write_table` with a real library. `test_write_table.py` runs this file in a process for each."""

from __future__ import annotations

import itertools
import shutil
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from lakes import LAKE, table
from streams import Row, Streams, groups
from window_logs import undo

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tailrace.testing import StreamTest
    from trees import Trees

pytestmark = pytest.mark.usefixtures("stopped_queries")
FORMAT: Any = LAKE
_NUMBERS = itertools.count()
END = Row(900, 9, 1000)
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Written:
    """A table, and the query that writes it, from one start to the next."""

    def __init__(self, root: Path, *, name: str | None = None, checkpoint: str = "checkpoint") -> None:
        self.name = name or table(f"t{next(_NUMBERS)}")
        self.checkpoint = root / checkpoint

    def run(
        self,
        frame: DataFrame,
        *,
        more: dict[str, str] | None = None,
        keys: list[str] | str | None = None,
        once: bool = False,
    ) -> list[dict[str, Any]]:
        """Runs the query until all is read, or one micro-batch; returns its progress."""
        writer = tailrace.write_table(frame, self.name, format=FORMAT, keys=keys)
        for name, value in (more or {}).items():
            writer = writer.option(name, value)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        query = writer.trigger(**({"once": True} if once else {"availableNow": True})).start()
        query.awaitTermination()
        return [dict(progress) for progress in query.recentProgress]

    def undo(self) -> None:
        """As a kill leaves it between the commit of the table and the end of the batch."""
        undo(self.checkpoint)

    def rows(self, spark: SparkSession) -> list[dict[str, Any]]:
        # Iceberg's catalog keeps what the session has read.
        spark.catalog.refreshTable(self.name)
        return [row.asDict(recursive=True) for row in spark.table(self.name).collect()]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)


@pytest.fixture
def streams(stream_test: StreamTest) -> Streams:
    return Streams(stream_test)


class Files:
    """A stream of files, each of them a micro-batch."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark = spark
        self._folder = root / "files"
        self._numbers = itertools.count()

    def add(self, rows: str, columns: str) -> None:
        """Rows as SQL's VALUES."""
        aside = self._folder.parent / "aside"
        table = self._spark.sql(f"SELECT * FROM VALUES {rows} AS rows({columns})")  # noqa: S608  a test's
        table.coalesce(1).write.parquet(str(aside))
        self._folder.mkdir(exist_ok=True)
        (part,) = aside.glob("*.parquet")
        shutil.move(part, self._folder / f"{next(self._numbers):03d}.parquet")
        shutil.rmtree(aside)

    def frame(self, schema: str) -> DataFrame:
        return (
            self._spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self._folder))
        )


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Files:
    return Files(spark, tmp_path)


def _counted(frame: DataFrame) -> DataFrame:
    """An operator of Spark's with state."""
    return frame.withWatermark("l_ts", "10 seconds").groupBy("l_ts").count()


@pytest.mark.parametrize("keys", [None, ["l_id"]])
def test_a_join_is_written_once_though_its_last_batch_runs_again(
    spark: SparkSession, streams: Streams, written: Written, keys: list[str] | None
) -> None:
    def run() -> list[tuple[int, list[int]]]:
        streams.test.flush()
        written.run(streams.join(), keys=keys)
        return groups(written.rows(spark))

    streams.add([Row(1, 1, 0), Row(2, 2, 5)], [Row(11, 1, 3), Row(99, 9, 60)])
    streams.add([Row(3, 3, 60)])
    run()
    streams.add([Row(901, 9, 100)], [Row(902, 9, 100)])
    first = run()
    assert first[:2] == [(1, [11]), (2, [])]
    for _ in range(2):
        written.undo()
        assert run() == first
    streams.add([END], [END])
    assert run() == [(1, [11]), (2, []), (3, []), (901, [902])]


@pytest.mark.parametrize(("keys", "version"), [(None, "1"), (None, "2"), (["l_ts"], "1")])
def test_an_aggregation_of_spark_goes_on_after_its_batch_ran_again(
    spark: SparkSession, streams: Streams, written: Written, keys: list[str] | None, version: str
) -> None:
    """The watermark, and the ids of the state's versions in format 2, come from tasks alone."""

    def run(*, closes: bool) -> list[int]:
        given = {
            "spark.sql.streaming.noDataMicroBatches.enabled": str(closes).lower(),
            "spark.sql.streaming.stateStore.checkpointFormatVersion": version,
            # The only one of Spark's with that format.
            "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        }
        before = {name: spark.conf.get(name) for name in given}
        streams.test.flush()
        try:
            for name, value in given.items():
                spark.conf.set(name, value)
            written.run(_counted(streams.sources["left"].frame), keys=keys)
        finally:
            for name, former in before.items():
                spark.conf.set(name, str(former))
        return sorted(row["count"] for row in written.rows(spark))

    streams.add([Row(1, 1, 0), Row(2, 1, 0), Row(3, 1, 50)])
    assert run(closes=False) == []
    written.undo()
    assert run(closes=True) == [2]
    streams.add([Row(4, 1, 50), Row(5, 1, 90)])
    assert run(closes=True) == [2, 2]


def test_a_batch_is_run_once(spark: SparkSession, files: Files, written: Written, tmp_path: Path) -> None:
    seen = tmp_path / "seen"

    @F.udf("long", useArrow=False)
    def noted(value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  a worker can't import our types
        with seen.open("a") as file:
            file.write("x")
        return value

    def run(keys: str | None = None) -> int:
        seen.write_text("")
        written.run(files.frame("id long, n long").withColumn("n", noted("n")), keys=keys)
        return len(seen.read_text())

    files.add("(1L, 1L), (2L, 2L), (3L, 3L)", "id, n")
    assert run() == 3
    # Of a batch that the table has, the operators run, once.
    written.undo()
    assert run() == 3
    merged = Written(tmp_path, checkpoint="merged")
    written.name, written.checkpoint = merged.name, merged.checkpoint
    assert run(keys="id") == 3
    files.add("(1L, 5L), (4L, 4L)", "id, n")
    assert run(keys="id") == 2
    assert sorted((row["id"], row["n"]) for row in written.rows(spark)) == [(1, 5), (2, 2), (3, 3), (4, 4)]


@pytest.mark.parametrize("keys", [None, ["node", "root"], ["name"]])
def test_rows_go_round_as_the_table_has_them_though_each_batch_runs_twice(
    spark: SparkSession, trees: Trees, written: Written, keys: list[str] | None
) -> None:
    """Random names: a batch that runs again draws others, and they are neither written nor fed back."""
    trees.add("nodes", [(3, root) for root in range(3)])
    start = trees.stream("nodes").selectExpr("node", "parent AS root", "'' AS name", "'' AS above")

    def op(u: DataFrame) -> DataFrame:
        return u.where("node > 0").selectExpr("node - 1 AS node", "root", "uuid() AS name", "name AS above")

    def run() -> list[tuple[Any, ...]]:
        looped = tailrace.recursively(start, op, mode="feedback")
        written.run(looped, keys=keys, once=True)
        return sorted((row["root"], -row["node"], row["name"], row["above"]) for row in written.rows(spark))

    for hop in (1, 2, 3):
        first = run()
        assert len(first) == 3 * hop
        for _ in range(2):
            written.undo()
            assert run() == first
    above = {(root, -node): (name, other) for root, node, name, other in run()}
    for (root, node), (_, other) in above.items():
        assert other == (above[root, node + 1][0] if node < 2 else ""), (
            "a row went round that the table lacks"
        )


@pytest.mark.long
@pytest.mark.parametrize("keys", [None, ["id"]])
def test_hundreds_of_batches_cost_as_much_as_the_first_ones(
    spark: SparkSession, written: Written, tmp_path: Path, keys: list[str] | None
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    batches = 320
    for number in range(batches):
        rows = {"id": [2 * number, 2 * number + 1], "n": [number, number]}
        pq.write_table(pa.table(rows), folder / f"{number:04d}.parquet")
    frame = spark.readStream.schema("id long, n long").option("maxFilesPerTrigger", 1).parquet(str(folder))
    keeps = "spark.sql.streaming.numRecentProgressUpdates"
    before = spark.conf.get(keeps)
    spark.conf.set(keeps, "1000")
    try:
        progress = written.run(frame, keys=keys)
    finally:
        spark.conf.set(keeps, str(before))
    assert sorted((row["id"], row["n"]) for row in written.rows(spark)) == [
        (id_, id_ // 2) for id_ in range(2 * batches)
    ]
    took = [p["durationMs"]["addBatch"] for p in progress if p["numInputRows"]]
    assert len(took) == batches
    first, last = (statistics.median(part) for part in (took[20:60], took[-40:]))
    print(f"{LAKE}, keys={keys}: addBatch of batches 20 to 60 {first} ms, of the last 40 {last} ms")
    # A table's own log grows with its commits, and Delta writes a checkpoint of it every ten.
    assert last < 2 * first


def test_versions_and_amendments_are_merged(spark: SparkSession, streams: Streams, written: Written) -> None:
    options = {"horizons": ["10 seconds"], "amend_for": "200 seconds", "release_every": "batch"}

    def run() -> dict[int, tuple[str, bool, list[int], str | None]]:
        streams.test.flush()
        # Several versions in a batch, of which the newest is written.
        written.run(streams.join(**options), keys=["key", "l_ts"])
        rows = written.rows(spark)
        assert len({row["key"] for row in rows}) == len(rows)
        return {
            row["key"]: (row["l_note"], row["final"], [m["r_id"] for m in row["labels"]], row["_mark"])
            for row in rows
        }

    streams.add([Row(1, 1, 0, "a"), Row(2, 2, 0, "b")], [Row(11, 1, 3)])
    streams.add([Row(9, 9, 25)], [Row(90, 9, 25)])
    found = run()
    assert found == {1: ("a", False, [11], None), 2: ("b", False, [], None)}
    # The watermark passes horizon and end of 9 at once, and the end of 1 and 2.
    streams.add([Row(8, 8, 100)], [Row(12, 1, 20), Row(80, 8, 100)])
    streams.add([Row(8, 7, 101)], [Row(80, 7, 101)])
    found = run()
    assert found[1] == ("a", True, [11, 12], None)
    assert found[9] == ("", True, [90], None)
    written.undo()
    assert run() == found
    streams.add([], [Row(13, 1, 25)])
    amended = run()
    assert amended[1] == ("a", True, [11, 12, 13], "amended")
    assert amended[2] == ("b", True, [], None)
    written.undo()
    assert run() == amended


def test_an_older_version_replaces_no_newer_one(
    spark: SparkSession, files: Files, written: Written, tmp_path: Path
) -> None:
    columns = "id, n, horizon, final, _mark"
    schema = "id long, n long, horizon string, final boolean, _mark string"
    plain = "CAST(NULL AS STRING)"
    files.add(f"(1L, 1L, '1 hour 30 minutes', false, {plain}), (2L, 1L, '2 days', true, {plain})", columns)
    written.run(files.frame(schema), keys="id")
    # Another query brings the history once more.
    files.add(
        f"(1L, 2L, '90 minutes', false, {plain}), (2L, 2L, '3 hours', false, {plain}), "
        f"(1L, 0L, '50 minutes', false, {plain})",
        columns,
    )
    again = Written(tmp_path, name=written.name, checkpoint="again")
    again.run(files.frame(schema).where("n <> 1"), keys="id")
    assert sorted((row["id"], row["n"]) for row in written.rows(spark)) == [(1, 2), (2, 1)]


@pytest.mark.parametrize("keys", [None, ["id"]])
def test_columns_and_fields_are_added_at_a_restart(
    spark: SparkSession, files: Files, written: Written, keys: list[str] | None
) -> None:
    files.add("(1L, array(struct('a' AS kind)))", "id, labels")
    written.run(files.frame("id long, labels array<struct<kind: string>>"), keys=keys)
    files.add("(2L, array(struct(7L AS price, 'b' AS kind)), 'phone')", "id, labels, device")
    wider = "id long, labels array<struct<price: bigint, kind: string>>, device string"
    with pytest.raises(tailrace.TailraceTableError) as refused:
        written.run(files.frame(wider), keys=keys)
    assert refused.value.condition == "TAILRACE_TABLE_COLUMNS"
    assert "`labels.element.price` BIGINT" in refused.value.parameters["columns"]
    assert "`device` STRING" in refused.value.parameters["columns"]
    written.run(files.frame(wider), keys=keys, more={"mergeSchema": "true"})
    # A column fewer again.
    files.add("(3L, array(struct('c' AS kind)))", "id, labels")
    written.run(files.frame("id long, labels array<struct<kind: string>>"), keys=keys)
    found = sorted(written.rows(spark), key=lambda row: row["id"])
    assert [(row["id"], row["labels"], row["device"]) for row in found] == [
        (1, [{"kind": "a", "price": None}], None),
        (2, [{"kind": "b", "price": 7}], "phone"),
        (3, [{"kind": "c", "price": None}], None),
    ]


def test_two_queries_write_one_table(
    spark: SparkSession, files: Files, written: Written, tmp_path: Path
) -> None:
    files.add("(1L, 'a')", "id, name")
    other = Written(tmp_path, name=written.name, checkpoint="other")
    for query in (written, other):
        query.run(files.frame("id long, name string"))
    files.add("(2L, 'b')", "id, name")
    for query in (written, other):
        query.run(files.frame("id long, name string"))
        query.undo()
        query.run(files.frame("id long, name string"))
    assert sorted(row["id"] for row in written.rows(spark)) == [1, 1, 2, 2]


@pytest.mark.parametrize("keys", [None, "id"])
def test_a_copy_of_the_checkpoint_is_found_out(
    spark: SparkSession, files: Files, written: Written, tmp_path: Path, keys: str | None
) -> None:
    def run(query: Written) -> None:
        query.run(files.frame("id long, name string"), keys=keys)

    files.add("(1L, 'a')", "id, name")
    run(written)
    copy = Written(tmp_path, name=written.name, checkpoint="copy")
    shutil.copytree(written.checkpoint, copy.checkpoint)
    for number in (2, 3):
        files.add(f"({number}L, 'b')", "id, name")
    run(written)
    with pytest.raises(tailrace.TailraceTableError) as ended:
        run(copy)
    assert ended.value.condition == "TAILRACE_TABLE_TWO_WRITERS"
    assert sorted(row["id"] for row in written.rows(spark)) == [1, 2, 3]


def test_a_null_in_a_key_ends_the_query_and_nothing_is_written(
    spark: SparkSession, files: Files, written: Written
) -> None:
    files.add("(1L, 'a'), (CAST(NULL AS LONG), 'b')", "id, name")
    with pytest.raises(tailrace.TailraceTableError) as ended:
        written.run(files.frame("id long, name string"), keys="id")
    assert ended.value.condition == "TAILRACE_TABLE_KEY_NULL"
    assert written.rows(spark) == []


def test_a_table_that_cant_be_made_or_is_another_ones(
    spark: SparkSession, files: Files, written: Written
) -> None:
    files.add("(1L, 'a')", "id, name")
    frame = files.frame("id long, name string")
    nowhere = Written(written.checkpoint, name="nowhere.deep.down.t")
    with pytest.raises(tailrace.TailraceTableError) as refused:
        nowhere.run(frame)
    assert refused.value.condition == "TAILRACE_TABLE_NOT_MADE"
    if LAKE == "delta":
        spark.sql(f"CREATE TABLE {written.name} (id long, name string) USING parquet")
        with pytest.raises(tailrace.TailraceTableError) as refused:
            written.run(frame)
        assert refused.value.condition == "TAILRACE_TABLE_FORMAT"
        return
    spark.sql(f"CREATE TABLE {written.name} (id long, name array<string>) USING iceberg")
    with pytest.raises(tailrace.TailraceTableError) as refused:
        written.run(frame)
    assert refused.value.condition == "TAILRACE_TABLE_COLUMNS"


def test_partitions_names_and_options(spark: SparkSession, files: Files, tmp_path: Path) -> None:
    files.add("(1L, 'a'), (2L, 'b')", "id, `a-name`")
    where: Any = tmp_path / "delta table" if LAKE == "delta" else table("partitioned")
    writer = tailrace.write_table(files.frame("id long, `a-name` string"), where, format=FORMAT)
    writer = writer.partitionBy("a-name").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    found = spark.read.format("delta").load(str(where)) if LAKE == "delta" else spark.table(where)
    assert sorted(tuple(row) for row in found.collect()) == [(1, "a"), (2, "b")]
    if LAKE == "delta":
        assert len(list(Path(where).glob("a-name=*"))) == 2


def test_update_mode_needs_keys(spark: SparkSession, files: Files, written: Written) -> None:
    files.add("(1L, 'a')", "id, name")
    counts = files.frame("id long, name string").groupBy("name").count()

    def run(keys: str | None) -> None:
        writer = tailrace.write_table(counts, written.name, format=FORMAT, keys=keys)
        writer = writer.outputMode("update").option("checkpointLocation", str(written.checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises((tailrace.TailraceError, PySparkException), match="outputMode"):
        run(None)
    run("name")
    files.add("(2L, 'a'), (3L, 'b')", "id, name")
    run("name")
    assert sorted((row["name"], row["count"]) for row in written.rows(spark)) == [("a", 2), ("b", 1)]
