"""What has become of an export's files before they are imported: edited, cached, lost."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import tailrace
from streams import Row, Streams, at, groups
from tailrace.errors import TailraceStateError
from tailrace.testing import StreamTest

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

LEFT = [Row(i, i % 4, i) for i in range(12)]
RIGHT = [Row(100 + i, i % 4, i + 1) for i in range(12)]
END = ([Row(900, 9, 1000)], [Row(901, 9, 1000)])


@pytest.fixture
def streams(stream_test: StreamTest) -> Streams:
    return Streams(stream_test)


@pytest.fixture
def export(spark: SparkSession, streams: Streams, tmp_path: Path) -> Path:
    with streams.query(streams.join()) as query:
        streams.add(LEFT, RIGHT)
        query.run()
    tailrace.export_state(spark, query.checkpoint, tmp_path / "export")
    return tmp_path / "export"


def _parts(table: Path) -> list[Path]:
    return sorted(table.glob("part-*.parquet"))


@pytest.mark.slow
def test_files_that_were_edited_count_though_a_frame_of_them_is_cached(
    spark: SparkSession, streams: Streams, export: Path, tmp_path: Path
) -> None:
    left = export / "operator-0" / "left"
    cached = spark.read.parquet(str(left)).cache()
    try:
        assert cached.count() == 12
        for part in _parts(left):
            rows = pq.read_table(part)
            # In place, as an editor of files does.
            (left / f".{part.name}.crc").unlink(missing_ok=True)
            pq.write_table(rows.filter(pc.less(rows["l_id"], pa.scalar(5))), part, coerce_timestamps="us")
        assert tailrace.import_state(spark, tmp_path / "moved", export=export).left == 5
        by_query = tailrace.import_state(streams.join(), tmp_path / "other", export=export)
        assert by_query.left == 5
    finally:
        cached.unpersist()


@pytest.mark.slow
def test_a_part_that_is_missing_is_named(
    spark: SparkSession, streams: Streams, export: Path, tmp_path: Path
) -> None:
    right = export / "operator-0" / "right"
    kept = tmp_path / "kept"
    shutil.copytree(right, kept)
    parts = _parts(right)
    assert len(parts) > 1
    parts[0].unlink()
    for query in (spark, streams.join()):
        with pytest.raises(
            TailraceStateError, match=f"EXCHANGE_INCOMPLETE.*operator-0/right/{parts[0].name}"
        ):
            tailrace.import_state(query, tmp_path / "moved", export=export)
    # A copy that has none of them, too.
    shutil.rmtree(right)
    with pytest.raises(TailraceStateError, match="EXCHANGE_INCOMPLETE"):
        tailrace.import_state(spark, tmp_path / "moved", export=export)
    # Written anew, a table has other files, and may have fewer rows.
    spark.read.parquet(str(kept)).where("r_id < 103").write.parquet(str(right))
    assert tailrace.import_state(spark, tmp_path / "moved", export=export).right == 3
    # Files that were added count.
    spark.read.parquet(str(kept)).where("r_id = 110").write.mode("append").parquet(str(right))
    assert tailrace.import_state(spark, tmp_path / "more", export=export).right == 4


def test_a_list_of_files_that_is_missing_is_named(spark: SparkSession, tmp_path: Path) -> None:
    schema = "key int, ts timestamp"
    for side in "lr":
        rows = spark.createDataFrame([(1, at(0)), (1, at(10))], schema)
        rows.coalesce(1).write.parquet(str(tmp_path / side))
    left, right = (
        spark.readStream.schema(schema).parquet(str(tmp_path / side)).withWatermark("ts", "1 minute")
        for side in "lr"
    )
    joined = tailrace.join(left, right, on="key", left_time="ts", right_time="ts", after="30 minutes")
    writer = joined.writeStream.format("noop").trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "ckpt")).start().awaitTermination()
    export = tmp_path / "export"
    tailrace.export_state(spark, tmp_path / "ckpt", export)
    shutil.rmtree(export / "sources" / "1")
    for query in (spark, joined):
        with pytest.raises(TailraceStateError, match=r"EXCHANGE_INCOMPLETE.*sources/1/0"):
            tailrace.import_state(query, tmp_path / "moved", export=export)
        assert not (tmp_path / "moved").exists()


def test_left_rows_that_silence_has_let_out_are_not_emitted_again(
    spark: SparkSession, streams: Streams, tmp_path: Path
) -> None:
    result = streams.join(idle_timeout="200 milliseconds", on_late="mark")
    with streams.query(result, "own") as query:
        streams.add(LEFT[:6], RIGHT[:6])
        deadline = time.monotonic() + 60
        while len(query.rows()) < 6:
            assert time.monotonic() < deadline
            query.run()
        query.new_rows()
        query.stop()
        tailrace.export_state(spark, query.checkpoint, tmp_path / "export")
        tailrace.import_state(result, tmp_path / "moved", export=tmp_path / "export")
        query.restart()
        with streams.query(result, "moved") as moved:
            # Late by the silence, though the watermark is behind them.
            streams.add([Row(20, 1, 5), Row(21, 1, 6)], [Row(120, 1, 8)])
            for one in (query, moved):
                one.run()
            streams.add(*END)
            for one in (query, moved):
                one.run()
            own, other = (
                sorted(map(str, one.new_rows("l_id", "labels.r_id", "_mark"))) for one in (query, moved)
            )
            assert own == other
            assert any("late" in row for row in own)


@pytest.mark.slow
def test_a_left_row_without_a_key_waits_in_a_join_of_decided_rows(streams: Streams, tmp_path: Path) -> None:
    result = streams.join(release="decided", match="first")
    left, right = streams.batch_frames([Row(1, None, 5), Row(2, 7, 6)], [Row(101, 7, 8)])
    done = tailrace.import_state(result, tmp_path / "made", left=left, right=right)
    assert (done.left, done.right) == (2, 1)
    with streams.query(result, "made") as query:
        streams.add(*END)
        query.run()
        streams.add([Row(910, 9, 2000)], [Row(911, 9, 2000)])
        query.run()
        assert [row for row in groups(query.rows()) if row[0] < 900] == [(1, []), (2, [101])]


def test_a_session_imports_no_attribution(
    spark: SparkSession, stream_test: StreamTest, tmp_path: Path
) -> None:
    served, clicked = (stream_test.source("id long, user long, at timestamp") for _ in range(2))
    frames = [source.frame.withWatermark("at", "1 second") for source in (served, clicked)]
    made = tailrace.examples(frames[0], on="user", time="at").label(
        "click", frames[1], time="at", after="9 seconds", attribution=tailrace.linear()
    )
    with stream_test.query(made.stream()) as query:
        served.add((1, 7, at(0)))
        clicked.add((5, 7, at(1)))
        query.run()
    tailrace.export_state(spark, query.checkpoint, tmp_path / "export")
    with pytest.raises(TailraceStateError, match=r"QUERY_NEEDED.*label 'click' with an attribution"):
        tailrace.import_state(spark, tmp_path / "moved", export=tmp_path / "export")


@pytest.mark.slow
def test_versions_of_other_horizons_are_not_emitted_beside_those_that_were(
    spark: SparkSession, streams: Streams, tmp_path: Path
) -> None:
    with streams.query(streams.join(horizons=["5 seconds"])) as query:
        streams.add(LEFT, RIGHT)
        query.run()
    tailrace.export_state(spark, query.checkpoint, tmp_path / "export")
    for other in ({"horizons": ["6 seconds"]}, {"horizons": ["5 seconds"], "after": "40 seconds"}):
        with pytest.raises(
            TailraceStateError, match=r"EXCHANGE_UNFIT.*versions of its left rows were emitted"
        ):
            tailrace.import_state(streams.join(**other), tmp_path / "moved", export=tmp_path / "export")
    assert tailrace.import_state(streams.join(), tmp_path / "moved", export=tmp_path / "export").left == 12


@pytest.mark.spark(">=4.2", reason="Spark 4.1 gives sources no names")
def test_sources_with_names_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    settings = {
        "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
        "spark.sql.streaming.offsetLog.formatVersion": "2",
    }
    schema = "key int, ts timestamp"
    for setting, value in settings.items():
        spark.conf.set(setting, value)
    try:
        for side in ("left", "right"):
            rows = spark.createDataFrame([(1, at(0)), (1, at(10))], schema)
            rows.coalesce(1).write.parquet(str(tmp_path / side))
        left, right = (
            spark.readStream.name(side)
            .schema(schema)
            .parquet(str(tmp_path / side))
            .withWatermark("ts", "1 minute")
            for side in ("left", "right")
        )
        joined = tailrace.join(left, right, on="key", left_time="ts", right_time="ts", after="30 minutes")
        writer = joined.writeStream.format("noop").trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "ckpt")).start().awaitTermination()
    finally:
        for setting in settings:
            spark.conf.unset(setting)
    tailrace.export_state(spark, tmp_path / "ckpt", tmp_path / "export")
    for query in (spark, joined):
        with pytest.raises(TailraceStateError, match=r"EXCHANGE_UNSUPPORTED.*sources with names"):
            tailrace.import_state(query, tmp_path / "moved", export=tmp_path / "export")


@pytest.mark.slow
@pytest.mark.parametrize("are_gone", [False, True])
def test_matches_that_a_rescaling_has_moved_are_made_once(
    spark: SparkSession, streams: Streams, tmp_path: Path, are_gone: bool
) -> None:
    strategy = "spark.tailrace.join.strategy"
    spark.conf.set(strategy, "eager")
    try:
        result = streams.join()
        with streams.query(result) as query:
            streams.add(LEFT, RIGHT)
            query.run()
            if are_gone:
                # The watermark passes the right rows, and the state has their matches alone.
                streams.add([Row(50, 9, 25)], [Row(51, 8, 25)])
                query.run()
                assert {row["side"] for row in query.state() if row["time"] < at(15)} == {"left"}
            query.stop()
            # Rows of several partitions come into one, with other numbers.
            assert tailrace.rescale(spark, query.checkpoint, 1).before > 1
            tailrace.export_state(spark, query.checkpoint, tmp_path / "export")
            tailrace.import_state(result, tmp_path / "moved", export=tmp_path / "export")
            query.checkpoint.rename(tmp_path / "old")
            (tmp_path / "moved").rename(query.checkpoint)
            query.restart()
            streams.add(*END)
            query.run()
            expected = [
                (r.id, [m.id for m in RIGHT if m.key == r.key and m.second >= r.second]) for r in LEFT
            ]
            assert [row for row in groups(query.rows()) if row[0] < len(LEFT)] == expected
    finally:
        spark.conf.unset(strategy)


@pytest.mark.slow
def test_keys_in_another_order_are_the_same_ones(spark: SparkSession, tmp_path: Path) -> None:
    """Of examples their order follows the columns of the impressions, which may come in another order."""

    def run(directory: Path, *, imports: bool) -> list[dict[str, Any]]:
        with StreamTest(spark, directory, "12:00") as test:
            shown, clicked = (test.source("n long, user long, item long, at timestamp") for _ in range(2))

            def joined(*on: str) -> DataFrame:
                served, clicks = (side.frame.withWatermark("at", "5 seconds") for side in (shown, clicked))
                return tailrace.join(
                    served,
                    clicks,
                    on=list(on),
                    left_time="at",
                    right_time="at",
                    after="30 seconds",
                    horizons=["10 seconds"],
                )

            query = test.query(joined("user", "item"))
            shown.add((1, 7, 8, at(0)), (2, 8, 7, at(5)), (0, 9, 9, at(20)))
            clicked.add((11, 7, 8, at(6)), (12, 8, 7, at(7)), (0, 9, 9, at(20)))
            query.run()
            if imports:
                query.stop()
                tailrace.export_state(spark, query.checkpoint, directory / "export")
                made = joined("item", "user")
                tailrace.import_state(made, directory / "moved", export=directory / "export")
                query.checkpoint.rename(directory / "old")
                (directory / "moved").rename(query.checkpoint)
                query.restart(made)
            clicked.add((13, 7, 8, at(25)), (0, 9, 9, at(90)))
            shown.add((0, 9, 9, at(90)))
            query.run()
            rows = [{**row, "labels": [one["n"] for one in row["labels"]]} for row in query.rows()]
            return sorted((row for row in rows if row["n"]), key=lambda row: (row["n"], row["final"]))

    expected = run(tmp_path / "through", imports=False)
    assert len(expected) == 4
    assert run(tmp_path / "imported", imports=True) == expected
