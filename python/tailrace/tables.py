"""Delta and Iceberg tables that have each row of a stream once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tailrace._bridge import arguments, calls

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from tailrace.options import ColumnOrName, TableFormat


def write_table(
    frame: DataFrame,
    table: str | os.PathLike[str],
    *,
    format: TableFormat = "delta",  # noqa: A002  Spark's own name for it
    keys: ColumnOrName | Sequence[ColumnOrName] | None = None,
) -> DataStreamWriter:
    """Writes a stream into a Delta or Iceberg table, each row once, also if a micro-batch runs again.

        writer = tailrace.write_table(examples, "db.examples")
        writer.option("checkpointLocation", "/data/checkpoint").start()

    Without `keys`, rows are appended. The table has the id of the query and the number of the micro-batch
    with each of its commits: a micro-batch that was killed after its commit is not written again. Its
    operators run again, because the watermark and the next micro-batch need their results. The id is that of
    the checkpoint, so a query with a new checkpoint writes all of its rows, and several queries may write
    into one table.

    With `keys`, rows are merged: a row replaces the row of the table with equal keys. A micro-batch that the
    table has is not merged again. If a micro-batch has several rows of a key, one is written. If the rows
    have the columns `horizon` and `final` of `join(..., horizons=...)` or `early`, the newest version is
    written, and a version never replaces a newer one. A row with `_mark = 'amended'`, of `amend_for`,
    replaces only what isn't null in it: the features of the row stay. A null in a key column ends the query.

    The table is made when the query starts, if it isn't there, with the columns of `frame`. The writer's
    `partitionBy` is for a table that is made. `.option("mergeSchema", "true")` adds columns and fields of
    structs to a table that lacks them, when the query starts; columns that only the table has are null in new
    rows. Other options of the writer are those of the format, for appended rows.

    Args:
        frame: a stream.
        table: its name, "db.examples", with its catalog if that isn't the session's current one. With
            `format="delta"`, a text with a slash or an `os.PathLike` is a path.
        format: "delta" or "iceberg". The session needs the library of the format, and its settings.
        keys: the columns whose values identify a row of the table, for instance the id of an impression.
            None: rows are appended.

    Returns:
        A writer. Add a checkpoint, a trigger, and options as you need them; `start()` starts the query. Its
        output mode is append; with `keys` also update.

    Raises:
        TailraceTableError: the DataFrame isn't a stream, a key isn't a column of it or can't be compared, or
            an option is invalid. From `start()`: the library of the format is missing, the table can't be
            made, or the rows don't fit its columns. From a running query: a key is null, or another run with
            the checkpoint writes into the table.
        TailraceSessionError: the session lacks the jar or the extension.
        TypeError: an argument has a wrong Python type.
    """
    arguments.frame(frame, "frame")
    given = {"table": arguments.table(table, "table"), **arguments.texts(format=format)}
    if keys is not None:
        given["keys"] = arguments.Columns("tailrace.write_table", frame).names(keys, "keys")
    writer = calls.plan("write_table", frame, frame=frame, **given).writeStream.format("tailrace-table")
    for name, value in given.items():
        text = value if isinstance(value, str) else json.dumps(value)
        writer = writer.option(f"tailrace.{name}", text)
    return writer
