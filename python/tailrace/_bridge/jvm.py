"""Calls into the JVM by py4j, and pyspark's private fields that lead there."""

# py4j has no types, and only private fields of pyspark lead to it.
# pyright: reportPrivateUsage=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
import os
import weakref
from typing import TYPE_CHECKING, Any

import pyspark
from py4j.java_collections import JavaList, ListConverter
from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from tailrace._bridge import jvm_failures
from tailrace._installation.versions import check_versions
from tailrace.errors import TailraceError, TailraceSessionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import Column, DataFrame

    from tailrace._bridge.document import Call

# The errors that a call of Spark's can end with: pyspark's own exceptions, and py4j's for those that pyspark
# doesn't translate.
SPARK_ERRORS = (PySparkException, Py4JError)
_ENTRY = "io.tailrace.api.PythonApi"

# With the first call, or with `configure`: a program that only imports the package has PySpark as it is.
jvm_failures.install()

# The gateways (one a JVM) whose versions have been compared. Weak: a test process goes through several.
_compared: weakref.WeakSet[Any] = weakref.WeakSet()


def attached() -> bool:
    """True if this process has a JVM already, or was started by spark-submit, whose JVM waits for it."""
    return SparkContext._gateway is not None or _started_by_submit()


def has_jar() -> bool:
    """True if the JVM that this process is attached to finds Tailrace's classes."""
    return isinstance(getattr(_view(), _ENTRY), JavaClass)


def settings() -> dict[str, str]:
    """The Spark properties that the attached JVM was started with, or runs with when it has a context."""
    context = SparkContext._active_spark_context
    conf = context.getConf() if context is not None else SparkConf(_jvm=_view())
    return dict(conf.getAll())


def settings_of(session: SparkSession) -> dict[str, str]:
    """Those, and the session's own."""
    return settings() | {name: str(value) for name, value in session.conf.getAll.items()}


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


def plan(session: SparkSession, call: Call) -> DataFrame:
    """Plans a DataFrame on the JVM."""
    return ClassicDataFrame(hold(session, call), session)


def ask(session: SparkSession, call: Call) -> Any:
    """Makes a call that plans no DataFrame. Returns its answer as JSON has it."""
    return json.loads(hold(session, call))


def hold(session: SparkSession, call: Call) -> Any:
    """Makes a call, once the session has all that Tailrace needs. Returns the JVM's object."""
    check_session(session)
    listed = (_listed(map(_java, values)) for values in (call.frames, call.columns))
    return _call(_entry().call, session._jsparkSession, call.name, call.json, *listed)


def column_name(session: SparkSession, call: Call) -> str:
    """The answer of the call "column_name"."""
    name: str = ask(session, call)
    return name


def invoke(target: object, method: str, *arguments: object) -> Any:
    """Calls a method of an object of the JVM."""
    found = _call(getattr(target, method), *map(_java, arguments))
    return list(found) if isinstance(found, JavaList) else found


def frames(session: SparkSession, target: object, method: str, *arguments: object) -> list[DataFrame]:
    """Calls a method of an object of the JVM that gives DataFrames."""
    return [ClassicDataFrame(frame, session) for frame in invoke(target, method, *arguments)]


def function(column: Column) -> str | None:
    """The name of the function whose result a column is; None if it is no such column."""
    node = _java(column).node()
    return node.functionName() if node.getClass().getSimpleName() == "UnresolvedFunction" else None


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
    """True if spark-submit started the JVM, and this process out of it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _view() -> Any:
    SparkContext._ensure_initialized()
    return SparkContext._jvm


def _entry() -> Any:
    # A class that isn't there comes back as a package, which ends in "'JavaPackage' object is not callable".
    if not has_jar():
        raise TailraceSessionError(missing_jar())
    return getattr(_view(), _ENTRY)


def _java(value: object) -> Any:
    """An argument as the JVM has it; strings, whole numbers and None are the same there."""
    match value:
        case ClassicDataFrame():
            return value._jdf
        case ClassicColumn():
            return value._jc
        case str() | int() | None:
            return value
        case _:
            raise TypeError(f"no argument of the JVM: {type(value).__name__}")


def _listed(values: Iterable[object]) -> Any:
    gateway: Any = SparkContext._gateway
    return ListConverter().convert(list(values), gateway._gateway_client)


def _call(method: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return method(*arguments)
    except TailraceError as error:
        # The user needs the fault of the call, not the sockets through which the answer came.
        raise error.with_traceback(None) from None
