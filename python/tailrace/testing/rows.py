"""Rows as a test writes them, and as it compares them: values of Python, with timestamps in UTC."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import ArrayType, MapType, StructType, TimestampNTZType, TimestampType

from tailrace.testing.clock import at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

Given = Sequence[Any] | Mapping[str, Any]


def struct(schema: str | StructType) -> StructType:
    """The schema of a text of columns and types."""
    read = schema if isinstance(schema, StructType) else StructType.fromDDL(schema)
    if not isinstance(read, StructType):
        raise TypeError(f"{schema!r} is no list of columns: give 'user int, served_at timestamp'")
    return read


def batch_frame(spark: SparkSession, schema: StructType, rows: Sequence[Given]) -> DataFrame:
    """A batch DataFrame of rows as `Source.add` takes them."""
    return spark.createDataFrame([_values(schema, row) for row in rows], schema)


def _values(schema: StructType, row: Given, what: str = "the stream") -> tuple[Any, ...]:
    names = schema.fieldNames()
    if isinstance(row, Mapping):
        if unknown := [name for name in row if name not in names]:
            raise ValueError(f"{what} has no column {unknown[0]!r}; it has {', '.join(names)}")
        row = [row.get(name) for name in names]
    if len(row) != len(names):
        raise ValueError(f"a row has {len(row)} values, and {what} {len(names)} columns: {row!r}")
    return tuple(_value(field.dataType, value) for field, value in zip(schema.fields, row, strict=True))


def _value(kind: DataType, value: Any) -> Any:  # noqa: ANN401 - a value of any column
    return None if value is None else _present(kind, value)


def _present(kind: DataType, value: Any) -> Any:  # noqa: ANN401 - the same
    match kind:
        case TimestampType():
            return at(value)
        case TimestampNTZType():
            return at(value).replace(tzinfo=None)
        case StructType():
            return _values(kind, value, "the struct")
        case ArrayType():
            return [_value(kind.elementType, element) for element in value]
        case MapType():
            return {_value(kind.keyType, k): _value(kind.valueType, v) for k, v in value.items()}
        case _:
            return value


def as_dicts(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows of a batch DataFrame by their columns' names, with timestamps in UTC.

    Raises:
        ValueError: several columns have one name.
    """
    if twice := [name for name in frame.columns if frame.columns.count(name) > 1]:
        raise ValueError(f"several columns are called {twice[0]!r}: give them names of their own")
    return [dict(zip(frame.columns, row, strict=True)) for row in as_tuples(frame)]


def as_tuples(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The rows of a batch DataFrame, with timestamps in UTC."""
    # Spark's `collect` gives them in the machine's zone, without saying so.
    table = frame.toArrow()
    columns = [column.to_pylist(maps_as_pydicts="strict") for column in table.columns]
    if not columns:
        return [()] * frame.count()
    return [tuple(map(_in_utc, row)) for row in zip(*columns, strict=True)]


def _in_utc(value: Any) -> Any:  # noqa: ANN401 - a value of any column
    match value:
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone(dt.UTC)
        case list():
            return [_in_utc(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
        case dict():
            entries = value.items()  # pyright: ignore[reportUnknownVariableType]
            return {_in_utc(k): _in_utc(v) for k, v in entries}  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value
