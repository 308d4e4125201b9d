"""State as Parquet files, and checkpoints made of rows."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from tailrace._bridge import arguments, calls

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class ExportedJoin:
    """The files of one join.

    Attributes:
        operator: the join's number in the query.
        name: the operator's name in the query's progress.
        directory: below that of the export; in it are `left`, `right`, `matches` with eager matching, and
            `emitted` if left rows that were emitted may be amended.
        rows: how many, by these names.
    """

    operator: int
    name: str
    directory: str
    rows: Mapping[str, int]


@dataclass(frozen=True)
class Exported:
    """The result of `export_state`, or of its dry run.

    Attributes:
        checkpoint: the query's checkpointLocation.
        dry_run: whether nothing was written.
        version: of the state.
        batch: the micro-batch that has made it.
        offsets: the end of each source's read rows, in the order of the query: Spark's JSON.
        watermark: of the next micro-batch; None if there was none yet.
        joins: the files.
        others: other state of the query, which isn't exported.
    """

    checkpoint: str
    dry_run: bool
    version: int
    batch: int
    offsets: tuple[str, ...]
    watermark: dt.datetime | None
    joins: tuple[ExportedJoin, ...]
    others: tuple[str, ...]


@dataclass(frozen=True)
class Imported:
    """The result of `import_state`, or of its dry run.

    Attributes:
        checkpoint: the new checkpoint.
        dry_run: whether nothing was written.
        batch: the micro-batch after which the query resumes.
        left: how many left rows were imported.
        right: the same of right rows.
    """

    checkpoint: str
    dry_run: bool
    batch: int
    left: int
    right: int


def export_state(
    spark: SparkSession,
    checkpoint: str | os.PathLike[str],
    to: str | os.PathLike[str],
    *,
    dry_run: bool = False,
) -> Exported:
    """Writes the buffered rows of a checkpoint's joins as Parquet, with the columns of the streams.

        tailrace.export_state(spark, "/data/checkpoint", "/data/export")
        spark.read.parquet("/data/export/operator-0/left")

    The export has left rows that haven't been emitted, with all of their columns, and right rows that the
    join still keeps. With eager matching, `matches` has the left and the right row of each match so far. If
    labels were late, `right` has a column `_behind` with the watermark at which a row was late. If left rows
    that were emitted may be amended, `emitted` has their parts that the state keeps. The query must be
    stopped, by `stop()` or by a failure. The checkpoint isn't changed.

    Args:
        spark: a session that `configure` has set up.
        checkpoint: the query's checkpointLocation.
        to: the directory of the export, which must not exist. It is complete when it has
            `_tailrace_export.json`. After an error nothing of it is left.
        dry_run: whether the rows are only read and counted. Nothing is written then; free space and write
            permissions aren't checked.

    Returns:
        The files and rows that were written.

    Raises:
        TailraceStateError: it is no checkpoint of a join, a query runs with it, the state can't be read, or
            the directory exists already or can't be written. `condition` says which.
        TailraceSessionError: the session lacks the jar or the extension.
    """
    arguments.session(spark)
    told = calls.ask(
        "export_state",
        spark,
        checkpoint=arguments.path(checkpoint, "checkpoint"),
        to=arguments.path(to, "to"),
        dry_run=arguments.flag(dry_run, "dry_run"),
    )
    return Exported(
        checkpoint=told["checkpoint"],
        dry_run=dry_run,
        version=told["version"],
        batch=told["batch"],
        offsets=tuple(told["offsets"]),
        watermark=_time(told["watermarkMs"]),
        joins=tuple(
            ExportedJoin(join["operator"], join["name"], join["directory"], join["rows"])
            for join in told["operators"]
        ),
        others=tuple(told["others"]),
    )


def _time(ms: int) -> dt.datetime | None:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=ms) if ms > 0 else None


def import_state(
    query: DataFrame | SparkSession,
    checkpoint: str | os.PathLike[str],
    *,
    export: str | os.PathLike[str] | None = None,
    left: DataFrame | None = None,
    right: DataFrame | None = None,
    offsets: Sequence[str] = (),
    watermark: dt.datetime | None = None,
    batch: int | None = None,
    dry_run: bool = False,
) -> Imported:
    """Makes a checkpoint from rows; a query's join resumes from it as if it had read them.

        labels = tailrace.join(impressions, clicks, on="user_id", ...)
        tailrace.import_state(
            labels,
            "/data/checkpoint",
            left=spark.read.table("impressions").where("served_at > '2026-01-01 11:00'"),
            right=spark.read.table("clicks").where("clicked_at > '2026-01-01 11:00'"),
            offsets=['{"impressions":{"0":4711}}', '{"clicks":{"0":815}}'],
            watermark=dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC),
        )
        # and start `labels` with this checkpoint

    Give the left rows that haven't been emitted, and the right rows that they and later ones may match. Left
    rows are emitted when the watermark has reached their windows' ends, at once if it has. With
    `how="inner"`, pairs of two imported rows count as already emitted. The query has one `tailrace.join`,
    without salted keys, and no other state.

    With `export` the rows, offsets, watermark and batch are those of an export, where they aren't given.
    The query may have another `on`, `how`, `before` or `after` than the one that was exported. With the same
    settings and unedited files, it emits the rows that the exported query would have emitted on its own
    checkpoint, or the import is refused. With a session in place of the query, it is the exported query, with
    the same settings. Its rows may have been edited: in place, by further files, or by a rewritten table. An
    export that lacks some of its files is refused.

    Spark runs the join over the rows in a micro-batch of its own, next to the new checkpoint, and then moves
    the result there. After an error nothing is left of it. After a crash there is no checkpoint, or one that
    no query starts with: repeating the call deletes it, and the directory `<checkpoint>-import-...`.

    Args:
        query: the streaming DataFrame that will be started, or a session.
        checkpoint: the new checkpoint, which must not exist.
        export: the directory of an export.
        left: batch rows with the columns of the join's left side. Others are left out.
        right: the same of the right side.
        offsets: the end of the read rows of each of the query's sources, in their order: Spark's JSON, as in
            the progress of a query (`sources[i].endOffset`). With "-" a source begins by its options;
            without offsets all do.
        watermark: of the first micro-batch, with a zone.
        batch: the last micro-batch that the query's sink knows. A sink that skips micro-batches that it
            has, such as Spark's files and Delta tables, would skip the first ones otherwise; 0 is for a new
            sink.
        dry_run: whether the rows are only checked and counted. Nothing is written then; free space and write
            permissions aren't checked.

    Returns:
        The number of rows, and the micro-batch after which the query resumes.

    Raises:
        TailraceStateError: the checkpoint exists already, the export isn't one or lacks files, columns are
            missing, left rows have no time, the query has other state, or it can't resume the export under
            its settings. `condition` says which.
        TailraceSessionError: the session lacks the jar or the extension.
    """
    path = arguments.path(checkpoint, "checkpoint")
    directory = None if export is None else arguments.path(export, "export")
    arguments.flag(dry_run, "dry_run")
    if arguments.is_session(query):
        if (
            directory is None
            or any(value is not None for value in (left, right, watermark, batch))
            or offsets
        ):
            raise TypeError("With a session, `import_state` takes `export` alone. Give the query for others.")
        made = calls.ask("import_state", query, checkpoint=path, export=directory, dry_run=dry_run)
        return Imported(path, dry_run, **made)
    arguments.kind(query, DataFrame, "query")
    if (directory is None) == (left is None) or (left is None) != (right is None):
        raise TypeError("`import_state` takes `left` and `right`, or `export`: give one of the two.")
    for name, rows in (("left", left), ("right", right)):
        if rows is not None:
            arguments.kind(rows, DataFrame, name)
    made = calls.ask(
        "import_state",
        query,
        query=query,
        checkpoint=path,
        export=directory,
        left=left,
        right=right,
        watermark=None if watermark is None else _millis(watermark),
        batch=None if batch is None else arguments.count(batch, "batch"),
        offsets=arguments.names(offsets, "offsets"),
        dry_run=dry_run,
    )
    return Imported(path, dry_run, **made)


def _millis(moment: dt.datetime) -> int:
    arguments.kind(moment, dt.datetime, "watermark")
    if moment.tzinfo is None:
        raise TypeError(
            "`watermark` must be a datetime with a time zone: give it tzinfo=datetime.UTC, or another."
        )
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)
