"""The synced join: each left row with at most one right row, as early as the slowest partition allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tailrace import _convert, _jvm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tailrace._convert import Duration, Key


def sync_join(
    left: DataFrame,
    right: DataFrame,
    *,
    on: str | Sequence[Key],
    left_time: str,
    right_time: str,
    window: Duration,
    sync_delay: Duration,
    left_partition: str | Sequence[str] | None = None,
    right_partition: str | Sequence[str] | None = None,
    on_stall: Literal["pause", "exclude", "fail"] = "pause",
    left_on_stall: Literal["pause", "exclude", "fail"] | None = None,
    stall_after: Duration | None = None,
    future_limit: Duration | None = None,
    on_future: Literal["clamp", "divert", "fail"] = "clamp",
    duplicates: Literal["emit", "drop", "divert"] = "emit",
    unmatched_right: Literal["drop", "emit"] = "drop",
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
    in time within a partition, together. Records that jump further are counted as `possibly_missed`, and so
    are right records that come when a left row in their reach may be out; those before the sync time are
    counted as `late`.

    A `where` in front of the join hides how far a partition is: one that gives nothing but records that are
    filtered is waited for, and `waits_for` says "filtered". With `stall_after` nobody waits for it when it
    has given nothing else for so long, and is read to its end; what comes of it then may be late.

    Progress is in the query's `observedMetrics["tailrace.sync_join"]` (with another `name`:
    `"tailrace.<name>"`): how far the join is, what it holds, and which partition it waits for, how far behind
    that is and for how long.

    Args:
        left: a stream of the rows that are made first, for instance bids.
        right: a stream of the same classic session, for instance impressions.
        on: the key columns: names that both sides have, or pairs (left name, right name). Any orderable
            type but strings with a collation; the same on both sides, or two integer or decimal
            types, or float and double, which are compared in the wider one. A row without a key matches
            nothing.
        left_time: name of the left side's event time, a timestamp (with or without a time zone).
        right_time: name of the right side's event time, of the same type.
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
        left_on_stall: the same for left partitions, which right rows wait for. None: as `on_stall`.
        stall_after: after how long; needed for "exclude" and "fail", and to go on without a partition whose
            records are all filtered before the join. None: a minute, for a warning. Time in
            which the query is down or nobody gives anything doesn't count: a micro-batch counts an eighth of
            it at the most.
        future_limit: how far ahead of the micro-batch's clock an event time is believed. None: as far as it
            is.
        on_future: what is done about rows further ahead. "clamp": their partition is as far as the limit, and
            the rows wait for their time. "divert": they don't move their partition, and come out as they are
            read, without a match, marked true in a column `future` boolean that is added. "fail": the query
            fails.
        duplicates: what becomes of further rows of a key. A left row takes all right rows that it may join;
            the first by event time is the match, the others are duplicates. Of left rows the earlier one is
            served first; a further one that finds nothing is a duplicate if it is released in the same
            micro-batch: that depends on how the streams are read, so that "drop" and "divert" do too, and
            "emit" doesn't, unless left rows of one key come out of order or from several partitions. "emit":
            left ones come out without a match, right ones are dropped; "drop": both are dropped; "divert":
            both come out, marked. They are always counted.
        unmatched_right: what becomes of right rows that nobody has joined: "drop" counts them, "emit" lets
            them come out with nulls in the left columns but the keys.
        max_pending: rows held of a side, above which its partitions that are ahead aren't read any more;
            for Kafka. A run with `availableNow` reads all there is, however much it holds. None: any number.
        suffix: what is put behind the name of a right column that the left side has too.
        name: of the join in the checkpoint and in the query's progress; never change it.

    Returns:
        A stream: the left columns; the right columns but the keys, null where unmatched; `_duplicate` boolean
        if duplicates are diverted; `future` boolean if rows ahead of the clock are. Output mode: append.

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
    options = {
        "leftTime": _convert.text(left_time, "left_time"),
        "rightTime": _convert.text(right_time, "right_time"),
        "window": _convert.duration(window, "window"),
        "syncDelay": _convert.duration(sync_delay, "sync_delay"),
        "onStall": _convert.text(on_stall, "on_stall"),
        "onFuture": _convert.text(on_future, "on_future"),
        "duplicates": _convert.text(duplicates, "duplicates"),
        "unmatchedRight": _convert.text(unmatched_right, "unmatched_right"),
        "suffix": _convert.text(suffix, "suffix"),
        "name": _convert.text(name, "name"),
    }
    if stall_after is not None:
        options["stallAfter"] = _convert.duration(stall_after, "stall_after")
    if left_on_stall is not None:
        options["leftOnStall"] = _convert.text(left_on_stall, "left_on_stall")
    if future_limit is not None:
        options["futureLimit"] = _convert.duration(future_limit, "future_limit")
    if max_pending is not None:
        options["maxPending"] = _convert.count(max_pending, "max_pending")
    return _jvm.sync_join(
        (left, right),
        _convert.keys(on),
        (
            _convert.names(left_partition, "left_partition"),
            _convert.names(right_partition, "right_partition"),
        ),
        options,
    )
