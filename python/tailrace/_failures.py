"""Makes the exceptions that PySpark raises for Tailrace's errors `TailraceError`s too.

When Tailrace ends a query, PySpark builds a Python exception of the JVM's in one of two places:
`convert_exception` for all that is raised, and `StreamingQuery.exception` for what is returned. `install`
puts one step behind both. An exception whose text has a condition of Tailrace's gets a class that is both,
for instance `TailraceStateError` and `StreamingQueryException`. All other exceptions stay the same objects.
"""

# py4j has no types, and only private fields of pyspark lead to it.
# pyright: basic, reportPrivateUsage=false, reportMissingTypeStubs=false, reportCallIssue=false
# pyright: reportAttributeAccessIssue=false, reportOptionalCall=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

import re
from functools import cache
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors.exceptions import captured
from pyspark.sql.streaming.query import StreamingQuery

from tailrace.errors import TailraceError, from_condition

# "[TAILRACE_STATE_FILE_MISSING] The state file ..." up to the stack trace or the blank line that may follow.
_MESSAGE = re.compile(
    r"\[(TAILRACE_[A-Z_]+)\] (.*?)(?=\n\s*\n|\n\s*at |\n\s*Driver stacktrace|\Z)", re.DOTALL
)


def install() -> None:
    """Has PySpark raise Tailrace's errors as `TailraceError`s, in this process; again changes nothing."""
    if captured.convert_exception.__module__ == __name__:
        return
    convert, ended_by = captured.convert_exception, StreamingQuery.exception

    # PySpark looks this name up at each error, so this holds for sessions of before and after, too.
    def convert_exception(java_exception: Any) -> Any:
        return _as_tailrace(convert(java_exception), java_exception)

    def exception(query: StreamingQuery) -> Any:
        error = ended_by(query)
        return None if error is None else _as_tailrace(error, None)

    exception.__doc__ = ended_by.__doc__
    captured.convert_exception = convert_exception  # type: ignore[assignment]
    StreamingQuery.exception = exception  # type: ignore[method-assign,assignment]


def said(text: str) -> tuple[str, str] | None:
    """Finds the first condition of Tailrace's, and its text in one line, in an exception's text."""
    found = _MESSAGE.search(text)
    return found and (found[1], " ".join(found[2].split()))


def _as_tailrace(error: Any, java_exception: Any) -> Any:
    found = None if isinstance(error, TailraceError) else said(str(error))
    if found is None:
        return error
    condition, text = found
    tailrace = from_condition(condition, text, _parameters(error, java_exception, condition))
    if isinstance(error, captured.UnknownException):
        # PySpark throws this one away and raises py4j's.
        error = Py4JJavaError(text, java_exception)
    error.__class__ = _both(type(tailrace), type(error))  # type: ignore[arg-type]
    # Set here, because TailraceError's constructor would call PySpark's, which wants the JVM's object.
    error.args, error.condition, error.parameters = (text,), condition, tailrace.parameters
    return error


def _parameters(error: Any, java_exception: Any, condition: str) -> dict[str, str]:
    # PySpark has converted the cause before. What failed within foreachBatch is text, without parameters.
    cause = error._cause
    if isinstance(cause, TailraceError) and cause.condition == condition:
        return cause.parameters
    gateway, throwable = SparkContext._gateway, "org.apache.spark.SparkThrowable"
    if java_exception is None or not is_instance_of(gateway, java_exception, throwable):
        return {}
    asked = SparkContext._jvm.PythonErrorUtils  # type: ignore[union-attr]
    mine = asked.getCondition(java_exception) == condition
    return dict(asked.getMessageParameters(java_exception)) if mine else {}


@cache
def _both(kind: type[TailraceError], spark: type[Exception]) -> type[Exception]:
    def plain(error: TailraceError) -> tuple[Any, ...]:
        # py4j's objects can't be pickled.
        return from_condition, (error.condition, error.args[0], error.parameters)

    return type(kind.__name__, (kind, spark), {"__module__": kind.__module__, "__reduce__": plain})
