"""Event-time windows that are written as Parquet, with a marker when they are complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace._bridge import arguments, calls

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from tailrace.options import ColumnOrName, Duration, WindowFormat


def write_windows(
    frame: DataFrame,
    path: str | os.PathLike[str],
    event_time: ColumnOrName,
    *,
    window: Duration = "1 hour",
    offset: Duration = "0 seconds",
    into: str = "window_start",
    missing: int = 10,
    target_file_size: str | int | None = None,
    cluster_by: ColumnOrName | Sequence[ColumnOrName] | None = None,
    server: str | Sequence[str] | None = None,
    app: str | None = None,
    operator: str | None = None,
    token: str | None = None,
    upstreams: str | Sequence[str] | None = None,
    idle_timeout: Duration | None = None,
    format: WindowFormat = "parquet",  # noqa: A002  Spark's own name for it
    table: str | os.PathLike[str] | None = None,
) -> DataStreamWriter:
    """Writes a stream into a directory for each event-time window, and marks a window when it is complete.

        writer = tailrace.write_windows(logs, "/data/clicks", "event_time", window="1 hour")
        writer.option("checkpointLocation", "/data/checkpoint").start()

    Each row is written to `path/window_start=20260101T120000Z/` once, over failures and restarts, as Parquet
    that `spark.read.parquet(path)` and other tools read. When the low watermark has reached a window's end,
    its directory gets a file `_SUCCESS`, and no further rows: a batch job may start on it. The file has the
    completeness report of the window, in JSON. Until then the directory grows, and readers may see a part of
    a micro-batch. Windows without rows are closed, too, from the first window with rows on.

    Rows of a closed window go to `path/_late/window_start=.../`. Rows without an event time, or with one
    before the year 2 or after 9998, go to `path/_untimed/`. Neither is lost. Both are counted in the query's
    progress, `observedMetrics["tailrace.windows"]`: `rows`, `lateRows` and `untimedRows` of the last
    micro-batch, `openWindows`, `closedThrough`, `lowWatermark`. A row at exactly a window's end belongs to
    the next window.

    Without a server, a window closes when this query's low watermark has reached its end. With a server, it
    closes when the global low watermark of the application has, which is that of all sinks that have reported
    to the server: start all jobs of an application, or let each write once, before you rely on it. The sink
    reports its progress to the server, and closes windows each second while the query runs, with or without
    new data. While the server is away, rows are written and no window closes. Low watermarks at a server
    never go back: to write everything again, use another folder, another checkpoint and another `app`.

    With `format="delta"` or `"iceberg"` a window becomes visible in `table` when it is complete: in one
    commit with all its rows and its report. Until then its rows are in the folder, and late rows stay there.

        writer = tailrace.write_windows(
            logs, "/data/clicks", "event_time", format="delta", table="db.clicks"
        )

    Args:
        frame: a stream whose watermarks are all accurate ones.
        path: the folder, of this query alone. Another checkpoint needs another folder, and another folder
            another checkpoint. The folder may be moved, with all its files.
        event_time: the timestamp column with the watermark; no other column is accepted. For windows that
            were aggregated before, a column of `pyspark.sql.functions.window_time`.
        window: how long a window is. Windows begin at multiples of it, from 1970-01-01 UTC on.
        offset: how much later they begin: "16 hours" for days of UTC+8.
        into: the column that the directories of windows are named after. Its values are text, the start of
            the window in UTC. A table has it as a timestamp.
        missing: the maximum number of hosts that a window's report names, of those that hadn't passed its
            end; those that lag most.
        target_file_size: gathers the rows of a micro-batch by window, so that its files have about this size:
            "128 MB" or a number of bytes, from 1 MB to 16 GB. It takes a shuffle. None: each task of the
            query writes a file of its own for each window. With a table: a task for this many bytes of a
            window writes it, without a shuffle. None: as Spark reads the window's files.
        cluster_by: columns whose equal rows are adjacent in a file, in the order of their event times:
            `["user_id", "session"]`. A file is sorted by them, so its row groups have narrow ranges. It takes
            a shuffle of each micro-batch, or, with a table, of each window; files have `target_file_size`,
            128 MB if it is None. Rows of one micro-batch are sorted together; with a table, those of a whole
            window.
        server: a watermark server, "http://host:port", or several of one store, as in `accurate_watermark`;
            one of them is a server of the sources.
        app: with `server`, the application whose operators belong together.
        operator: with `server`, the name of this sink there; None: "sink". Several jobs may have one name;
            all of them count.
        token: with `server`, its bearer token.
        upstreams: with `server`, the operators there whose rows this sink writes. None: those of the query,
            its sources or the operators with state after them; all of its sources have to report to the same
            server and app.
        idle_timeout: open windows are closed, as they are, when the query has had no input for this time by
            the clock and no rows have landed, though the low watermark hasn't reached their ends. Rows that
            arrive for them later go to `_late`. At least that of joins upstream. Not with `server`. None:
            they stay open until the low watermark reaches their ends.
        format: "parquet": windows stay in the folder. "delta" or "iceberg": complete windows go to `table`.
            The session needs the library of the format, as for `write_table`.
        table: with a format of tables, the name, "db.clicks", or the path of a Delta table. It is made when
            the query starts, if it isn't there, with the columns of `frame` and `into`. Several queries may
            write into one table.

    Returns:
        A writer. Add a checkpoint, a trigger, `partitionBy`, which makes directories inside of windows, and
        options of Parquet, as you need them; `start()` starts the query. With a table, `partitionBy` is for a
        table that is made, and options are those of the format and `mergeSchema`, as for `write_table`.

    Raises:
        TailraceWatermarkError: the DataFrame isn't a stream, or has another watermark or none; a column is
            unknown, of a wrong type, without the watermark or exists already; an option is invalid, or needs
            another one.
        TailraceTableError: from `start()`: the library of the format is missing, the table can't be made, or
            the rows don't fit its columns.
        TailraceSessionError: the session lacks the jar or the extension.
        TypeError: an argument has a wrong Python type.
    """
    arguments.frame(frame, "frame")
    options = (
        arguments.durations(window=window, offset=offset)
        | arguments.texts(into=into, format=format)
        | arguments.at_server(server, app, operator, token)
        | arguments.counts(missing=missing)
        | arguments.sizes(**arguments.given(target_file_size=target_file_size))
        | arguments.durations(**arguments.given(idle_timeout=idle_timeout))
    )
    named = None if upstreams is None else arguments.names(upstreams, "upstreams")
    if table is not None:
        options["table"] = arguments.table(table, "table")
    columns = arguments.Columns("tailrace.write_windows", frame)
    time = columns.name(event_time, "event_time")
    if cluster_by is not None:
        options["cluster_by"] = columns.names(cluster_by, "cluster_by")
    folder = arguments.path(path, "path")
    places = {"frame": frame, "path": folder, "event_time": time, "upstreams": named}
    landed = calls.plan("write_windows", frame, **places, **options)
    return landed.writeStream.format("tailrace-windows").option("tailrace.windows", folder)


def window_report(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    format: WindowFormat = "parquet",  # noqa: A002  Spark's own name for it
) -> DataFrame:
    """Reads the completeness reports of the windows in a folder, one row for each window that has closed.

        tailrace.window_report(spark, "/data/clicks").show()
        tailrace.window_report(spark, "db.clicks", format="delta").show()

    Columns: `window_start` and `window_end` (timestamp); `rows`, the rows in the window's directory when it
    closed, and `late_rows`, those that are in `_late` now (bigint); `expected` hosts and those that had
    `passed` its end, of all sources (bigint); `missing`, the others, those that lag most (array of `source`,
    `host`, `progress` as timestamp, `lag_seconds` as double; the last two are null for a host of which
    nothing was read); `completeness`, the share of hosts that the query requires (decimal(19,18));
    `low_watermark` that closed the window, and `closed_at` (timestamp); `sources` (array of `source`,
    `completeness`, `expected`, `passed`, `roster_version`, which is a digest of the roster, or null without
    one). With a watermark server, hosts are those that the server knows from all queries; without it, those
    of this query. A window without a report that has late rows has null in the columns of the report.

    The reports of a table are in its commits, as long as the table keeps them: Delta 30 days by default,
    Iceberg until snapshots are expired. The folder keeps all. `late_rows` of a table are null if the folder
    isn't there any more.

    Args:
        spark: the session.
        path: the folder of `write_windows`; with `format`, the table's name or the path of a Delta table.
        format: "parquet" for a folder, "delta" or "iceberg" for a table.

    Returns:
        A DataFrame, ordered by `window_start`.

    Raises:
        TailraceWatermarkError: there is no such folder or table, or an option is invalid.
        TailraceTableError: the library of the format is missing.
        TailraceSessionError: the session lacks the jar or the extension.
    """
    arguments.session(spark)
    options = arguments.texts(format=format)
    named = arguments.path(path, "path") if format == "parquet" else arguments.table(path, "path")
    return calls.plan("window_report", spark, path=named, **options)
