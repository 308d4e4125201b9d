"""Tailrace's errors over Spark Connect: `failures` describes them."""

# pyright: basic, reportPrivateUsage=false, reportAttributeAccessIssue=false, reportIndexIssue=false

from __future__ import annotations

from typing import Any

from pyspark.sql.connect.client import core
from pyspark.sql.connect.streaming.query import StreamingQuery

from tailrace._bridge import failures


def install() -> None:
    """Has PySpark raise Tailrace's errors as `TailraceError`s, in this process; again changes nothing."""
    convert = vars(core)["convert_exception"]  # The name by which the client calls it.
    if convert.__module__ == __name__:
        return

    def convert_exception(info: Any, message: Any, details: Any, *more: Any, **named: Any) -> Any:
        error = convert(info, message, details, *more, **named)
        return failures.as_tailrace(error, lambda condition: _parameters(error, condition, details))

    vars(core)["convert_exception"] = convert_exception
    failures.convert_what_ends(StreamingQuery, lambda _error, _condition: {})


def _parameters(error: Any, condition: str, details: Any) -> dict[str, str]:
    if error._errorClass == condition:
        return dict(error._messageParameters or {})
    # What ended a query is a cause of what Spark says of it. A server may be set to give no details.
    causes = [] if details is None else [one.spark_throwable for one in details.errors]
    found = next((one for one in causes if one.error_class == condition), None)
    return {} if found is None else dict(found.message_parameters)
