"""Python arguments as the JVM takes them: types are checked here, values over there, for both languages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import TypeAlias

from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from tailrace.errors import TailraceSessionError

Duration: TypeAlias = str | timedelta
Key: TypeAlias = str | tuple[str, str]


def duration(value: Duration, argument: str) -> str:
    """A duration as a string that Spark reads.

    Args:
        value: a string, which is left to Spark to parse, or a timedelta, exact to its microsecond.
        argument: the name of the public argument, for the error.

    Raises:
        TypeError: it is neither, for instance a bare number, which would have no unit.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)} microseconds"
    raise TypeError(
        f'`{argument}` is a duration: a string such as "30 minutes", or a datetime.timedelta, '
        f"not {type(value).__name__}."
    )


def text(value: str, argument: str) -> str:
    """The value itself, once it is known to be a string.

    Args:
        value: a column's name or an option.
        argument: the name of the public argument, for the error.

    Raises:
        TypeError: it isn't a string, for instance a Column.
    """
    if not isinstance(value, str):
        raise TypeError(f"`{argument}` is a string, not {type(value).__name__}.")
    return value


def texts(**values: str | None) -> dict[str, str]:
    """Those of the values that are given, once they are known to be strings.

    Args:
        values: each under the name of its public argument, which is that of its option too.

    Raises:
        TypeError: one is neither a string nor None.
    """
    return {name: text(value, name) for name, value in values.items() if value is not None}


def names(columns: str | Sequence[str] | None, argument: str) -> list[str]:
    """Names as a list. A text isn't a list of its letters: each would be a name that nobody has.

    Args:
        columns: names of columns or of what else, or one alone without its list, or None for none.
        argument: the name of the public argument, for the error.

    Raises:
        TypeError: one isn't a string, for instance a Column.
    """
    if columns is None:
        return []
    if isinstance(columns, str):
        return [columns]
    # A Column can be iterated over, and says something else then.
    if not isinstance(columns, Collection):
        raise TypeError(f"`{argument}` is a name or a list of names, not {type(columns).__name__}.")
    for column in columns:
        if not isinstance(column, str):
            raise TypeError(f"`{argument}` has a {type(column).__name__} among its names, which are strings.")
    return list(columns)


def keys(on: str | Sequence[Key]) -> tuple[list[str], list[str]]:
    """The key columns as two lists of the same length: names on the left side, names on the right side.

    Args:
        on: names of columns that both sides have, or pairs (left name, right name), mixed at will; one name
            alone may stand without its list.

    Raises:
        TypeError: an entry is neither a name nor a pair of names, for instance a Column.
    """
    if not isinstance(on, str | Sequence):
        raise TypeError(
            f"`on` is a list of column names, or of (left, right) pairs, not {type(on).__name__}."
        )
    pairs = [_pair(key) for key in ([on] if isinstance(on, str) else on)]
    return [left for left, _ in pairs], [right for _, right in pairs]


def _pair(key: object) -> tuple[str, str]:
    match key:
        case str():
            return key, key
        case (str() as left, str() as right):
            return left, right
    raise TypeError(f"A key in `on` is a column name or a (left, right) pair of names, not {key!r}.")


def count(value: int, argument: str) -> str:
    """A whole number as its decimal digits.

    Args:
        value: the number.
        argument: the name of the public argument, for the error.

    Raises:
        TypeError: it isn't an int; a bool isn't one either.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"`{argument}` is a whole number, not {type(value).__name__}.")
    return str(value)


def frame(value: object, argument: str) -> None:
    """Checks that a value is a frame of a classic session.

    Args:
        value: what the user gave.
        argument: the name of the public argument, for the error.

    Raises:
        TailraceSessionError: it is a frame of a Spark Connect session.
        TypeError: it is no frame.
    """
    if isinstance(value, ClassicDataFrame):
        return
    if type(value).__module__.startswith("pyspark.sql.connect"):
        raise TailraceSessionError(
            f"The {argument} frame belongs to a Spark Connect session, over which Tailrace doesn't run: "
            "build a classic session with tailrace.configure(SparkSession.builder.master(...)).getOrCreate()."
        )
    raise TypeError(f"`{argument}` is a pyspark.sql.DataFrame, not {type(value).__name__}.")
