"""A query goes on with other columns, and rows that wait come out in the new shape."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any, Literal

import pytest
from pyspark.errors import StreamingQueryException

import growing
import tailrace
from evolving import Evolving
from growing import Growing
from streams import at
from tailrace.testing import crash_at_every_step

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.conf import RuntimeConfig
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from tailrace.testing import StreamTest

_CAMPAIGN, _LONG = pytest.mark.campaign, pytest.mark.long


@pytest.fixture
def often_compacted(stream_test: StreamTest) -> Iterator[RuntimeConfig]:
    conf = stream_test.spark.conf
    conf.set("spark.tailrace.state.compactionRuns", 2)
    yield conf
    for name in ("state.compactionRuns", "join.strategy"):
        conf.unset(f"spark.tailrace.{name}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "seed"),
    [("lazy", 1), pytest.param("eager", 2, marks=_CAMPAIGN), pytest.param("inner", 3, marks=_LONG)],
)
def test_rows_that_wait_come_out_in_the_newest_shape(
    stream_test: StreamTest, often_compacted: RuntimeConfig, kind: str, seed: int
) -> None:
    often_compacted.set("spark.tailrace.join.strategy", "lazy" if kind == "inner" else kind)
    streams = Evolving(stream_test, random.Random(f"{kind}-{seed}"))
    how: Literal["inner", "left"] = "inner" if kind == "inner" else "left"

    def joined() -> DataFrame:
        left, right = (streams.frame(s).withWatermark(f"{s}_ts", "10 seconds") for s in "lr")
        return tailrace.join(
            left, right, on="key", left_time="l_ts", right_time="r_ts", after="100 seconds", how=how
        )

    pairs: list[tuple[int, int]] = []
    with stream_test.query(joined()) as query:
        for version in range(4):
            query.stop()
            if version == 2:
                tailrace.rescale(stream_test.spark, query.checkpoint, 3)
                streams.are_rewritten()
            if version:
                streams.change()
            query.restart(joined())
            for begin in range(50 * version, 50 * version + 40, 10):
                streams.add_some(begin, begin + 10, count=2)
                pairs += streams.pairs(query)
        # With the columns of the last version, everything that waits comes out.
        for side in "lr":
            streams.add(side, 99, 1000)
        pairs += streams.pairs(query)
    alone = [] if how == "inner" else [-1]
    lefts = [number for number, (key, _) in streams.times["l"].items() if key != 99]
    expected = [(n, r) for n in lefts for r in streams.matches(n, 100) or alone]
    assert sorted(pair for pair in pairs if streams.times["l"][pair[0]][0] != 99) == sorted(expected)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", [1, 2])
def test_rows_that_wait_in_a_synced_join_do_so_too(stream_test: StreamTest, seed: int) -> None:
    rng = random.Random(seed)
    streams = Evolving(stream_test, rng)

    def joined() -> DataFrame:
        left, right = (streams.frame(side).selectExpr("*", "0 as p") for side in "lr")
        return tailrace.sync_join(
            left,
            right,
            on=[("l_id", "r_id")],
            left_time="l_ts",
            right_time="r_ts",
            left_partition="p",
            right_partition="p",
            window="500 seconds",
            sync_delay="60 seconds",
        )

    out: list[dict[str, Any]] = []
    with stream_test.query(joined()) as query:
        for version in range(4):
            if version:
                streams.change()
                query.restart(joined())
            # The same ids on both sides.
            streams.add_some(40 * version, 40 * version + 40)
            query.run()
            query.run()
            new = query.new_rows()
            out += new
            for row in new:
                streams.check(row, "l")
                if row["r_ts"] is not None:
                    # The right key doesn't come out.
                    streams.check(row | {"r_id": row["l_id"]}, "r")
    assert sum(row["r_ts"] is not None for row in out) > 4


@pytest.mark.contract
def test_a_further_column_is_null_in_rows_that_wait_though_it_is_never_null_in_the_input(
    stream_test: StreamTest,
) -> None:
    source = {side: stream_test.source(f"{side}_id long, key long, {side}_ts timestamp") for side in "lr"}

    def joined(*further: str) -> DataFrame:
        left, right = (
            source[side].frame.selectExpr("*", *further).withWatermark(f"{side}_ts", "0 seconds")
            for side in "lr"
        )
        result = tailrace.join(left, right, on="key", left_time="l_ts", right_time="r_ts", after="30 seconds")
        # Spark leaves out a filter on what can't be null.
        names = ["city", "place.street", "labels.city[0]", "labels[0].place.street"] if further else []
        return result.selectExpr("l_id", *(f"{name} is null as n{i}" for i, name in enumerate(names)))

    source["l"].add((1, 7, at(0)))
    source["r"].add((1, 7, at(1)))
    with stream_test.query(joined()) as query:
        query.run()
        query.restart(joined("'Bonn' as city", "named_struct('street', 5) as place"))
        source["l"].add((2, 8, at(2)), (3, 9, at(100)))
        source["r"].add((2, 8, at(3)), (3, 9, at(100)))
        query.run()
        assert sorted(query.new_rows("l_id", "n0", "n1", "n2", "n3")) == [
            (1, True, True, True, True),
            (2, False, False, False, False),
        ]


@pytest.mark.parametrize("strategy", ["lazy", "eager"])
def test_a_window_may_grow_and_rows_that_wait_are_judged_by_the_new_one(
    stream_test: StreamTest, often_compacted: RuntimeConfig, strategy: str
) -> None:
    often_compacted.set("spark.tailrace.join.strategy", strategy)
    source = {side: stream_test.source(f"{side}_id long, key long, {side}_ts timestamp") for side in "lr"}

    def joined(after: str) -> DataFrame:
        left, right = (source[s].frame.withWatermark(f"{s}_ts", "0 seconds") for s in "lr")
        return tailrace.join(left, right, on="key", left_time="l_ts", right_time="r_ts", after=after)

    source["l"].add((1, 7, at(0)), (2, 7, at(50)))
    source["r"].add((1, 7, at(20)), (2, 7, at(55)))
    with stream_test.query(joined("30 seconds")) as query:
        query.run()
        # Row 1 has come out; row 2 waits for 12:01:20.
        assert [row["l_id"] for row in query.new_rows()] == [1]
        query.restart(joined("60 seconds"))
        source["l"].add((3, 8, at(90)))
        source["r"].add((3, 7, at(85)), (4, 7, at(111)))
        query.run()
        assert query.new_rows() == []
        source["l"].add((4, 9, at(300)))
        source["r"].add((5, 7, at(300)))
        query.run()
        assert {r["l_id"]: [m["r_id"] for m in r["labels"]] for r in query.new_rows()} == {2: [2, 3], 3: []}
        query.restart(joined("59 seconds"))
        source["l"].add((5, 9, at(400)))
        with pytest.raises(StreamingQueryException, match="`after` was '1 minute' and is now '59 seconds'"):
            query.run()


@pytest.mark.parametrize(
    ("kind", "release"),  # a step holds left rows of a lazy join back, which the oracle doesn't know
    [pytest.param(*case, marks=_CAMPAIGN) for case in (("eager", "15 seconds"), ("inner", None))]
    + [pytest.param(*case, marks=_LONG) for case in (("lazy", "batch"), ("chained", None))],
)
def test_each_row_has_the_window_that_it_waited_for_however_often_it_grows(
    stream_test: StreamTest, often_compacted: RuntimeConfig, kind: str, release: str | None
) -> None:
    often_compacted.set("spark.tailrace.join.strategy", kind if release else "eager")
    streams = Growing(stream_test, random.Random(f"{kind}-{release}"))
    # Of the join in front of it, whose rows come out by so much later. It grows with it.
    behind = {"chained": 10}

    def joined() -> DataFrame:
        left = streams.frame("l")
        if kind in behind:
            left = tailrace.join(
                left,
                streams.frame("r").toDF("other", "key", "other_ts"),
                on="key",
                left_time="l_ts",
                right_time="other_ts",
                after=f"{behind[kind]} seconds",
                release_every="batch",
            ).drop("labels")
        return tailrace.join(
            left,
            streams.frame("r"),
            on="key",
            left_time="l_ts",
            right_time="r_ts",
            before=f"{growing.BEFORE} seconds",
            after=f"{streams.after} seconds",
            how="left" if release else "inner",
            release_every=release,
        )

    out: list[Row] = []
    with stream_test.query(joined()) as query:
        for number in [*range(1, 24), 0]:
            if number % 5 == 4:
                query.stop()
                streams.grow(15, behind.get(kind, 0))
                behind = {name: seconds + 20 for name, seconds in behind.items()}
                query.restart(joined())
            streams.read(number)
            query.run()
            out += query.new_rows()
    expected = [pair for pair in streams.pairs if pair[0] in streams.lefts]
    if release is None:
        pairs = [(row["l_id"], row["r_id"]) for row in out]
        assert sorted(pair for pair in pairs if pair[0] in streams.lefts) == expected
    else:
        assert sorted(row["l_id"] for row in out) == streams.lefts
        assert sorted((row["l_id"], match["r_id"]) for row in out for match in row["labels"]) == expected
    assert len(streams.windows) >= 3


@pytest.mark.parametrize(
    "strategy", [pytest.param("lazy", marks=_CAMPAIGN), pytest.param("eager", marks=_LONG)]
)
def test_other_columns_after_a_crash_at_any_step(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    def pipeline(root: Path, left: DataFrame, right: DataFrame) -> DataStreamWriter:
        starts = root / "starts"
        starts.mkdir(exist_ok=True)
        number = len(list(starts.iterdir()))
        (starts / str(number)).touch()
        # A start in two has other columns, so each crash is followed by a change.
        columns = ["cast(n as bigint) as n", "id", "'x' as city", "key", "ts"] if number % 2 else ["*"]
        sides = [
            frame.selectExpr(*columns).toDF(*(f"{s}_{name}" for name in frame.selectExpr(*columns).columns))
            for s, frame in (("l", left), ("r", right))
        ]
        joined = tailrace.join(
            *(side.withWatermark(f"{s}_ts", "0 seconds") for s, side in zip("lr", sides, strict=True)),
            on=[("l_key", "r_key")],
            left_time="l_ts",
            right_time="r_ts",
            # A batch that a sink may have runs again with the window that it had.
            after=f"{30 + 60 * number} seconds",
        )
        rows = joined.selectExpr(
            "l_id", "string(l_n) as n", "string(labels.r_id) as r", "string(labels.r_n) as rn"
        )
        if strategy == "lazy":
            return rows.writeStream.format("parquet").option("path", str(root / "out"))

        def write(frame: DataFrame, batch: int) -> None:
            # Unlike Spark's file sink it asks for the rows of a batch that it has.
            again = frame.collect()
            file = root / "out" / f"{batch}.json"
            file.parent.mkdir(exist_ok=True)
            if not file.exists():
                file.write_text(json.dumps([list(row) for row in again]))

        return rows.writeStream.foreachBatch(write)

    def read(root: Path) -> list[Any]:
        if strategy == "lazy":
            return spark.read.parquet(str(root / "out")).collect()
        return [tuple(row) for file in (root / "out").iterdir() for row in json.loads(file.read_text())]

    spark.conf.set("spark.tailrace.join.strategy", strategy)
    try:
        crash_at_every_step(
            spark,
            tmp_path,
            pipeline,
            ["id int, key int, ts timestamp, n int"] * 2,
            [
                ([(1, 7, at(0), 10), (2, 7, at(20), 20)], [(1, 7, at(5), 1)]),
                ([(3, 8, at(40), 30)], [(2, 7, at(25), None), (3, 8, at(45), 3)]),
                ([(4, 9, at(90), 40)], [(4, 9, at(91), 4)]),
            ],
            read,
            most=6,
        )
    finally:
        spark.conf.unset("spark.tailrace.join.strategy")
