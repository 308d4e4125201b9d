"""The feature-label join: one row for each left row, with all its matches, when its window has closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace._bridge import arguments, calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tailrace.options import ColumnOrName, Duration, Emit, How, Key, Match, OnLate, OnStall, Release


def join(
    left: DataFrame,
    right: DataFrame,
    *,
    on: ColumnOrName | Sequence[Key],
    left_time: ColumnOrName,
    right_time: ColumnOrName,
    before: Duration = "0 seconds",
    after: Duration,
    how: How = "left",
    into: str = "labels",
    match: Match = "all",
    max_matches: int | None = None,
    on_late: OnLate = "drop",
    late_labels: bool | None = None,
    late_impressions: bool | None = None,
    release_every: Duration | None = None,
    idle_timeout: Duration | None = None,
    early: Duration | None = None,
    horizons: Sequence[Duration] | None = None,
    emit: Emit = "all",
    release: Release = "closed",
    one_to_one: bool = False,
    amend_for: Duration | None = None,
    orphans: bool = False,
    salted_keys: Sequence[object] | None = None,
    salt_buckets: int | None = None,
    on_stall: OnStall = "pause",
    on_left_stall: OnStall | None = None,
    stall_after: Duration | None = None,
) -> DataFrame:
    """Joins two streams, or two batch DataFrames, on keys and on a window of event time.

    A right row matches a left row when their keys are equal and `right_time` is in
    [left_time - before, left_time + after], both ends included. Null keys never match. Only event time
    counts: the order and the lag of arrival don't change the result, as long as rows arrive before the
    watermark has reached them, or while their windows are open (see `late_labels` and `late_impressions`).

        examples = tailrace.join(
            impressions.withWatermark("served_at", "10 minutes"),
            engagements.withWatermark("engaged_at", "10 minutes"),
            on=["user_id", "item_id"], left_time="served_at", right_time="engaged_at", after="30 minutes",
        )

    Args:
        left: the left DataFrame, for instance the impressions. A stream needs a watermark on `left_time`.
        right: the right DataFrame, for instance the engagements. A stream needs a watermark on `right_time`.
            Both sides are streams, or both are batch DataFrames, of the same session.
        on: the key columns, one or more: columns that both sides have, or pairs (left, right). A column is
            given by name or as a Column such as left["user_id"]. Any orderable type is allowed, nested
            structs too, but no strings with a collation. The types are the same on both sides, or two
            integer or decimal types, or float and double, which are compared in the wider type.
        left_time: the column of the left side's event time, a timestamp. In a batch DataFrame it may have no
            time zone; Spark's watermarks need one.
        right_time: the column of the right side's event time, of the same type.
        before: how far before its left row a right row may be: zero or more. A string as Spark reads
            durations ("30 minutes", "1 hour 500 milliseconds"; no months or years) or a `timedelta`.
        after: how far after its left row a right row may be; likewise.
        how: as in PySpark's join. "left", "leftouter" or "left_outer": one row for each left row, matched or
            not, when the watermark has reached left_time + after (see `release_every`). "inner": one row for
            each matching pair, as soon as both rows are there.
        into: with how="left", the name of the column for the matches.
        match: with how="left", which matches to keep: "all", or at most one by event time: the "first", the
            "last", or the "nearest" to left_time.
        max_matches: with how="left", how many matches to keep for each left row, the earliest first; one or
            more. None keeps all.
        on_late: what happens to a late row, at or before the watermark, that isn't accepted (see
            `late_labels` and `late_impressions`). "drop": it is left out, and counted in the operator's
            metrics. "mark": it is emitted as a row of its own, with "late_left" or "late_right" in a column
            `_mark`. A late left row has an empty group. A late right row has itself as the only match, and
            null in all left columns but the keys.
        late_labels: whether a late right row is accepted while the window of a left row that it may match is
            open, that is, until the watermark has reached left_time + after. Only times count, and the
            watermark of the previous micro-batch. Emitted rows never change. False: none is accepted.
            None: they are accepted. With how="inner" and `before` above zero, however, the setting is pinned
            by the checkpoint, and None keeps the checkpoint's value; checkpoints of earlier releases accept
            none.
        late_impressions: with how="left", whether a late left row is accepted while its window is open, that
            is, until the watermark has reached left_time + after, or with horizons, left_time + the first of
            them. Its right rows are still in the state. None: it is, unless matching is eager or `release`
            is "decided", which evict right rows earlier. True: matching is lazy, and "decided" is refused.
            False: it isn't. It may change at a restart.
        release_every: with how="left" on streams, the longest time that a left row stays buffered after the
            watermark has reached left_time + after: a duration, as for `before`, or "batch" for no such time.
            Rows that are emitted together cost less. Rows stay buffered if the watermark advances by less
            than this in a micro-batch, and when input stops or a run ends. Operators downstream see a
            watermark that is lower by this time. The setting is pinned by the checkpoint. None keeps the
            checkpoint's value; the default of a new checkpoint is (before + after) / 64, which is 28 seconds
            for half an hour.
        idle_timeout: with how="left" on streams, buffered rows are emitted, as they are, when the query has
            had no input for this time by the clock, without advancing the watermark. Rows that arrive for
            them afterwards are late: left rows up to the newest emitted one, and right rows that only such
            left rows can match. Only time in which the query asks its sources and gets nothing counts, from
            the last input of this run: neither downtime nor time with unread input counts. A run with
            `availableNow` closes nothing. It may change at a restart. None: rows stay buffered until the
            watermark advances.
        early: with how="left", a first version of each left row is emitted when the watermark has reached
            left_time + early, with the matches up to that time, and the final one when the window has
            closed: the same as `horizons=[early]`.
        horizons: with how="left", ascending durations, up to `after`. A version of each left row is emitted
            when the watermark has reached its time plus each of them, with the matches up to that time that
            have arrived, and the final one as without horizons. The state holds the left row once. Versions
            stay buffered as `release_every` says, but at most for (before + their horizon) / 64. Matching is
            lazy. The horizons are pinned by the checkpoint, and `after` can't grow. An empty list is refused.
        emit: which versions are emitted. "all". "changes": the first and the final one, and those between
            whose group differs from the previous version's. "late_positives": the first one, and then the
            first one with a match if the versions before it had none. "defer": the first and the final one.
        release: with match="first" and `before` zero, when a left row is emitted. "closed": when its window
            has closed. "decided": as soon as the watermark has reached its first match, because no earlier
            one can arrive; it is evicted then. Right rows are evicted when the watermark reaches them. A left
            row without a match is emitted when its window has closed. The rows are the same, except that a
            late label finds only left rows that are still buffered. A left row with a null key is emitted at
            once. The setting is pinned by the checkpoint. It has no effect on batch DataFrames.
        one_to_one: with how="inner", asserts that pairs are one-to-one: a left row has at most one match,
            and a right row is the match of at most one left row, as with an id. Both rows are evicted as soon
            as they are paired, not at the end of the window. If the data violates this, each right row takes
            the earliest unpaired left row of its window; left rows that arrive in a later micro-batch than
            their right rows take the earliest of these. Omitted matches, and rows that are evicted without a
            partner, are counted: `matchesDropped`, `unpairedRows`. The setting is pinned by the checkpoint.
        amend_for: with how="left", how long after its window has closed a left row may be amended: a
            duration of more than zero. A right row that arrives before the watermark has reached
            left_time + after + amend_for, however late, makes the join emit the left row's group again: a
            row with the key columns and `left_time`, null in the other left columns, the whole new group,
            and "amended" in a column `_mark`. It is emitted in the micro-batch that has read the right row,
            once per micro-batch, and only if the group has changed. The state keeps the keys and times of
            left rows, and their right rows, for this additional time. It may change at a restart: left rows
            that were emitted before it was set aren't amended. Rows that `idle_timeout` has flushed are
            amended, too, by right rows on time as by late ones. Amended rows are late for operators
            downstream. Batch DataFrames have none.
        orphans: with how="left", emits each right row that is in no group as a row of its own: an orphan. It
            has itself as the only match, null in all left columns but the keys, and the reason in a column
            `_mark`. "unmatched_right": no left row has its key and it in its window. It is emitted when the
            watermark has reached right_time + before + after, and at most 1/16 of before + after later, and
            `release_every`. "null_right": its key or its time is null. "late_right": as with on_late="mark",
            whatever `on_late` is. A right row that `match` or `max_matches` leaves out is no orphan. The
            state keeps a note of each matched right row until that is evicted. Matching is lazy. The setting
            is pinned by the checkpoint. It can't be combined with `horizons`, `early`, `amend_for`,
            `idle_timeout`, `salted_keys` or release="decided".
        salted_keys: keys whose left rows would overload a single task (salting): values of the key column, or
            tuples with a value for each of several columns. Their left rows are split over `salt_buckets`
            partitions, and their right rows are kept in each of these. Both settings are pinned by the
            checkpoint. The output is the same. It needs on_late="drop".
        salt_buckets: with `salted_keys`, 2 to 1,024. None: 8.
        on_stall: on streams, what happens when a side has had no rows for `stall_after` while the query had
            others, and its watermark is behind theirs, so that it holds back all rows. "pause": they stay
            buffered, and the log names the side. "fail": the query ends with an error. "exclude", with
            how="left": the query's watermark advances without the side until its own has caught up. Left rows
            that are emitted without right rows that may still arrive have "excluded" in a column `_mark`.
            Rows of the side are late then: with `amend_for`, right rows amend the left rows that were emitted
            without them. It may change at a restart. Not with `horizons`, `early` and release="decided", nor,
            on the right side, with late_labels=False.
        on_left_stall: the same for the left side. None: as `on_stall`.
        stall_after: how long a side has to be idle; needed for "fail" and "exclude". It is counted as in
            `sync_join`, within one run. None: nobody watches the sides.

    Returns:
        A stream or a batch DataFrame, like the inputs. The same rows give the same result in both. A stream
        has a correct output watermark, so other stateful operators may follow; its output mode is append.

        how="left": the left columns; then `into`, array<struct<all right columns but the keys>>, ordered by
        right_time (equal times by content), empty when there is no match; then `<into>_truncated` boolean if
        `max_matches` is given; then, with horizons, `horizon` string ("10 minutes", "1 hour 30 minutes"),
        `final` boolean, and `changed` boolean: whether the group differs from the previous version's, null in
        the first one; then `_mark` string if on_late="mark", with `amend_for` or with `orphans`, null on
        ordinary rows. An amended row has the final horizon, and is final and changed. A left row that is
        emitted on its own, because it is late or has no time, has a null horizon and is final.

        With `amend_for`, `orphans` or on_late="mark", all left columns may be null. "exclude" adds `_mark`,
        too.

        how="inner": the left columns; the right columns but the keys; then `_mark` string if on_late="mark".

    Raises:
        TailraceJoinError: the join can't be planned: a stream without a watermark on its time column, a
            stream joined with a batch DataFrame, a column that is unknown, ambiguous, of a wrong type or
            exists already, a duration that is negative or can't be read, options that don't go together.
            `condition` says which.
        TailraceSessionError: the session, or the Spark Connect server, lacks the jar or a setting.
            `tailrace.configure` makes one that fits.
        TailraceVersionError: wheel, jar, Spark, Scala and Java don't fit together.
        TypeError: an argument has a wrong Python type.

    Source:
        The operator is `io.tailrace.label` in the jar. `jvm/docs/architecture.md` follows a row through it.
    """
    arguments.frame(left, "left")
    arguments.frame(right, "right")
    lefts, rights = arguments.Columns("tailrace.join", left), arguments.Columns("tailrace.join", right)
    pairs = arguments.keys(on, lefts, rights)
    options = (
        lefts.named(left_time=left_time)
        | rights.named(right_time=right_time)
        | arguments.durations(before=before, after=after)
        | arguments.texts(how=how, into=into, match=match, on_late=on_late)
        | arguments.counts(**arguments.given(max_matches=max_matches, salt_buckets=salt_buckets))
        | arguments.flags(
            one_to_one=one_to_one,
            orphans=orphans,
            **arguments.given(late_labels=late_labels, late_impressions=late_impressions),
        )
        | arguments.durations(**arguments.given(release_every=release_every, idle_timeout=idle_timeout))
    )
    options |= arguments.texts(emit=emit, release=release) | arguments.durations(
        **arguments.given(early=early, amend_for=amend_for)
    )
    options |= arguments.texts(on_stall=on_stall, **arguments.given(on_left_stall=on_left_stall))
    options |= arguments.durations(**arguments.given(stall_after=stall_after))
    keys = None if salted_keys is None else arguments.values(salted_keys, "salted_keys")
    ends = None if horizons is None else arguments.several_durations(horizons, "horizons")
    if horizons is not None and not ends:
        raise TypeError('`horizons` is an empty list: give durations such as "10 minutes", or leave it out.')
    sides = {"left": left, "right": right, "on": pairs}
    return calls.plan("join", left, **sides, **options, salted_keys=keys, horizons=ends)
