"""Tailrace's errors over Spark Connect: what is said of them is in `_failures`."""

# pyright: basic, reportPrivateUsage=false, reportAttributeAccessIssue=false, reportIndexIssue=false

from __future__ import annotations

from typing import Any

from pyspark.sql.connect.client import core
from pyspark.sql.connect.streaming.query import StreamingQuery

from tailrace import _failures


def install() -> None:
    """Has PySpark raise Tailrace's errors as `TailraceError`s, in this process; again changes nothing."""
    convert = vars(core)["convert_exception"]  # The name by which the client calls it.
    if convert.__module__ == __name__:
        return

    def convert_exception(*arguments: Any, **named: Any) -> Any:
        error = convert(*arguments, **named)
        return _failures.as_tailrace(error, lambda condition: _parameters(error, condition))

    vars(core)["convert_exception"] = convert_exception
    _failures.convert_what_ends(StreamingQuery, lambda _error, _condition: {})


def _parameters(error: Any, condition: str) -> dict[str, str]:
    return dict(error._messageParameters or {}) if error._errorClass == condition else {}
