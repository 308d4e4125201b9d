"""Values, versions and keys of `tailrace.write_table`, with a real library: see `tables_of_library.py`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

import tailrace
from lakes import LAKE
from tables_of_library import FORMAT, Files, Written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("stopped_queries")
_VERSIONS = "id long, feature string, labels array<int>, horizon string, final boolean, _mark string"
_COLUMNS = "id, feature, labels, horizon, final, _mark"


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Files:
    return Files(spark, tmp_path)


@contextmanager
def without_ansi(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.parametrize("keys", [None, "id"])
def test_fields_in_maps_go_by_their_names(
    spark: SparkSession, files: Files, written: Written, keys: str | None
) -> None:
    known = "map<string, struct<b: bigint, a: bigint, note: string>>"
    spark.sql(f"CREATE TABLE {written.name} (id long, m {known}) USING {LAKE}")
    files.add("(1L, map('x', struct(7 AS a, 8 AS b)))", "id, m")
    written.run(files.frame("id long, m map<string, struct<a: int, b: int>>"), keys=keys)
    assert written.rows(spark) == [{"id": 1, "m": {"x": {"b": 8, "a": 7, "note": None}}}]
    # A field more.
    files.add("(2L, map('x', struct(7 AS a, 9 AS c)))", "id, m")
    wider = files.frame("id long, m map<string, struct<a: int, c: int>>")
    with pytest.raises(tailrace.TailraceTableError, match=r"`m\.value\.c` INT") as refused:
        written.run(wider, keys=keys)
    assert refused.value.condition == "TAILRACE_TABLE_COLUMNS"
    written.run(wider, keys=keys, more={"mergeSchema": "true"})
    assert {"id": 2, "m": {"x": {"b": None, "a": 7, "note": None, "c": 9}}} in written.rows(spark)


@pytest.mark.parametrize("keys", [None, "id"])
@pytest.mark.parametrize("value", ["3000000000L", "12345678901.55BD"])
def test_a_value_that_a_column_cant_store_ends_the_query_without_ansi_too(
    spark: SparkSession, files: Files, written: Written, keys: str | None, value: str
) -> None:
    kind, known = ("bigint", "int") if value.endswith("L") else ("decimal(20, 2)", "decimal(10, 2)")
    spark.sql(f"CREATE TABLE {written.name} (id long, n {known}) USING {LAKE}")
    files.add(f"(1L, CAST({value} AS {kind}))", "id, n")
    with without_ansi(spark), pytest.raises(PySparkException):
        written.run(files.frame(f"id long, n {kind}"), keys=keys)
    assert written.rows(spark) == []


@pytest.mark.parametrize("keys", [None, "id"])
def test_a_column_that_leaves_the_table_ends_the_query(
    spark: SparkSession, files: Files, written: Written, keys: str | None
) -> None:
    """Its values would be lost."""
    files.add("(1L, 'a')", "id, name")
    writer = tailrace.write_table(files.frame("id long, name string"), written.name, format=FORMAT, keys=keys)
    query = writer.option("checkpointLocation", str(written.checkpoint)).start()
    query.processAllAvailable()
    spark.sql(f"CREATE OR REPLACE TABLE {written.name} (id long, title string) USING {LAKE}")
    files.add("(2L, 'b')", "id, name")
    with pytest.raises(tailrace.TailraceTableError) as ended:
        query.processAllAvailable()
    assert ended.value.condition == "TAILRACE_TABLE_COLUMNS"
    assert "`name` STRING" in ended.value.parameters["columns"]


def test_two_queries_merge_into_one_table_at_a_time(
    spark: SparkSession, written: Written, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE {written.name} (id long, n long, of string) USING {LAKE}")
    queries = []
    for name in ("a", "b"):
        files = Files(spark, tmp_path / name)
        (tmp_path / name).mkdir()
        for number in range(6):
            files.add(", ".join(f"({row}L, {number}L, '{name}')" for row in range(10)), "id, n, of")
        writer = tailrace.write_table(
            files.frame("id long, n long, of string"), written.name, format=FORMAT, keys=["id", "of"]
        )
        writer = writer.option("checkpointLocation", str(tmp_path / f"checkpoint-{name}"))
        queries.append(writer.trigger(availableNow=True).start())
    for query in queries:
        query.awaitTermination()
    found = sorted((row["of"], row["id"], row["n"]) for row in written.rows(spark))
    assert found == [(name, row, 5) for name in ("a", "b") for row in range(10)]


def _version(horizon: str, *, final: bool, labels: str) -> str:
    return f"(1L, 'phone', {labels}, '{horizon}', {str(final).lower()}, CAST(NULL AS STRING))"


def _amended(labels: str) -> str:
    return f"(1L, CAST(NULL AS STRING), {labels}, '1 day', true, 'amended')"


def _labels(row: dict[str, Any]) -> tuple[str | None, list[int], bool, str | None]:
    return row["feature"], row["labels"], row["final"], row["_mark"]


def test_versions_are_known_in_the_case_of_the_table(
    spark: SparkSession, files: Files, written: Written, tmp_path: Path
) -> None:
    columns = "Id long, Feature string, Labels array<int>, Horizon string, Final boolean, _Mark string"
    spark.sql(f"CREATE TABLE {written.name} ({columns}) USING {LAKE}")
    files.add(_version("1 day", final=True, labels="array(1, 2)"), _COLUMNS)
    written.run(files.frame(_VERSIONS), keys="id")
    files.add(_version("1 hour", final=False, labels="array(1)"), _COLUMNS)
    Written(tmp_path, name=written.name, checkpoint="again").run(
        files.frame(_VERSIONS).where("NOT final"), keys="id"
    )
    files.add(_amended("array(1, 2, 3)"), _COLUMNS)
    written.run(files.frame(_VERSIONS).where("horizon = '1 day'"), keys="id")
    (row,) = written.rows(spark)
    assert tuple(row.values()) == (1, "phone", [1, 2, 3], "1 day", True, "amended")


@pytest.mark.parametrize("before", [None, "hour", "day"])
def test_an_amendment_in_the_micro_batch_of_its_row(
    spark: SparkSession, files: Files, written: Written, before: str | None
) -> None:
    """As a stream that has been landed before brings it, whose micro-batches are larger."""
    if before:
        old = _version(f"1 {before}", final=before == "day", labels="array(1)").replace("phone", "old")
        files.add(old, _COLUMNS)
    final = _version("1 day", final=True, labels="array(1, 2)")
    files.add(", ".join([_amended("array(1, 2, 3, 4)"), final, _amended("array(1, 2, 3)")]), _COLUMNS)
    written.run(files.frame(_VERSIONS), keys="id")
    (row,) = written.rows(spark)
    assert _labels(row) == ("phone", [1, 2, 3, 4], True, "amended")


def test_an_older_version_beside_an_amendment_replaces_nothing(
    spark: SparkSession, files: Files, written: Written
) -> None:
    files.add(_version("1 day", final=True, labels="array(1, 2)"), _COLUMNS)
    older = _version("1 hour", final=False, labels="array(1)").replace("phone", "old")
    files.add(f"{older}, {_amended('array(1, 2, 3)')}", _COLUMNS)
    written.run(files.frame(_VERSIONS), keys="id")
    (row,) = written.rows(spark)
    assert _labels(row) == ("phone", [1, 2, 3], True, "amended")


def test_variants_beside_keys(spark: SparkSession, files: Files, written: Written) -> None:
    # Iceberg stores them from its format 3 on.
    kinds = "id long, v variant, list array<variant>"
    spark.sql(f"CREATE TABLE {written.name} ({kinds}) USING {LAKE} TBLPROPERTIES ('format-version' = '3')")
    files.add("(1L, parse_json('1'), array(parse_json('2')))", "id, v, list")
    written.run(files.frame(kinds), keys="id")
    # Iceberg's catalog keeps the table as the session has made it.
    spark.catalog.refreshTable(written.name)
    found = spark.table(written.name).selectExpr("id", "to_json(v)", "to_json(list[0])")
    assert [tuple(row) for row in found.collect()] == [(1, "1", "2")]
