"""`initial` of `tailrace.as_of`: a table that the first micro-batch of a checkpoint reads into the state."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any, Literal

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as f

import tailrace
from oracles import AsOfOracle, looked
from streams import Row, Streams, at, next_rows
from tailrace.errors import TailraceJoinError
from tailrace.testing import crash_at_every_step

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from tailrace.testing import StreamQuery, StreamTest

_TIMES = {"left_time": "l_ts", "right_time": "r_ts"}
# Of key 7 two are of one time, 8 has a newer row in the stream, 9 is only here.
_INITIAL = [
    Row(201, 7, -30),
    Row(202, 7, -20),
    Row(203, 7, -20),
    Row(204, 8, -50),
    Row(205, 9, -4000),
    Row(206, None, -10),
]
_LEFT = [Row(1, 7, 1), Row(2, 8, 2), Row(3, 9, 3), Row(4, 8, 30), Row(5, None, 3), Row(6, 6, 3)]
_RIGHT = [Row(101, 8, 20), Row(102, 5, 40)]
_FOUND: list[tuple[int, int | None]] = [(1, 203), (2, 204), (3, 205), (4, 101), (5, None), (6, None)]
_AGED = [(1, 203), (2, None), (3, None), (4, 101), (5, None), (6, None)]
_END = ([Row(900, 99, 1000)], [Row(901, 98, 1000)])
_LATER = ([Row(902, 97, 5000)], [Row(903, 96, 5000)])


def _table(streams: Streams, rows: list[Row]) -> DataFrame:
    return streams.batch_frames([], rows)[1]


def _as_of(left: DataFrame, right: DataFrame, **options: Any) -> DataFrame:  # noqa: ANN401 - those of as_of
    return tailrace.as_of(left, right, **{"on": "key", **_TIMES, **options})


def _stream(streams: Streams, **options: Any) -> DataFrame:  # noqa: ANN401
    return _as_of(streams.frame("left"), streams.frame("right"), **options)


@pytest.mark.contract
@pytest.mark.parametrize(("options", "found"), [({}, _FOUND), ({"max_age": "45 seconds"}, _AGED)])
def test_the_first_rows_have_values_and_a_batch_has_the_same(
    stream_test: StreamTest, options: dict[str, Any], found: list[tuple[int, int | None]]
) -> None:
    streams = Streams(stream_test)
    # Another order of the columns, one more, and a key of a narrower type.
    table = _table(streams, _INITIAL).select(
        f.lit(1).alias("more"), "r_note", "r_ts", f.col("key").cast("int").alias("key"), "r_id"
    )
    with streams.query(_stream(streams, initial=table, **options)) as query:
        streams.add(_LEFT, _RIGHT)
        query.run()
        streams.add(*_END)
        query.run()
        assert looked(query.rows()) == found
        # The row without a key is counted as one of the stream would be.
        assert query.total("nullKeyRightRows") == 1
        assert query.total("lateRightRows") == 0
    left, right = streams.batch_frames(_LEFT, _RIGHT)
    batch = _as_of(left, right, initial=table, **options)
    assert looked(row.asDict(recursive=True) for row in batch.collect()) == found
    assert batch.select("features.*").columns == ["r_id", "r_ts", "r_note"]


@pytest.mark.contract
def test_a_query_that_resumes_never_reads_it_again(
    spark: SparkSession, stream_test: StreamTest, tmp_path: Path
) -> None:
    streams = Streams(stream_test)
    folder = str(tmp_path / "initial")
    _table(streams, _INITIAL).write.parquet(folder)
    with streams.query(_stream(streams, initial=spark.read.parquet(folder))) as query:
        streams.add(_LEFT[:3], [])
        query.run()
        # Other rows are in the table, and then there is no table.
        _table(streams, [Row(301, 7, 0), Row(302, 6, 0)]).write.mode("overwrite").parquet(folder)
        query.restart(_stream(streams, initial=spark.read.parquet(folder)))
        streams.add(_LEFT[3:], _RIGHT)
        query.run()
        for file in (tmp_path / "initial").iterdir():
            file.unlink()
        streams.add([], [Row(103, 97, 100)])
        query.run()
        query.restart(_stream(streams))
        streams.add(*_END)
        query.run()
        assert looked(query.rows()) == _FOUND


def test_a_running_query_does_not_need_the_table(spark: SparkSession, stream_test: StreamTest) -> None:
    streams = Streams(stream_test)
    _table(streams, _INITIAL).write.saveAsTable("initial_values", format="parquet")
    with streams.query(_stream(streams, initial=spark.table("initial_values"))) as query:
        streams.add(_LEFT[:3], [])
        query.run()
        spark.sql("DROP TABLE initial_values")
        streams.add(_LEFT[3:], _RIGHT)
        query.run()
        streams.add(*_END)
        query.run()
        assert looked(query.rows()) == _FOUND


def test_it_does_not_move_the_watermark_and_is_never_late(stream_test: StreamTest) -> None:
    streams = Streams(stream_test)
    table = _table(streams, [Row(201, 7, -9_000_000), Row(202, 8, 9_000_000)])
    with streams.query(_stream(streams, initial=table)) as query:
        streams.add([Row(1, 7, 1), Row(2, 8, 1)], [Row(101, 5, 3)])
        query.run()
        assert query.watermark() == at(-9)
        streams.add(*_END)
        assert looked(next_rows(query)) == [(1, 201), (2, None)]
        assert query.watermark() == at(990)
        assert query.total("lateRightRows") == query.total("lateLeftRows") == 0


def _keys(query: StreamQuery) -> set[int]:
    """Those of right rows in the state."""
    return {key for key, side in query.state("key.key", "side") if side == "right"}


def test_what_no_left_row_needs_any_longer_is_evicted(stream_test: StreamTest) -> None:
    streams = Streams(stream_test)
    table = _table(streams, _INITIAL)
    options: dict[str, Any] = {"initial": table, "max_age": "2 hours"}
    with streams.query(_stream(streams, **options)) as query:
        streams.add([Row(1, 7, 1)], [Row(101, 4, 20)])
        query.run()
        assert query.progress()["stateOperators"][0]["numRowsTotal"] == 7
        streams.add(*_LATER)
        query.run()
        # The watermark is at 4990 s: too old for later left rows is only what is 7,200 s before that.
        assert _keys(query) >= {7, 8}
        streams.add([Row(2, 7, 5001), Row(3, 9, 5001)], [])
        query.run()
        streams.add([Row(904, 97, 20000)], [Row(905, 96, 20000)])
        query.run()
        assert looked(query.rows()) == [(1, 203), (2, 203), (3, None), (902, None)]
        streams.add([], [Row(906, 95, 20100)])
        query.run()
        assert _keys(query).isdisjoint({7, 8, 9})


def test_rows_that_are_idle_are_flushed_with_its_values(stream_test: StreamTest) -> None:
    streams = Streams(stream_test)
    table = _table(streams, _INITIAL)
    with streams.query(_stream(streams, initial=table, idle_timeout="1 second")) as query:
        streams.add(_LEFT, [])
        query.run()
        assert query.rows() == []
        stream_test.advance("12:01")
        query.run()
        assert looked(query.rows()) == [(1, 203), (2, 204), (3, 205), (4, 204), (5, None), (6, None)]


def test_two_calls_on_one_stream_have_their_own_tables(stream_test: StreamTest) -> None:
    streams = Streams(stream_test)
    right = streams.frame("right")
    first = _as_of(streams.frame("left"), right, initial=_table(streams, _INITIAL))
    both = _as_of(first, right, initial=_table(streams, [Row(301, 6, -10)]), into="other")
    with streams.query(both) as query:
        streams.add(_LEFT, _RIGHT)
        query.run()
        streams.add(*_END)
        query.run()
        rows = query.rows()
        assert looked(rows) == _FOUND
        others = {row["l_id"]: row["other"] and row["other"]["r_id"] for row in rows}
        assert others == {1: None, 2: None, 3: None, 4: 101, 5: None, 6: 301}


def test_values_may_be_null_that_the_stream_has_as_never_null(stream_test: StreamTest) -> None:
    source = {side: stream_test.source(f"{side}_id long, key long, {side}_ts timestamp") for side in "lr"}
    never_null = {"v": f.lit(3), "s": f.struct(f.lit("x").alias("x"))}
    left, right = (source[side].frame.withWatermark(f"{side}_ts", "10 seconds") for side in "lr")
    table = Streams(stream_test).batch_frames([], [Row(201, 7, -20)])[1].drop("r_note")
    nulls = table.withColumns(
        {"v": f.lit(None).cast("int"), "s": f.struct(f.lit(None).cast("string").alias("x"))}
    )
    result = _as_of(left, right.withColumns(never_null), initial=nulls)
    with stream_test.query(result) as query:
        source["l"].add((1, 7, at(1)), (2, 8, at(3)))
        source["r"].add((101, 8, at(2)))
        query.run()
        source["l"].add((9, 9, at(100)))
        source["r"].add((109, 9, at(100)))
        query.run()
        found = {row["l_id"]: (row["features"]["v"], row["features"]["s"]["x"]) for row in query.rows()}
        assert found == {1: (None, None), 2: (3, "x")}


@pytest.mark.contract
@pytest.mark.parametrize(
    ("columns", "lacking"),
    [
        (["key", "r_id", "r_ts"], "r_note STRING"),
        (["key", "r_id", "cast(r_ts as string) as r_ts", "r_note"], "r_ts TIMESTAMP"),
        (["cast(key as string) as key", "r_id", "r_ts", "r_note"], "key BIGINT"),
    ],
)
def test_a_table_of_other_columns_is_refused(
    stream_test: StreamTest, columns: list[str], lacking: str
) -> None:
    streams = Streams(stream_test)
    table = _table(streams, _INITIAL).selectExpr(*columns)
    for left, right in (
        (streams.frame("left"), streams.frame("right")),
        streams.batch_frames(_LEFT, _RIGHT),
    ):
        with pytest.raises(TailraceJoinError) as refusal:
            _as_of(left, right, initial=table)
        assert refusal.value.condition == "TAILRACE_JOIN_INITIAL_COLUMNS"
        assert refusal.value.parameters == {"call": "tailrace.as_of", "columns": lacking}


@pytest.mark.contract
def test_a_stream_is_refused(stream_test: StreamTest) -> None:
    streams = Streams(stream_test)
    with pytest.raises(TailraceJoinError, match="a batch DataFrame") as refusal:
        _stream(streams, initial=streams.frame("right"))
    assert refusal.value.condition == "TAILRACE_OPTION_INVALID"
    with pytest.raises(TypeError, match="`initial` must be a pyspark"):
        _stream(streams, initial="profiles")


def _random(draw: random.Random, step: int, number: int) -> list[Row]:
    seconds = [step * 15 + draw.randrange(15) - draw.randrange(12) for _ in range(draw.randint(0, 8))]
    return [Row(number + i, draw.choice([None, 1, 2, 3, 4]), second) for i, second in enumerate(seconds)]


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.campaign) for seed in (2, 3))])
def test_random_streams_and_tables_are_those_of_brute_force(
    spark: SparkSession, stream_test: StreamTest, seed: int
) -> None:
    draw = random.Random(seed)
    delay, max_age = draw.choice([0, 3, 15]), draw.choice([None, 20, 60])
    ages = {} if max_age is None else {"max_age": f"{max_age} seconds"}
    streams = Streams(stream_test)
    times = [draw.choice([-200, -50, -20, -1, 0, 5, 40, 90]) for _ in range(12)]
    initial = [Row(5000 + i, draw.choice([None, 1, 2, 3, 5]), second) for i, second in enumerate(times)]
    oracle = AsOfOracle(delay, max_age, 10, right=[row for row in initial if row.key is not None])
    options: dict[str, Any] = {"delay": f"{delay} seconds", **ages}
    first = _stream(streams, initial=_table(streams, initial), **options)
    changed = _stream(streams, initial=_table(streams, [Row(1, 1, 0)]), **options)
    omitted = _stream(streams, **options)
    lefts: list[Row] = []
    with streams.query(first) as query:
        for step in range(10):
            # The first step has the table.
            if step and draw.random() < 0.4:
                query.stop()
                if draw.random() < 0.5:
                    tailrace.rescale(spark, query.checkpoint, draw.randint(1, 5))
                query.restart(draw.choice([first, changed, omitted]))
                oracle.spark.restart()
            sides = [
                _random(draw, step, 100 * step + 50 * side) or [Row(100 * step, 4, 15 * step)]
                for side in (0, 1)
            ]
            lefts += sides[0]
            streams.add(*sides)
            assert looked(next_rows(query)) == oracle.step(*sides)
    assert any(row.id >= 5000 for row in oracle.right)


def test_a_first_batch_that_failed_leaves_each_row_once(
    spark: SparkSession, stream_test: StreamTest, tmp_path: Path
) -> None:
    streams = Streams(stream_test)
    result = _stream(streams, initial=_table(streams, _INITIAL))
    failed = tmp_path / "failed"

    def fail_once(rows: DataFrame, _: int) -> None:
        rows.count()
        if not failed.exists():
            failed.touch()
            raise RuntimeError("dies")

    def run(result: DataFrame) -> None:
        writer = result.writeStream.foreachBatch(fail_once).option("checkpointLocation", str(tmp_path / "c"))
        writer.trigger(availableNow=True).start().awaitTermination()

    streams.add(_LEFT, _RIGHT)
    stream_test.flush()
    with pytest.raises(StreamingQueryException, match="dies"):
        run(result)
    assert not list((tmp_path / "c" / "commits").glob("[0-9]*"))
    with pytest.raises(StreamingQueryException, match="`initial` was given and is not given now") as refused:
        run(_stream(streams))
    assert "TAILRACE_CHECKPOINT_INCOMPATIBLE" in str(refused.value)
    run(result)
    state = spark.read.format("tailrace-state").load(str(tmp_path / "c")).where("side = 'right'")
    assert sorted(row.r_id for row in state.select("right.r_id").collect()) == [
        *(row.id for row in _RIGHT),
        *(row.id for row in _INITIAL if row.key is not None),
    ]


@pytest.mark.parametrize(
    ("by", "batches", "most"),
    [
        pytest.param("fault", 2, 8, marks=pytest.mark.slow),
        pytest.param("kill", 1, 5, marks=pytest.mark.campaign),
    ],
)
def test_a_crash_loses_none_of_it(
    spark: SparkSession, tmp_path: Path, by: Literal["fault", "kill"], batches: int, most: int
) -> None:
    schemas = ["l_id long, key long, l_ts timestamp", "r_id long, key long, r_ts timestamp"]
    values = [(201, 7, at(-30)), (202, 7, at(-20)), (203, 8, at(-20))]

    def pipeline(root: Path, left: DataFrame, right: DataFrame) -> DataStreamWriter:
        def take(rows: DataFrame, batch: int) -> None:
            out = root / "out"
            out.mkdir(exist_ok=True)
            lines = [json.dumps(row.asDict()) for row in rows.selectExpr("l_id", "features.r_id").collect()]
            (out / f"{batch}.json").write_text("\n".join(lines))

        left, right = left.withWatermark("l_ts", "10 seconds"), right.withWatermark("r_ts", "10 seconds")
        table = left.sparkSession.createDataFrame(values, schemas[1])
        return _as_of(left, right, initial=table).writeStream.foreachBatch(take)

    def read(root: Path) -> list[str]:
        return [line for file in (root / "out").glob("*.json") for line in file.read_text().splitlines()]

    feeds = [([(1, 7, at(1)), (2, 8, at(2))], [(101, 5, at(3))]), ([(3, 8, at(40))], [(102, 5, at(41))])]
    values_found = [(1, 202), (2, 203), (3, 203)]
    steps = crash_at_every_step(spark, tmp_path, pipeline, schemas, feeds[:batches], read, most=most, by=by)
    assert any("commits/0" in step for step in steps)
    found = sorted(read(next(tmp_path.glob("crashes-*")) / "undisturbed"))
    assert found == [json.dumps({"l_id": i, "r_id": r}) for i, r in values_found[: batches + 1]]
