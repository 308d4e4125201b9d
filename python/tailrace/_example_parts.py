"""What a definition of `tailrace.examples` is made of."""

# Callers without a type checker pass values of other types: they are checked all the same.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql.functions import lit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from tailrace.options import ColumnOrName, Key


@dataclass(frozen=True)
class Label:
    """A label of `Examples`: its stream, its keys and what `Examples.label` takes besides."""

    name: str
    frame: DataFrame
    on: ColumnOrName | Sequence[Key]
    since: str | datetime | None
    options: dict[str, str]


@dataclass(frozen=True)
class Features:
    """Features of `Examples`: their stream, its keys and what `Examples.features` takes besides."""

    name: str
    frame: DataFrame
    on: ColumnOrName | Sequence[Key]
    options: dict[str, str]


@dataclass(frozen=True)
class Sample:
    """What `Examples.sample` takes."""

    rates: dict[str, float]
    options: dict[str, str]


def start(since: str | datetime | None) -> Column | None:
    """`since` of a label as a literal; TypeError unless it is a string or a datetime."""
    match since:
        case None:
            return None
        case str():
            return lit(since)
        case datetime():
            # Spark reads one without a zone in that of this process.
            return lit(since) if since.tzinfo else lit(since.isoformat(" "))
        case _:
            raise TypeError(f"`since` is a string or a datetime, not {type(since).__name__}.")


def rate(value: float, argument: str) -> float:
    """A number as a float; TypeError unless it is one, which a bool is not here."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"`{argument}` is a number from 0 to 1, not {type(value).__name__}.")
    return float(value)
