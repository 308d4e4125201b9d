"""How fast labels come: what training examples say of delays, rates and windows that are long enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

from tailrace import _convert, _jvm, _sketches
from tailrace.errors import TailraceJoinError

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from tailrace.options import ColumnOrName, Duration

_CALL = "tailrace.label_maturity"
_MERGE = "tailrace.merge_maturity"
_SUMS = ("rows", "matched", "positives", "labels", "truncated")
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
    """Says for each window and label of training examples how many have a label, and how long labels take.

        tailrace.label_maturity(
            spark, "/data/examples",
            labels={"labels": "clicked_at"}, time="served_at", horizons=["1 minute", "10 minutes"],
        ).show()

    One pass over the rows, whatever the number of windows and labels. The sketches in the result merge:
    store it, and `merge_maturity` makes the report of a day or of a year out of it.

    Args:
        spark: the session.
        examples: a folder that `write_windows` has landed, or other Parquet files; or a batch DataFrame.
            Its rows are what `join` gives with how="left", what `examples` gives, or rows of the same shape.
            Of a join with horizons the final versions count. Rows with a `_mark` don't, and for a label with
            `since` the rows before it don't. The weights of a sample aren't used.
        labels: each column of labels, and the field of a label with its event time, a timestamp. The column
            is a group, an array of structs; or it is one label, a struct, null without one.
        time: the column of the example's own event time, a timestamp.
        arrival: of some of these columns, the field of a label with the time at which it arrived.
        positive: of some of these columns, when an example is positive: a condition on its columns, as a
            Column or as SQL, `"exists(labels, l -> l.price > 0)"`. Without one an example with a label is.
        window: how long a window is, one microsecond or more. Windows begin at multiples of it, from
            1970-01-01 UTC on.
        horizons: durations after which to say which share of the labels is in.
        quantiles: of the delays to tell, from 0 to 1.

    Returns:
        A row for each window and column of labels, ordered by both.

        `window_start` and `window_end` (timestamp, null for examples without a time) and `label`, the column;
        `rows`: examples; `matched`: those with a label; `positives`; `labels`: all of them together;
        `truncated`: examples whose group `max_matches` has cut, null without the column that says so
        (bigint); `match_rate` and `positive_rate`: shares of the rows (double).

        `event_delay` and `arrival_delay` (array of `quantile`, `seconds`, doubles): from the example's event
        time to that of a label, and to the time at which it arrived. Null without labels, or without such
        times. `in_by` (array of `seconds`, `event`, `arrival`, doubles): for each horizon, the share of the
        labels whose delay is at most that. Shares are of labels that are in the examples: later ones and
        those that were cut aren't.

        `rank_error` (double): by how much the rank of a quantile or a share may be wrong, in 99 of 100 cases;
        0 where both are exact, up to 1,000 labels. `event_sketch` and `arrival_sketch` (binary): KLL
        sketches, for `kll_sketch_get_quantile_bigint` and the like; in microseconds.

    Raises:
        TailraceJoinError: a column isn't there, or has another type; a duration can't be read; a quantile
            isn't from 0 to 1.
        TailraceSessionError: the session lacks the jar or the extension.
        TypeError: an argument has a wrong Python type.
    """
    _convert.kind(spark, SparkSession, "spark")
    if not isinstance(examples, DataFrame):
        examples = spark.read.parquet(_convert.path(examples, "examples"))
    _convert.frame(frame := examples, "examples")
    name = _convert.Columns(_CALL, frame).name(time, "time")
    _jvm.check_time(frame, _CALL, "time", name)
    told = _Told.of(spark, _CALL, horizons, quantiles)
    length = _jvm.microseconds(spark, _CALL, "window", _convert.duration(window, "window"), 1)
    _check(labels, arrival=arrival or {}, positive=positive or {})
    made = [
        _Label.of(frame, label, field, (arrival or {}).get(label), (positive or {}).get(label))
        for label, field in labels.items()
    ]
    return told.of_sums(_sums(frame, made, _convert.named(name), length))


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
        horizons: as in `label_maturity`; they may be others than there.
        quantiles: likewise.

    Returns:
        What `label_maturity` returns. The error of ranks is that of one sketch, however many are merged.

    Raises:
        TailraceJoinError: as in `label_maturity`.
        TailraceSessionError: the session lacks the jar or the extension.
        TypeError: an argument has a wrong Python type.
    """
    _convert.frame(reports, "reports")
    spark = reports.sparkSession
    _jvm.check_time(reports, _MERGE, "reports", "window_start")
    told = _Told.of(spark, _MERGE, horizons, quantiles)
    keys = [F.col("label")]
    if window is not None:
        length = _jvm.microseconds(spark, _MERGE, "window", _convert.duration(window, "window"), 1)
        keys += _window(F.col("window_start"), length)
    ends = [F.min("window_start").alias("window_start"), F.max("window_end").alias("window_end")]
    return told.of_sums(
        reports.groupBy(*keys).agg(
            *(ends if window is None else []),
            *(F.sum(name).alias(name) for name in _SUMS),
            *(_sketches.merged(F.col(name)).alias(name) for name in _SKETCHES),
        )
    )


@dataclass(frozen=True)
class _Told:
    """What is told of sums and sketches.

    Attributes:
        horizons: microseconds.
        quantiles: from 0 to 1.
    """

    horizons: Sequence[int]
    quantiles: Sequence[float]

    @staticmethod
    def of(spark: SparkSession, call: str, horizons: Sequence[Duration], quantiles: Sequence[float]) -> _Told:
        micros = [
            _jvm.microseconds(spark, call, "horizons", h)
            for h in _convert.several_durations(horizons, "horizons")
        ]
        return _Told(micros, _sketches.ranks(quantiles, "quantiles"))

    def of_sums(self, sums: DataFrame) -> DataFrame:
        event, arrival = map(F.col, _SKETCHES)
        shares = (
            F.struct(
                F.lit(micros / _sketches.MICROS).alias("seconds"),
                _sketches.share_through(event, micros).alias("event"),
                _sketches.share_through(arrival, micros).alias("arrival"),
            )
            for micros in self.horizons
        )
        in_by = F.array(*shares).cast("array<struct<seconds:double,event:double,arrival:double>>")
        return sums.select(
            *("window_start", "window_end", "label", *_SUMS),
            (F.col("matched") / F.col("rows")).alias("match_rate"),
            (F.col("positives") / F.col("rows")).alias("positive_rate"),
            _sketches.quantiles(event, self.quantiles).alias("event_delay"),
            _sketches.quantiles(arrival, self.quantiles).alias("arrival_delay"),
            in_by.alias("in_by"),
            F.greatest(_sketches.rank_error(event), _sketches.rank_error(arrival)).alias("rank_error"),
            *_SKETCHES,
        ).orderBy("window_start", "label")


@dataclass(frozen=True)
class _Label:
    """A column of labels.

    Attributes:
        name: of the column.
        elements: its labels: an array of structs, empty or null without one.
        field: of a label, its event time.
        arrival: of a label, when it arrived; None if it doesn't say.
        positive: whether an example is positive; None: if it has a label.
        truncated: whether its group was cut; null if nobody knows.
        known: whether it is known: it isn't before `since`.
    """

    name: str
    elements: Column
    field: str
    arrival: str | None
    positive: Column | None
    truncated: Column
    known: Column

    @staticmethod
    def of(
        frame: DataFrame, name: str, field: str, arrival: str | None, positive: Column | str | None
    ) -> _Label:
        times = [_convert.text(field, "labels"), *([] if arrival is None else [arrival])]
        column = _convert.named(name)
        many = _jvm.holds_groups(frame, _CALL, name, times)
        flag = f"{name}_truncated"
        return _Label(
            name,
            F.filter(column if many else F.array(column), lambda label: label.isNotNull()),
            field,
            arrival,
            F.expr(positive) if isinstance(positive, str) else positive,
            _convert.named(flag) if flag in frame.columns else F.lit(None).cast("boolean"),
            column.isNotNull() if many else F.lit(True),
        )

    def delays(self, time: Column) -> Column:
        """A struct with what the rows of the report are made of."""

        def since(moment: Column) -> Column:
            return F.unix_micros(moment) - F.unix_micros(time)

        def delay(label: Column) -> Column:
            arrived = F.lit(None).cast("bigint") if self.arrival is None else since(label[self.arrival])
            return F.struct(since(label[self.field]).alias("event"), arrived.alias("arrival"))

        return F.struct(
            F.lit(self.name).alias("label"),
            F.transform(self.elements, delay).alias("delays"),
            (F.size(self.elements) > 0 if self.positive is None else self.positive).alias("positive"),
            self.truncated.alias("truncated"),
            self.known.alias("known"),
        )


def _sums(frame: DataFrame, labels: Sequence[_Label], time: Column, length: int) -> DataFrame:
    """A row for each window and label: counts, and a sketch of the delays."""
    rows = frame.where(F.col("_mark").isNull()) if "_mark" in frame.columns else frame
    if {"horizon", "final"} <= set(frame.columns):
        rows = rows.where("final")
    of_labels = rows.select(
        *_window(time, length), F.explode(F.array(*(label.delays(time) for label in labels))).alias("of")
    ).where("of.known")
    # A row for each label of an example; one without a position for an example without any.
    each = of_labels.select(
        "window_start",
        "window_end",
        "of.label",
        "of.positive",
        "of.truncated",
        F.posexplode_outer("of.delays"),
    )
    is_first = F.coalesce(F.col("pos"), F.lit(0)) == 0
    return each.groupBy("window_start", "window_end", "label").agg(
        F.count_if(is_first).alias("rows"),
        F.count_if(F.col("pos") == 0).alias("matched"),
        F.count_if(is_first & F.col("positive")).alias("positives"),
        F.count("pos").alias("labels"),
        F.sum(F.when(is_first, F.col("truncated").cast("bigint"))).alias("truncated"),
        _sketches.of(F.col("col.event")).alias("event_sketch"),
        _sketches.of(F.col("col.arrival")).alias("arrival_sketch"),
    )


def _window(time: Column, length: int) -> list[Column]:
    """Start and end of a time's window; null for none. Spark's own window function drops such rows."""
    micros = F.unix_micros(time)
    start = micros - F.pmod(micros, F.lit(length))
    return [
        F.timestamp_micros(start).alias("window_start"),
        F.timestamp_micros(start + length).alias("window_end"),
    ]


def _check(labels: Mapping[str, str], **of_some: Mapping[str, object]) -> None:
    if not labels:
        raise TailraceJoinError('`labels` names no column. It has to be such as {"labels": "clicked_at"}.')
    for argument, named in {"labels": labels, **of_some}.items():
        _convert.kind(named, Mapping, argument)
        for column in named.keys() - labels.keys():
            raise TailraceJoinError(f"`{argument}` names the column {column}, which `labels` doesn't.")
