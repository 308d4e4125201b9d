"""The synced join: each left row with at most one right row, as early as the slowest partition allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace import _convert, _jvm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tailrace.options import (
        ColumnOrName,
        Duration,
        Key,
        OnDuplicate,
        OnFuture,
        OnStall,
        OnUnmatchedRight,
    )


def sync_join(
    left: DataFrame,
    right: DataFrame,
    *,
    on: ColumnOrName | Sequence[Key],
    left_time: ColumnOrName,
    right_time: ColumnOrName,
    window: Duration,
    sync_delay: Duration,
    left_partition: ColumnOrName | Sequence[ColumnOrName] | None = None,
    right_partition: ColumnOrName | Sequence[ColumnOrName] | None = None,
    on_stall: OnStall = "pause",
    on_left_stall: OnStall | None = None,
    stall_after: Duration | None = None,
    future_limit: Duration | None = None,
    on_future: OnFuture = "clamp",
    on_duplicate: OnDuplicate = "emit",
    on_unmatched_right: OnUnmatchedRight = "drop",
    max_pending: int | None = None,
    suffix: str = "_right",
    name: str = "sync_join",
) -> DataFrame:
    """Joins two streams by a unique key, each left row with at most one right row, within seconds.

        joined = tailrace.sync_join(
            bids, impressions, on="bid_id", left_time="created", right_time="created",
            window="10 minutes", sync_delay="5 seconds",
        )

    The sync time is how far the slowest right partition has been read, in event time, less `sync_delay`. A
    left row is held until the sync time has passed it; then it comes out, with the right row of its key if
    one has been read, else with nulls. So no match is lost to a partition that lags or stalls: the join waits
    for it. What a micro-batch has read counts for the next one.

    A left row joins right rows of its key that are at most `window` older than it, or at most `sync_delay`
    (and `window`) younger, wherever and however fast they are read: of those that are further apart none
    ever matches. Left rows whose key had a right row out of reach are counted as `tooFar`. A right row is
    held until it is joined, or until the slowest left partition is past what it may be joined by.

    `sync_delay` has to cover how long after its left row a right row is made, and how far records jump back
    in time within a partition, together. Records that jump further are counted as `possiblyMissed`, and so
    are right records that come when a left row in their reach may be out; those before the sync time are
    counted as `late`.

    A `where` in front of the join hides how far a partition is: one that gives nothing but records that are
    filtered is waited for, and `waitsFor` says "filtered". With `stall_after` nobody waits for it when it
    has given nothing else for so long, and is read to its end; what comes of it then may be late.

    Progress is in the query's `observedMetrics["tailrace.syncJoin"]` (with a `name` of its own:
    `"tailrace.syncJoin.<name>"`): how far the join is, what it holds, and which partition it waits for, how
    far behind that is and for how long.

    Args:
        left: a stream of the rows that are made first, for instance bids.
        right: a stream of the same classic session, for instance impressions.
        on: the key columns: columns that both sides have, or pairs (left, right), each by name or as a Column
            such as left["bid_id"]. Any orderable type but strings with a collation; the same on both sides,
            or two integer or decimal types, or float and double, which are compared in the wider one. A row
            without a key matches nothing.
        left_time: column of the left side's event time, a timestamp (with or without a time zone).
        right_time: column of the right side's event time, of the same type.
        window: how far apart in event time two rows may be that match. A string as Spark reads durations
            ("10 minutes"; no months or years) or a `timedelta`; zero or more.
        sync_delay: how far the right stream has to be past a left row before that is released, and so how
            much younger than it a right row may be; likewise.
        left_partition: the columns that say which source partition a left row was read from, one or more.
            None: Kafka's `topic` and `partition`, as far as the frame has them.
        right_partition: likewise. Of Kafka all partitions of the topic count, those that have sent
            nothing too; of other sources those of which a row has been read.
        on_stall: what is done when the partition that the join waits for has been silent for `stall_after`:
            others of either side went on, and nothing of it is unread. "pause": it is said, and waited for.
            "exclude": it doesn't count until it is back at the sync time; rows of it behind that are late. If
            that becomes of all partitions of a side, the join goes on with the other side's time. "fail": the
            query stops with its name.
        on_left_stall: the same for left partitions, which right rows wait for. None: as `on_stall`.
        stall_after: after how long; needed for "exclude" and "fail", and to go on without a partition whose
            records are all filtered before the join. None: a minute, for a warning. Time in
            which the query is down or nobody gives anything doesn't count: a micro-batch counts an eighth of
            it at the most.
        future_limit: how far ahead of the micro-batch's clock an event time is believed. None: as far as it
            is.
        on_future: what is done about rows further ahead. "clamp": their partition is as far as the limit, and
            the rows wait for their time. "mark": they don't move their partition, and come out as they are
            read, without a match, marked "future" in a column `_mark`. "fail": the query
            fails.
        on_duplicate: what is done with further rows of a key. A left row takes all right rows that it may
            join; the first by event time is the match, the others are duplicates. Of left rows the earlier
            one is served first; a further one that finds nothing is a duplicate if it is released in the same
            micro-batch. That depends on how the streams are read, so "drop" and "mark" do, too. "emit"
            doesn't, unless left rows of one key come out of order or from several partitions. "emit": left
            duplicates come out without a match, right ones are dropped. "drop": both are dropped. "mark":
            both come out, marked "duplicate" in a column `_mark`. They are always counted.
        on_unmatched_right: what is done with right rows that nobody has joined. "drop" counts them, "emit"
            lets them come out with nulls in the left columns but the keys.
        max_pending: rows held of a side, above which its partitions that are ahead aren't read any more;
            for Kafka. A run with `availableNow` reads all there is, however much it holds. None: any number.
        suffix: what is put behind the name of a right column that the left side has too.
        name: of the join in the checkpoint and in the query's progress; never change it.

    Returns:
        A stream: the left columns; the right columns but the keys, null where unmatched; then `_mark`
        string, null on ordinary rows, if duplicates or rows ahead of the clock come out marked. Output mode:
        append.

    Raises:
        TailraceJoinError: the join can't be planned: a batch frame, a column that is unknown, ambiguous, of a
            wrong type or exists already, a duration that is negative or can't be read, options that don't go
            together. `condition` says which.
        TailraceSessionError: the session lacks the jar, the extension or the state store provider, or it is a
            Spark Connect session. `tailrace.configure` makes one that fits.
        TailraceVersionError: wheel, jar, Spark, Scala and Java don't fit together.
        TypeError: an argument of a wrong Python type.

    Source:
        The operator is `io.tailrace.sync` in the jar; `jvm/docs/architecture.md` follows a row through it.
    """
    _convert.frame(left, "left")
    _convert.frame(right, "right")
    lefts = _convert.Columns("tailrace.sync_join", left)
    rights = _convert.Columns("tailrace.sync_join", right)
    on_left, on_right = _convert.keys(on, lefts, rights)
    options = (
        lefts.given(left_time=left_time)
        | rights.given(right_time=right_time)
        | _convert.durations(
            window=window, sync_delay=sync_delay, stall_after=stall_after, future_limit=future_limit
        )
        | _convert.texts(
            on_stall=on_stall,
            on_left_stall=on_left_stall,
            on_future=on_future,
            on_duplicate=on_duplicate,
            on_unmatched_right=on_unmatched_right,
            suffix=suffix,
            name=name,
        )
        | _convert.counts(max_pending=max_pending)
    )
    left_origin = lefts.names(left_partition, "left_partition")
    right_origin = rights.names(right_partition, "right_partition")
    return _jvm.plan("syncJoin", left, right, on_left, on_right, left_origin, right_origin, options)
