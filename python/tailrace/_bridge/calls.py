"""Calls of `io.tailrace.api.PythonApi`: by py4j in a classic session, by relations over Spark Connect.

A session's module is imported when it is first called: a client of Spark Connect may have no py4j, and a
classic session may have no gRPC.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Protocol, cast

from pyspark.sql import DataFrame

from tailrace._bridge.document import Call, written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, SparkSession

    from tailrace.options import Duration

# Its classes, and ours for it.
_OF_CONNECT = ("pyspark.sql.connect.", "tailrace._bridge.connect")
_CONDITIONS = ("=", "==", "<=>", "<", "<=", ">", ">=", "and", "or", "not", "!")


class _Bridge(Protocol):
    """The functions that `jvm` and `connect` have in common."""

    @property
    def SPARK_ERRORS(self) -> tuple[type[Exception], ...]: ...  # noqa: N802  a constant of both

    def settings_of(self, session: SparkSession) -> dict[str, str]: ...
    def check_session(self, session: SparkSession) -> None: ...
    def plan(self, session: SparkSession, call: Call) -> DataFrame: ...
    def ask(self, session: SparkSession, call: Call) -> Any: ...
    def hold(self, session: SparkSession, call: Call) -> object: ...
    def column_name(self, session: SparkSession, call: Call) -> str: ...
    def function(self, column: Column) -> str | None: ...
    def invoke(self, target: Any, method: str, *arguments: object) -> Any: ...
    def frames(
        self, session: SparkSession, target: Any, method: str, *arguments: object
    ) -> list[DataFrame]: ...


def is_connect(value: object) -> bool:
    """True if a session, DataFrame or Column is one of Spark Connect."""
    return any(kind.__module__.startswith(_OF_CONNECT) for kind in type(value).__mro__)


def spark_errors(session: SparkSession) -> tuple[type[Exception], ...]:
    """The errors that a call of Spark's can end with."""
    return _bridge(session).SPARK_ERRORS


def settings(session: SparkSession) -> dict[str, str]:
    """The Spark properties that a session runs with."""
    return _bridge(session).settings_of(session)


def _bridge(of: object) -> _Bridge:
    name = "connect" if is_connect(of) else "jvm"
    return cast("_Bridge", importlib.import_module(f"tailrace._bridge.{name}"))


def _session(of: DataFrame | SparkSession) -> SparkSession:
    return of.sparkSession if isinstance(of, DataFrame) else of


def plan(call: str, of: DataFrame | SparkSession, /, **arguments: object) -> DataFrame:
    """Plans a DataFrame.

    Args:
        call: its name in `io.tailrace.api.PythonApi`.
        of: the session, or a DataFrame of it.
        arguments: the arguments of the call, see `document.written`.

    Raises:
        TailraceError: the JVM refuses it.
    """
    return _bridge(of).plan(_session(of), written(call, arguments))


def ask(call: str, of: DataFrame | SparkSession, /, **arguments: object) -> Any:
    """Makes a call that plans no DataFrame; likewise. Returns its answer as JSON has it."""
    return _bridge(of).ask(_session(of), written(call, arguments))


def hold(call: str, of: SparkSession, /, **arguments: object) -> object:
    """Makes a call that gives an object of a test; likewise. Its methods are called by `invoke`."""
    return _bridge(of).hold(of, written(call, arguments))


def check_session(session: SparkSession) -> None:
    """Asks whether a session has all that Tailrace needs, and compares all versions.

    Raises:
        TailraceSessionError: the jar, the extension or a setting isn't there.
        TailraceVersionError: wheel, jar, Spark, Scala and Java don't fit together.
    """
    _bridge(session).check_session(session)


def column_name(call: str, argument: str, frame: DataFrame, column: Column) -> str:
    """The name of a column that was given as a Column, which may be qualified: `frame["user_id"]`.

    Args:
        call: the function, as users write it: "tailrace.join".
        argument: the name of the public argument.
        frame: the DataFrame that has it.
        column: the Column.

    Raises:
        TailraceError: it isn't a column of the DataFrame, for instance an expression.
    """
    asked = {"call": call, "argument": argument, "frame": frame, "column": column}
    return _bridge(frame).column_name(frame.sparkSession, written("column_name", asked))


def is_condition(column: Column) -> bool:
    """True if a column is a comparison, or such put together: `left["id"] == right["id"]`."""
    return _bridge(column).function(column) in _CONDITIONS


def microseconds(session: SparkSession, call: str, argument: str, value: Duration, least: int = 0) -> int:
    """A duration in microseconds; TailraceError if it can't be read, or is shorter than `least`."""
    micros: int = ask("microseconds", session, call=call, argument=argument, value=value, least=least)
    return micros


def check_time(frame: DataFrame, call: str, argument: str, name: str) -> None:
    """TailraceError unless a column is there and is a timestamp."""
    ask("check_time", frame, frame=frame, call=call, argument=argument, name=name)


def check_column(frame: DataFrame, call: str, argument: str, name: str) -> None:
    """TailraceError unless a column is there."""
    ask("check_column", frame, frame=frame, call=call, argument=argument, name=name)


def holds_groups(frame: DataFrame, call: str, label: str, times: Sequence[str]) -> bool:
    """True if a column of labels holds groups; TailraceError if it holds no labels with these times."""
    groups: bool = ask("holds_groups", frame, frame=frame, call=call, label=label, times=times)
    return groups


def invoke(target: object, method: str, *arguments: object) -> Any:
    """Calls a method of an object of the JVM.

    Args:
        target: what a call has given.
        method: its name.
        arguments: whole numbers, strings, DataFrames, None.
    """
    return _bridge(target).invoke(target, method, *arguments)


def frames(session: SparkSession, target: object, method: str, *arguments: object) -> list[DataFrame]:
    """Calls a method of an object of the JVM that gives DataFrames; likewise."""
    return _bridge(session).frames(session, target, method, *arguments)
