"""The synced join: each left row with at most one right row, as early as the slowest partition allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace._bridge import arguments, calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tailrace.options import ColumnOrName, Duration, Key, OnDuplicate, OnFuture, OnStall, OnUnmatchedRight


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
    one_to_one: bool = False,
    max_buffered: int | None = 10_000_000,
    suffix: str = "_right",
    idle_timeout: Duration | None = None,
    name: str = "sync_join",
) -> DataFrame:
    """Joins two streams by a unique key, each left row with at most one right row, within seconds.

        joined = tailrace.sync_join(
            bids, impressions, on="bid_id", left_time="created", right_time="created",
            window="10 minutes", sync_delay="5 seconds",
        )

    The sync time is the event time up to which the slowest right partition has been read, minus `sync_delay`.
    A left row is buffered until the sync time has passed it. Then it is emitted: with the right row of its
    key if that has been read, otherwise with nulls. So no match is lost to a partition that lags or stalls:
    the join waits for it. Rows that a micro-batch has read advance the sync time from the next one on.

    A left row joins right rows of its key that are at most `window` older, or at most `sync_delay` (and
    `window`) younger, wherever and however fast they are read. Right rows that are further away never match;
    left rows whose key had such a row are counted as `tooFar`. A right row is buffered until it is joined,
    or until the slowest left partition has passed all left rows that could join it.

    `sync_delay` has to cover two things together: how long after its left row a right row is made, and how
    far records jump back in time within a partition. Records that jump further are counted as
    `possiblyMissed`. So are right records that arrive when a left row that could join them may have been
    emitted. Records before the sync time are counted as `late`.

    A `where` before the join hides the progress of a partition. A partition whose records are all filtered
    out is waited for, and its condition in `heldBackBy` is "filtered". With `stall_after`, the join continues
    without it when it has had no other records for that time and has been read to its end; its rows may be
    late then.

    The numbers are in the query's progress, `observedMetrics["tailrace.syncJoin"]` (with a `name` of its own:
    `"tailrace.syncJoin.<name>"`): the join's progress (`syncTime`, `leftLow`), its buffered rows
    (`bufferedLeft`, `bufferedRight`), and in `heldBackBy` the partition that holds it back, how far
    behind it is (`lagMs`) and for how long it has been idle (`idleMs`).

    Args:
        left: a stream of the rows that are made first, for instance bids.
        right: a stream of the same session, for instance impressions.
        on: the key columns: columns that both sides have, or pairs (left, right). A column is given by name
            or as a Column such as left["bid_id"]. Any orderable type is allowed but strings with a collation.
            The types are the same on both sides, or two integer or decimal types, or float and double, which
            are compared in the wider type. A row without a key matches nothing.
        left_time: the column of the left side's event time, a timestamp (with or without a time zone).
        right_time: the column of the right side's event time, of the same type.
        window: how far apart in event time two rows may be that match: zero or more. A string as Spark reads
            durations ("10 minutes"; no months or years) or a `timedelta`.
        sync_delay: how far the right stream has to be past a left row before that row is released, and so how
            much younger a right row may be; likewise.
        left_partition: the columns of the source partition that a left row was read from, one or more. None:
            Kafka's `topic` and `partition`, as far as the DataFrame has them.
        right_partition: likewise. Of Kafka all partitions of the topic count, also those that have sent
            nothing; of other sources those of which a row has been read. So with other sources a left row is
            emitted without its match if the partition of the match hasn't sent a row by then. The match is
            counted.
        on_stall: what happens when the partition that the join waits for has been idle for `stall_after`:
            other partitions of either side had rows, and nothing of it is unread. "pause": the join waits,
            and logs it. "exclude": the partition doesn't count until it has reached the sync time again; its
            rows before that time are late. If all partitions of a side are excluded, the join continues with
            the time of the other side. "fail": the query ends with an error that names the partition.
        on_left_stall: the same for left partitions, which right rows wait for. None: as `on_stall`.
        stall_after: how long a partition has to be idle; needed for "exclude" and "fail", and to continue
            without a partition whose records are all filtered before the join. None: a warning after one
            minute. Time in which the query is down, or in which no partition has rows, doesn't count: a
            micro-batch counts at most an eighth of it.
        future_limit: how far ahead of the micro-batch's clock an event time is accepted. None: any time is.
        on_future: what happens to rows further ahead. "clamp": their partition advances to the limit, and
            the rows stay buffered until their time. "mark": they don't move their partition, and are emitted
            as they are read, without a match, with "future" in a column `_mark`. "fail": the query ends with
            an error.
        on_duplicate: what happens to further rows of a key. A left row takes all right rows that it may
            join. The first by event time is the match, the others are duplicates. Left rows are matched
            in the order of time; another one that finds nothing is a duplicate if it is released in the same
            micro-batch. So the result of "drop" and "mark" depends on how the streams are read. That of
            "emit" doesn't, unless left rows of one key arrive out of order or from several partitions.
            "emit": left duplicates are emitted without a match, right ones are dropped. "drop": both are
            dropped. "mark": both are emitted, with "duplicate" in a column `_mark`. They are always counted.
        on_unmatched_right: what happens to right rows that no left row has joined. "drop" counts them,
            "emit" emits them with nulls in all left columns but the keys. Right rows with a null key
            or a null time are never emitted. They are counted in the operator's metric `nullKeyRightRows`.
        one_to_one: asserts that pairs are one-to-one: a left row has at most one right row that it may join,
            and a right row at most one left row, as with ids that are unique on both sides. A pair is then
            emitted in the micro-batch that brings the later of its two rows, before the sync time has passed
            it, and neither row is buffered any longer. A left row without a right row is emitted at the same
            time as without this option. The emitted rows are the same, too, in another order. If the data
            violates it, left rows of a micro-batch are matched in the order of time, then of content; over
            several micro-batches, rows that arrived first are matched first. Each left row is still emitted
            once, except for `on_duplicate`: further rows are duplicates only among those of one micro-batch.
            A surplus right row is buffered for a left row that may join it, and is counted as
            `unmatchedRight` when it expires. It may change at a restart.
        max_buffered: the number of buffered rows of a side at which its partitions that are ahead are no
            longer read. A micro-batch reads as many rows of the side as may still be buffered, and always a
            tenth of `max_buffered`, so that the partition that is waited for advances; the first one of a
            start reads that tenth. So at most 1.1 times as many rows are buffered, plus the rows of the
            partition that is waited for. Kafka's partitions are held back one by one. A source with other
            offsets, or other partition columns, is held back as a whole, when all of its partitions are
            ahead, and it decides the size of its micro-batches. A source that can't be held back, such as
            files, is named in the log (`TAILRACE_SYNC_UNLIMITED`); with an explicit number it is refused. A
            run with `availableNow` reads everything, whatever it buffers. None: no limit.
        suffix: what is appended to the name of a right column that the left side has, too.
        idle_timeout: buffered left rows are emitted, with the right rows that have arrived, when the query
            has had no input for this time, as in `tailrace.join`. With on_unmatched_right="emit" buffered
            right rows are emitted, too. Rows that arrive for them later are late. None: they stay buffered
            until the sync time passes them.
        name: the name of the join in the checkpoint and in the query's progress. Never change it.

    Returns:
        A stream: the left columns; the right columns but the keys, null where unmatched; then `_mark` string
        if duplicates or future rows are emitted marked, null on ordinary rows. Its output mode is append.

    Raises:
        TailraceJoinError: the join can't be planned: a batch DataFrame, a column that is unknown, ambiguous,
            of a wrong type or exists already, a duration that is negative or can't be read, options that
            don't go together. `condition` says which.
        TailraceSessionError: the session, or the Spark Connect server, lacks the jar or a setting.
            `tailrace.configure` makes one that fits.
        TailraceVersionError: wheel, jar, Spark, Scala and Java don't fit together.
        TypeError: an argument has a wrong Python type.

    Source:
        The operator is `io.tailrace.sync` in the jar. `jvm/docs/architecture.md` follows a row through it.
    """
    arguments.frame(left, "left")
    arguments.frame(right, "right")
    lefts = arguments.Columns("tailrace.sync_join", left)
    rights = arguments.Columns("tailrace.sync_join", right)
    pairs = arguments.keys(on, lefts, rights)
    options = (
        lefts.named(left_time=left_time)
        | rights.named(right_time=right_time)
        | arguments.durations(window=window, sync_delay=sync_delay)
        | arguments.durations(**arguments.given(stall_after=stall_after, future_limit=future_limit))
        | arguments.durations(**arguments.given(idle_timeout=idle_timeout))
        | arguments.texts(on_stall=on_stall, on_future=on_future, on_duplicate=on_duplicate)
        | arguments.texts(on_unmatched_right=on_unmatched_right, suffix=suffix, name=name)
        | arguments.texts(**arguments.given(on_left_stall=on_left_stall))
        | arguments.flags(one_to_one=one_to_one)
        | arguments.counts(**arguments.given(max_buffered=max_buffered))
    )
    left_origin = lefts.names(() if left_partition is None else left_partition, "left_partition")
    right_origin = rights.names(() if right_partition is None else right_partition, "right_partition")
    sides = {"left": left, "right": right, "on": pairs}
    origins = {"left_partition": left_origin, "right_partition": right_origin}
    return calls.plan("sync_join", left, **sides, **origins, **options)
