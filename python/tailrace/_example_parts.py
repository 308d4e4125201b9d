"""What a definition of `tailrace.examples` is made of."""

# Callers without a type checker pass values of other types: they are checked all the same.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql.functions import lit

from tailrace import _convert

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


def shares_of(rates: Mapping[str, float]) -> dict[str, float]:
    """The rates of a sample, by predicate.

    Raises:
        TailraceJoinError: one isn't from 0 to 1, or there is none.
        TypeError: they are no mapping of strings to numbers.
    """
    _convert.kind(rates, Mapping, "rates")
    shares = {_convert.text(one, "rates"): rate(share, "rates") for one, share in rates.items()}
    if not shares:
        allowed = 'one predicate or more, each with its rate, such as {"size(click) = 0": 0.1}'
        raise _convert.refused("tailrace.examples", "rates", {}, allowed)
    for predicate, share in shares.items():
        # NaN is neither.
        if not 0 <= share <= 1:
            raise _convert.refused("tailrace.examples", f"the rate of {predicate}", share, "0 to 1")
    return shares


def rate(value: float, argument: str) -> float:
    """A number as a float; TypeError unless it is one, which a bool is not here."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"`{argument}` is a number from 0 to 1, not {type(value).__name__}.")
    return float(value)
