"""The tables of `tailrace.backfill`: any batch DataFrame will do, and a scan reads what the query needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as f

from backfill_scenes import ENDS, Scene, feed_all, labelled, made_rows, split
from streams import at
from tailrace._bridge import calls

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


def _from_files(table: DataFrame, path: Path) -> DataFrame:
    table.write.partitionBy("part").parquet(str(path))
    return table.sparkSession.read.parquet(str(path))


def _from_view(table: DataFrame) -> DataFrame:
    table.createOrReplaceTempView("history")
    return table.sparkSession.table("history")


# Ways to make the same rows: those of one scan are planned with the query, and others before it.
_TABLES: Mapping[str, Callable[[DataFrame, Path], DataFrame]] = {
    "files": lambda table, path: _from_files(table.withColumn("part", f.col("key") % 2), path).drop("part"),
    "view": lambda table, _: _from_view(table),
    "cached": lambda table, _: table.cache(),
    "union": lambda table, _: table.where("key = 1").union(table.where("key IS NULL OR key <> 1")),
    "distinct": lambda table, _: table.union(table).distinct(),
    "joined": lambda table, _: table.join(
        table.select(f.col(table.columns[0]).alias("id")), f.col("id") == f.col(table.columns[0])
    ).drop("id"),
    "subquery": lambda table, _: table.where(
        f.col(table.columns[0]) <= table.agg(f.max(table.columns[0])).scalar()
    ),
}


@pytest.mark.parametrize(
    "made",
    [
        name if name in {"files", "distinct"} else pytest.param(name, marks=pytest.mark.slow)
        for name in _TABLES
    ],
)
def test_any_table_will_do(spark: SparkSession, tmp_path: Path, made: str) -> None:
    left, right = made_rows(3)
    scene = Scene(spark, tmp_path, labelled)
    (old, new), (known, later) = split(left, 900), split(right, 900)
    tables = {
        side: _TABLES[made](table, tmp_path / f"table-{side}")
        for side, table in scene.tables(old, known).items()
    }
    history = scene.backfill(tables, at(900))
    feed_all(scene, {"left": new, "right": later}, ENDS)
    scene.run_live(history)
    assert scene.rows() == scene.expected(left, right)


def test_a_scan_reads_what_the_query_needs(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(spark, tmp_path, labelled)
    path = str(tmp_path / "table")
    scene.frame("left", made_rows(4)[0]).write.parquet(path)
    table = spark.read.parquet(path)
    rows = calls.plan(
        "backfill_stream",
        table,
        name="left",
        frame=table,
        live=scene.streams()["left"],
        event_time="l_ts",
        until=None,
        starts=[0, int(at(900).timestamp()) * 1_000_000],
    )
    kept = rows.where("l_id > 7").groupBy("key").count()
    writer = kept.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(scene.checkpoint)).start()
    query.awaitTermination()
    query.explain(extended=False)
    plan = capfd.readouterr().out
    assert "ReadSchema: struct<l_id:bigint,key:bigint,l_ts:timestamp>" in plan
    assert "GreaterThan(l_" in plan
