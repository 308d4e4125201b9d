"""Calls of a Spark Connect server: relations of Tailrace's own in the client's plans. Needs no Java, no py4j.

A call is planned again with each plan that it is in, as all of a Connect client's plans are. Its relation has
a message, which `ConnectCall` in `TailraceRelations.scala` reads:

    message Call { string name = 1; string arguments = 3; repeated Relation frames = 4;
                   repeated Expression columns = 5; }

The message's type is made here, from its description: nothing is generated, so any version of protobuf will
do.
"""

# Only private fields of pyspark lead to a DataFrame's plan.
# pyright: reportPrivateUsage=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
import weakref
from typing import TYPE_CHECKING, Any

import pyspark
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pyspark.errors import PySparkException
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.expressions import ColumnReference, UnresolvedFunction
from pyspark.sql.connect.plan import LogicalPlan
from pyspark.sql.connect.proto import relations_pb2

from tailrace._bridge import connect_failures, connect_progress
from tailrace._bridge.document import written
from tailrace._installation.versions import check_versions
from tailrace.errors import TailraceError, TailraceSessionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.connect.client import SparkConnectClient
    from pyspark.sql.connect.column import Column
    from pyspark.sql.connect.observation import Observation
    from pyspark.sql.connect.proto import Relation
    from pyspark.sql.connect.session import SparkSession

    from tailrace._bridge.document import Call

# The errors that a call of a server can end with.
SPARK_ERRORS = (PySparkException,)

# A server's answer in a function of a Declarative Pipeline, which only defines: the pipeline plans it later,
# and refuses faults then.
_ONLY_DEFINES = "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION"

# A server's answer to a relation that none of its plugins knows.
_NO_PLUGIN = "No handler found for extension"

# The field with the name of an object of the server, which stands for it in an answer.
_OBJECT = "tailrace.object"

connect_failures.install()
connect_progress.install()

# The sessions whose versions have been compared.
_compared: weakref.WeakSet[SparkSession] = weakref.WeakSet()


_PACKAGE = "tailrace.connect"
_FIELD = descriptor_pb2.FieldDescriptorProto


def _message() -> Any:
    """The class of the message."""
    file = descriptor_pb2.FileDescriptorProto(name="tailrace/connect.proto", package=_PACKAGE)
    file.syntax = "proto3"
    file.dependency.append(relations_pb2.DESCRIPTOR.name)
    file.dependency.extend(f.name for f in relations_pb2.DESCRIPTOR.dependencies if "expressions" in f.name)
    call = file.message_type.add(name="Call")
    for number, name in ((1, "name"), (3, "arguments")):
        call.field.add(name=name, number=number, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL)
    for number, name, kind in ((4, "frames", "Relation"), (5, "columns", "Expression")):
        field = call.field.add(name=name, number=number, type=_FIELD.TYPE_MESSAGE)
        field.label, field.type_name = _FIELD.LABEL_REPEATED, f".spark.connect.{kind}"
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Call"))


_Message = _message()


class _CallPlan(LogicalPlan):
    """The relation of a call."""

    def __init__(self, call: Call) -> None:
        super().__init__(None)
        self._call = call

    @property
    def observations(self) -> dict[str, Observation]:
        """Those of all DataFrames of the call."""
        return {name: one for frame in _frames(self._call) for name, one in frame._plan.observations.items()}

    def plan(self, session: SparkConnectClient) -> Relation:
        relation = self._create_proto_relation()
        message = _Message(name=self._call.name, arguments=self._call.json)
        columns: list[Any] = [*self._call.columns]
        # The constructor and `append` parse a copy, and protobuf parses a hundred levels at most.
        for frame in _frames(self._call):
            message.frames.add().CopyFrom(frame._plan.plan(session))
        for column in columns:
            message.columns.add().CopyFrom(column.to_plan(session))
        relation.extension.Pack(message)
        return relation

    def print(self, indent: int = 0) -> str:
        return f"{' ' * indent}<tailrace {self._call.name}>\n"


class _Held:
    """An object of the server's."""

    def __init__(self, session: SparkSession, name: str) -> None:
        self.session, self.name = session, name


def settings_of(session: SparkSession) -> dict[str, str]:
    """Those of the server, and the session's own."""
    return {name: str(value) for name, value in session.conf.getAll.items()}


def plan(session: SparkSession, call: Call) -> DataFrame:
    """Plans a DataFrame on the server, which refuses it at once if it can't."""
    frame = DataFrame(_relation(session, call), session)
    try:
        check_session(session)
        # The server plans it: what it refuses is refused where the user calls, and not by the first action.
        _called(lambda: frame.schema)
    except PySparkException as error:
        if not _only_defines(error):
            raise
    return frame


def ask(session: SparkSession, call: Call) -> Any:
    """Makes a call that plans no DataFrame. Returns its answer as JSON has it."""
    check_session(session)
    return _answered(session, call)


# An object is known by its name, which is in the answer.
hold = ask


def check_session(session: SparkSession) -> None:
    """Asks the server whether it has all that Tailrace needs, and compares all versions once a session."""
    if session not in _compared:
        versions = _answered(session, written("versions", {}))
        check_versions(versions, pyspark.__version__, remote=True)
        _compared.add(session)


def column_name(session: SparkSession, call: Call) -> str:
    """As `jvm.column_name`."""
    try:
        name: str = ask(session, call)
    except PySparkException as error:
        column: Any = call.columns[0]
        if not _only_defines(error) or not isinstance(column._expr, ColumnReference):
            raise
        known: str = column._expr.name()
        return known
    return name


def function(column: Column) -> str | None:
    """As `jvm.function`."""
    of = column._expr
    return of._name if isinstance(of, UnresolvedFunction) else None


def invoke(target: _Held, method: str, *arguments: object) -> Any:
    """As `jvm.invoke`."""
    asked = {"object": target.name, "method": method, "arguments": arguments}
    return ask(target.session, written("invoke", asked))


def frames(session: SparkSession, target: _Held, method: str, *arguments: object) -> list[DataFrame]:
    """As `jvm.frames`."""
    held = invoke(target, method, *arguments)
    return [plan(session, written("held", {"object": one.name})) for one in held]


def _relation(session: SparkSession, call: Call) -> _CallPlan:
    if any(frame.sparkSession.session_id != session.session_id for frame in _frames(call)):
        raise TailraceSessionError("The DataFrames are of two sessions of Spark Connect: make them in one.")
    return _CallPlan(call)


def _frames(call: Call) -> list[DataFrame]:
    frames: list[Any] = [*call.frames]
    if not all(isinstance(frame, DataFrame) for frame in frames):
        raise TypeError("A DataFrame of a call over Spark Connect is one of its session.")
    return frames


def _only_defines(error: PySparkException) -> bool:
    return error.getCondition() == _ONLY_DEFINES


def _answered(session: SparkSession, call: Call) -> Any:
    (row,) = _called(DataFrame(_relation(session, call), session).collect)

    def held(fields: dict[str, Any]) -> Any:
        return _Held(session, fields[_OBJECT]) if _OBJECT in fields else fields

    return json.loads(row[0], object_hook=held)


def _called(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except TailraceError as error:
        # The user needs the fault of the call, not the sockets through which the answer came.
        raise error.with_traceback(None) from None
    except PySparkException as error:
        if _NO_PLUGIN in str(error):
            raise TailraceSessionError(_MISSING) from None
        raise


_MISSING = (
    "The Spark Connect server runs without Tailrace: start it with the jar and its settings, which "
    "`tailrace connect-conf` prints."
)
