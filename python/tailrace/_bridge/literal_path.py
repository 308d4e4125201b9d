"""A user's path means itself, whatever characters it has.

Spark takes a path for a pattern: `spark.read.parquet("/data/export*1")` reads /data/export1, too. Whoever has
Spark read a user's path asks here; `LiteralPath.scala` is the same for the JVM's calls.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tailrace._bridge import calls
from tailrace.errors import TailraceError, from_condition

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Spark's own option, as org.apache.spark.sql.execution.datasources.DataSource has it.
_TAKES_PATTERNS = "__globPaths__"
_SPECIAL = re.compile(r"[\\\[\]{}*?]")
_SCHEME = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*:(?=/)")


def files(
    session: SparkSession,
    path: str,
    format: str,  # noqa: A002  Spark's own name for it
    schema: StructType | None = None,
) -> DataFrame:
    """Reads files of a path as it is.

    It also finds the log of a sink of Spark's there, which names the files that count; a pattern has none.
    A server of Connect changes the letters of the option, so that Spark doesn't know it: there, a path with
    special characters becomes a pattern of one path.

    Args:
        session: any.
        path: of a file or a directory.
        format: as Spark names it.
        schema: of the rows; None: that of the files.

    Raises:
        TailraceError: `TAILRACE_PATH_INVALID`: over Connect, Hadoop has no such pattern.
    """
    if calls.is_connect(session):
        if _SPECIAL.search(path) and ":" in _SCHEME.sub("", path):
            reason = "it has a colon and one of \\ [ ] { } * ?, which Hadoop doesn't read over Spark Connect"
            raise _invalid(path, reason, "Rename it, or read it yourself and give the DataFrame.")
        path = _SPECIAL.sub(r"\\\g<0>", path)
        reader = session.read.format(format)
    else:
        reader = session.read.format(format).option(_TAKES_PATTERNS, "false")
    return (reader if schema is None else reader.schema(schema)).load(path)


def streamed(directory: Path) -> str:
    """A directory for a stream, which takes it for a pattern in any case, and each file of it, too.

    Raises:
        TailraceError: `TAILRACE_PATH_INVALID`: it would be a pattern.
    """
    if _SPECIAL.search(str(directory)):
        reason = "it has one of \\ [ ] { } * ?, by which Spark's streams take it for a pattern"
        raise _invalid(str(directory), reason, "Set TMPDIR to another directory.")
    return str(directory)


def _invalid(path: str, reason: str, cure: str) -> TailraceError:
    return from_condition(
        "TAILRACE_PATH_INVALID",
        f"The path '{path}' can't be used: {reason}. {cure}",
        {"path": path, "reason": reason},
    )
