"""Recursion in a stream: what comes of a row, of what comes of it, and so on, until nothing is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace import _convert, _jvm

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from tailrace.options import ColumnOrName, Mode, OnCycle, OnLimit


def recursively(
    frame: DataFrame,
    op: Callable[[DataFrame], DataFrame],
    *,
    max_depth: int | None = None,
    max_rows: int | None = None,
    on_limit: OnLimit = "fail",
    depth_column: str | None = None,
    path_columns: ColumnOrName | Sequence[ColumnOrName] | None = None,
    on_cycle: OnCycle = "fail",
    mode: Mode = "auto",
    name: str = "recursion",
) -> DataFrame:
    """All that comes of a frame by an operation whose results are its argument again.

        ancestors = tailrace.recursively(
            nodes.selectExpr("parent AS node"),
            lambda updates: updates.join(parents, "node").selectExpr("parent AS node"),
        )
        ancestors.groupBy("node").count()

    Each row that `op` gives comes out, and is given to `op` once more, until it gives nothing any more: the
    way up a tree, the parts of parts, referrals, retries. The frame's own rows don't come out, so that the
    first ones of the example are the nodes' grandparents; `union` them if they are wanted.

    How rows go round is chosen from the plan of `op`, and shown in the query's plan and progress:

    - "fixpoint": an `op` without state (select, filter, explode, functions, joins with tables) is applied
      until nothing is left within the micro-batch that brought the row. Where `op` needs no exchange, and it
      needs none to join a table of up to `spark.tailrace.recursion.broadcastBytes` (128 MiB), that happens
      in the row's own task, without a Spark job a hop. A table whose size Spark doesn't know is measured by a
      job of its own: in each micro-batch, but once if it can't change, as what `createDataFrame` makes of
      rows. A table of the catalog (`spark.table`) is seen as it is when the micro-batch begins; of
      `spark.read.parquet(path)` and the like the files are listed when the frame is made, as everywhere in
      Spark, and files that come later are never seen. A row whose match is added to a table later doesn't
      find it. Join a stream of the table's rows then, which is the other kind.
    - "feedback": with state in `op` (a join of two streams, deduplication) each hop takes a micro-batch.
      Rows that go round are in a log in the query's checkpoint, of which the last two micro-batches' part is
      kept; each goes round exactly once, over a failure at any moment. The trigger `availableNow` goes on
      until the loop has drained; `processingTime` doesn't wait while rows go round.

    Rows with an event time (a column with a watermark) that go round by feedback hold the watermark: none
    becomes late because it takes several micro-batches. They don't hold it while they wait in the state of
    `op`: what comes of such a row later, at its old time, would be late. So an `op` that keeps rows and gives
    them out by the watermark is refused (TAILRACE_RECURSION_HELD_BACK): outer joins of two streams, grouped
    `tailrace.join`, aggregations, functions with state and event time. An inner join of streams, Spark's or
    `tailrace.join`, is allowed if its result has the later time of the two, `greatest(at, linked) AS at`, or
    `linked AS at` where the join's condition has `linked >= at`. And where `op` gives a row that it would
    drop as late when it comes round, the query ends with an error (TAILRACE_RECURSION_LATE) before that
    micro-batch is done. Joins with tables and deduplication keep nothing back. `sync_join` in `op` is always
    refused.

    Results aren't taken back. A row that says that a node has moved to another parent is one more row: what
    came of the old parent stays. An aggregation before the recursion is refused but in the output mode
    append, where each group comes out once. There is no mutual recursion, two ops that feed each other: write
    them as one, over a column that says which of the two a row belongs to. One recursion in another's `op` is
    refused.

    `max_depth`, `max_rows` and `on_limit` may be changed when a query is started again: the new values
    hold for rows that are on their way, too. `path_columns` and `on_cycle`, and `max_depth` or
    `depth_column` where there was neither, change what a row on its way consists of: while there are such
    rows the query ends with TAILRACE_RECURSION_SCHEMA_CHANGED. If `op` has a join of streams or another
    operator with state, its rows in the state count too, and Spark is the first to refuse them
    (STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE): start with a new checkpoint.

    Random functions in `op` (`rand`, `uuid`, `shuffle`, `sample`) give other values at each hop, in each
    micro-batch, and in a batch that runs again after a failure, as everywhere in Spark's streams; in a batch
    frame the same ones each time. `current_timestamp()` is one for all hops. `monotonically_increasing_id`
    and `input_file_name` are refused, for a row that comes round has neither; so is a sample where each hop
    takes a micro-batch: `where(rand() < fraction)` isn't.

    Each batch's counts are in the query's progress, `observedMetrics["tailrace.recursion"]` (with a `name` of
    its own: `"tailrace.recursion.<name>"`): `mode`, `rows` that came out, `fedBack`, `deepest`, `stopped` by
    a limit, `cycles`, and `hops`: `hop`, `rows` and `ms` of each, the first hundred. In the mode "feedback"
    `ms` is the time of the longest task as a whole, and all rows are of hop 1 unless `max_depth` or
    `depth_column` has them counted.

    Args:
        frame: a stream; or a batch frame, if `op` has no state.
        op: is called once, with a frame like `frame`. Its result must have the same columns, by name, type
            and order, and something in it that can drop a row, or it would never end.
        max_depth: after how many hops no row may come out. None: any number, but where hops are counted the
            query ends with an error after 100,000 of them, which is a loop. A recursion without limits that
            goes on for long is warned of in the log, TAILRACE_RECURSION_LONG.
        max_rows: how many rows a task may give in a micro-batch; where `op` exchanges rows, all tasks. None:
            any number. There is no limit of the time that a micro-batch takes.
        on_limit: "fail" ends the query, and names some of the rows; "drop" lets nothing beyond the limit
            come out, and counts what is stopped.
        depth_column: a column to be added, int: the hop at which a row came out, from 1 on.
        path_columns: the columns that a row is known by, of types that can be compared; null is equal to
            null. A column `path` is added: an array of what the rows
            were known by that it has come of, the frame's row first and itself last; of structs where there
            are several columns. Cycles are found: a row that is in its own path.
        on_cycle: with `path_columns`, what is done about a row that closes a cycle. "fail" ends the query
            and names the path; "drop" leaves the row out; "mark" lets it come out marked "cycle" in a
            column `_mark` string, which is added. It doesn't go round again.
        mode: "auto", or one of the two to insist on it: then an `op` that can't go round that way is refused.
        name: of the recursion in the checkpoint and in the progress, never to be changed. Two recursions of
            one query need two names. A checkpoint of others is refused when the query starts.

    Returns:
        A frame with the columns of `frame`, then `depth_column`, `path` and `_mark` as asked for.

    Raises:
        TailraceRecursionError: `op` can't end, is the identity, doesn't use its argument, gives other
            columns, or has an operation in it that can't go round; or an option makes no sense.
        TailraceSessionError: the session lacks the jar, the extension or the state store provider.
        TypeError: an argument, or what `op` returns, is of a wrong Python type.
    """
    _convert.frame(frame, "frame")
    columns = _convert.Columns("tailrace.recursively", frame)
    options = _convert.texts(
        on_limit=on_limit, depth_column=depth_column, on_cycle=on_cycle, mode=mode, name=name
    ) | _convert.counts(max_depth=max_depth, max_rows=max_rows)

    def checked(argument: DataFrame) -> DataFrame:
        result = op(argument)
        _convert.frame(result, "result of op")
        return result

    return _jvm.recursion(frame, checked, columns.names(path_columns, "path_columns"), options)
