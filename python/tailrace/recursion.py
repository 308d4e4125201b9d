"""Recursion in a stream: an operation is applied to its own results until it returns no rows."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from tailrace._bridge import arguments, calls

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
    """Feeds the results of an operation back to it, and returns all results.

        ancestors = tailrace.recursively(
            nodes.selectExpr("parent AS node"),
            lambda updates: updates.join(parents, "node").selectExpr("parent AS node"),
        )
        ancestors.groupBy("node").count()

    Each row that `op` returns is emitted, and is passed to `op` again, until `op` returns none: the path up
    a tree, the parts of parts, referrals, retries. The rows of `frame` itself aren't emitted, so the first
    rows of the example are the nodes' grandparents. Use `union` to have both.

    The mode of iteration is chosen by the plan of `op`. The query's plan and progress show it:

    - "fixpoint": an `op` without state (select, filter, explode, functions, joins with tables) is applied
      until no row is left within the micro-batch that brought the row. `op` needs no exchange for a join with
      a table of up to `spark.tailrace.recursion.broadcastBytes` (128 MiB). Without an exchange this happens
      in the row's own task, and an iteration (hop) needs no Spark job. A table whose size Spark doesn't know
      is measured by a job of its own: in each micro-batch, but only once if the table can't change, as one of
      `createDataFrame`. A table of the catalog (`spark.table`) is read as it is when the micro-batch begins.
      The files of `spark.read.parquet(path)` and the like are listed when the DataFrame is made, as
      everywhere in Spark, and later files aren't seen. A row doesn't find a match that is added to a
      table later: for that, join with a stream of the table's rows, which is the other mode.
    - "feedback": with state in `op` (a join of two streams, deduplication) each hop takes a micro-batch. Rows
      that are fed back are in a log in the query's checkpoint, which keeps those of as many micro-batches as
      Spark's own logs (`spark.sql.streaming.minBatchesToRetain`). Each row is fed back exactly once, over a
      failure at any moment. The trigger `availableNow` continues until no row is fed back. `processingTime`
      doesn't wait while rows are fed back.

    Rows with an event time (a column with a watermark) that are fed back hold the watermark back, so that
    they don't become late because they take several micro-batches. They don't hold it back while they are
    buffered in the state of `op`: later results of such a row, at its old time, would be late. So an `op`
    that buffers rows and emits them by the watermark is refused (TAILRACE_RECURSION_HELD_BACK): outer joins
    of two streams, grouped `tailrace.join`, aggregations, functions with state and event time. An inner join
    of streams, Spark's or `tailrace.join`, is allowed if its result has the later time of the two:
    `greatest(at, linked) AS at`, or `linked AS at` where the join's condition has `linked >= at`. If `op`
    returns a row that it would drop as late in the next iteration, the query ends with an error
    (TAILRACE_RECURSION_LATE) before that micro-batch is complete. Joins with tables and deduplication hold
    nothing back. `sync_join` in `op` is always refused.

    Results aren't taken back. If a row says that a node has moved to another parent, results of the old
    parent stay. An aggregation before the recursion is allowed in output mode append only, where each group
    is emitted once. Mutual recursion, two ops that feed each other, isn't supported: write them as one `op`
    over a column that says which of the two a row belongs to. A recursion in the `op` of another one is
    refused.

    `max_depth`, `max_rows` and `on_limit` may be changed when a query is started again. The new values hold
    for rows in flight, too. `path_columns` and `on_cycle`, and `max_depth` or `depth_column` where there was
    neither, change the columns of rows in flight: while there are such rows, the query ends with
    TAILRACE_RECURSION_SCHEMA_CHANGED. If `op` has a join of streams or another operator with state, the
    rows in that state count, too, and Spark refuses them first
    (STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE): start with a new checkpoint.

    Random functions in `op` (`rand`, `uuid`, `shuffle`, `sample`) give other values at each hop, in each
    micro-batch, and in a batch that runs again after a failure, as everywhere in Spark's streams; in a batch
    DataFrame the same ones each time. `current_timestamp()` is the same at all hops.
    `monotonically_increasing_id` and `input_file_name` are refused, because a row that is fed back has
    neither. So is a sample where each hop takes a micro-batch; use `where(rand() < fraction)`.

    Each batch's counts are in the query's progress, `observedMetrics["tailrace.recursion"]` (with a `name` of
    its own: `"tailrace.recursion.<name>"`): `mode`, `rows` emitted, `fedBack`, `deepest`, `stopped` by
    a limit, `cycles`, and `hops`: `hop`, `rows` and `ms` of each of the first hundred. In the mode "feedback"
    `ms` is the time of the longest task as a whole, and all rows count for hop 1 unless `max_depth` or
    `depth_column` is given.

    Args:
        frame: a stream; or a batch DataFrame, if `op` has no state.
        op: is called once, with a DataFrame like `frame`. Its result must have the same columns, by name,
            type and order, and an operation that can drop a row, or it would never end.
        max_depth: the last hop at which rows may be emitted. None: any hop; but where hops are counted, the
            query ends with an error after 100,000 of them, which is a loop. A recursion without limits that
            continues for long is logged as TAILRACE_RECURSION_LONG.
        max_rows: how many rows a task may return in a micro-batch; where `op` exchanges rows, all tasks
            together. None: any number. The time of a micro-batch isn't limited.
        on_limit: "fail": the query ends with an error that names some of the rows. "drop": no row beyond the
            limit is emitted, and they are counted.
        depth_column: the name of a column to be added, int: the hop that returned a row, from 1 on.
        path_columns: the columns that are the key of a row, of types that can be compared; null is equal to
            null. A column `path` is added: an array of the keys that the row has come by, from the key of
            the first row to its own; of structs with several columns. A cycle is a row whose key is in its
            own path already.
        on_cycle: with `path_columns`, what happens to a row that closes a cycle. "fail": the query ends with
            an error that names the path. "drop": the row is left out. "mark": it is emitted, with "cycle" in
            a column `_mark`, and isn't passed to `op` again.
        mode: "auto", or one of the two to require it: an `op` that doesn't support the mode is refused.
        name: the name of the recursion in the checkpoint and in the query's progress. Never change it. Two
            recursions of one query need two names. A checkpoint of other recursions is refused when the query
            starts.

    Returns:
        A DataFrame with the columns of `frame`, then `depth_column`, `path` and `_mark` as requested.

    Raises:
        TailraceRecursionError: `op` can't end, returns its argument, doesn't use it, returns other columns,
            or has an operation that isn't supported; or an option is invalid.
        TailraceSessionError: the session lacks the jar or the extension.
        TypeError: an argument, or the result of `op`, has a wrong Python type.
    """
    arguments.frame(frame, "frame")
    columns = arguments.Columns("tailrace.recursively", frame)
    if not callable(op):
        raise TypeError(f"`op` must be a function of a DataFrame, not {type(op).__name__}.")
    chosen = arguments.texts(on_limit=on_limit, on_cycle=on_cycle, mode=mode, name=name)
    limits = arguments.counts(**arguments.given(max_depth=max_depth, max_rows=max_rows))
    options = chosen | limits | arguments.texts(**arguments.given(depth_column=depth_column))
    options |= {
        "frame": frame,
        "path_columns": columns.names(() if path_columns is None else path_columns, "path_columns"),
        # The same in both calls, and in no other recursion.
        "id": -secrets.randbits(62) - 1,
    }
    result = op(calls.plan("recursively", frame, **options))
    arguments.frame(result, "result of op")
    return calls.plan("recursively", frame, **options, result=result)
