"""Tailrace's rows in the progress of a query over Spark Connect, as PySpark has them in a classic session.

A server sends a row of `observedMetrics` as values beside their schema, and PySpark's client makes a Row of
these two names:

    {"values": ["fixpoint", 3], "schema": {"type": "struct", "fields": [{"name": "mode", ...}, ...]}}
    ->  Row(mode="fixpoint", rows=3)

Rows of `DataFrame.observe` stay as PySpark has them.
"""

# pyright: basic, reportAttributeAccessIssue=false, reportFunctionMemberAccess=false

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from typing import Any

from pyspark.sql.connect.session import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.types import ArrayType, DataType, StructType, TimestampType

_OURS = "tailrace."
# Spark takes more than names of zones: "+02:00", "GMT-3".
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d))?")


def install() -> None:
    """Has PySpark read Tailrace's rows by name, in this process; again changes nothing."""
    read = vars(StreamingQueryProgress)["fromJson"].__func__
    if read.__module__ == __name__:
        return

    def read_by_name(cls: Any, progress: dict[str, Any]) -> Any:
        observed = progress.get("observedMetrics") or {}
        named = {name: _named(row) if name.startswith(_OURS) else row for name, row in observed.items()}
        return read(cls, {**progress, "observedMetrics": named})

    StreamingQueryProgress.fromJson = classmethod(read_by_name)  # type: ignore[assignment]


def _named(row: dict[str, Any]) -> dict[str, Any]:
    # In a classic session they have names already.
    return _readable(row, StructType.fromJson(row["schema"])) if row.keys() == {"values", "schema"} else row


def _readable(value: Any, kind: DataType) -> Any:
    """A value as `Row.json` shows it."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        return {
            field.name: _readable(one, field.dataType)
            for field, one in zip(kind.fields, value["values"], strict=True)
        }
    if isinstance(kind, ArrayType):
        return [_readable(one, kind.elementType) for one in value]
    if isinstance(kind, TimestampType):
        # Milliseconds since 1970.
        return f"{dt.datetime.fromtimestamp(value / 1000, _zone()):%Y-%m-%d %H:%M:%S}"
    return value


def _zone() -> dt.tzinfo:
    """The time zone of the session."""
    session = SparkSession.getActiveSession()
    name = session and session.conf.get("spark.sql.session.timeZone")
    if not name:
        return dt.UTC
    offset = _OFFSET.fullmatch(name)
    if offset is None:
        return zoneinfo.ZoneInfo(name)
    sign, hours, minutes = offset.groups(default="0")
    east = dt.timedelta(hours=int(hours), minutes=int(minutes))
    return dt.timezone(-east if sign == "-" else east)
