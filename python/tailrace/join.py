"""The feature-label join: one row for each left row, with all its matches, when its window has closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace._bridge import arguments, calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tailrace.options import ColumnOrName, Duration, Emit, How, Key, Match, OnLate, Release


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
    release_every: Duration | None = None,
    close_after: Duration | None = None,
    early: Duration | None = None,
    horizons: Sequence[Duration] | None = None,
    emit: Emit = "all",
    release: Release = "closed",
    exactly_one: bool = False,
    amend_for: Duration | None = None,
    hot: Sequence[object] | None = None,
    hot_parts: int = 8,
) -> DataFrame:
    """Joins two streams, or two batch DataFrames, on keys and on a window of event time.

    A right row matches a left row when their keys are equal and `right_time` is in
    [left_time - before, left_time + after], both ends included. Null keys never match. Only event time
    counts: the order and the lag of arrival don't change the result, as long as rows arrive before the
    watermark has passed them, or their left rows are still buffered (see `late_labels`).

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
            not, when the watermark has passed left_time + after (see `release_every`). "inner": one row for
            each matching pair, as soon as both rows are there.
        into: with how="left", the name of the column for the matches.
        match: with how="left", which matches to keep: "all", or at most one by event time: the "first", the
            "last", or the "nearest" to left_time.
        max_matches: with how="left", how many matches to keep for each left row, the earliest first; one or
            more. None keeps all.
        on_late: what is done with a row at or behind the watermark that isn't taken (see `late_labels`).
            "drop": it is left out, and counted in the operator's metrics. "mark": it is emitted as a row of
            its own, with "late_left" or "late_right" in a column `_mark`. A late left row has an empty
            group. A late right row has itself as the only match, and null in all left columns but the keys.
        late_labels: whether a right row at or behind the watermark is taken as long as the window of a left
            row that it may match is open: the watermark has not passed left_time + after. It is judged by
            times alone, by the watermark of the micro-batch before. Emitted rows never change. False:
            no such row is taken. None: they are taken. But with how="inner" and `before` above zero, a
            checkpoint is bound to it, and None continues with that of the checkpoint: one of an earlier
            release has none.
        release_every: with how="left" on streams, the longest that a left row waits for others after the
            watermark has passed left_time + after: a duration, as for `before`, or "batch" for no wait. Rows
            that leave together cost less. Rows wait where the watermark moves by less than that in a
            micro-batch, and when input stops or a run ends. Downstream operators see a watermark that is
            lower by it. A checkpoint is bound to it. None keeps the checkpoint's value; the default is
            (before + after) / 64, 28 seconds for half an hour.
        close_after: with how="left" on streams, the rows that wait come out, as they are, when the query has
            had no input for so long by the clock, though the watermark stands. Rows that come for them later
            are late: left rows up to the newest one that has been emitted, and right rows that only such left
            rows can match. The watermark stays as it is. Only time in which the query asks its sources and
            gets nothing counts, from the last input of this run: not the time when it is down, nor while
            something is unread. A run with `availableNow` closes nothing. It may change at a restart. None:
            rows wait for the watermark.
        early: with how="left", a first version of each left row is emitted when the watermark has passed
            left_time + early, with the matches up to there, and the final one when the window has closed:
            the same as `horizons=[early]`.
        horizons: with how="left", durations that ascend, up to `after`. A version of each left row is emitted
            when the watermark has passed its time plus each of them, with the matches up to there that have
            come, and the final one as without horizons. The state holds the left row once. Versions wait for
            others as `release_every` says, but no longer than a 64th of before + their horizon. Matching is
            lazy. A checkpoint is bound to the horizons, and `after` can't grow. An empty list is refused.
        emit: which versions are emitted. "all". "changes": the first and the final one, and those between
            whose group differs from the previous version's. "late_positives": the first one, and then the
            first one with a match if the versions before it had none. "defer": the first and the final one.
        release: with match="first" and `before` zero, when a left row is emitted. "closed": when its window
            has closed. "decided": as soon as the watermark has passed its first match, because no earlier one
            can come; it leaves the state then. Right rows leave when the watermark passes them. A left row
            without a match is emitted when its window has closed. The rows are the same, but that a late
            label finds only left rows that are still there. A left row with a null key is emitted at once. A
            checkpoint is bound to it. In batch DataFrames it changes nothing.
        exactly_one: with how="inner", asserts that a left row has at most one match, and that a right row is
            the match of at most one left row: for instance, both have an id. Both rows leave the state as
            soon as they have been paired, not at the end of the window. Where the data breaks it, each right
            row takes the earliest left row of its window that is free; left rows that come in a later
            micro-batch than their right rows take the earliest of these. Matches that are left out, and rows
            that leave without a partner, are counted: `matchesLeftOut`, `unpairedRows`. A checkpoint is bound
            to it.
        amend_for: with how="left", how long after its window has closed a left row may be amended: a
            duration of more than zero. A right row that comes until the watermark has passed
            left_time + after + amend_for, however late, gives the left row's group again: a row with the
            key columns and `left_time`, null in the other left columns, the whole new group, and "amended"
            in a column `_mark`. It is emitted in the micro-batch that has read the right row, once a
            micro-batch, and only if the group has changed. The state has the keys and times of left rows,
            and their right rows, for so much longer. It may change at a restart: left rows that have come
            out before it was given aren't amended. Rows that `close_after` has let out are amended, too, by
            right rows in time as by late ones. Downstream operators see amended rows behind their
            watermark. Batch DataFrames have none.
        hot: keys with so many left rows that one task would be busy with each of them: values of the key
            column, or tuples with a value for each of several. Their left rows are split over `hot_parts`
            partitions, and their right rows are kept in each of these. A checkpoint is bound to both. What
            is emitted is the same. It needs on_late="drop".
        hot_parts: 2 to 1,024.

    Returns:
        A stream or a batch DataFrame, like the inputs. The same rows give the same result in both. A stream
        has a correct output watermark, so other stateful operators may follow; its output mode is append.

        how="left": the left columns; then `into`, array<struct<all right columns but the keys>>, ordered by
        right_time (equal times by content), empty when there is no match; then `<into>_truncated` boolean if
        `max_matches` is given; then, with horizons, `horizon` string ("10 minutes", "1 hour 30 minutes"),
        `final` boolean, and `changed` boolean: whether the group differs from the previous version's, null in
        the first one; then `_mark` string if on_late="mark" or with `amend_for`, null on ordinary rows. An
        amended row has the final horizon, and is final and changed. A left row that is emitted on its own,
        because it is late or has no time, has a null horizon and is final.

        With `amend_for` or on_late="mark", all left columns may be null.

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
        | arguments.counts(**arguments.given(max_matches=max_matches))
        | arguments.flags(exactly_one=exactly_one, **arguments.given(late_labels=late_labels))
        | arguments.durations(**arguments.given(release_every=release_every, close_after=close_after))
        | arguments.counts(hot_parts=hot_parts)
    )
    options |= arguments.texts(emit=emit, release=release) | arguments.durations(
        **arguments.given(early=early, amend_for=amend_for)
    )
    keys = None if hot is None else arguments.values(hot, "hot")
    ends = None if horizons is None else arguments.several_durations(horizons, "horizons")
    if horizons is not None and not ends:
        raise TypeError('`horizons` is an empty list: give durations such as "10 minutes", or leave it out.')
    sides = {"left": left, "right": right, "on": pairs}
    return calls.plan("join", left, **sides, **options, hot=keys, horizons=ends)
