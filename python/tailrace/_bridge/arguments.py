"""Arguments of calls. Types are checked here, values in the JVM.

Every `argument` is the name of the public argument, which the error names.
"""

# Callers without a type checker pass values of other types: they are checked all the same.
# pyright: reportUnnecessaryIsInstance=false, reportUnknownArgumentType=false

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import col, expr, lit

from tailrace._bridge import calls
from tailrace.errors import from_condition

# Java's former classes for dates have the Julian calendar before.
_GREGORIAN = 1583
# The sizes of Spark's longest whole number and of its longest decimal.
_LONG_BITS = 64
_DECIMAL_DIGITS = 38
# Whose tables Spark makes DataFrames of.
_CONVERTED = ("pandas", "pyarrow")
_UNITS = {
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_LITERALS = (bool, int, float, str, bytes, bytearray, Decimal, date, time, timedelta, Column)

if TYPE_CHECKING:
    from tailrace.errors import TailraceError
    from tailrace.options import ColumnOrName, Duration, Key, Share


def duration(value: Duration, argument: str) -> Duration:
    """The value itself.

    Raises:
        TypeError: it is neither a string nor a timedelta, for instance a bare number, which would have no
            unit.
    """
    if not isinstance(value, str | timedelta):
        raise TypeError(
            f'`{argument}` must be a duration: a string such as "30 minutes", or a datetime.timedelta, '
            f"not {type(value).__name__}."
        )
    return value


def refused(call: str, argument: str, value: object, allowed: str) -> TailraceError:
    """The error of a value that isn't allowed, as the JVM makes it: where a call can tell without the JVM."""
    shown_value = _in_units(value) if isinstance(value, timedelta) else str(value)
    named = {"call": call, "argument": argument, "value": shown_value, "allowed": allowed}
    shown = "'{value}'" if named["value"] else "empty"
    sentence = f"`{{argument}}` of {{call}} is {shown}. It has to be {{allowed}}."
    cure = "Set it to such a value, or leave it out if it has a default."
    return from_condition("TAILRACE_OPTION_INVALID", f"{sentence.format(**named)} {cure}", named)


def conflict(call: str, argument: str, value: object, other: str, reason: str) -> TailraceError:
    """The error of a value that another argument excludes, as the JVM makes it."""
    named = {"call": call, "argument": argument, "value": str(value), "other": other, "reason": reason}
    text = (
        f"`{argument}` of {call} is '{value}', which doesn't go together with `{other}`: {reason}. Leave one "
        "of the two out."
    )
    return from_condition("TAILRACE_OPTION_CONFLICT", text, named)


def _in_units(value: timedelta) -> str:
    """A timedelta as the JVM shows it: "-1 hour -30 minutes"."""
    rest = abs(value) // timedelta(microseconds=1)
    sign = "-" if value < timedelta(0) else ""
    parts: list[str] = []
    for unit, length in _UNITS.items():
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{sign}{count} {unit}{'' if count == 1 else 's'}")
    return " ".join(parts) or "0 seconds"


def text(value: str, argument: str) -> str:
    """The value itself; TypeError unless it is a string."""
    if not isinstance(value, str):
        raise TypeError(f"`{argument}` must be a string, not {type(value).__name__}.")
    return value


def count(value: int, argument: str) -> int:
    """The value itself; TypeError unless it is an int, which a bool is not here."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"`{argument}` must be a whole number, not {type(value).__name__}.")
    return value


def flag(value: bool, argument: str) -> bool:
    """The value itself; TypeError unless it is a bool."""
    kind(value, bool, argument)
    return value


def flags(**values: bool) -> dict[str, object]:
    """Booleans, each under the name of its argument; TypeError for any other type."""
    return {name: flag(value, name) for name, value in values.items()}


def path(value: str | os.PathLike[str], argument: str) -> str:
    """A path as a string; TypeError unless it is a string or an `os.PathLike`."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(
            f"`{argument}` must be a path: a string or an os.PathLike, not {type(value).__name__}."
        )
    return os.fspath(value)


def table(value: str | os.PathLike[str], argument: str) -> str:
    """A table's name, or its path, which has a slash; TypeError unless it is a string or an `os.PathLike`."""
    named = path(value, argument)
    return named if isinstance(value, str) or "/" in named else f"./{named}"


def given(**values: object) -> dict[str, Any]:
    """The arguments that are not None, of those whose default is None."""
    return {name: value for name, value in values.items() if value is not None}


def durations(**values: Duration) -> dict[str, object]:
    """Durations, each under the name of its argument; TypeError for None. Likewise `texts` and `counts`."""
    return {name: duration(value, name) for name, value in values.items()}


def several_durations(values: Sequence[Duration], argument: str) -> list[Duration]:
    """Durations as a list; TypeError unless it is a list of them. One duration isn't a list."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise TypeError(f"`{argument}` must be a list of durations, not {type(values).__name__}.")
    return [duration(value, argument) for value in values]


def texts(**values: str) -> dict[str, object]:
    """Strings, each under the name of its argument."""
    return {name: text(value, name) for name, value in values.items()}


def counts(**values: int) -> dict[str, object]:
    """Whole numbers, each under the name of its argument."""
    return {name: count(value, name) for name, value in values.items()}


def sizes(**values: str | int) -> dict[str, object]:
    """Sizes, each under the name of its argument: a string with a unit, or a number of bytes."""
    return {name: count(v, name) if isinstance(v, int) else text(v, name) for name, v in values.items()}


def share(value: Share, argument: str) -> str:
    """A share as text. A number is taken by its shortest decimal digits, which are those that the user wrote.

    Raises:
        TypeError: it is neither a string nor a number; a bool is no number.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return format(Decimal(str(value)), "f")
    raise TypeError(
        f'`{argument}` must be a share: a string such as "99.9%", or a number such as 0.999, '
        f"not {type(value).__name__}."
    )


def rate(value: float, argument: str, wanted: str = "a number from 0 to 1") -> float:
    """A number as a float; TypeError unless it is one, which a bool is not here."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"`{argument}` must be {wanted}, not {type(value).__name__}.")
    try:
        return float(value)
    except OverflowError as error:
        raise TypeError(f"`{argument}` must be {wanted}, not one of {len(str(value))} digits.") from error


def seconds(value: float, argument: str) -> float:
    """The value itself; TypeError unless it is a number, which a bool is not here."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"`{argument}` must be a number of seconds, not {type(value).__name__}.")
    return value


def names(values: str | Sequence[str], argument: str) -> list[str]:
    """Names as a list. One string isn't a list of its letters: each would be a name that nobody has.

    Raises:
        TypeError: one isn't a string.
    """
    found = _several(values, argument)
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"`{argument}` must have strings only, and has {name!r} ({type(name).__name__}).")
    return found


def values(keys: Sequence[object], argument: str) -> list[list[Column]]:
    """Keys as literals, a value for each key column: a value alone is a key of one column.

    Raises:
        TypeError: it is no list of values, or one of them is None.
    """
    if isinstance(keys, str | Column) or not isinstance(keys, Collection) or isinstance(keys, Mapping):
        raise TypeError(f"`{argument}` must be a list of keys, not {type(keys).__name__}.")
    found = [list(cast("Sequence[object]", key)) if isinstance(key, tuple | list) else [key] for key in keys]
    if any(value is None for key in found for value in key):
        raise TypeError(f"`{argument}` has None among its values, and null keys match nothing.")
    return [[_literal(value, argument) for value in key] for key in found]


def _literal(value: object, argument: str) -> Column:
    if not isinstance(value, _LITERALS):
        raise TypeError(
            f"`{argument}` has a {type(value).__name__} among its values, which is no value of a key."
        )
    if isinstance(value, date) and value.year < _GREGORIAN:
        return _of_any_year(value, argument)
    if isinstance(value, str):
        return lit(encodable(value, argument))
    return lit(_of_any_size(value, argument))


def encodable(value: str, argument: str) -> str:
    """A text that has a form in UTF-8; TypeError if it has half of a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise TypeError(
            f"`{argument}` has {value!r}, which is no text in UTF-8: half of a surrogate pair."
        ) from error
    return value


def moment(value: datetime, argument: str) -> Column:
    """A time with a zone as a literal; TypeError if it has none in UTC."""
    return _of_any_year(value, argument) if value.year < _GREGORIAN else lit(value)


def _of_any_year(value: date, argument: str) -> Column:
    """A date or a timestamp as SQL has it. Py4J would take it for one of the Julian calendar, or fail."""
    if not isinstance(value, datetime):
        return expr(f"DATE '{value.isoformat()}'")
    try:
        moment = value.astimezone(UTC).replace(tzinfo=None)
    except (OverflowError, ValueError) as error:
        raise TypeError(f"`{argument}` has {value} among its values, which has no time in UTC.") from error
    return expr(f"TIMESTAMP_LTZ '{moment.isoformat()}Z'")


def _of_any_size(value: object, argument: str) -> object:
    """Whole numbers beyond 64 bits as decimals, because a literal of Spark's is one of 64 bits at most."""
    if isinstance(value, Decimal):
        return _of_38_digits(value, argument)
    if not isinstance(value, int) or value.bit_length() < _LONG_BITS:
        return value
    if len(str(abs(value))) > _DECIMAL_DIGITS:
        raise TypeError(
            f"`{argument}` has a number of {len(str(abs(value)))} digits, which no column can hold."
        )
    return Decimal(value)


def _of_38_digits(value: Decimal, argument: str) -> Decimal:
    """A decimal as a column can hold it. Zeros at its end don't count: 0E-400 is 0."""
    if not value.is_finite():
        raise TypeError(f"`{argument}` has {value} among its values, which no decimal column can hold.")
    _, digits, exponent = value.as_tuple()
    if value and abs(int(exponent)) > _DECIMAL_DIGITS + len(digits):
        raise TypeError(f"`{argument}` has {value} among its values, which no decimal column can hold.")
    plain = Decimal(format(value, "f")) if value else Decimal(0)
    _, digits, exponent = plain.as_tuple()
    if max(len(digits), -int(exponent)) > _DECIMAL_DIGITS:
        raise TypeError(f"`{argument}` has {value} among its values, which no decimal column can hold.")
    return plain


def at_server(
    server: str | Sequence[str] | None,
    app: str | None,
    operator: str | None,
    token: str | None,
    logs: str | None = None,
) -> dict[str, object]:
    """The arguments that name watermark servers, one or several, without those that are None."""
    servers: dict[str, object] = {} if server is None else {"server": ",".join(names(server, "server"))}
    return servers | texts(**given(app=app, operator=operator, token=token, logs=logs))


@dataclass(frozen=True)
class Columns:
    """Finds the names of columns that an argument gives by name or as Columns.

    Attributes:
        call: the function, as users write it: "tailrace.join".
        frame: the DataFrame that has the columns.
    """

    call: str
    frame: DataFrame

    def name(self, value: ColumnOrName, argument: str) -> str:
        """The name of one column.

        Raises:
            TailraceError: the Column isn't a column of the DataFrame, for instance an expression.
            TypeError: it is neither a name nor a Column.
        """
        if isinstance(value, str):
            return value
        if isinstance(value, Column):
            return calls.column_name(self.call, argument, self.frame, value)
        raise TypeError(f"`{argument}` must be the name of a column or a Column, not {type(value).__name__}.")

    def names(self, values: ColumnOrName | Sequence[ColumnOrName], argument: str) -> list[str]:
        """The names of several columns, or of one alone without its list."""
        return [self.name(value, argument) for value in _several(values, argument)]

    def named(self, **values: ColumnOrName) -> dict[str, str]:
        """The names of columns, each under the name of its argument."""
        return {argument: self.name(value, argument) for argument, value in values.items()}


def named(name: str) -> Column:
    """The column of a name, whatever characters it has."""
    return col("`" + name.replace("`", "``") + "`")


def keys(on: ColumnOrName | Sequence[Key], left: Columns, right: Columns) -> list[tuple[str, str]]:
    """The key columns as pairs: the name on the left side, the name on the right side.

    `on` mixes columns of both sides and pairs (left, right); one column may stand without its list.

    Raises:
        TypeError: an entry is neither a column nor a pair of columns, for instance a condition.
    """
    # Bytes are a sequence, of numbers.
    if isinstance(on, bytes | bytearray) or not isinstance(on, str | Column | Sequence):
        raise TypeError(
            f"`on` must be a list of columns, or of (left, right) pairs, not {type(on).__name__}."
        )
    pairs = [_pair(key) for key in ([on] if isinstance(on, str | Column) else on)]
    for column in itertools.chain(*pairs):
        if isinstance(column, Column) and calls.is_condition(column):
            raise TypeError(
                f"`on` takes columns, or (left, right) pairs of columns, and no conditions such as {column}: "
                'write on=[("user_id", "user_id")].'
            )
    lefts = [left.name(one, "on") for one, _ in pairs]
    return list(zip(lefts, [right.name(other, "on") for _, other in pairs], strict=True))


def kind(value: object, expected: type, argument: str, example: str = "") -> None:
    """TypeError unless a value is of a class.

    Args:
        value: of the argument.
        expected: its class.
        argument: its name.
        example: what to write instead, for a class that isn't one of Python's own.
    """
    if not isinstance(value, expected):
        article = "an" if expected.__name__[0] in "AEIOU" else "a"
        wanted = f"{article} {expected.__name__}{example and f' {example}'}"
        raise TypeError(f"`{argument}` must be {wanted}, not {type(value).__name__}.")


def frame(value: object, argument: str) -> None:
    """TypeError unless a value is a DataFrame. That of another library is called so, too."""
    if not isinstance(value, DataFrame):
        kind = type(value)
        library = kind.__module__.split(".")[0]
        name = kind.__name__ if library == "builtins" else f"{library}.{kind.__name__}"
        cure = f" Make one of it: spark.createDataFrame({argument})." if library in _CONVERTED else ""
        raise TypeError(f"`{argument}` must be a pyspark.sql.DataFrame, not {name}.{cure}")


def session(value: object, argument: str = "spark") -> None:
    """TypeError unless a value is a session: PySpark has a class for each kind of them."""
    if not is_session(value):
        raise TypeError(f"`{argument}` must be a SparkSession, not {type(value).__name__}.")


def is_session(value: object) -> bool:
    """True if a value is a session, a classic one or one of Spark Connect."""
    return any(kind.__name__ == "SparkSession" for kind in type(value).__mro__)


def _several(values: object, argument: str) -> list[Any]:
    if isinstance(values, str | Column):
        return [values]
    if not isinstance(values, Collection) or isinstance(values, Mapping):
        raise TypeError(f"`{argument}` must be a name or a list of names, not {type(values).__name__}.")
    return list(values)


def _pair(key: object) -> tuple[ColumnOrName, ColumnOrName]:
    match key:
        case str() | Column():
            return key, key
        case (str() | Column() as left, str() | Column() as right):
            return left, right
        case _:
            raise TypeError(
                f"A key in `on` must be a column or a (left, right) pair of columns, not {key!r}."
            )
