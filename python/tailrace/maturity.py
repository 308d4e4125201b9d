"""Label maturity: delays and rates of labels in training examples, and sufficient window lengths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

from tailrace._bridge import arguments, calls
from tailrace._bridge.literal_path import files
from tailrace._estimates import sketches
from tailrace._estimates.maturity_rows import (
    COUNTED,
    MaturingLabel,
    has_versions,
    horizons_of,
    merged_versions,
    sums,
    window_of,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from tailrace.options import ColumnOrName, Duration

_CALL = "tailrace.label_maturity"
_MERGE = "tailrace.merge_maturity"
_SUMS = (*COUNTED, "truncated")
_SKETCHES = ("event_sketch", "arrival_sketch")
_QUANTILES = (0.5, 0.9, 0.99)


def label_maturity(
    spark: SparkSession,
    examples: DataFrame | str | os.PathLike[str],
    *,
    labels: Mapping[str, str],
    time: ColumnOrName,
    arrival: Mapping[str, str] | None = None,
    positive: Mapping[str, Column | str] | None = None,
    window: Duration = "1 hour",
    horizons: Sequence[Duration] = (),
    quantiles: Sequence[float] = _QUANTILES,
) -> DataFrame:
    """Reports for each window and label of training examples how many have a label, and the delays of labels.

        tailrace.label_maturity(
            spark, "/data/examples",
            labels={"labels": "clicked_at"}, time="served_at", horizons=["1 minute", "10 minutes"],
        ).show()

    It takes one pass over the rows, whatever the number of windows and labels. The sketches in the result can
    be merged: store it, and `merge_maturity` computes the report of a day or of a year from it.

    Args:
        spark: the session.
        examples: a folder written by `write_windows`, or other Parquet files; or a batch DataFrame. A path
            isn't a pattern: for several folders read them, `spark.read.parquet("/data/2026-*")`. Its rows are
            those of `join` with how="left", those of `examples`, or rows of the same shape. For versions at
            horizons only the final ones count; `versions` has the others. Rows with a `_mark` don't
            count, and for a label with `since` the rows before it don't. The weights of a sample aren't used.
        labels: each column of labels, and the field of a label with its event time, a timestamp. The column
            is a group, an array of structs; or it is one label, a struct, null without one.
        time: the column of the example's own event time, a timestamp.
        arrival: of some of these columns, the field of a label with the time at which it arrived.
        positive: of some of these columns, when an example is positive: a condition on its columns, as a
            Column or as SQL, `"exists(labels, l -> l.price > 0)"`. Without one an example with a label is.
        window: how long a window is, one microsecond or more. Windows begin at multiples of it, from
            1970-01-01 UTC on.
        horizons: durations after which to report the share of labels that have arrived. None given: the
            horizons of the rows, if they are versions, which takes a pass over that column.
        quantiles: of the delays to report, from 0 to 1.

    Returns:
        A row for each window and column of labels, ordered by both.

        `window_start` and `window_end` (timestamp, null for examples without a time) and `label`, the column;
        `rows`: examples; `matched`: those with a label; `positives`; `labels`: all of them together;
        `truncated`: examples whose group `max_matches` has cut, null without the `_truncated` column
        (bigint); `match_rate` and `positive_rate`: shares of the rows (double; null if there
        are only versions before the final ones).

        `event_delay` and `arrival_delay` (array of `quantile`, `seconds`, doubles): from the example's event
        time to that of a label, and to the time at which it arrived. Null without labels, or without such
        times. `in_by` (array of `seconds`, `event`, `arrival`, doubles): for each horizon, the share of the
        labels whose delay is at most that. Shares are of labels that are in the examples: later ones and
        those that were cut aren't.

        `versions` (array of `horizon`, string, and of `rows`, `matched`, `positives`, `labels`, bigints; null
        if the rows aren't versions): the same counts of the versions at each horizon, the final one last.
        With emit="all" each example has each version, and `labels` of a horizon divided by those of the final
        one is the share that had arrived when the watermark reached it. Other versions are those emitted.

        `rank_error` (double): by how much the rank of a quantile or a share may be wrong, in 99 of 100 cases;
        0 where both are exact, up to 1,000 labels. `event_sketch` and `arrival_sketch` (binary): KLL
        sketches, for `kll_sketch_get_quantile_bigint` and the like; in microseconds.

    Raises:
        TailraceJoinError: a column doesn't exist, or has another type; a duration can't be read; a quantile
            isn't from 0 to 1.
        TailraceSessionError: the session lacks the jar or the extension.
        TypeError: an argument has a wrong Python type.
    """
    arguments.session(spark)
    if not isinstance(examples, DataFrame):
        examples = files(spark, arguments.path(examples, "examples"), "parquet")
    arguments.frame(frame := examples, "examples")
    name = arguments.Columns(_CALL, frame).name(time, "time")
    calls.check_time(frame, _CALL, "time", name)
    own = _ordered(spark, _CALL, horizons_of(frame) if has_versions(frame) else [])
    told = _Told.of(spark, _CALL, horizons or own, quantiles)
    length = calls.microseconds(spark, _CALL, "window", arguments.duration(window, "window"), 1)
    _check(labels, arrival=arrival or {}, positive=positive or {})
    made = [
        MaturingLabel.of(_CALL, frame, label, field, (arrival or {}).get(label), (positive or {}).get(label))
        for label, field in labels.items()
    ]
    return told.of_sums(sums(frame, made, arguments.named(name), length, own))


def merge_maturity(
    reports: DataFrame,
    *,
    window: Duration | None = None,
    horizons: Sequence[Duration] = (),
    quantiles: Sequence[float] = _QUANTILES,
) -> DataFrame:
    """Makes one report out of those of many windows, without their examples.

        tailrace.label_maturity(spark, "/data/examples", ...).write.parquet("/data/maturity")
        tailrace.merge_maturity(spark.read.parquet("/data/maturity"), window="1 day").show()

    Args:
        reports: rows of `label_maturity` or of `merge_maturity`, of one run or of several. Two rows of one
            window and label are added up: of a run that was repeated, take one.
        window: how long the windows of the result are; those of the reports count by their start. None: all
            of them are one.
        horizons: as in `label_maturity`; they may differ from the ones there.
        quantiles: likewise.

    Returns:
        A report as from `label_maturity`. The error of ranks is that of one sketch, however many are merged.

    Raises:
        TailraceJoinError: as in `label_maturity`.
        TailraceSessionError: the session lacks the jar or the extension.
        TypeError: an argument has a wrong Python type.
    """
    arguments.frame(reports, "reports")
    spark = reports.sparkSession
    calls.check_time(reports, _MERGE, "reports", "window_start")
    # Reports of an earlier release have none.
    known = "versions" in reports.columns
    own = _ordered(spark, _MERGE, horizons_of(reports.select(F.inline("versions"))) if known else [])
    told = _Told.of(spark, _MERGE, horizons or own, quantiles)
    keys = [F.col("label")]
    if window is not None:
        length = calls.microseconds(spark, _MERGE, "window", arguments.duration(window, "window"), 1)
        keys += window_of(F.col("window_start"), length)
    ends = [F.min("window_start").alias("window_start"), F.max("window_end").alias("window_end")]
    return told.of_sums(
        reports.groupBy(*keys).agg(
            *(ends if window is None else []),
            *(F.sum(name).alias(name) for name in _SUMS),
            *(sketches.merged(F.col(name)).alias(name) for name in _SKETCHES),
            merged_versions(own),
        )
    )


@dataclass(frozen=True)
class _Told:
    """The parameters of a report from sums and sketches.

    Attributes:
        horizons: microseconds.
        quantiles: from 0 to 1.
    """

    horizons: Sequence[int]
    quantiles: Sequence[float]

    @staticmethod
    def of(spark: SparkSession, call: str, horizons: Sequence[Duration], quantiles: Sequence[float]) -> _Told:
        micros = [
            calls.microseconds(spark, call, "horizons", h)
            for h in arguments.several_durations(horizons, "horizons")
        ]
        return _Told(micros, sketches.ranks(quantiles, call, "quantiles"))

    def of_sums(self, sums: DataFrame) -> DataFrame:
        event, arrival = map(F.col, _SKETCHES)
        shares = (
            F.struct(
                F.lit(micros / sketches.MICROS).alias("seconds"),
                sketches.share_through(event, micros).alias("event"),
                sketches.share_through(arrival, micros).alias("arrival"),
            )
            for micros in self.horizons
        )
        in_by = F.array(*shares).cast("array<struct<seconds:double,event:double,arrival:double>>")
        return sums.select(
            *("window_start", "window_end", "label", *_SUMS),
            F.try_divide("matched", "rows").alias("match_rate"),
            F.try_divide("positives", "rows").alias("positive_rate"),
            sketches.quantiles(event, self.quantiles).alias("event_delay"),
            sketches.quantiles(arrival, self.quantiles).alias("arrival_delay"),
            in_by.alias("in_by"),
            "versions",
            F.greatest(sketches.rank_error(event), sketches.rank_error(arrival)).alias("rank_error"),
            *_SKETCHES,
        ).orderBy("window_start", "label")


def _ordered(spark: SparkSession, call: str, horizons: Sequence[str]) -> list[str]:
    """Horizons as rows have them, the shortest first."""
    return sorted(horizons, key=lambda one: calls.microseconds(spark, call, "horizon", one))


def _check(labels: Mapping[str, str], **of_some: Mapping[str, object]) -> None:
    if not labels:
        allowed = 'columns and their times, such as {"labels": "clicked_at"}'
        raise arguments.refused(_CALL, "labels", "{}", allowed)
    for argument, named in {"labels": labels, **of_some}.items():
        arguments.kind(named, Mapping, argument)
        for column in named.keys() - labels.keys():
            allowed = "of columns that `labels` names"
            raise arguments.refused(_CALL, argument, column, allowed)
