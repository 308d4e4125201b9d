"""Rows as a test writes them: the values that a column accepts, and the errors for others."""

from __future__ import annotations

import base64
import datetime as dt
import pickle
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
    _make_type_verifier,  # pyright: ignore[reportPrivateUsage, reportUnknownVariableType]
)

from tailrace.testing.clock import at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Given = Sequence[Any] | Mapping[str, Any]


class _Taken(NamedTuple):
    """The Python class of a type, its name in words, and the conversion of other values."""

    type: type
    words: str
    make: Callable[[Any], Any] | None = None


def _decimal(value: object) -> Decimal:
    return Decimal(str(value))


_WHOLE = _Taken(int, "a whole number", int)
_FLOAT = _Taken(float, "a float", float)
_TAKEN: Mapping[type[DataType], _Taken] = {
    BooleanType: _Taken(bool, "True or False"),
    ByteType: _WHOLE,
    ShortType: _WHOLE,
    IntegerType: _WHOLE,
    LongType: _WHOLE,
    FloatType: _FLOAT,
    DoubleType: _FLOAT,
    DecimalType: _Taken(Decimal, "a decimal.Decimal", _decimal),
    StringType: _Taken(str, "a text"),
    BinaryType: _Taken(bytes, "bytes"),
    DateType: _Taken(dt.date, "a datetime.date"),
    DayTimeIntervalType: _Taken(dt.timedelta, "a datetime.timedelta"),
}
# Seconds have fractions.
_MICROS: Mapping[int | None, int] = {0: 86_400_000_000, 1: 3_600_000_000, 2: 60_000_000, 3: 1}
_LEAST_FLOAT, _MOST_FLOAT = 2.0**-149, (2.0 - 2.0**-23) * 2.0**127
_BITS: Mapping[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}


def struct(schema: str | StructType) -> StructType:
    """The schema of a text of columns and types."""
    read = schema if isinstance(schema, StructType) else StructType.fromDDL(schema)
    if not isinstance(read, StructType):
        raise TypeError(f"{schema!r} is no list of columns: give 'user int, served_at timestamp'")
    return read


def batch_frame(spark: SparkSession, schema: StructType, rows: Sequence[Given]) -> DataFrame:
    """A batch DataFrame of rows as `Source.add` takes them.

    Raises:
        TypeError: a value isn't of its column's type; the text names the right one.
        ValueError: a row has other columns, or a value is outside of its column's range.
    """
    return spark.createDataFrame(_taken(schema, rows), schema)


def pickled(schema: StructType, rows: Sequence[Given]) -> str:
    """Rows as `Source.add` takes them, in base64 for `PythonRows` of the JVM.

    Errors are those of `batch_frame`.
    """
    of_rows: Any = schema  # PySpark gives its method no types
    made = pickle.dumps([of_rows.toInternal(row) for row in _taken(schema, rows)])
    return base64.b64encode(made).decode()


def _taken(schema: StructType, rows: Sequence[Given]) -> list[tuple[Any, ...]]:
    return [_values(schema, row, "the stream", "") for row in rows]


def _values(schema: StructType, row: Given, what: str, path: str) -> tuple[Any, ...]:
    names = schema.fieldNames()
    if isinstance(row, str) or not isinstance(row, Mapping | Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a row must be a tuple of values, or a dictionary by name, and not {row!r}")
    if isinstance(row, Mapping):
        if unknown := [name for name in row if name not in names]:
            raise ValueError(f"{what} has no column {unknown[0]!r}; it has {', '.join(names)}")
        row = [row.get(name) for name in names]
    if len(row) != len(names):
        raise ValueError(
            f"a row must have a value for each column, {', '.join(names)}, and has {len(row)}: {row!r}"
        )
    return tuple(
        _value(field.dataType, value, path + field.name, nullable=field.nullable)
        for field, value in zip(schema.fields, row, strict=True)
    )


def _value(kind: DataType, value: Any, column: str, *, nullable: bool) -> Any:  # noqa: ANN401 - of any column
    if value is not None:
        return _present(kind, value, column)
    if not nullable:
        raise ValueError(f"column `{column}` takes no null: give a value, or leave NOT NULL out of its type")
    return None


def _present(kind: DataType, value: Any, column: str) -> Any:  # noqa: ANN401 - one case a type
    match kind:
        case TimestampType() | TimestampNTZType():
            if not isinstance(value, str | dt.datetime):
                raise _refusal(kind, value, column, "a time like '12:07' or a datetime.datetime")
            time = at(value)
            return time if isinstance(kind, TimestampType) else time.replace(tzinfo=None)
        case StructType():
            if not isinstance(value, Mapping | list | tuple):
                raise _refusal(kind, value, column, "a tuple of its columns, or a dictionary by name")
            return _values(kind, value, "the struct", f"{column}.")  # pyright: ignore[reportUnknownArgumentType]
        case ArrayType():
            if not isinstance(value, list | tuple):
                raise _refusal(kind, value, column, "a list")
            nulls = kind.containsNull
            return [_value(kind.elementType, e, f"{column}.element", nullable=nulls) for e in value]  # pyright: ignore[reportUnknownVariableType]
        case MapType():
            if not isinstance(value, Mapping):
                raise _refusal(kind, value, column, "a dictionary")
            return {
                _value(kind.keyType, k, f"{column}.key", nullable=False): _value(
                    kind.valueType, v, f"{column}.value", nullable=kind.valueContainsNull
                )
                for k, v in value.items()  # pyright: ignore[reportUnknownVariableType]
            }
        case YearMonthIntervalType():
            cure = "an int column of months, and `make_ym_interval(0, months)` in the query"
            raise _refusal(kind, value, column, cure)
        case _:
            return _plain(kind, value, column)


def _plain(kind: DataType, value: Any, column: str) -> Any:  # noqa: ANN401 - a value of any column
    """A value of a type without others in it, as it is: PySpark takes the type's own class alone."""
    taken = _TAKEN.get(type(kind))
    if taken is None:
        _make_type_verifier(kind)(value)
        return value
    if type(value) is bytearray and taken.type is bytes:
        return bytes(value)
    if type(value) is not taken.type:
        raise _refusal(kind, value, column, _cure(kind, taken, value))
    if not _holds(kind, value):
        raise ValueError(
            f"column `{column}` is {kind.simpleString()}, which doesn't hold {value!r}: "
            "give a value that it holds, or the column another type"
        )
    return value


def _cure(kind: DataType, taken: _Taken, value: object) -> str:
    """The same value as the type has it, where there is one."""
    if taken.make is None or isinstance(value, bool):
        return taken.words
    try:
        made = taken.make(value)
    except (TypeError, ValueError, OverflowError, InvalidOperation):
        return taken.words
    same = isinstance(value, str) or made == value or isinstance(kind, DecimalType)
    return repr(made) if same and _holds(kind, made) else taken.words


def _holds(kind: DataType, value: Any) -> bool:  # noqa: ANN401 - a value of any column
    held = True
    match kind:
        case DecimalType():
            held = value.is_finite() and _fits(kind, Fraction(value))
        case StringType():
            held = not any("\ud800" <= letter <= "\udfff" for letter in value)
        case FloatType():
            # Digits beyond those of a float are rounded, as Spark does.
            held = not isfinite(value) or value == 0 or _LEAST_FLOAT <= abs(value) <= _MOST_FLOAT
        case DayTimeIntervalType():
            # A smaller unit than the column's last one would be lost. The greatest one isn't bounded.
            micros = value // dt.timedelta(microseconds=1)
            held = micros % _MICROS[kind.endField] == 0 and -(2**63) < micros < 2**63
        case _ if bits := _BITS.get(type(kind)):
            held = -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)
        case _:
            pass
    return bool(held)


def _fits(kind: DecimalType, value: Fraction) -> bool:
    units = value * 10**kind.scale
    return bool(units.denominator == 1 and abs(units) < 10**kind.precision)


def _refusal(kind: DataType, value: object, column: str, cure: str) -> TypeError:
    found = type(value).__name__
    article = "an" if found[0] in "aeiou" else "a"
    return TypeError(
        f"column `{column}` is {kind.simpleString()}, and {value!r} is {article} {found}: give {cure}"
    )
