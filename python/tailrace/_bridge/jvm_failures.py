"""Tailrace's errors in classic sessions: `failures` describes them."""

# py4j has no types, and only private fields of pyspark lead to it.
# pyright: basic, reportPrivateUsage=false, reportMissingTypeStubs=false, reportCallIssue=false
# pyright: reportAttributeAccessIssue=false, reportOptionalCall=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors.exceptions import captured
from pyspark.sql.streaming.query import StreamingQuery

from tailrace._bridge import failures
from tailrace.errors import TailraceError


def install() -> None:
    """Has PySpark raise Tailrace's errors as `TailraceError`s, in this process; again changes nothing."""
    if captured.convert_exception.__module__ == __name__:
        return
    convert = captured.convert_exception

    # PySpark looks this name up at each error, so this holds for existing sessions, too.
    def convert_exception(java_exception: Any) -> Any:
        error = convert(java_exception)
        if isinstance(error, captured.UnknownException) and failures.said(str(error)):
            # PySpark throws this one away and raises py4j's.
            error = Py4JJavaError(str(error), java_exception)
        return failures.as_tailrace(error, lambda condition: _parameters(error, condition, java_exception))

    message = captured.CapturedException.getMessage

    # PySpark logs an error that has a place in the user's query, while it makes the exception. It looks for
    # its text in Spark's catalog, where Tailrace's aren't.
    def get_message(self: captured.CapturedException) -> str:
        found = failures.said(self._desc or "")
        return message(self) if found is None else f"[{found[0]}] {found[1]}"

    captured.CapturedException.getMessage = get_message  # type: ignore[method-assign]
    captured.convert_exception = convert_exception  # type: ignore[assignment]
    failures.convert_what_ends(StreamingQuery, _parameters)


def _parameters(error: Any, condition: str, java_exception: Any = None) -> dict[str, str]:
    # PySpark has converted the cause before. What failed within foreachBatch is text, without parameters.
    cause = getattr(error, "_cause", None)
    if isinstance(cause, TailraceError) and cause.condition == condition:
        return cause.parameters
    gateway, throwable = SparkContext._gateway, "org.apache.spark.SparkThrowable"
    if java_exception is None or not is_instance_of(gateway, java_exception, throwable):
        return {}
    asked = SparkContext._jvm.PythonErrorUtils  # type: ignore[union-attr]
    mine = asked.getCondition(java_exception) == condition
    return dict(asked.getMessageParameters(java_exception)) if mine else {}
