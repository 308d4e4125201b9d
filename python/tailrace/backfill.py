"""History first, then the live streams: one query, one checkpoint, one sink."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it
from pyspark.sql.types import StructField

from tailrace._bridge import arguments, calls
from tailrace.errors import TailraceStateError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from tailrace.options import ColumnOrName, Duration

_CALL = "tailrace.backfill"
_LOG = logging.getLogger(__name__)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
# Each step is a micro-batch, which takes some tenths of a second at least.
_MOST_STEPS = 100_000
_POLL_SECONDS = 1
# Where types say in JSON whether there may be nulls.
_NULLABLE = {"nullable", "containsNull", "valueContainsNull"}
_GAP = "TAILRACE_BACKFILL_GAP"


@dataclass(frozen=True)
class HistoryTable:
    """The rows of a table of a backfill.

    Attributes:
        rows: how many rows the backfill reads.
        untimed: how many of them have no event time. The first micro-batch reads them.
        live: how many rows are at `until` or later. They are left out: the stream has them.
        first: the earliest event time of the rows that are read; None without one.
        last: the latest one.
    """

    rows: int
    untimed: int
    live: int
    first: dt.datetime | None
    last: dt.datetime | None


class _Counted(NamedTuple):
    counts: HistoryTable
    starts: set[int]


@dataclass(frozen=True)
class Backfill:
    """The result of `backfill`, or of its dry run.

    Attributes:
        checkpoint: the query's checkpointLocation.
        steps: how many steps the history takes, one per micro-batch.
        read: how many of them are complete.
        done: whether all are, and the checkpoint is ready for the live streams.
        tables: what the tables have, by name. None if the backfill had begun before: they aren't read again.
    """

    checkpoint: str
    steps: int
    read: int
    done: bool
    tables: Mapping[str, HistoryTable] | None
    _live: DataStreamWriter | None = field(repr=False)

    def live(self) -> DataStreamWriter:
        """The query with its live streams in place of the tables, not started yet.

            history.live().start()

        The first start reads each stream from the position that the stream's own options name, and later
        ones resume where the query stopped.

        Returns:
            The pipeline's writer with the checkpoint. Add a trigger if you need one, and start it.

        Raises:
            TypeError: it was a dry run.
        """
        if self._live is None:
            raise TypeError("A dry run has no live query: call `tailrace.backfill` without `dry_run`.")
        return self._live


def backfill(
    pipeline: Callable[..., DataStreamWriter],
    tables: Mapping[str, DataFrame],
    streams: Mapping[str, DataFrame],
    *,
    time: ColumnOrName | Mapping[str, ColumnOrName],
    until: dt.datetime | Mapping[str, dt.datetime | None] | None,
    checkpoint: str | os.PathLike[str],
    step: Duration = "1 day",
    dry_run: bool = False,
) -> Backfill:
    """Reads history from tables into a query that then resumes with live streams.

        def pipeline(impressions, clicks):
            examples = tailrace.join(
                impressions.withWatermark("shown_at", "10 minutes"),
                clicks.withWatermark("clicked_at", "10 minutes"),
                on="impression_id", ...
            )
            return examples.writeStream.format("parquet").option("path", "/data/examples")

        history = tailrace.backfill(
            pipeline,
            {"impressions": spark.table("impressions"), "clicks": spark.table("clicks")},
            {"impressions": impressions_topic, "clicks": clicks_topic},
            time={"impressions": "shown_at", "clicks": "clicked_at"},
            until=datetime(2026, 3, 31, tzinfo=UTC),
            checkpoint="/data/checkpoint",
        )
        history.live().start()

    The query reads the tables first, in the order of time, and then the streams. State, watermark and sink
    stay, so the result is that of one query over all rows: an impression before `until` finds its clicks
    after it. The pipeline may have any operators: joins, features, windows, deduplication, Spark's own. No
    row of the tables is late.

    A micro-batch reads the rows of one `step` from all tables. The sink is written from the first one on. A
    backfill that was stopped, by an error or a kill, resumes when it is called again with the same arguments.
    When all steps have been read, it returns at once and reads no table, so a program that resumes its live
    query calls it, too. Each step reads the tables anew: they must have the same rows each time. Rows that
    are added between two calls are read if their step hasn't been.

    Args:
        pipeline: makes the query of a DataFrame for each table, which are given by name. It returns the
            writer, with format and options, and doesn't start it. It is called for the streams, which checks
            them, for the tables, and for the streams again, and must make the same query each time.
        tables: batch DataFrames, by the names of the pipeline's arguments.
        streams: a stream for each table. Columns of one name have the same type in both. The pipeline gets
            them with the table's spelling and in its order, and those that only the stream has behind them.
            Each stream has one source: a union is made in the pipeline. Rows before `until` are filtered
            out, so a stream may begin early, and should, by a margin for rows that were written out of
            order. It mustn't begin later than `until`.
        time: the event time of the tables, a timestamp column; by name of the table if they differ.
        until: rows of the tables before this time are history; rows from it on are live. A time with a zone,
            up to which the tables are complete; by name of the table if they differ. None: all rows of the
            table are history, and all of the stream are live. Then the stream must begin exactly behind the
            table, for instance at the offsets of Kafka at which the table's read ended.
        checkpoint: the query's checkpointLocation: a new directory, or that of the same backfill. With a
            new one, the sink must be new, too.
        step: how much time a micro-batch reads. Each scans the tables for its rows, which tables that are
            partitioned or sorted by time answer from few files. A longer one needs more memory and disk.
        dry_run: whether only to check the pipeline and the checkpoint, and to read the tables' times and
            count. Nothing is written.

    Returns:
        How far the backfill is, and the live query.

    Raises:
        TailraceStateError: the checkpoint is another query's, or the backfill began with other arguments; a
            DataFrame is no table or no stream, lacks its event time, or has a column of another type.
        TailraceSessionError: the session lacks the jar or the extension.
        TypeError: an argument has a wrong Python type, or names no table.
    """
    arguments.flag(dry_run, "dry_run")
    spark = _session(tables)
    _check_names("streams", streams, tables)
    ends = _ends(tables, time, until)
    for name, (column, _) in ends.items():
        _check(tables[name], name, column, streams=False)
        _check(streams[name], name, column, streams=True)
    streams = {name: _as_in_table(streams[name], table) for name, table in tables.items()}
    for name, table in tables.items():
        _check_types(name, table, streams[name])
    path = arguments.path(checkpoint, "checkpoint")
    micros = calls.microseconds(spark, _CALL, "step", arguments.duration(step, "step"), least=1)
    lives = {name: _live(streams[name], *ends[name]) for name in ends}
    # Faults of the pipeline are found before hours of history.
    live = _writer(pipeline, lives, path)
    state = calls.ask("backfill_state", spark, checkpoint=path)
    plan, counted = state.get("plan"), dict[str, _Counted]()
    if plan is None:
        counted = {name: _count(tables[name], *end, micros) for name, end in ends.items()}
        _warn_of_gaps(counted, ends, micros)
    starts = plan["starts"] if plan else _starts(counted.values(), micros)
    begun = calls.ask(
        "begin_backfill",
        spark,
        checkpoint=path,
        streams=_named(ends),
        step=micros,
        starts=starts,
        dry=dry_run,
    )
    starts = begun["starts"]
    if not state["handedOver"]:
        history = _writer(pipeline, _sliced(tables, streams, ends, starts), path)
        if not dry_run:
            if not state["isWhole"]:
                _read(history, path, len(starts))
            state = calls.ask("hand_over", spark, checkpoint=path)
            # Views that the pipeline has made are of tables now. Spark Connect looks them up at the start.
            live = _writer(pipeline, lives, path)
    found = {name: table.counts for name, table in counted.items()} if plan is None else None
    return Backfill(path, len(starts), state["read"], state["handedOver"], found, None if dry_run else live)


def _named(ends: Mapping[str, tuple[str, dt.datetime | None]]) -> list[dict[str, object]]:
    """The streams as the checkpoint has them."""
    return [
        {"name": name, "time": time, "until": None if until is None else _micros(until)}
        for name, (time, until) in ends.items()
    ]


def _session(tables: Mapping[str, DataFrame]) -> SparkSession:
    arguments.kind(tables, Mapping, "tables")
    if not tables:
        raise TypeError("`tables` has no table: give one for each argument of the pipeline.")
    for name, table in tables.items():
        arguments.text(name, "tables")
        arguments.frame(table, f"tables[{name!r}]")
    return next(iter(tables.values())).sparkSession


def _ends(
    tables: Mapping[str, DataFrame],
    time: ColumnOrName | Mapping[str, ColumnOrName],
    until: dt.datetime | Mapping[str, dt.datetime | None] | None,
) -> dict[str, tuple[str, dt.datetime | None]]:
    """The event time of each table, and the time at which its history ends."""
    times = _by_table("time", time, tables)
    moments = _by_table("until", until, tables)
    for moment in moments.values():
        if moment is not None:
            arguments.kind(moment, dt.datetime, "until")
            if moment.tzinfo is None:
                raise TypeError(f"`until` is {moment} without a time zone: give it tzinfo=datetime.UTC.")
    return {name: (_time(table, times[name]), moments[name]) for name, table in tables.items()}


def _time(table: DataFrame, time: ColumnOrName) -> str:
    """The event time by the table's spelling, which a later call may give otherwise."""
    name = arguments.Columns(_CALL, table).name(time, "time")
    return _spelling(table).get(_fold(table)(name), name)


def _by_table(argument: str, value: object, tables: Mapping[str, DataFrame]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        return dict.fromkeys(tables, value)
    given = cast("Mapping[str, Any]", value)
    _check_names(argument, given, tables)
    return given


def _check_names(argument: str, given: Mapping[str, Any], tables: Iterable[str]) -> None:
    arguments.kind(given, Mapping, argument)
    names = set(tables)
    missing, others = sorted(names - set(given)), sorted(set(given) - names)
    if missing:
        raise TypeError(f"`{argument}` has nothing for the table {missing[0]!r}.")
    if others:
        raise TypeError(f"`{argument}` has {others[0]!r}, which is no table: they are {sorted(names)}.")


def _check(frame: DataFrame, name: str, time: str, *, streams: bool) -> None:
    argument = "streams" if streams else "tables"
    arguments.frame(frame, f"{argument}[{name!r}]")
    if frame.isStreaming != streams:
        raise arguments.refused(_CALL, argument, name, "a stream" if streams else "a batch DataFrame")
    calls.check_time(frame, _CALL, f"time[{name!r}]", time)


def _as_in_table(stream: DataFrame, table: DataFrame) -> DataFrame:
    """The stream with the table's order of columns, and its spelling of their names.

    State that history makes has both. Spark's operators take a column for another one of its type, and those
    of Tailrace refuse another name.
    """
    wanted = _spelling(table)
    fold = _fold(table)
    places = {name: place for place, name in enumerate(wanted)}
    ordered = sorted(stream.schema, key=lambda column: places.get(fold(column.name), len(places)))
    return stream.select(
        [_with_nulls(column).alias(wanted.get(fold(column.name), column.name)) for column in ordered]
    )


def _fold(table: DataFrame) -> Callable[[str], str]:
    return str if table.sparkSession.conf.get("spark.sql.caseSensitive") == "true" else str.lower


def _spelling(table: DataFrame) -> dict[str, str]:
    """The columns of a table, by their names as the session compares them."""
    fold = _fold(table)
    return {fold(name): name for name in table.columns}


def _with_nulls(column: StructField) -> Column:
    """A column that may have nulls inside of it, as the tables get them, too.

    State of a key with a field that is NOT NULL isn't that of a key in which it is nullable.
    """
    named = arguments.named(column.name)
    nullable = StructField.fromJson(_allowing_nulls(column.jsonValue())).dataType
    return named if nullable == column.dataType else named.cast(nullable)


def _allowing_nulls(kind: Any) -> Any:  # noqa: ANN401  a type as JSON
    if isinstance(kind, list):
        return [_allowing_nulls(one) for one in cast("list[object]", kind)]
    if not isinstance(kind, dict):
        return kind
    parts = cast("dict[str, Any]", kind)
    return {
        name: True if name in _NULLABLE else part if name == "metadata" else _allowing_nulls(part)
        for name, part in parts.items()
    }


def _check_types(name: str, table: DataFrame, stream: DataFrame) -> None:
    """The state that history makes is of the table's types: the live query would be refused at its start."""
    wanted = {column.name: column.dataType.simpleString() for column in table.schema}
    for column in stream.schema:
        kind = column.dataType.simpleString()
        allowed = wanted.get(column.name, kind)
        if kind != allowed:
            text = (
                f"`streams[{name!r}]` of {_CALL} has the column `{column.name}` of the type {kind}, and the "
                f"table has {allowed}. Cast it on one side, so that both have the same type."
            )
            raise TailraceStateError(
                text,
                condition="TAILRACE_COLUMN_TYPE",
                parameters={
                    "call": _CALL,
                    "argument": f"streams[{name!r}]",
                    "column": column.name,
                    "frame": "the stream",
                    "type": kind,
                    "expected": allowed,
                },
            )


def _micros(moment: dt.datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _count(table: DataFrame, time: str, until: dt.datetime | None, step: int) -> _Counted:
    at = arguments.named(time)
    is_live = F.lit(False)
    if until is not None:
        is_live = F.coalesce(at >= arguments.moment(until, "until"), is_live)
    micros = F.unix_micros(at)
    start = F.when(~is_live, micros - F.pmod(micros, F.lit(step)))
    grouped = table.groupBy(is_live.alias("live"), start.alias("start"))
    counted = grouped.agg(
        F.count("*").alias("rows"), F.min(micros).alias("first"), F.max(micros).alias("last")
    )
    # Besides its steps, a table has rows without a time, and live ones.
    groups = counted.limit(_MOST_STEPS + 3).collect()
    read = [group for group in groups if not group.live]
    timed = [group for group in read if group.start is not None]
    counts = HistoryTable(
        rows=sum(group.rows for group in read),
        untimed=sum(group.rows for group in read if group.start is None),
        live=sum(group.rows for group in groups if group.live),
        first=_moment(min((group.first for group in timed), default=None)),
        last=_moment(max((group.last for group in timed), default=None)),
    )
    return _Counted(counts, {group.start for group in timed})


def _warn_of_gaps(
    tables: Mapping[str, _Counted], ends: Mapping[str, tuple[str, dt.datetime | None]], step: int
) -> None:
    """Rows of a stream between the end of its table and `until` are left out."""
    for name, (_, until) in ends.items():
        last = tables[name].counts.last
        if until is not None and (last is None or until - last > step * _MICROSECOND):
            _LOG.warning(
                "%s: the table %r %s. Rows of its stream before %s are left out.",
                _GAP,
                name,
                "has no rows" if last is None else f"ends at {last}",
                until,
            )


def _moment(micros: int | None) -> dt.datetime | None:
    """A time, or the nearest one that Python has."""
    if micros is None:
        return None
    try:
        return _EPOCH + micros * _MICROSECOND
    except OverflowError:
        return (dt.datetime.min if micros < 0 else dt.datetime.max).replace(tzinfo=dt.UTC)


def _starts(tables: Iterable[_Counted], step: int) -> list[int]:
    """The starts of all steps with rows; at least one, because the live query resumes after a micro-batch."""
    starts = set[int]().union(*(table.starts for table in tables))
    if len(starts) > _MOST_STEPS:
        asked, allowed = (
            dt.timedelta(microseconds=step),
            f"a length with which the tables have at most {_MOST_STEPS:,} steps",
        )
        raise arguments.refused(_CALL, "step", asked, allowed)
    return sorted(starts) or [0]


def _sliced(
    tables: Mapping[str, DataFrame],
    streams: Mapping[str, DataFrame],
    ends: Mapping[str, tuple[str, dt.datetime | None]],
    starts: list[int],
) -> dict[str, DataFrame]:
    """The tables as streams, which read a step per micro-batch."""
    return {
        name: calls.plan(
            "backfill_stream",
            tables[name],
            frame=tables[name],
            live=streams[name],
            name=name,
            event_time=time,
            until=None if until is None else _micros(until),
            starts=starts,
        )
        for name, (time, until) in ends.items()
    }


def _read(history: DataStreamWriter, checkpoint: str, steps: int) -> None:
    """Runs the query over the steps that haven't been read."""
    query = history.trigger(availableNow=True).start()
    try:
        _wait(query, checkpoint, steps)
    finally:
        query.stop()


def _wait(query: StreamingQuery, checkpoint: str, steps: int) -> None:
    reported = -1
    while not query.awaitTermination(_POLL_SECONDS):
        progress = query.lastProgress
        if progress is not None and progress["batchId"] > reported:
            reported = progress["batchId"]
            _LOG.info("%s: micro-batch %d of a backfill of %d steps", checkpoint, reported, steps)


def _live(stream: DataFrame, time: str, until: dt.datetime | None) -> DataFrame:
    if until is None:
        return stream
    at = arguments.named(time)
    return stream.where((at >= arguments.moment(until, "until")) | at.isNull())


def _writer(
    pipeline: Callable[..., DataStreamWriter], streams: Mapping[str, DataFrame], checkpoint: str
) -> DataStreamWriter:
    writer = pipeline(**streams)
    # PySpark has a class for each kind of session.
    kinds = {kind.__name__ for kind in type(writer).__mro__}
    if "StreamingQuery" in kinds:
        # Otherwise it would write to the sink while its starter looks for the error.
        cast("StreamingQuery", writer).stop()
    if "DataStreamWriter" not in kinds:
        raise TypeError(
            f"The pipeline returned {type(writer).__name__}, and must return a DataStreamWriter that isn't "
            'started: `return frame.writeStream.format("parquet").option("path", ...)`.'
        )
    return writer.option("checkpointLocation", checkpoint)
