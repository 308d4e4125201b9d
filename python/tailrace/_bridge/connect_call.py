"""The message of a call over Spark Connect. `ConnectCall` in `TailraceRelations.scala` reads it.

    message Call   { string method = 1; repeated Value arguments = 2; }
    message Value  { oneof kind { bool session = 1; string text = 2; bytes binary = 3; Relation frame = 4;
                                  Expression column = 5; Values list = 6; Values map = 7;
                                  int64 number = 8; } }
    message Values { repeated Value items = 1; }

The types are made here, from their description: nothing is generated, so any version of protobuf will do.
"""

# Only private fields of pyspark lead to a DataFrame's plan, and messages have no types.
# pyright: basic, reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pyspark.sql.connect.column import Column
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.proto import relations_pb2
from pyspark.sql.connect.session import SparkSession

if TYPE_CHECKING:
    from pyspark.sql.connect.client import SparkConnectClient

_PACKAGE = "tailrace.connect"
_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES: dict[str, Any] = {
    "bool": _FIELD.TYPE_BOOL,
    "bytes": _FIELD.TYPE_BYTES,
    "int64": _FIELD.TYPE_INT64,
    "string": _FIELD.TYPE_STRING,
}


def _describe(message: Any, number: int, name: str, kind: str, *, repeated: bool = False) -> Any:
    field = message.field.add(name=name, number=number)
    field.label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
    if kind in _TYPES:
        field.type = _TYPES[kind]
    else:
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, kind
    return field


def _message() -> Any:
    """The class of the message."""
    file = descriptor_pb2.FileDescriptorProto(name="tailrace/connect.proto", package=_PACKAGE)
    file.syntax = "proto3"
    file.dependency.append(relations_pb2.DESCRIPTOR.name)
    file.dependency.extend(f.name for f in relations_pb2.DESCRIPTOR.dependencies if "expressions" in f.name)
    call, value, values = (file.message_type.add(name=name) for name in ("Call", "Value", "Values"))
    _describe(call, 1, "method", "string")
    _describe(call, 2, "arguments", f".{_PACKAGE}.Value", repeated=True)
    value.oneof_decl.add(name="kind")
    kinds = (
        ("session", "bool"),
        ("text", "string"),
        ("binary", "bytes"),
        ("frame", ".spark.connect.Relation"),
        ("column", ".spark.connect.Expression"),
        ("list", f".{_PACKAGE}.Values"),
        ("map", f".{_PACKAGE}.Values"),
        ("number", "int64"),
    )
    for number, (name, kind) in enumerate(kinds, start=1):
        _describe(value, number, name, kind).oneof_index = 0
    _describe(values, 1, "items", f".{_PACKAGE}.Value", repeated=True)
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Call"))


_Call = _message()


def call(client: SparkConnectClient, method: str, arguments: Sequence[object]) -> Any:
    """The message of a call.

    Args:
        client: of the session.
        method: of `io.tailrace.api.PythonApi`, or one of those of a recursion.
        arguments: the session, DataFrames, Columns, strings, bytes, lists and dictionaries of such, None.
    """
    made = _Call(method=method)
    for argument in arguments:
        _fill(made.arguments.add(), argument, client)
    return made


def _fill(value: Any, argument: object, client: SparkConnectClient) -> None:
    match argument:
        case None:
            pass  # No field of the oneof.
        case SparkSession():
            value.session = True
        case str():
            value.text = argument
        case int():
            value.number = argument
        case bytes():
            value.binary = argument
        case DataFrame():
            value.frame.CopyFrom(argument._plan.plan(client))
        case Column():
            value.column.CopyFrom(argument.to_plan(client))
        case Mapping():
            _fill_items(value.map, [one for pair in argument.items() for one in pair], client)
        case Sequence():
            _fill_items(value.list, argument, client)
        case _:
            raise TypeError(f"no argument of a call: {type(argument).__name__}")


def _fill_items(values: Any, items: Sequence[object], client: SparkConnectClient) -> None:
    values.SetInParent()  # An empty list isn't None.
    for item in items:
        _fill(values.items.add(), item, client)
