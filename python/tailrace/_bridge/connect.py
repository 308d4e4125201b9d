"""Calls of a Spark Connect server: relations of Tailrace's own in the client's plans. Needs no Java, no py4j.

A call is planned again with each plan that it is in, as all of a Connect client's plans are.
"""

# Only private fields of pyspark lead to a DataFrame's plan.
# pyright: reportPrivateUsage=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
import secrets
import weakref
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.expressions import ColumnReference, UnresolvedFunction
from pyspark.sql.connect.plan import LogicalPlan
from pyspark.sql.connect.session import SparkSession

from tailrace._bridge import connect_call, connect_failures, connect_progress
from tailrace._installation.versions import check_versions
from tailrace.errors import TailraceError, TailraceSessionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql.connect.client import SparkConnectClient
    from pyspark.sql.connect.column import Column
    from pyspark.sql.connect.observation import Observation
    from pyspark.sql.connect.proto import Relation

# All that a call of a server can end with.
SPARK_ERRORS = (PySparkException,)

# What a server says in a function of a Declarative Pipeline, which only defines: the pipeline plans it later,
# and refuses then what is wrong.
_ONLY_DEFINES = "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION"

# What a server says of a relation that none of its plugins knows.
_NO_PLUGIN = "No handler found for extension"

# What an answer has in place of an object of the server's: its name.
_OBJECT = "tailrace.object"

connect_failures.install()
connect_progress.install()

# The sessions whose versions have been compared.
_compared: weakref.WeakSet[SparkSession] = weakref.WeakSet()


class _CallPlan(LogicalPlan):
    """The relation of a call."""

    def __init__(self, method: str, arguments: tuple[object, ...]) -> None:
        super().__init__(None)
        self._method, self._arguments = method, arguments

    @property
    def observations(self) -> dict[str, Observation]:
        """Those of all DataFrames of the call."""
        return {
            name: one for frame in _frames(self._arguments) for name, one in frame._plan.observations.items()
        }

    def plan(self, session: SparkConnectClient) -> Relation:
        relation = self._create_proto_relation()
        relation.extension.Pack(connect_call.call(session, self._method, self._arguments))
        return relation

    def print(self, indent: int = 0) -> str:
        return f"{' ' * indent}<tailrace {self._method}>\n"


class _Held:
    """An object of the server's."""

    def __init__(self, session: SparkSession, name: str) -> None:
        self.session, self.name = session, name


def settings_of(session: SparkSession) -> dict[str, str]:
    """Those of the server, and the session's own."""
    return {name: str(value) for name, value in session.conf.getAll.items()}


def plan(method: str, of: DataFrame | SparkSession, *arguments: object) -> DataFrame:
    """Plans a DataFrame on the server, which refuses it at once if it can't.

    Args:
        method: a method of `io.tailrace.api.PythonApi`.
        of: the first argument, in whose session the DataFrame is.
        arguments: the others: DataFrames, Columns, strings, lists and dictionaries of such, None.
    """
    return _planned(_session(of), method, of, *arguments)


def ask(method: str, of: DataFrame | SparkSession, *arguments: object) -> Any:
    """What a method gives that plans no DataFrame, as JSON has it; likewise."""
    return _answer(_session(of), method, of, *arguments)


def check_session(session: SparkSession) -> None:
    """Asks the server whether it has all that Tailrace needs, and compares all versions once a session."""
    if session not in _compared:
        check_versions(_answered(session, "versions"), pyspark.__version__, remote=True)
        _compared.add(session)


def recursion(frame: DataFrame, op: Callable[[DataFrame], DataFrame], *arguments: object) -> DataFrame:
    """Plans a recursion. `op` is called once, here, with a DataFrame that stands for its argument."""
    session, name = frame.sparkSession, str(-secrets.randbits(62) - 1)
    argument = _planned(session, "recursionArgument", name, frame, *arguments)
    return _planned(session, "recursively", name, frame, *arguments, op(argument))


def column_name(call: str, argument: str, frame: DataFrame, column: Column) -> str:
    """As `jvm.column_name`."""
    try:
        name: str = _answer(frame.sparkSession, "columnName", call, argument, frame, column)
    except PySparkException as error:
        if not _only_defines(error) or not isinstance(column._expr, ColumnReference):
            raise
        return column._expr.name()
    return name


def function(column: Column) -> str | None:
    """As `jvm.function`."""
    of = column._expr
    return of._name if isinstance(of, UnresolvedFunction) else None


def invoke(target: _Held, method: str, *arguments: object) -> Any:
    """As `jvm.invoke`."""
    return _answer(target.session, "invoke", target.name, method, *arguments)


def frames(session: SparkSession, target: _Held, method: str, *arguments: object) -> list[DataFrame]:
    """As `jvm.frames`."""
    return [_planned(session, "held", held.name) for held in invoke(target, method, *arguments)]


def _session(of: DataFrame | SparkSession) -> SparkSession:
    return of if isinstance(of, SparkSession) else of.sparkSession


def _planned(session: SparkSession, method: str, *arguments: object) -> DataFrame:
    frame = DataFrame(_call_of(session, method, arguments), session)
    try:
        check_session(session)
        # The server plans it: what it refuses is refused where the user calls, and not by the first action.
        _called(lambda: frame.schema)
    except PySparkException as error:
        if not _only_defines(error):
            raise
    return frame


def _call_of(session: SparkSession, method: str, arguments: tuple[object, ...]) -> _CallPlan:
    if any(frame.sparkSession.session_id != session.session_id for frame in _frames(arguments)):
        raise TailraceSessionError("The DataFrames are of two sessions of Spark Connect: make them in one.")
    return _CallPlan(method, arguments)


def _frames(arguments: Iterable[object]) -> Iterator[DataFrame]:
    for argument in arguments:
        if isinstance(argument, DataFrame):
            yield argument
        elif isinstance(argument, list | tuple):
            yield from _frames(argument)


def _only_defines(error: PySparkException) -> bool:
    return error.getCondition() == _ONLY_DEFINES


def _answer(session: SparkSession, method: str, *arguments: object) -> Any:
    check_session(session)
    return _answered(session, method, *arguments)


def _answered(session: SparkSession, method: str, *arguments: object) -> Any:
    (row,) = _called(DataFrame(_call_of(session, method, arguments), session).collect)

    def held(fields: dict[str, Any]) -> Any:
        return _Held(session, fields[_OBJECT]) if _OBJECT in fields else fields

    return json.loads(row[0], object_hook=held)


def _called(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except TailraceError as error:
        # The user is told what is wrong with the call, not through which sockets the answer came.
        raise error.with_traceback(None) from None
    except PySparkException as error:
        if _NO_PLUGIN in str(error):
            raise TailraceSessionError(_MISSING) from None
        raise


_MISSING = (
    "The Spark Connect server runs without Tailrace: start it with the jar and its settings, which "
    "`tailrace connect-conf` prints."
)
