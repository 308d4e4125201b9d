"""The one file that touches py4j: calls into the JVM, and pyspark's private fields that lead there."""

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
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from tailrace import _convert
from tailrace._versions import check_versions
from tailrace.errors import TailraceSessionError, from_spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# All that a call of Spark's can end with: pyspark's own exceptions, and py4j's for what pyspark doesn't
# translate.
SPARK_ERRORS = (PySparkException, Py4JError)
_ENTRY = "io.tailrace.api.PythonApi"

# The gateways (one a JVM) whose versions have been compared. Weak: a test process goes through several.
_compared: weakref.WeakSet[Any] = weakref.WeakSet()


def attached() -> bool:
    """Whether this process has a JVM already, or was started by spark-submit, whose JVM waits for it."""
    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def started_by_submit() -> bool:
    """Whether spark-submit started the JVM, and this process out of it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


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
    if session is None or session._sc._jsc is None:
        return None
    return session


def check_session(session: SparkSession) -> None:
    """Asks the jar whether a session has all that Tailrace needs, and compares all versions once a JVM.

    Args:
        session: a running classic session.

    Raises:
        TailraceSessionError: the jar, the extension or the state store provider isn't there.
        TailraceVersionError: wheel, jar, Spark, Scala and Java don't fit together.
    """
    entry = _entry()
    gateway = SparkContext._gateway
    if gateway not in _compared:
        check_versions(dict(_call(entry.versions)), pyspark.__version__)
        _compared.add(gateway)
    _call(entry.checkSession, session._jsparkSession)


def join(
    left: DataFrame,
    right: DataFrame,
    on_left: Sequence[str],
    on_right: Sequence[str],
    options: Mapping[str, str],
) -> DataFrame:
    """Plans a join on the JVM.

    Args:
        left: a classic frame.
        right: a classic frame of the same session.
        on_left: key columns of the left side.
        on_right: key columns of the right side, in the same order.
        options: by the JVM's names: leftTime, rightTime, before, after, how, into, match, maxMatches, late.

    Raises:
        TailraceError: the JVM refuses it; see `tailrace.join`.
    """
    return _planned(left, "join", left, right, on_left, on_right, options)


def sync_join(
    sides: tuple[DataFrame, DataFrame],
    on: tuple[Sequence[str], Sequence[str]],
    partitions: tuple[Sequence[str], Sequence[str]],
    options: Mapping[str, str],
) -> DataFrame:
    """Plans a synced join on the JVM.

    Args:
        sides: left and right, classic frames of the same session.
        on: key columns of both sides, in the same order.
        partitions: the columns that name a row's partition, of both sides; none: Kafka's.
        options: by the JVM's names: leftTime, rightTime, window, syncDelay, onStall, duplicates,
            unmatchedRight, suffix, name; stallAfter and maxPending if given.

    Raises:
        TailraceError: the JVM refuses it; see `tailrace.sync_join`.
    """
    return _planned(sides[0], "syncJoin", *sides, *on, *partitions, options)


def filter_replays(
    frame: DataFrame, metadata: Sequence[str], order: Sequence[str], options: Mapping[str, str]
) -> DataFrame:
    """Plans a replay filter on the JVM.

    Args:
        frame: a classic frame.
        metadata: one column, or three: producer id, partition, offset.
        order: the columns that records are judged by.
        options: by the JVM's names: disorder, onReplay, name; forgetAfter and eventTime if given.

    Raises:
        TailraceError: the JVM refuses it; see `tailrace.filter_replays`.
    """
    return _planned(frame, "filterReplays", frame, metadata, order, options)


def accurate_watermark(
    frame: DataFrame, columns: tuple[str, str], hosts: Sequence[str] | None, options: Mapping[str, str]
) -> DataFrame:
    """Plans an accurate watermark on the JVM.

    Args:
        frame: a classic frame.
        columns: event time and host.
        hosts: the roster; None for the hosts that have been seen.
        options: by the JVM's names: completeness, idleAfter, futureLimit, onFuture, delay, server, app,
            operator, token, name.

    Raises:
        TailraceError: the JVM refuses it; see `tailrace.accurate_watermark`.
    """
    return _planned(frame, "accurateWatermark", frame, *columns, hosts, options)


def stamp_watermark(frame: DataFrame, into: str) -> DataFrame:
    """Plans a stamp on the JVM.

    Args:
        frame: a classic frame.
        into: the column.

    Raises:
        TailraceError: the JVM refuses it; see `tailrace.stamp_watermark`.
    """
    return _planned(frame, "stampWatermark", frame, into)


def stamped_watermark(
    frame: DataFrame,
    columns: tuple[str, str],
    partition: Sequence[str],
    partitions: Sequence[str] | None,
    options: Mapping[str, str],
) -> DataFrame:
    """Plans a watermark of stamps on the JVM.

    Args:
        frame: a classic frame.
        columns: event time and stamp.
        partition: the columns that name a record's partition.
        partitions: the roster; None for the partitions that have been seen.
        options: by the JVM's names: completeness, delay, name.

    Raises:
        TailraceError: the JVM refuses it; see `tailrace.stamped_watermark`.
    """
    return _planned(frame, "stampedWatermark", frame, *columns, partition, partitions, options)


def write_windows(
    frame: DataFrame, path: str, event_time: str, upstreams: Sequence[str] | None, options: Mapping[str, str]
) -> DataStreamWriter:
    """Plans the landing of windows on the JVM.

    Args:
        frame: a classic frame.
        path: the folder.
        event_time: the column.
        upstreams: operators at the server; None for the query's sources.
        options: by the JVM's names: window, offset, into, missing, server, app, operator, token.

    Raises:
        TailraceError: the JVM refuses it; see `tailrace.write_windows`.
    """
    check_session(frame.sparkSession)
    planned = _call(_entry().writeWindows, *map(_java, (frame, path, event_time, upstreams, options)))
    # A writer of the frame, but for what it writes to.
    writer = frame.writeStream
    writer._jwrite = planned
    return writer


def window_report(session: SparkSession, path: str) -> DataFrame:
    """Reads completeness reports on the JVM.

    Args:
        session: a classic session.
        path: the folder.

    Raises:
        TailraceError: the JVM refuses it; see `tailrace.window_report`.
    """
    check_session(session)
    return ClassicDataFrame(_call(_entry().windowReport, session._jsparkSession, path), session)


def recursively(
    frame: DataFrame,
    op: Callable[[DataFrame], DataFrame],
    path_columns: Sequence[str],
    options: Mapping[str, str],
) -> DataFrame:
    """Plans a recursion on the JVM; calls `op` on the way.

    Args:
        frame: a classic frame.
        op: from a frame to one.
        path_columns: the columns that a row is known by; none: paths are not kept.
        options: by the JVM's names: onLimit, onCycle, mode, name; maxDepth, maxRows and depthColumn if given.

    Raises:
        TailraceError: the JVM refuses it; see `tailrace.recursively`.
        TypeError: `op` gives no frame.
    """
    session = frame.sparkSession
    check_session(session)
    call = _call(_entry().beginRecursion, *map(_java, (frame, path_columns, options)))
    result = op(ClassicDataFrame(_call(call.argument), session))
    _convert.frame(result, "result of op")
    return ClassicDataFrame(_call(call.result, result._jdf), session)


def _view() -> Any:
    SparkContext._ensure_initialized()
    return SparkContext._jvm


def _entry() -> Any:
    # A class that isn't there comes back as a package, which ends in "'JavaPackage' object is not callable".
    if not has_jar():
        raise TailraceSessionError(missing_jar())
    return getattr(_view(), _ENTRY)


def missing_jar() -> str:
    """One sentence on a JVM that runs without the jar, with the cure that fits how it was started."""
    if started_by_submit():
        return (
            "Spark was submitted without Tailrace's jar, and a jar can't be added to a running JVM: "
            'submit it with spark-submit --jars "$(tailrace jar)" ...'
        )
    return (
        "Spark is running in this process without Tailrace's jar, and a jar can't be added to a running "
        "JVM, not even after spark.stop(): restart the Python process (in a notebook: the kernel) and "
        "build the first session with tailrace.configure(SparkSession.builder).getOrCreate()."
    )


def _planned(frame: DataFrame, method: str, *arguments: object) -> DataFrame:
    """A frame of the session of another one, planned by a method of the entry point."""
    session = frame.sparkSession
    check_session(session)
    return ClassicDataFrame(_call(getattr(_entry(), method), *map(_java, arguments)), session)


def _java(value: object) -> Any:
    """Frames, lists and dictionaries as the JVM has them; texts and None are the same there."""
    gateway: Any = SparkContext._gateway
    match value:
        case ClassicDataFrame():
            return value._jdf
        case Mapping():
            return MapConverter().convert(dict(value), gateway._gateway_client)
        case str() | None:
            return value
        case Sequence():
            return ListConverter().convert(list(value), gateway._gateway_client)
    raise TypeError(f"no argument of the JVM: {type(value).__name__}")


def _call(method: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return method(*arguments)
    except SPARK_ERRORS as error:
        refusal = from_spark(error)
        if refusal is None:
            raise
        # From None: the user is told what is wrong with the call, not through which sockets the answer came.
        raise refusal from None
