"""Calls into the JVM by py4j, and pyspark's private fields that lead there."""

# py4j has no types, and only private fields of pyspark lead to it.
# pyright: reportPrivateUsage=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyspark
from py4j.java_collections import ListConverter, MapConverter
from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from tailrace._versions import check_versions
from tailrace.errors import TailraceError, TailraceSessionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# All that a call of Spark's can end with: pyspark's own exceptions, and py4j's for what pyspark doesn't
# translate.
SPARK_ERRORS = (PySparkException, Py4JError)
_CONDITIONS = ("=", "<=>", "<", "<=", ">", ">=", "and", "or", "not", "!")
_ENTRY = "io.tailrace.api.PythonApi"

# The gateways (one a JVM) whose versions have been compared. Weak: a test process goes through several.
_compared: weakref.WeakSet[Any] = weakref.WeakSet()


def attached() -> bool:
    """Whether this process has a JVM already, or was started by spark-submit, whose JVM waits for it."""
    return SparkContext._gateway is not None or _started_by_submit()


def has_jar() -> bool:
    """Whether the JVM that this process is attached to finds Tailrace's classes."""
    return isinstance(getattr(_view(), _ENTRY), JavaClass)


def settings() -> dict[str, str]:
    """The Spark properties that the attached JVM was started with, or runs with when it has a context."""
    context = SparkContext._active_spark_context
    conf = context.getConf() if context is not None else SparkConf(_jvm=_view())
    return dict(conf.getAll())


def running_session() -> SparkSession | None:
    """The session that `SparkSession.builder.getOrCreate()` would hand back instead of making one."""
    session = SparkSession._instantiatedSession
    return session if session is not None and session._sc._jsc is not None else None


def check_session(session: SparkSession) -> None:
    """Asks the jar whether a session has all that Tailrace needs, and compares all versions once a JVM.

    Args:
        session: a running classic session.

    Raises:
        TailraceSessionError: the jar or the extension isn't there.
        TailraceVersionError: wheel, jar, Spark, Scala and Java don't fit together.
    """
    entry = _entry()
    gateway = SparkContext._gateway
    if gateway not in _compared:
        check_versions(dict(_call(entry.versions)), pyspark.__version__)
        _compared.add(gateway)
    _call(entry.checkSession, session._jsparkSession)


def plan(method: str, of: DataFrame | SparkSession, *arguments: object) -> DataFrame:
    """Plans a DataFrame on the JVM.

    Args:
        method: a method of the entry point, `io.tailrace.api.PythonApi`.
        of: the first argument, in whose session the DataFrame is.
        arguments: the others: DataFrames, strings, lists and dictionaries of strings, None.

    Raises:
        TailraceError: the JVM refuses it.
    """
    return ClassicDataFrame(_ask(method, of, *arguments), _session(of))


def rescaled(session: SparkSession, *arguments: object) -> str:
    """Calls `PythonApi.rescale`, as `plan` calls it. Returns its report as JSON."""
    report: str = _ask("rescale", session, *arguments)
    return report


def erased(session: SparkSession, *arguments: object) -> str:
    """Calls `PythonApi.erase`, as `plan` calls it. Returns its report as JSON."""
    report: str = _ask("erase", session, *arguments)
    return report


def exported(session: SparkSession, *arguments: object) -> str:
    """Calls `PythonApi.exportState`, as `plan` calls it. Returns its report as JSON."""
    report: str = _ask("exportState", session, *arguments)
    return report


def imported(method: str, of: DataFrame | SparkSession, *arguments: object) -> tuple[int, int, int]:
    """Calls an import of `PythonApi`. Returns its batch, and the numbers of left and right rows."""
    report = _ask(method, of, *arguments)
    return report.batch(), report.left(), report.right()


def microseconds(session: SparkSession, call: str, argument: str, text: str, least: int = 0) -> int:
    """A duration in microseconds; TailraceError if it can't be read, or is shorter than `least`."""
    micros: int = _ask("microseconds", session, call, argument, text, str(least))
    return micros


def check_time(frame: DataFrame, call: str, argument: str, name: str) -> None:
    """TailraceError unless a column is there and is a timestamp."""
    _ask("checkTime", frame, call, argument, name)


def check_column(frame: DataFrame, call: str, argument: str, name: str) -> None:
    """TailraceError unless a column is there."""
    _ask("checkColumn", frame, call, argument, name)


def holds_groups(frame: DataFrame, call: str, label: str, times: Sequence[str]) -> bool:
    """Whether a column of labels holds groups; TailraceError if it holds no labels with these times."""
    groups: bool = _ask("holdsGroups", frame, call, label, times)
    return groups


def sampled_state(left: DataFrame, right: DataFrame, *arguments: object) -> list[tuple[int, int, int]]:
    """Calls `PythonApi.sampledState`. Returns rows, bytes, and bytes of a file, of left and of right rows."""
    found = [int(number) for number in _ask("sampledState", left, right, *arguments)]
    return [(found[0], found[1], found[2]), (found[3], found[4], found[5])]


def test_streams(session: SparkSession, start_ms: int) -> object:
    """Calls `PythonApi.testStreams`. Its methods are called by `invoke`."""
    return _ask("testStreams", session, str(start_ms))


def checkpoint_faults(session: SparkSession) -> object:
    """Calls `PythonApi.checkpointFaults`."""
    return _ask("checkpointFaults", session)


def invoke(target: object, method: str, *arguments: object) -> Any:
    """Calls a method of an object of the JVM."""
    return _call(getattr(target, method), *(a if isinstance(a, int) else _java(a) for a in arguments))


def frames(session: SparkSession, target: object, method: str, *arguments: object) -> list[DataFrame]:
    """Calls a method of an object of the JVM that gives DataFrames."""
    return [ClassicDataFrame(frame, session) for frame in invoke(target, method, *arguments)]


def writer(frame: DataFrame, *arguments: object) -> DataStreamWriter:
    """Plans the landing of windows on the JVM: `PythonApi.writeWindows`, as `plan` calls it."""
    planned = _ask("writeWindows", frame, *arguments)
    # PySpark makes a writer of the DataFrame only; this one writes to Tailrace's sink.
    writer = frame.writeStream
    writer._jwrite = planned
    return writer


def recursion(frame: DataFrame, op: Callable[[DataFrame], DataFrame], *arguments: object) -> DataFrame:
    """Plans a recursion on the JVM: `PythonApi.beginRecursion`, as `plan` calls it. Calls `op` on the way."""
    session = _session(frame)
    begun = _ask("beginRecursion", frame, *arguments)
    result = op(ClassicDataFrame(_call(begun.argument), session))
    return ClassicDataFrame(_call(begun.result, _java(result)), session)


def column_name(call: str, argument: str, frame: DataFrame, column: Column) -> str:
    """The name of a column that was given as a Column, which may be qualified: `frame["user_id"]`.

    Args:
        call: the function, as users write it: "tailrace.join".
        argument: the name of the public argument.
        frame: the classic DataFrame that has it.
        column: the Column.

    Raises:
        TailraceError: it isn't a column of the DataFrame, for instance an expression.
    """
    check_session(_session(frame))
    name: str = _call(_entry().columnName, call, argument, _java(frame), _java(column))
    return name


def is_condition(column: Column) -> bool:
    """Whether a column is a comparison, or such put together: `left["id"] == right["id"]`."""
    node = _java(column).node()
    return node.getClass().getSimpleName() == "UnresolvedFunction" and node.functionName() in _CONDITIONS


def missing_jar() -> str:
    """One sentence on a JVM that runs without the jar, with the cure that fits how it was started."""
    if _started_by_submit():
        return (
            "Spark was submitted without Tailrace's jar, and a jar can't be added to a running JVM: "
            'submit it with spark-submit --jars "$(tailrace jar)" ...'
        )
    return (
        "Spark is running in this process without Tailrace's jar, and a jar can't be added to a running "
        "JVM, not even after spark.stop(): restart the Python process (in a notebook: the kernel) and "
        "build the first session with tailrace.configure(SparkSession.builder).getOrCreate()."
    )


def _started_by_submit() -> bool:
    """Whether spark-submit started the JVM, and this process out of it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _view() -> Any:
    SparkContext._ensure_initialized()
    return SparkContext._jvm


def _entry() -> Any:
    # A class that isn't there comes back as a package, which ends in "'JavaPackage' object is not callable".
    if not has_jar():
        raise TailraceSessionError(missing_jar())
    return getattr(_view(), _ENTRY)


def _session(of: DataFrame | SparkSession) -> SparkSession:
    return of if isinstance(of, SparkSession) else of.sparkSession


def _ask(method: str, of: DataFrame | SparkSession, *arguments: object) -> Any:
    """The result of a method of the entry point, once the session has all that Tailrace needs."""
    check_session(_session(of))
    return _call(getattr(_entry(), method), *map(_java, (of, *arguments)))


def _java(value: object) -> Any:
    """An argument as the JVM has it; strings, bytes and None are the same there."""
    gateway: Any = SparkContext._gateway
    match value:
        case ClassicDataFrame():
            return value._jdf
        case SparkSession():
            return value._jsparkSession
        case ClassicColumn():
            return value._jc
        case Mapping():
            return MapConverter().convert(dict(value), gateway._gateway_client)
        case str() | bytes() | None:
            return value
        case Sequence():
            return ListConverter().convert([_java(v) for v in value], gateway._gateway_client)
        case _:
            raise TypeError(f"no argument of the JVM: {type(value).__name__}")


def _call(method: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return method(*arguments)
    except TailraceError as error:
        # The user is told what is wrong with the call, not through which sockets the answer came.
        raise error.with_traceback(None) from None
