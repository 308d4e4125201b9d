"""Reconciliation: what a streaming pipeline has written, compared with the batch answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

from tailrace._bridge import arguments, calls
from tailrace._reconciling import tables as made
from tailrace._reconciling.comparing import compare
from tailrace._reconciling.counts import Totals, WindowCounts
from tailrace._reconciling.landed import Reported, landed_rows, range_of, reports
from tailrace._reconciling.outcomes import Sides
from tailrace._reconciling.subject import CALL, Asked, check_landed, subject_of
from tailrace.errors import TailraceJoinError
from tailrace.examples import Described, Examples, described

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from tailrace.options import ColumnOrName, Duration, WindowFormat

_HOUR = 3_600_000_000
_MIXED = "TAILRACE_JOIN_MIXED_BATCH_AND_STREAM"
_OTHER_NEGATIVES = (
    "a stream and a batch job keep other negatives. Compare the examples that have one of its labels: those "
    "of the landed rows with those of `batch()` of the definition without the sample"
)


@dataclass(frozen=True)
class Reconciliation:
    """The result of `reconcile`.

    Attributes:
        windows: a row for each window, in order of time. `window_start` and `window_end` (timestamp; null for
            rows without an event time); `status`: "compared", "open" (the window isn't complete), "outside"
            (of the landed range, or of `since` and `until`) or "untimed"; `landed_rows` and `batch_rows`
            (bigint). Null unless compared: `missing`, rows of the answer that haven't landed; `extra`, landed
            ones that the answer lacks; `differing`, rows of both with other values; `repeated_keys`, which a
            side has more than once; `explained`, the differences with a reason (bigint); `per_thousand`, the
            differences per thousand rows of the answer (double). `report`: the columns `rows`, `expected`,
            `passed`, `completeness`, `low_watermark`, `closed_at` and `late_rows` of `window_report`; null
            without one.
        summary: a row for each window and label, ordered by both, with `window_start`, `window_end`, `status`
            and `label`. `landed_rows` and `batch_rows`, whose label is known; `landed_matched` and
            `batch_matched`, those with a label; `landed_labels` and `batch_labels`, all labels together
            (bigint); `landed_rate` and `batch_rate`, the shares of rows with a label, by their weights if
            there is a sample (double). `missing` and `extra` as in `windows`; `differing`, the rows whose
            label differs; `explained` and `per_thousand` of these three.
        differences: a row for each key with a difference, of compared windows. It is computed when it is
            read. `key`, a struct of the key columns; `window_start`; `kind`: "missing", "extra", "differing",
            or "duplicate" for a key that a side has more than once; `columns`, the names of those that differ
            (array of string); `landed_rows` and `batch_rows` of the key; `differences`, how many of them
            differ (bigint); `reason`, null where none is known; `landed` and `batch`, structs of the compared
            columns, of one row if there are several.
        totals: the counts of all compared windows together.
    """

    windows: DataFrame
    summary: DataFrame
    differences: DataFrame
    totals: Totals
    _counts: Sequence[WindowCounts] = field(repr=False)
    _length: int = field(repr=False)

    @property
    def equal(self) -> bool:
        """At least one window was compared, and nothing differs."""
        return self.totals.windows > 0 and self.totals.differences == 0

    @property
    def explained(self) -> bool:
        """At least one window was compared, and each difference has a reason."""
        return self.totals.windows > 0 and self.totals.differences == self.totals.explained

    def write_parquet(self, path: str | os.PathLike[str]) -> None:
        """Writes `windows`, `summary` and `differences` as Parquet, into folders of these names below a path.

        Args:
            path: a folder that has none of the three.
        """
        folder = arguments.path(path, "path").rstrip("/")
        for name in ("windows", "summary", "differences"):
            frame: DataFrame = getattr(self, name)
            frame.write.parquet(f"{folder}/{name}")

    def write_html(self, path: str | os.PathLike[str], *, keys: int = 20) -> None:
        """Writes a page that needs no other file: a verdict, a chart, tables of windows, labels and reasons.

        Args:
            path: of a local file. A file that is there is replaced.
            keys: how many of the keys that differ are shown, those without a reason first; 0 shows none.

        Raises:
            TailraceError: jinja2 isn't installed.
        """
        from tailrace._reconciling.page import page  # noqa: PLC0415  needs an extra

        shown = made.shown_keys(self.differences, arguments.count(keys, "keys"))
        text = page(self.totals, self._counts, self._length, shown)
        Path(arguments.path(path, "path")).write_text(text, encoding="utf-8")


def reconcile(
    landed: DataFrame | str | os.PathLike[str],
    definition: Examples | DataFrame,
    tables: Mapping[str, DataFrame] | None = None,
    *,
    keys: ColumnOrName | Sequence[ColumnOrName] | None = None,
    time: ColumnOrName | None = None,
    on: ColumnOrName | Sequence[ColumnOrName] | None = None,
    labels: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    window: Duration | None = None,
    offset: Duration = "0 seconds",
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    format: WindowFormat = "parquet",  # noqa: A002  Spark's own name for it
) -> Reconciliation:
    """Compares what a streaming pipeline has written with the batch answer, by window and label.

        result = tailrace.reconcile(
            "/data/examples", definition,
            {"impressions": served, "click": clicks},  # batch DataFrames, for instance last month's tables
        )
        result.summary.show()
        result.differences.show()

    Only complete windows within the landed range are compared; `windows` lists the others by their status.
    Rows are joined by key in Spark, and only counts by window and label are collected. Values are compared
    with Spark's `<=>`: two nulls are equal, two NaN, and 0.0 and -0.0. Maps are equal if they have the same
    entries, and variants if they have the same types and the same JSON. `_mark` and `changed` aren't
    compared.

    A difference has one of these reasons if landed rows tell it. "late": the row was written after its window
    had closed. "late_left", and other marks of landed rows: a marked row has the key. "amended": an amendment
    has the labels of the answer. "late_right": the labels that are missing are in rows with this mark.
    "horizon": labels of a version arrived after its horizon, and the final version is that of the answer.
    "sampled": the sample chose by other labels, because one was late.

    Args:
        landed: the folder of `write_windows`; with `format`, the name of its table or the path of a Delta
            table; or a batch DataFrame of landed rows, whose windows count as complete.
        definition: the examples of the pipeline, or the batch answer as a DataFrame, for instance of
            `tailrace.join` with batch DataFrames.
        tables: of examples, batch DataFrames in place of theirs, as `Examples.batch` takes them. They are
            needed if the definition is one of streams.
        keys: the columns that identify an example. None: of examples, the key columns of all labels and
            `time`. `horizon` is added if the rows are versions. Rows of a key that a side has more than once
            are counted, and not joined.
        time: the column of the event time. None: that of the examples.
        on: the key columns of rows with the mark "late_right". None: of examples, those that all labels have
            in common; otherwise the keys without `time`.
        labels: the columns of labels. None: those of the examples, or all arrays of structs.
        columns: which columns to compare. None: all columns of the answer. Columns that only the landed rows
            have aren't compared.
        window: how long a window is. None: as long as those of the folder or table, or an hour.
        offset: how much later than at multiples of `window` since 1970-01-01 UTC windows begin. Without
            `window`, as those of the folder or table.
        since: windows that begin earlier aren't compared, and those from there on are, even if no row has
            landed: a timestamp as Spark reads it, in the time zone of the session, or a `datetime`.
        until: windows that end later aren't compared; likewise. Those of a folder that haven't closed never
            are.
        format: "parquet" for a folder, "delta" or "iceberg" for a table.

    Returns:
        The result, with the DataFrames `windows`, `summary` and `differences`.

    Raises:
        TailraceJoinError: the examples can't be planned; a column is unknown, or differs in its type; a key
            can't be compared; a duration or a time can't be read.
        TailraceWatermarkError: there is no such folder or table.
        TailraceSessionError: the session lacks the jar or the extension.
        TypeError: an argument has a wrong Python type, or one that is needed is missing.
    """
    arguments.text(format, "format")
    batch, of_examples = _answer(definition, tables)
    spark = batch.sparkSession
    answer = arguments.Columns(CALL, batch)
    asked = Asked(
        keys=None if keys is None else answer.names(keys, "keys"),
        time=None if time is None else answer.name(time, "time"),
        on=None if on is None else answer.names(on, "on"),
        labels=None if labels is None else arguments.names(labels, "labels"),
        columns=None if columns is None else arguments.names(columns, "columns"),
    )
    subject = subject_of(batch, of_examples, asked)
    if isinstance(landed, DataFrame):
        _check_batch(landed, "landed")
    written = landed_rows(landed, batch, format)
    check_landed(written.rows, batch, subject)
    known = reports(written)
    windows = _window(spark, window, offset, known)
    begin, end = (_micros(spark, value, name) for value, name in ((since, "since"), (until, "until")))
    whole = None
    if of_examples is not None and of_examples.weight is not None and written.aside is not None:
        whole = of_examples.whole.batch(**_frames(tables))
    sides = Sides(subject, written.rows, batch, written.aside, whole, windows)
    compared = range_of(written, known, arguments.named(subject.time), windows).within(begin, end)
    found = compare(sides, compared, known)
    return Reconciliation(
        windows=made.windows(spark, found, sides.window[0], known),
        summary=made.summary(spark, found, sides.window[0], subject),
        differences=made.differences(found.differences, subject),
        totals=Totals.of(found.windows),
        _counts=found.windows,
        _length=sides.window[0],
    )


def _answer(
    definition: Examples | DataFrame, tables: Mapping[str, DataFrame] | None
) -> tuple[DataFrame, Described | None]:
    """The batch answer, and the columns of the examples, if it is of such."""
    if isinstance(definition, Examples):
        known, frames = described(definition), _frames(tables)
        if known.has_ratio:
            raise arguments.conflict(
                CALL, "definition", "a definition of examples", "ratio", _OTHER_NEGATIVES
            )
        try:
            return known.answer.batch(**frames), known
        except TailraceJoinError as error:
            if error.condition == _MIXED:
                error.add_note(
                    "`tables` of tailrace.reconcile takes batch DataFrames in place of streams, by name: it "
                    f"has {sorted(frames) or 'none'}."
                )
            raise
    if not isinstance(definition, DataFrame):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            "`definition` must be what tailrace.examples defines, or a batch DataFrame of tailrace.join, not "
            f"{type(definition).__name__}."
        )
    if tables is not None:
        raise TypeError(
            "`tables` is for a definition of tailrace.examples. A DataFrame is the answer itself."
        )
    _check_batch(definition, "definition")
    return definition, None


def _frames(tables: Mapping[str, DataFrame] | None) -> dict[str, DataFrame]:
    if tables is None:
        return {}
    arguments.kind(tables, Mapping, "tables", 'such as {"impressions": spark.table("served")}')
    return {arguments.text(name, "tables"): frame for name, frame in tables.items()}


def _check_batch(frame: DataFrame, argument: str) -> None:
    if frame.isStreaming:
        raise TailraceJoinError(
            f"`{argument}` is a stream, and tailrace.reconcile compares batch DataFrames: read its tables or "
            "files with spark.read.",
            condition=_MIXED,
            parameters={"argument": argument},
        )


def _window(
    spark: SparkSession, window: Duration | None, offset: Duration, known: Sequence[Reported]
) -> tuple[int, int]:
    """Length and offset of the windows, in microseconds."""
    later = calls.microseconds(spark, CALL, "offset", arguments.duration(offset, "offset"))
    if window is not None:
        length = calls.microseconds(spark, CALL, "window", arguments.duration(window, "window"), 1)
        return length, later % length
    if known:
        return known[0].length, known[0].start % known[0].length
    return _HOUR, later % _HOUR


def _micros(spark: SparkSession, value: str | datetime | None, argument: str) -> int | None:
    """A time in microseconds since 1970; None for None."""
    if value is None:
        return None
    if not isinstance(value, str | datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"`{argument}` must be a string or a datetime, not {type(value).__name__}.")
    if isinstance(value, datetime) and value.tzinfo is not None:
        moment = arguments.moment(value, argument)
    else:
        text = value if isinstance(value, str) else value.isoformat(" ")
        moment = F.lit(arguments.encodable(text, argument)).try_cast("timestamp")
    row = spark.range(1).select(F.unix_micros(moment).alias("micros")).collect()[0]
    if row.micros is None:
        raise arguments.refused(CALL, argument, value, 'a timestamp such as "2026-01-01 12:00"')
    return int(row.micros)
