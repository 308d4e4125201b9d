"""Recursions that go round by their log: watermarks, triggers, sinks that don't read all, what is kept."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

import tailrace
from kept_batches import KeptBatches
from trees import Trees, down
from waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame


def test_rows_that_go_round_hold_the_watermark(trees: Trees) -> None:
    # 5 goes round five times from 12:00; meanwhile come rows of half an hour later.
    trees.add("nodes", [(5, 12 * 60)], [(1, 12 * 60 + 30)], [(1, 12 * 60 + 31)])
    timed = trees.stream("nodes").selectExpr("node", "timestamp_micros(parent * 60000000) AS at")
    looped = tailrace.recursively(timed.withWatermark("at", "0 seconds"), down, mode="feedback")
    counts = looped.groupBy("at").count()
    rows = trees.run(counts)
    by_minute = {at.strftime("%H:%M"): n for at, n in rows}
    assert by_minute == {"12:00": 5, "12:30": 1, "12:31": 1}
    assert len(rows) == 3
    dropped = [o.numRowsDroppedByWatermark for p in rows.progress for o in p.stateOperators]
    assert sum(dropped) == 0
    # When nothing goes round any more it is where the input's is.
    assert rows.progress[-1].eventTime["watermark"] == "1970-01-01T12:31:00.000Z"


def test_a_trigger_doesnt_wait_while_rows_go_round_and_the_log_is_emptied(trees: Trees) -> None:
    trees.add("nodes", [(4, 0)])
    looped = tailrace.recursively(trees.stream("nodes"), down, mode="feedback", depth_column="hop")
    query = trees.start(looped, processingTime="1 hour")
    wait_for(lambda: trees.spark.table(query.name).count() == 4 and not trees.log(), "rows without a trigger")
    # One hop took one micro-batch, and no more; the last one finds that there is nothing left.
    wait_for(lambda: len(query.recentProgress) >= 5, "the progress of five batches")
    # An idle query reports its last batch once more.
    progress = {p.batchId: p for p in query.recentProgress}.values()
    observed = [p.observedMetrics["tailrace.recursion"] for p in progress]
    assert [(o.mode, o.fedBack, o.deepest) for o in observed] == [
        ("feedback", 1, 1),
        ("feedback", 1, 2),
        ("feedback", 1, 3),
        ("feedback", 1, 4),
        ("feedback", 0, 0),
    ]
    query.stop()
    assert sorted(tuple(r) for r in trees.spark.table(query.name).collect()) == [
        (0, 0, 4),
        (1, 0, 3),
        (2, 0, 2),
        (3, 0, 1),
    ]


def test_a_sink_that_doesnt_read_all_is_found_out(trees: Trees) -> None:
    def take_one(frame: DataFrame, _: int) -> None:
        frame.take(1)

    trees.add("nodes", [(4, i) for i in range(20)])
    looped = tailrace.recursively(trees.stream("nodes"), down, mode="feedback")
    writer = looped.writeStream.foreachBatch(take_one)
    writer = writer.option("checkpointLocation", str(trees.root / "query"))
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="TAILRACE_RECURSION_FEEDBACK_INCOMPLETE"):
        query.awaitTermination()


def test_rows_on_their_way_are_found_again_and_another_op_is_refused(trees: Trees) -> None:
    trees.add("nodes", [(3, 7)])

    def run(column: str, **trigger: bool) -> None:
        nodes = trees.stream("nodes").selectExpr("node", f"{column} AS parent")
        looped = tailrace.recursively(nodes, down, mode="feedback").selectExpr("node", "CAST(parent AS long)")
        writer = looped.writeStream.option("checkpointLocation", str(trees.root / "query"))
        writer.trigger(**trigger).start(str(trees.root / "out"), "parquet").awaitTermination()

    def out() -> list[int]:
        return sorted(r.node for r in trees.spark.read.parquet(str(trees.root / "out")).collect())

    run("parent", once=True)
    assert out() == [2]
    assert trees.log() > 0
    with pytest.raises(StreamingQueryException, match="TAILRACE_RECURSION_SCHEMA_CHANGED"):
        run("CAST(parent AS string)", availableNow=True)
    run("parent", availableNow=True)
    assert out() == [0, 1, 2]
    assert trees.log() == 0


@pytest.mark.slow
def test_another_max_depth_holds_for_rows_on_their_way_and_another_column_is_refused(trees: Trees) -> None:
    trees.add("nodes", [(9, 0)])

    def run(recursively: Callable[..., DataFrame], *, drained: bool) -> None:
        looped = recursively(trees.stream("nodes"), down, mode="feedback")
        writer = looped.select("node").writeStream.option("checkpointLocation", str(trees.root / "query"))
        trigger = {"availableNow": True} if drained else {"once": True}
        writer.trigger(**trigger).start(str(trees.root / "out"), "parquet").awaitTermination()

    def out() -> list[int]:
        return sorted(r.node for r in trees.spark.read.parquet(str(trees.root / "out")).collect())

    run(partial(tailrace.recursively, max_depth=2, on_limit="drop"), drained=False)
    run(partial(tailrace.recursively, max_depth=4, on_limit="drop"), drained=True)
    assert out() == [5, 6, 7, 8]

    trees.add("nodes", [(3, 0)])
    run(partial(tailrace.recursively, max_depth=9), drained=False)
    for others in (
        tailrace.recursively,
        partial(tailrace.recursively, max_depth=9, path_columns="node"),
        partial(tailrace.recursively, path_columns="node", on_cycle="mark"),
    ):
        with pytest.raises(StreamingQueryException, match="TAILRACE_RECURSION_SCHEMA_CHANGED"):
            run(others, drained=True)
    run(partial(tailrace.recursively, max_depth=1, on_limit="drop"), drained=True)
    assert out() == [2, 5, 6, 7, 8]


def test_state_within_op(trees: Trees) -> None:
    # Two ways lead to 0: deduplication lets each node through once, over all hops.
    trees.add("nodes", [(3, 0), (2, 0)], [(4, 0)])
    seen_once = tailrace.recursively(trees.stream("nodes"), lambda u: down(u).dropDuplicates(["node"]))
    rows = trees.run(seen_once)
    assert sorted(rows) == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert {c["mode"] for c in rows.counts()} == {"feedback"}


def test_a_join_of_tailrace_within_op(trees: Trees) -> None:
    """The way up through a tree whose nodes stream in: an ancestor may come after its descendants."""
    trees.add("nodes", [(5, 4), (3, 2)], [(4, 3)], [(2, 1)])
    edges = trees.stream("nodes").selectExpr("node", "parent", "timestamp_seconds(10 * node) AS at")
    edges = edges.withWatermark("at", "1 hour")

    def up(u: DataFrame) -> DataFrame:
        links = edges.withColumnRenamed("at", "linked")
        pairs = tailrace.join(
            u,
            links,
            on="node",
            left_time="at",
            right_time="linked",
            before="1 hour",
            after="1 hour",
            how="inner",
        )
        return pairs.selectExpr("parent AS node", "leaf", "greatest(at, linked) AS at")

    leaves = edges.selectExpr("parent AS node", "node AS leaf", "at")
    rows = trees.run(tailrace.recursively(leaves, up))
    above = {5: [4, 3, 2, 1], 4: [3, 2, 1], 3: [2, 1], 2: [1]}
    assert sorted((leaf, node) for node, leaf, _ in rows) == sorted(
        (leaf, node) for leaf, nodes in above.items() for node in nodes[1:]
    )
    assert {c["mode"] for c in rows.counts()} == {"feedback"}
    assert trees.log() == 0


@pytest.fixture
def retain(trees: Trees) -> Iterator[Callable[[int], None]]:
    """Says how many micro-batches Spark's logs keep, for the queries that the test starts."""
    key = "spark.sql.streaming.minBatchesToRetain"
    yield lambda batches: trees.spark.conf.set(key, batches)
    trees.spark.conf.unset(key)


def _run_kept(trees: Trees) -> dict[int, list[int]]:
    """What each micro-batch of one start gives."""
    kept = KeptBatches(trees.root / "kept")
    looped = tailrace.recursively(trees.stream("nodes"), down, mode="feedback")
    writer = looped.writeStream.foreachBatch(kept)
    writer = writer.option("checkpointLocation", str(trees.root / "query"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return {batch: [row["node"] for row in rows] for batch, rows in kept.batches()}


def _forget(trees: Trees, log: str, batches: Iterable[int]) -> None:
    for batch in batches:
        for name in (str(batch), f".{batch}.crc"):
            (trees.root / "query" / log / name).unlink(missing_ok=True)


def _logged(trees: Trees) -> list[int]:
    log = trees.root / "query" / "tailrace-recursion" / "recursion"
    return sorted(int(p.name) for p in log.iterdir() if p.name.isdigit())


def test_the_last_batch_may_run_again(trees: Trees, retain: Callable[[int], None]) -> None:
    """As where its entry in the commit log got lost: what it has read is still there, once."""
    retain(1)
    trees.add("nodes", [(4, 0)])
    assert _run_kept(trees) == {0: [3], 1: [2], 2: [1], 3: [0], 4: []}
    for _ in range(2):
        _forget(trees, "commits", [4])
        assert _run_kept(trees) == {4: []}
        assert _logged(trees) == [3, 4]
    trees.add("nodes", [(2, 0)])
    assert _run_kept(trees) == {5: [1], 6: [0], 7: []}
    _forget(trees, "commits", [7])
    assert _run_kept(trees) == {7: []}


@pytest.mark.parametrize("offsets", [True, False], ids=["with their offsets", "run again as they were"])
def test_a_query_that_is_set_back_by_several_batches_gives_them_again(trees: Trees, *, offsets: bool) -> None:
    trees.add("nodes", [(5, 0)])
    batches = {0: [4], 1: [3], 2: [2], 3: [1], 4: [0], 5: []}
    assert _run_kept(trees) == batches
    for last in (1, 3, 0):
        later = [batch for batch in batches if batch > last]
        _forget(trees, "commits", later)
        # Spark runs the last one again that it has offsets of, and those before it must have ended.
        _forget(trees, "offsets", later if offsets else later[1:])
        assert _run_kept(trees) == {batch: batches[batch] for batch in later}


def test_the_log_has_as_many_batches_as_sparks_logs(trees: Trees, retain: Callable[[int], None]) -> None:
    retain(3)
    trees.add("nodes", [(8, 0)])
    last = max(_run_kept(trees))
    # The oldest one that Spark can run again reads what the one before it has fed back.
    assert _logged(trees) == list(range(last - 3, last + 1))
    assert (
        min(int(p.name) for p in (trees.root / "query" / "commits").iterdir() if p.name.isdigit()) >= last - 3
    )
    _forget(trees, "commits", [last - 2, last - 1, last])
    _forget(trees, "offsets", [last - 1, last])
    assert _run_kept(trees) == {last - 2: [1], last - 1: [0], last: []}


@pytest.mark.parametrize("foreign", [".DS_Store", ".nfs0000000000c0ffee", "recursion_$folder$", "notes"])
def test_what_other_programs_leave_in_its_folder_is_ignored(trees: Trees, foreign: str) -> None:
    trees.add("nodes", [(3, 0)])
    assert _run_kept(trees) == {0: [2], 1: [1], 2: [0], 3: []}
    folder = trees.root / "query" / "tailrace-recursion"
    for place in (folder, folder / "recursion", folder / "recursion" / "3"):
        (place / foreign).write_text("not ours")
    (folder / "lost+found").mkdir()
    trees.add("nodes", [(2, 0)])
    assert _run_kept(trees) == {4: [1], 5: [0], 6: []}
    assert (folder / foreign).read_text() == "not ours"


def test_a_cycle_between_streams_comes_out_marked(trees: Trees) -> None:
    trees.add("nodes", [(1, 2), (2, 3), (3, 1)])
    edges = trees.stream("nodes")
    round_trip = tailrace.recursively(
        trees.stream("nodes").where("node = 1").select("node"),
        lambda u: u.join(edges, "node").selectExpr("parent AS node"),
        path_columns="node",
        on_cycle="mark",
    )
    rows = trees.run(round_trip)
    assert sorted(rows, key=lambda r: len(r[1])) == [
        (2, [1, 2], None),
        (3, [1, 2, 3], None),
        (1, [1, 2, 3, 1], "cycle"),
    ]


def test_a_result_that_is_used_twice(trees: Trees) -> None:
    # Spark runs op once for each use; one of the two says what goes round, and both give it.
    trees.add("nodes", [(4, 0), (2, 0)], [(3, 1)])
    looped = tailrace.recursively(trees.stream("nodes"), down, mode="feedback")
    rows = trees.run(looped.unionAll(looped))
    once = [(n, parent) for top, parent in ((4, 0), (2, 0), (3, 1)) for n in range(top)]
    assert sorted(rows) == sorted(once * 2)
    assert trees.log() == 0


def test_a_result_that_is_used_twice_behind_a_watermark(trees: Trees) -> None:
    trees.add("nodes", [(5, 12 * 60)], [(1, 12 * 60 + 30)], [(1, 12 * 60 + 31)])
    timed = trees.stream("nodes").selectExpr("node", "timestamp_micros(parent * 60000000) AS at")
    looped = tailrace.recursively(timed.withWatermark("at", "0 seconds"), down, mode="feedback")
    both = looped.where("node % 2 = 0").unionAll(looped.where("node % 2 = 1"))
    rows = trees.run(both.groupBy("at").count())
    assert {at.strftime("%H:%M"): n for at, n in rows} == {"12:00": 5, "12:30": 1, "12:31": 1}
    assert sum(o.numRowsDroppedByWatermark for p in rows.progress for o in p.stateOperators) == 0
