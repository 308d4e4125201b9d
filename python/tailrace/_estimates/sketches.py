"""Spark's KLL sketches of microseconds: quantiles and shares of many values from a few kilobytes. They merge.

The error is that of the library, Apache DataSketches. It is one of ranks: with a rank error of 0.003, the
value that is reported as the 0.99 quantile lies between the quantiles 0.987 and 0.993, in 99 of 100 cases. A
sketch that has seen at most as many values as it holds is exact.
"""

# Callers without a type checker pass values of other types: they are checked all the same.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

from tailrace._bridge import arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

MICROS = 1_000_000
# A rank error of 0.00278, and 20 kB of a full sketch.
SIZE = 1000


def of(micros: Column) -> Column:
    """The sketch of a column, as an aggregate. Nulls don't count."""
    return F.kll_sketch_agg_bigint(micros, F.lit(SIZE))


def merged(sketch: Column) -> Column:
    """The sketch of all values of several sketches, as an aggregate."""
    return F.kll_merge_agg_bigint(sketch)


def quantiles(sketch: Column, ranks: Sequence[float]) -> Column:
    """An array of (quantile, seconds); null if there is no value."""
    found = F.kll_sketch_get_quantile_bigint(sketch, F.array(*map(F.lit, ranks)))
    return _unless_empty(
        sketch,
        F.array(
            *(
                F.struct(F.lit(rank).alias("quantile"), (found[i] / MICROS).alias("seconds"))
                for i, rank in enumerate(ranks)
            )
        ),
    )


def share_through(sketch: Column, micros: int) -> Column:
    """The share of values that are at most this number of microseconds; null if there is no value."""
    return _unless_empty(sketch, F.kll_sketch_get_rank_bigint(sketch, F.lit(micros)))


def rank_error(sketch: Column) -> Column:
    """The error of ranks, as the library states it; 0 if the sketch holds all values."""
    text = F.kll_sketch_to_string_bigint(sketch)
    percent = F.regexp_extract(text, r"Epsilon +: ([0-9.]+)%", 1).cast("double")
    is_exact = F.regexp_extract(text, r"Estimation Mode +: (\w+)", 1) == "false"
    return F.when(is_exact, F.lit(0.0)).otherwise(F.round(percent / 100, 5))


def _unless_empty(sketch: Column, told: Column) -> Column:
    # The library refuses to tell something of an empty sketch.
    return F.when(F.kll_sketch_get_n_bigint(sketch) > 0, told)


def ranks(values: Sequence[float], call: str, argument: str) -> list[float]:
    """Quantiles as a list.

    Raises:
        TailraceJoinError: one isn't from 0 to 1.
        TypeError: one isn't a number.
    """
    if not isinstance(values, list | tuple):
        raise TypeError(f"`{argument}` must be a list of numbers, not {type(values).__name__}.")
    for rank in values:
        if not isinstance(rank, int | float) or isinstance(rank, bool):
            raise TypeError(
                f"`{argument}` has a {type(rank).__name__} among its quantiles, which are numbers."
            )
        if not 0 <= rank <= 1:
            raise arguments.refused(call, argument, rank, "a quantile from 0 to 1")
    return [float(rank) for rank in values]
