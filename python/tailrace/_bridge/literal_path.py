"""A user's path means itself, whatever characters it has.

Spark takes a path for a pattern: `spark.read.parquet("/data/export*1")` reads /data/export1, too. Whoever has
Spark read a user's path asks here; `LiteralPath.scala` is the same for the JVM's calls.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tailrace.errors import from_condition

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrameReader, SparkSession

# Spark's own option, as org.apache.spark.sql.execution.datasources.DataSource has it.
_TAKES_PATTERNS = "__globPaths__"
_SPECIAL = re.compile(r"[\\\[\]{}*?]")


def reader(session: SparkSession) -> DataFrameReader:
    """A reader of files that takes a path as it is.

    It also finds the log of a sink of Spark's there, which names the files that count; a pattern has none.
    """
    return session.read.option(_TAKES_PATTERNS, "false")


def streamed(directory: Path) -> str:
    """A directory for a stream, which takes it for a pattern in any case, and each file of it, too.

    Raises:
        TailraceError: `TAILRACE_PATH_INVALID`: it would be a pattern.
    """
    if _SPECIAL.search(str(directory)):
        reason = "it has one of \\ [ ] { } * ?, by which Spark's streams take it for a pattern"
        raise from_condition(
            "TAILRACE_PATH_INVALID",
            f"The path '{directory}' can't be used: {reason}. Set TMPDIR to another directory.",
            {"path": str(directory), "reason": reason},
        )
    return str(directory)
