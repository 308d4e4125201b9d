"""The rows that a streaming pipeline has written, where they are, and which windows of them are complete."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, cast

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it
from pyspark.sql.types import StringType, StructField, StructType

from tailrace._bridge import arguments
from tailrace._bridge.literal_path import files
from tailrace._reconciling.subject import MARK, is_marked
from tailrace.windows import window_report

if TYPE_CHECKING:
    import os

    from pyspark.sql import Column, SparkSession

    from tailrace.options import WindowFormat

LATE = "late"
_NO_SUCH_PATH = "PATH_NOT_FOUND"
_REPORTED = ("rows", "expected", "passed", "completeness", "low_watermark", "closed_at", "late_rows")


@dataclass(frozen=True)
class Landed:
    """The output of a pipeline.

    Attributes:
        rows: ordinary examples.
        aside: rows that aren't: marked ones, and those that were written after their window had closed, whose
            mark is "late". None if there can be none.
        report: of the windows that have closed, as from `window_report`; None for a DataFrame.
    """

    rows: DataFrame
    aside: DataFrame | None
    report: DataFrame | None


def landed_rows(
    landed: DataFrame | str | os.PathLike[str],
    batch: DataFrame,
    format: WindowFormat,  # noqa: A002
) -> Landed:
    """Reads what `write_windows` has written, or takes a DataFrame as it is.

    Args:
        landed: as in `tailrace.reconcile`.
        batch: the answer, whose columns are read of a folder.
        format: of `write_windows`.

    Raises:
        TailraceWatermarkError: there is no such folder or table.
    """
    if isinstance(landed, DataFrame):
        return _split(landed, [], None)
    spark = batch.sparkSession
    report = window_report(spark, landed, format=format)
    if format != "parquet":
        name = arguments.table(landed, "landed")
        rows = spark.read.format(format).load(name) if "/" in name else spark.table(name)
        return _split(rows, [], report)
    path = arguments.path(landed, "landed").rstrip("/")
    schema = _schema(batch)
    aside = [_if_there(spark, f"{path}/{name}", schema) for name in ("_late", "_untimed")]
    late = [
        frame.withColumn(MARK, F.coalesce(F.col(MARK), F.lit(LATE))) for frame in aside if frame is not None
    ]
    return _split(files(spark, path, "parquet", schema), late, report)


def _schema(batch: DataFrame) -> StructType:
    """The columns of the answer, and the mark, which pipelines of other options have, too."""
    fields = [StructField(field.name, field.dataType) for field in batch.schema.fields if field.name != MARK]
    return StructType([*fields, StructField(MARK, StringType())])


def _if_there(spark: SparkSession, path: str, schema: StructType) -> DataFrame | None:
    try:
        frame = files(spark, path, "parquet", schema)
        frame.schema  # noqa: B018  Spark Connect looks for it here
    except AnalysisException as error:
        if error.getCondition() != _NO_SUCH_PATH:
            raise
        return None
    return frame


def _split(rows: DataFrame, aside: list[DataFrame], report: DataFrame | None) -> Landed:
    if MARK in rows.columns:
        aside = [rows.where(is_marked(rows)), *aside]
        rows = rows.where(~is_marked(rows))
    together = (
        reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), aside) if aside else None
    )
    return Landed(rows, together, report)


@dataclass(frozen=True)
class Range:
    """The time that is compared, in microseconds since 1970: from `begin` on, before `end`.

    Attributes:
        begin: inclusive; None: there is nothing to compare.
        end: exclusive.
        open_from: windows that end after this time haven't closed; None if that isn't known.
    """

    begin: int | None
    end: int | None
    open_from: int | None = None

    def has(self, start: Column, length: int) -> Column:
        """True for windows that are compared."""
        if self.begin is None or self.end is None:
            return F.lit(False)
        return (start >= self.begin) & (start + length <= self.end)

    def status(self, start: int | None, length: int) -> str:
        """The status of a window."""
        if start is None:
            return "untimed"
        if self.begin is not None and self.end is not None and self.begin <= start <= self.end - length:
            return "compared"
        return "open" if self.open_from is not None and start + length > self.open_from else "outside"

    def within(self, since: int | None, until: int | None) -> Range:
        """The range between two times, which says where rows have to be, even if there are none.

        Windows that haven't closed are never compared. Of a DataFrame, it isn't known which ones have.
        """
        begin = self.begin if since is None else since
        end = self.end if until is None else until
        if self.open_from is not None and (end is None or end > self.open_from):
            end = self.open_from
        return Range(begin, end, self.open_from)


@dataclass(frozen=True)
class Reported:
    """The report of a window, in microseconds: its start, its length, and the values of `_REPORTED`."""

    start: int
    length: int
    values: tuple[object, ...]


REPORT = (
    "struct<rows:bigint,expected:bigint,passed:bigint,completeness:decimal(19,18),low_watermark:bigint,closed_at:bigint,"
    "late_rows:bigint>"
)


def reports(landed: Landed) -> list[Reported]:
    """The reports of the windows that have closed, in order of time; none of a DataFrame."""
    if landed.report is None:
        return []
    start, end = F.unix_micros("window_start"), F.unix_micros("window_end")
    of_window = (
        F.unix_micros(name) if name in ("low_watermark", "closed_at") else F.col(name) for name in _REPORTED
    )
    found = landed.report.where("closed_at IS NOT NULL").select(start, end - start, *of_window).orderBy(start)
    return [Reported(row[0], row[1], tuple(row[2:])) for row in found.collect()]


def range_of(landed: Landed, known: list[Reported], time: Column, window: tuple[int, int]) -> Range:
    """The range of the windows that have landed.

    With reports, it is from the first window that has closed to the last one: windows close in order of time.
    A gap between them, for which more than 1,000 windows without rows have closed at a time, belongs to it.
    Without reports it is from the window of the first row to that of the last one.

    Args:
        landed: the rows.
        known: the reports.
        time: the column of the event time.
        window: length and offset of the windows, in microseconds.
    """
    if landed.report is not None:
        if not known:
            return Range(None, None, -(2**63))
        end = max(one.start + one.length for one in known)
        return Range(known[0].start, end, end)
    length, offset = window
    first, last = cast(
        "tuple[int | None, int | None]",
        landed.rows.agg(F.min(F.unix_micros(time)), F.max(F.unix_micros(time))).collect()[0],
    )
    if first is None or last is None:
        return Range(None, None)
    return Range(first - (first - offset) % length, last - (last - offset) % length + length)
