"""The as-of join: each row with the newest value of its key at its own time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace._bridge import arguments, calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tailrace.options import ColumnOrName, Duration, Key, OnLate


def as_of(
    left: DataFrame,
    right: DataFrame,
    *,
    on: ColumnOrName | Sequence[Key],
    left_time: ColumnOrName,
    right_time: ColumnOrName,
    into: str = "features",
    max_age: Duration | None = None,
    delay: Duration = "0 seconds",
    idle_timeout: Duration | None = None,
    on_late: OnLate = "drop",
    initial: DataFrame | None = None,
) -> DataFrame:
    """Gives each row of a stream, or of a batch DataFrame, the newest row of another one at its time.

    A left row at time t looks back from its point, t - delay. It takes the newest right row with equal keys
    whose `right_time` is in [t - delay - max_age, t - delay], both ends included; of several of the same time
    the last by content. Only event time counts: the order and the lag of arrival don't change
    the result, as long as rows arrive before the watermark has reached them.

        with_profile = tailrace.as_of(
            impressions.withWatermark("served_at", "10 minutes"),
            profiles.withWatermark("computed_at", "10 minutes"),
            on="user_id", left_time="served_at", right_time="computed_at", into="profile", max_age="7 days",
        )

    The left side may be the result of `tailrace.join` or of another `as_of`, in the same query: call it once
    for each stream of features.

    Args:
        left: the left DataFrame, for instance the impressions. A stream needs a watermark on `left_time`.
        right: the right DataFrame, for instance the profiles, a row for each update. A stream needs a
            watermark on `right_time`. Both sides are streams, or both are batch DataFrames, of the same
            session.
        on: the key columns, one or more: columns that both sides have, or pairs (left, right), as in
            `tailrace.join`. The types are the same on both sides, or two numeric types of which one has all
            values of the other, which are compared in the wider one.
        left_time: the column of the left side's event time, a timestamp. In a batch DataFrame it may have no
            time zone; Spark's watermarks need one.
        right_time: the column of the right side's event time, of the same type.
        into: the name of the column for the right row.
        max_age: how much older than t - delay the right row may be: zero or more. A string as Spark reads
            durations ("7 days", "1 hour 500 milliseconds"; no months or years) or a `timedelta`. With it, a
            key that is no longer updated is evicted. None: any age. The setting is pinned by the checkpoint.
        delay: how long before t the right row has to be at least: zero or more, likewise. It models the time
            until a value can be read where it is served. The setting is pinned by the checkpoint.
        idle_timeout: buffered left rows of streams are emitted, with the right rows that have arrived, when
            the query has had no input for this time by the clock, as in `tailrace.join`. A left row that
            arrives later is emitted at once, if its time isn't after the newest emitted one. None: rows stay
            buffered until the watermark advances.
        on_late: what happens to a late left row, at or before the watermark. "drop": it is left out. "mark":
            it is emitted at once, with null in `into` and "late_left" in a column `_mark`, because right rows
            that it would find may be evicted. Both are counted as `lateLeftRows`. It may change at a restart.
        initial: a batch DataFrame with the columns of the right side, for instance yesterday's profiles:
            right rows from before the first row of the stream. The first micro-batch of a new checkpoint
            reads it into the state. Its rows are never late and don't move the watermark; otherwise they are
            right rows as any others, for `max_age`, `delay` and null keys, too. Later micro-batches and
            restarts don't read it: it may be changed or left out. Columns are found by name; a type may be
            narrower than that of the right side. With batch DataFrames the right rows are those of both.

    Returns:
        A stream or a batch DataFrame, like the inputs. The same rows give the same result in both. It has the
        left columns, and `into`, a struct of all right columns but the keys: null where there is no such
        row, where a key is null, and where the left row has no time. With on_late="mark" `_mark` is the last
        column, null on ordinary rows.

        A left row of a stream is emitted once, when the watermark has reached its t - delay: with a delay,
        possibly in the micro-batch that reads it. Late right rows are left out, and so are late left rows,
        unless `on_late` is "mark"; the operator's metrics count both. Other stateful operators may follow;
        the output mode is append.

    Raises:
        TailraceJoinError: the join can't be planned: a stream without a watermark on its time column, a
            stream beside a batch DataFrame, a column that is unknown, ambiguous, of a wrong type or exists
            already, a duration that is negative or can't be read. `condition` says which.
        TailraceSessionError: the session, or the Spark Connect server, lacks the jar or a setting.
            `tailrace.configure` makes one that fits.
        TailraceVersionError: wheel, jar, Spark, Scala and Java don't fit together.
        TypeError: an argument has a wrong Python type.

    Source:
        The operator is `io.tailrace.asof` in the jar.
    """
    arguments.frame(left, "left")
    arguments.frame(right, "right")
    lefts, rights = arguments.Columns("tailrace.as_of", left), arguments.Columns("tailrace.as_of", right)
    pairs = arguments.keys(on, lefts, rights)
    options = (
        lefts.named(left_time=left_time)
        | rights.named(right_time=right_time)
        | arguments.texts(into=into, on_late=on_late)
        | arguments.durations(delay=delay)
        | arguments.durations(**arguments.given(max_age=max_age, idle_timeout=idle_timeout))
    )
    if initial is not None:
        arguments.frame(initial, "initial")
    return calls.plan("as_of", left, left=left, right=right, on=pairs, initial=initial, **options)
