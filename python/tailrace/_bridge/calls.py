"""Calls of `io.tailrace.api.PythonApi`: by py4j in a classic session, by relations over Spark Connect.

A session's module is imported when it is first called: a client of Spark Connect may have no py4j, and a
classic session may have no gRPC.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

# Its classes, and ours for it.
_OF_CONNECT = ("pyspark.sql.connect.", "tailrace._bridge.connect")
_CONDITIONS = ("=", "==", "<=>", "<", "<=", ">", ">=", "and", "or", "not", "!")


class _Bridge(Protocol):
    """What `jvm` and `connect` have in common."""

    @property
    def SPARK_ERRORS(self) -> tuple[type[Exception], ...]: ...  # noqa: N802  a constant of both

    def settings_of(self, session: SparkSession) -> dict[str, str]: ...
    def plan(self, method: str, of: DataFrame | SparkSession, *arguments: object) -> DataFrame: ...
    def ask(self, method: str, of: DataFrame | SparkSession, *arguments: object) -> Any: ...
    def check_session(self, session: SparkSession) -> None: ...
    def recursion(
        self, frame: DataFrame, op: Callable[[DataFrame], DataFrame], *arguments: object
    ) -> DataFrame: ...
    def column_name(self, call: str, argument: str, frame: DataFrame, column: Column) -> str: ...
    def function(self, column: Column) -> str | None: ...
    def invoke(self, target: Any, method: str, *arguments: object) -> Any: ...
    def frames(
        self, session: SparkSession, target: Any, method: str, *arguments: object
    ) -> list[DataFrame]: ...


def is_connect(value: object) -> bool:
    """Whether a session, DataFrame or Column is one of Spark Connect."""
    return any(kind.__module__.startswith(_OF_CONNECT) for kind in type(value).__mro__)


def spark_errors(session: SparkSession) -> tuple[type[Exception], ...]:
    """All that a call of Spark's can end with."""
    return _bridge(session).SPARK_ERRORS


def settings(session: SparkSession) -> dict[str, str]:
    """The Spark properties that a session runs with."""
    return _bridge(session).settings_of(session)


def _bridge(of: object) -> _Bridge:
    name = "connect" if is_connect(of) else "jvm"
    return cast("_Bridge", importlib.import_module(f"tailrace._bridge.{name}"))


def plan(method: str, of: DataFrame | SparkSession, *arguments: object) -> DataFrame:
    """Plans a DataFrame.

    Args:
        method: a method of the entry point, `io.tailrace.api.PythonApi`.
        of: the first argument, in whose session the DataFrame is.
        arguments: the others: DataFrames, Columns, strings, lists and dictionaries of such, None.

    Raises:
        TailraceError: the JVM refuses it.
    """
    return _bridge(of).plan(method, of, *arguments)


def check_session(session: SparkSession) -> None:
    """Asks whether a session has all that Tailrace needs, and compares all versions.

    Raises:
        TailraceSessionError: the jar, the extension or a setting isn't there.
        TailraceVersionError: wheel, jar, Spark, Scala and Java don't fit together.
    """
    _bridge(session).check_session(session)


def recursion(frame: DataFrame, op: Callable[[DataFrame], DataFrame], *arguments: object) -> DataFrame:
    """Plans a recursion: `PythonApi.beginRecursion`, as `plan` calls it. Calls `op` on the way."""
    return _bridge(frame).recursion(frame, op, *arguments)


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
    return _bridge(frame).column_name(call, argument, frame, column)


def is_condition(column: Column) -> bool:
    """Whether a column is a comparison, or such put together: `left["id"] == right["id"]`."""
    return _bridge(column).function(column) in _CONDITIONS


def rescaled(session: SparkSession, *arguments: object) -> str:
    """Calls `PythonApi.rescale`, as `plan` calls it. Returns its report as JSON."""
    return _text("rescale", session, *arguments)


def erased(session: SparkSession, *arguments: object) -> str:
    """Calls `PythonApi.erase`, as `plan` calls it. Returns its report as JSON."""
    return _text("erase", session, *arguments)


def exported(session: SparkSession, *arguments: object) -> str:
    """Calls `PythonApi.exportState`, as `plan` calls it. Returns its report as JSON."""
    return _text("exportState", session, *arguments)


def imported(method: str, of: DataFrame | SparkSession, *arguments: object) -> tuple[int, int, int]:
    """Calls an import of `PythonApi`. Returns its batch, and the numbers of left and right rows."""
    batch, left, right = _bridge(of).ask(method, of, *arguments)
    return batch, left, right


def microseconds(session: SparkSession, call: str, argument: str, text: str, least: int = 0) -> int:
    """A duration in microseconds; TailraceError if it can't be read, or is shorter than `least`."""
    micros: int = _bridge(session).ask("microseconds", session, call, argument, text, str(least))
    return micros


def check_time(frame: DataFrame, call: str, argument: str, name: str) -> None:
    """TailraceError unless a column is there and is a timestamp."""
    _bridge(frame).ask("checkTime", frame, call, argument, name)


def check_column(frame: DataFrame, call: str, argument: str, name: str) -> None:
    """TailraceError unless a column is there."""
    _bridge(frame).ask("checkColumn", frame, call, argument, name)


def holds_groups(frame: DataFrame, call: str, label: str, times: Sequence[str]) -> bool:
    """Whether a column of labels holds groups; TailraceError if it holds no labels with these times."""
    groups: bool = _bridge(frame).ask("holdsGroups", frame, call, label, times)
    return groups


def sampled_state(left: DataFrame, right: DataFrame, *arguments: object) -> list[tuple[int, int, int]]:
    """Calls `PythonApi.sampledState`. Returns rows, bytes, and bytes of a file, of left and of right rows."""
    found = [int(number) for number in _bridge(left).ask("sampledState", left, right, *arguments)]
    return [(found[0], found[1], found[2]), (found[3], found[4], found[5])]


def test_streams(session: SparkSession, start_ms: int) -> object:
    """Calls `PythonApi.testStreams`. Its methods are called by `invoke`."""
    made: object = _bridge(session).ask("testStreams", session, str(start_ms))
    return made


def checkpoint_faults(session: SparkSession) -> object:
    """Calls `PythonApi.checkpointFaults`; likewise."""
    made: object = _bridge(session).ask("checkpointFaults", session)
    return made


def invoke(target: object, method: str, *arguments: object) -> Any:
    """Calls a method of an object of the JVM.

    Args:
        target: what a call has given.
        method: its name.
        arguments: whole numbers, strings, bytes, DataFrames, lists of such, None.
    """
    return _bridge(target).invoke(target, method, *arguments)


def frames(session: SparkSession, target: object, method: str, *arguments: object) -> list[DataFrame]:
    """Calls a method of an object of the JVM that gives DataFrames; likewise."""
    return _bridge(session).frames(session, target, method, *arguments)


def _text(method: str, session: SparkSession, *arguments: object) -> str:
    report: str = _bridge(session).ask(method, session, *arguments)
    return report
