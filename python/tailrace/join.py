"""The feature-label join: one row per left row, with all its matches, once its window has closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace import _convert, _jvm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tailrace.options import ColumnOrName, Duration, How, Key, Match, OnLate


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
) -> DataFrame:
    """Joins two streams, or two batch frames, on keys and on a window of event time.

    A right row matches a left row when their keys are equal and `right_time` lies in
    [left_time - before, left_time + after], both ends included. Null keys never match. Matching goes by event
    time alone: neither order nor lag of arrival changes the result, as long as rows arrive within their
    watermark.

        examples = tailrace.join(
            impressions.withWatermark("served_at", "10 minutes"),
            engagements.withWatermark("engaged_at", "10 minutes"),
            on=["user_id", "item_id"], left_time="served_at", right_time="engaged_at", after="30 minutes",
        )

    Args:
        left: a frame with a watermark on `left_time` if it is a stream, for instance what was served.
        right: a frame with a watermark on `right_time` if it is a stream, for instance what users did. Both
            are streams, or both are batch frames, of the same classic session.
        on: the key columns, one or more: columns that both sides have, or pairs (left, right), each by name
            or as a Column such as left["user_id"]. Any orderable type, nested structs too, but no strings
            with a collation; the same on both sides, or two integer or decimal types, or float and double,
            which are compared in the wider one.
        left_time: column of the left side's event time, a timestamp; in a batch frame also one without a time
            zone, which Spark's watermarks can't be on.
        right_time: column of the right side's event time, of the same type.
        before: how long before its left row a right row may be. A string as Spark reads durations
            ("30 minutes", "1 hour 500 milliseconds"; no months or years) or a `timedelta`; zero or more.
        after: how long after its left row a right row may be; likewise.
        how: as in PySpark's join. "left", "leftouter" or "left_outer": one row per left row, matched or not,
            in the first micro-batch after the watermark has passed left_time + after. "inner": a row per
            matching pair, as soon as both rows are there.
        into: for how="left" only, the name of the column that takes the matches.
        match: for how="left", which matches to keep: "all", or at most one, by event time: the "first", the
            "last", or the "nearest" to left_time.
        max_matches: for how="left", the most matches to keep per left row, the earliest first; one or more.
            None keeps all.
        on_late: what is done with a row at or behind the watermark. "drop": it is left out, and counted in
            the operator's metrics. "mark": it comes out as a row of its own, marked "late_left" or
            "late_right" in a column `_mark`: a left row with an empty group, a right row with itself as the
            only match and null in the left columns other than the keys.

    Returns:
        A frame of the same kind, stream or batch; the same rows make the same result in both. For a stream it
        has a right output watermark, so other stateful operators may follow; its output mode is append.

        how="left": the left columns; then `into`, array<struct<all right columns but the keys>>, ordered by
        right_time (equal times by content), empty when there is no match; then `<into>_truncated` boolean if
        `max_matches` is given; then `_mark` string if on_late="mark",
        null on ordinary rows.

        how="inner": the left columns; the right columns but the keys; then `_mark` string if on_late="mark",
        null on ordinary rows.

    Raises:
        TailraceJoinError: the join can't be planned: a stream without a watermark on its time column, a
            stream joined with a batch frame, a column that is unknown, ambiguous, of a wrong type or exists
            already, a duration that is negative or can't be read, options that don't go together. `condition`
            says which.
        TailraceSessionError: the session lacks the jar, the extension or the state store provider, or it is a
            Spark Connect session. `tailrace.configure` makes one that fits.
        TailraceVersionError: wheel, jar, Spark, Scala and Java don't fit together.
        TypeError: an argument of a wrong Python type.

    Source:
        The operator is `io.tailrace.label` in the jar; `jvm/docs/architecture.md` follows a row through it.
    """
    _convert.frame(left, "left")
    _convert.frame(right, "right")
    lefts, rights = _convert.Columns("tailrace.join", left), _convert.Columns("tailrace.join", right)
    on_left, on_right = _convert.keys(on, lefts, rights)
    options = (
        lefts.given(left_time=left_time)
        | rights.given(right_time=right_time)
        | _convert.durations(before=before, after=after)
        | _convert.texts(how=how, into=into, match=match, on_late=on_late)
        | _convert.counts(max_matches=max_matches)
    )
    return _jvm.plan("join", left, right, on_left, on_right, options)
