"""Rows as a test compares them: values of Python, with timestamps in UTC."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from tailrace._bridge import calls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def as_dicts(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows of a batch DataFrame by their columns' names, as `as_tuples` has their values.

    Raises:
        ValueError: several columns have one name.
    """
    if twice := [name for name in frame.columns if frame.columns.count(name) > 1]:
        raise ValueError(f"several columns are called {twice[0]!r}: give them names of their own")
    return [dict(zip(frame.columns, row, strict=True)) for row in as_tuples(frame)]


def as_tuples(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The rows of a batch DataFrame, with timestamps in UTC, and year-month intervals as months."""
    if not frame.columns:
        return [()] * frame.count()
    # Spark's `collect` gives them in the machine's zone, without saying so.
    table = calls.plan("readable", frame, frame=frame).toArrow()
    columns = [column.to_pylist(maps_as_pydicts="strict") for column in table.columns]
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
