"""Watermarks that wait for the hosts whose logs lag, instead of following the fastest one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it
from pyspark.sql.types import ArrayType

from tailrace._bridge import arguments, calls
from tailrace._bridge.literal_path import files
from tailrace.errors import TailraceWatermarkError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from tailrace.options import ColumnOrName, Duration, OnFuture, Share

    Hosts: TypeAlias = Sequence[str] | str | os.PathLike[str] | DataFrame

_HEADER = "watermark"
# The errors by which Spark refuses "web-1", "h1,h2" and "web.example.org" as the name of a table.
_NO_TABLE_NAME = ("INVALID_IDENTIFIER", "PARSE_SYNTAX_ERROR", "REQUIRES_SINGLE_PART_NAMESPACE")


def accurate_watermark(
    frame: DataFrame,
    event_time: ColumnOrName,
    *,
    host: ColumnOrName,
    completeness: Share = "99.9%",
    hosts: Hosts | None = None,
    idle_after: Duration | None = None,
    future_limit: Duration | None = None,
    on_future: OnFuture = "clamp",
    delay: Duration = "0 seconds",
    server: str | Sequence[str] | None = None,
    app: str | None = None,
    operator: str | None = None,
    token: str | None = None,
    logs: str | None = None,
    name: str = "watermark",
) -> DataFrame:
    """Sets Spark's event-time watermark to the time up to which the hosts' logs have been read.

        logs = tailrace.accurate_watermark(logs, "event_time", host="hostname", completeness="99.9%")

    Spark's own watermark follows the greatest event time of all rows, so one fast host makes the rows of
    lagging hosts late. This watermark is the time that all hosts except a share have passed: with N hosts
    that count and completeness r, exactly floor(N x (1 - r)) of them may lag. Windows, joins, deduplication
    and `transformWithState` after it follow it as they follow Spark's. A row at exactly the watermark is on
    time. The watermark never goes back, and a restart resumes it: the table of hosts is in the query's
    checkpoint before a micro-batch is complete.

    Each host's log has to be read in the order of its event times.

    Args:
        frame: a stream. A batch DataFrame is returned unchanged, as by `withWatermark`.
        event_time: the timestamp column.
        host: the string column that says where a row was logged. Rows without a host don't count.
        completeness: the share of the hosts that must have passed: "99.9%", "0.999", or the number 0.999.
        hosts: the roster: the hosts that count, whether rows of them have been seen or not. Names; the path
            of a text file with one name per line (a `pathlib.Path`, or a string with a slash in it); a
            DataFrame, or the name of a table, whose first column has the names. It is read now, once. None:
            the hosts count that have been seen so far. Rows of a host that isn't in the roster are emitted
            like others; the host doesn't hold back the watermark, and a warning
            TAILRACE_WATERMARK_HOST_UNROSTERED in the driver's log names it once per start of the query.
        idle_after: a host that has been idle for this time stops counting, with a warning
            TAILRACE_WATERMARK_HOST_IDLE in the driver's log, and counts again when it is back. A host is idle
            if rows of other hosts, and none of this host, arrived in at least eight micro-batches, and
            nothing was left unread. Time in which no host had rows, or in which the query was down, paused or
            behind, doesn't count, nor do jumps of the clock. Kafka and files report unread data; any other
            source that is read in parts (maxBytesPerTrigger and the like) counts as having unread data for
            every host. With `server`, the server decides by its own clock and the rows of all queries. None:
            no host becomes idle. An idle host that is in no roster and a week behind the watermark is
            removed.
        future_limit: how far ahead of the micro-batch's clock an event time is accepted. None: any time is.
        on_future: with `future_limit`, what happens to rows further ahead. "clamp": they are emitted as they
            are, and their host advances to the limit. "mark": they are emitted with "future" in a column
            `_mark`, and don't move their host. "fail": the query ends with an error.
        delay: how far the watermark stays behind, for hosts whose logs are a little out of order.
        server: a watermark server, "http://host:port" or "https://proxy/path", to which several queries
            report hosts, and which decides for all of them. The query's operators with state and its sink are
            reported, too, under names that begin with `operator`: "source/tailraceLabelJoin-0",
            "source/sink". While the server is away the query continues, and the watermark stays. Several
            servers of one store: a list, or one string separated by commas. The one that answered last is
            tried first. If it can't be reached, doesn't answer within two seconds or fails (a status of 500
            or more), the next one is tried, with a warning TAILRACE_WATERMARK_SERVER_REPLACED. If two of them
            have different stores, the query ends with TAILRACE_WATERMARK_STORES_DIFFER. None: the query
            decides.
        app: with `server`, the application whose operators belong together.
        operator: with `server`, the name of this source there; None: "source". Several queries may have one
            name: while they run and read different files or topics, each host's minimum progress counts, and
            they wait for each other. A query that reads the same input as another one is refused with
            TAILRACE_WATERMARK_REPORTER_CONFLICT before it emits a row, and needs a name of its own. A query
            reports under the id in its checkpoint.
        token: with `server`, its bearer token.
        logs: with `server`, a name for the hosts' logs, if several queries with one `operator` read parts of
            them, each host's log by one query: all of these queries give the same name. Then a host of the
            roster has passed when the query that reads it has. None: the logs are this query's own, and it
            waits for each host of its roster until it has read rows of it itself, whatever others have read.
        name: the name of the source in the checkpoint and in the query's progress. Never change it. Two
            accurate watermarks of one query need two names. The numbers of the source are in the query's
            progress, `observedMetrics["tailrace.watermark"]` (with a `name` of its own:
            `"tailrace.watermark.<name>"`): `hosts` that count, `passed`, `idle`, `unrostered` (seen, and not
            in the roster), `lowWatermark`; `lateRows` of the last micro-batch, by the watermark by which its
            operators drop late rows, which is that before the batch; `futureRows` since the query
            began; the `slowest` hosts; and `heldBy`, the other queries that hold the low watermark back at
            the server.

    Returns:
        A DataFrame with the same columns, and `_mark` string with on_future="mark", null on ordinary rows.

    Raises:
        TailraceWatermarkError: a column is unknown or of a wrong type, the roster is empty or doesn't exist,
            or an option is invalid or needs another one.
        TailraceSessionError: the session lacks the jar or the extension.
        TypeError: an argument has a wrong Python type.
    """
    arguments.frame(frame, "frame")
    named = arguments.texts(on_future=on_future, name=name)
    at_server = arguments.at_server(server, app, operator, token, logs)
    limits = arguments.given(idle_after=idle_after, future_limit=future_limit)
    options = _options(completeness, delay, limits) | named | at_server
    roster = None if hosts is None else _roster(hosts, frame.sparkSession)
    columns = arguments.Columns("tailrace.accurate_watermark", frame)
    time, origin = columns.name(event_time, "event_time"), columns.name(host, "host")
    places = {"frame": frame, "event_time": time, "host": origin, "hosts": roster}
    return calls.plan("accurate_watermark", frame, **places, **options)


def stamp_watermark(frame: DataFrame, *, into: str = "watermark", headers: bool = False) -> DataFrame:
    """Adds the low watermark of its micro-batch to each row, so that the next system can close windows by it.

        out = tailrace.stamp_watermark(counts)  # a binary column `watermark`

    All rows of a micro-batch have the same 17 bytes: the low watermark, before which no row of this or of a
    later micro-batch is unless its host lags, and the completeness of the accurate watermarks below,
    multiplied by that of the stamps that they started from. With a watermark server the stamp is at most the
    global low watermark of the application, because other queries may write the same topic.
    The SQL function `parse_watermark_stamp` takes the bytes apart.

    Args:
        frame: a stream whose watermarks are all accurate ones. A batch DataFrame gets nulls.
        into: the name of the column, or the key of the header.
        headers: puts the stamp into a column `headers` as Spark's Kafka sink writes it,
            array<struct<key: string, value: binary>>, after the existing headers.

    Returns:
        A DataFrame with the column `into`, or `headers`, in addition.

    Raises:
        TailraceWatermarkError: the DataFrame has another watermark, or none, or a column of that name.
        TailraceSessionError: the session lacks the jar or the extension.
        TypeError: an argument has a wrong Python type.
    """
    arguments.frame(frame, "frame")
    arguments.kind(headers, bool, "headers")
    stamped = calls.plan("stamp_watermark", frame, frame=frame, into=arguments.text(into, "into"))
    if not headers:
        return stamped
    header = F.array(F.struct(F.lit(into).alias("key"), F.col(into).alias("value")))
    if "headers" in frame.columns:
        header = F.concat(F.coalesce(F.col("headers"), F.array()), header)
    return stamped.withColumn("headers", header).drop(into)


def stamped_watermark(
    frame: DataFrame,
    event_time: ColumnOrName,
    *,
    stamp: ColumnOrName = "watermark",
    partition: ColumnOrName | Sequence[ColumnOrName] = ("topic", "partition"),
    partitions: str | Sequence[str] | None = None,
    completeness: Share = "100%",
    future_limit: Duration | None = None,
    on_future: OnFuture = "clamp",
    delay: Duration = "0 seconds",
    server: str | Sequence[str] | None = None,
    app: str | None = None,
    operator: str | None = None,
    token: str | None = None,
    logs: str | None = None,
    name: str = "watermark",
) -> DataFrame:
    """Sets Spark's event-time watermark by the stamps of the records.

        down = tailrace.stamped_watermark(kafka_frame, "event_time", stamp="headers")

    The watermark is the minimum of the latest stamps of all partitions that records are read from. The event
    time assigns rows to windows; the stamps only close them. The completeness is the minimum of all stamps,
    multiplied by that of this call. `stamp_watermark` after it passes it on.

    Args:
        frame: a stream. A batch DataFrame is returned unchanged.
        event_time: the timestamp column that windows are on.
        stamp: the binary column with the stamps, or a column of Kafka's headers, of which the last one with
            the key "watermark" is taken. A record without a valid stamp doesn't move its partition.
        partition: the columns that say which partition a record was read from. Their values, joined by "-",
            are the name of the partition; in all but the first value "-" is written %2D and "%" is written
            %25. A record in which one is null doesn't count.
        partitions: the names of the partitions that are waited for, whether they have had records or not.
            None: those that have been seen so far.
        completeness: the share of the partitions that must have passed, as in `accurate_watermark`.
        future_limit: how far ahead of the micro-batch's clock a stamp is accepted. A wrong stamp would keep
            the watermark there indefinitely. None: any stamp is.
        on_future: what happens to records whose stamp is further ahead, as in `accurate_watermark`.
        delay: how far the watermark stays behind.
        server: a watermark server, or several, to which the stamps are reported, and which decides; with
            `app`, `operator` and `token` as in `accurate_watermark`.
        app: as there.
        operator: as there.
        token: as there.
        logs: as there.
        name: as there.

    Returns:
        A DataFrame with the same columns, and `_mark` string with on_future="mark", null on ordinary records.

    Raises:
        TailraceWatermarkError: a column is unknown or of a wrong type, or an option is invalid.
        TailraceSessionError: the session lacks the jar or the extension.
        TypeError: an argument has a wrong Python type.
    """
    arguments.frame(frame, "frame")
    named = arguments.texts(on_future=on_future, name=name)
    at_server = arguments.at_server(server, app, operator, token, logs)
    options = _options(completeness, delay, arguments.given(future_limit=future_limit)) | named | at_server
    roster = None if partitions is None else arguments.names(partitions, "partitions")
    columns = arguments.Columns("tailrace.stamped_watermark", frame)
    time, stamps = columns.name(event_time, "event_time"), columns.name(stamp, "stamp")
    options |= {
        "event_time": time,
        "partition": columns.names(partition, "partition"),
        "partitions": roster,
    }
    if stamps not in frame.columns or not isinstance(frame.schema[stamps].dataType, ArrayType):
        return calls.plan("stamped_watermark", frame, frame=frame, stamp=stamps, **options)
    last = F.expr(f"try_element_at(filter(`{stamps}`, h -> h.key = '{_HEADER}'), -1).value")
    # A column of the frame's that had this name would go with it.
    stamp = "stamp" + "_" * max(map(len, frame.columns))
    taken = frame.withColumn(stamp, last)
    return calls.plan("stamped_watermark", frame, frame=taken, stamp=stamp, **options).drop(stamp)


def _options(completeness: Share, delay: Duration, limits: dict[str, Duration]) -> dict[str, object]:
    share = {"completeness": arguments.share(completeness, "completeness")}
    return share | arguments.durations(delay=delay, **limits)


def _roster(hosts: Hosts, session: SparkSession) -> list[str]:
    if isinstance(hosts, DataFrame):
        return _names(hosts)
    if not isinstance(hosts, str | os.PathLike):
        return arguments.names(hosts, "hosts")
    place = os.fspath(hosts)
    is_file = "/" in place or isinstance(hosts, os.PathLike)
    try:
        frame = files(session, place, "text") if is_file else session.table(place)
        frame.schema  # noqa: B018  Spark Connect looks for it here
    except AnalysisException as error:
        if error.getCondition() not in ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", *_NO_TABLE_NAME):
            raise
        kind = "file" if is_file else "table"
        cure = "" if is_file else ' The name of a file needs a slash, "./hosts", or a Path.'
        raise TailraceWatermarkError(
            f"`hosts` is the name of a {kind}, {place}, and there is no such {kind}. "
            f'Write hosts themselves as a list: hosts=["web-1", "web-2"].{cure}',
            condition="TAILRACE_WATERMARK_ROSTER_NOT_FOUND",
            parameters={"hosts": place},
        ) from error
    return _names(frame)


def _names(frame: DataFrame) -> list[str]:
    values = (row[0] for row in frame.select(frame.columns[0]).distinct().collect())
    return sorted(name for name in (str(value).strip() for value in values if value is not None) if name)
