"""The types of arguments: closed sets of values, and what stands for a duration, a column or a share.

The values of all arguments `on_<event>` are from one list:

    "drop"     the row is left out, and counted
    "mark"     the row is emitted, with the reason in its column `_mark`
    "emit"     the row is emitted as an ordinary one
    "fail"     the query ends with an error that names the row, the partition or the limit
    "pause"    the query waits
    "exclude"  a partition or a stream doesn't count until it is back
    "clamp"    an event time counts as if it were at the limit

`Reason` has all values of the column `_mark`. It is null on ordinary rows:

    "late_left", "late_right"  `join`: a left or a right row at or behind the watermark that wasn't taken
    "unmatched_right"          `join`: a right row that no left row matches, with orphans
    "null_right"               `join`: a right row without a key or a time, with orphans
    "amended"                  `join`: the new group of a left row that has been emitted before
    "excluded"                 `join`: a left row that is emitted without the rows of a stalled stream
    "replay"                   `filter_replays`: a record that was written again
    "duplicate"                `sync_join`: a further row of a key
    "future"                   `sync_join` and the watermarks: an event time too far ahead of the clock
    "cycle"                    `recursively`: a row that closes a cycle
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Literal, TypeAlias

from pyspark.sql import Column

Duration: TypeAlias = str | timedelta
"""As Spark reads durations, for instance "30 minutes" (no months or years), or a timedelta."""

ColumnOrName: TypeAlias = Column | str
"""The name of a column, or the column itself: `F.col("user_id")`, `left["user_id"]`."""

Key: TypeAlias = ColumnOrName | tuple[ColumnOrName, ColumnOrName]
"""A column of both sides, or a pair (left column, right column)."""

Share: TypeAlias = str | float | Decimal
"""A share of hosts: "99.9%", "0.999" or the number 0.999, which is taken by its decimal digits."""

How: TypeAlias = Literal["left", "leftouter", "left_outer", "inner"]
Match: TypeAlias = Literal["all", "first", "last", "nearest"]
Release: TypeAlias = Literal["closed", "decided"]
Emit: TypeAlias = Literal["all", "changes", "late_positives", "defer"]
Mode: TypeAlias = Literal["auto", "fixpoint", "feedback"]
TableFormat: TypeAlias = Literal["delta", "iceberg"]
WindowFormat: TypeAlias = Literal["parquet", "delta", "iceberg"]

OnLate: TypeAlias = Literal["drop", "mark"]
OnReplay: TypeAlias = Literal["drop", "mark"]
MetadataFormat: TypeAlias = Literal["tagged", "sqe"]
OnDuplicate: TypeAlias = Literal["emit", "drop", "mark"]
OnUnmatchedRight: TypeAlias = Literal["drop", "emit"]
OnFuture: TypeAlias = Literal["clamp", "mark", "fail"]
OnStall: TypeAlias = Literal["pause", "exclude", "fail"]
FeatureStall: TypeAlias = Literal["pause", "fail"]
OnLimit: TypeAlias = Literal["fail", "drop"]
OnCycle: TypeAlias = Literal["fail", "drop", "mark"]

Reason: TypeAlias = Literal[
    "late_left",
    "late_right",
    "unmatched_right",
    "null_right",
    "amended",
    "excluded",
    "replay",
    "duplicate",
    "future",
    "cycle",
]
