"""Plans a definition of `tailrace.examples`."""

# A definition's fields are its own and this module's.
# ruff: noqa: SLF001
# pyright: reportPrivateUsage=false

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace import _calls, _convert
from tailrace._example_parts import Features, Label, Sample, start
from tailrace.errors import TailraceJoinError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from tailrace.examples import Examples

IMPRESSIONS = "impressions"

_OWN_ON = 'on=[("column of the impressions", "its own column")]'
_WRONG_KIND = {
    True: "`{}` is a batch DataFrame, and stream() joins streams: call batch().",
    False: "`{0}` is a stream, and batch() joins batch DataFrames: call stream(), or batch({0}=...).",
}


def planned(of: Examples, *, streaming: bool) -> DataFrame:
    """The examples as a DataFrame; TailraceJoinError if a DataFrame of theirs is of the other kind."""
    named: list[Label | Features] = [*of._labels, *of._features]
    for name, frame in [(IMPRESSIONS, of._impressions), *((one.name, one.frame) for one in named)]:
        if frame.isStreaming != streaming:
            raise TailraceJoinError(
                _WRONG_KIND[streaming].format(name),
                condition="TAILRACE_JOIN_MIXED_BATCH_AND_STREAM",
                parameters={"argument": name},
            )
    sample = of._sample or Sample({}, {})
    with _told_whose_on(of, named):
        return _plan(of, sample)


def _plan(of: Examples, sample: Sample) -> DataFrame:
    return _calls.plan(
        "examples",
        of._impressions,
        [one.frame for one in of._labels],
        *_keys(of, of._labels),
        [start(one.since) for one in of._labels],
        [one.options for one in of._labels],
        [one.frame for one in of._features],
        *_keys(of, of._features),
        [one.options for one in of._features],
        [text for predicate, rate in sample.rates.items() for text in (predicate, _double(rate))],
        list(of._horizons),
        of._options | sample.options,
    )


def with_frames(of: Examples, frames: Mapping[str, DataFrame]) -> Examples:
    """The definition with other DataFrames, by their names; TypeError if it has no such name."""
    named: list[Label | Features] = [*of._labels, *of._features]
    unknown = set(frames) - {IMPRESSIONS, *(one.name for one in named)}
    if unknown:
        known = ", ".join(f"`{name}`" for name in (IMPRESSIONS, *(one.name for one in named)))
        raise TypeError(f"The examples have no `{min(unknown)}`. They have {known}.")
    for name, frame in frames.items():
        _convert.frame(frame, name)
    made: Examples = replace(
        of,
        _impressions=frames.get(IMPRESSIONS, of._impressions),
        _labels=tuple(replace(one, frame=frames.get(one.name, one.frame)) for one in of._labels),
        _features=tuple(replace(one, frame=frames.get(one.name, one.frame)) for one in of._features),
    )
    return made


@contextmanager
def _told_whose_on(of: Examples, sides: Sequence[Label | Features]) -> Generator[None]:
    """Says of an error about `on` of a label or of features if they have it from `tailrace.examples`."""
    try:
        yield
    except TailraceJoinError as e:
        call = e.parameters.get("call", "")
        for one in sides:
            if one.on is of._on and e.parameters.get("argument") == "on" and call.endswith(f" '{one.name}'"):
                e.add_note(f"'{one.name}' has the `on` of tailrace.examples. It may have its own: {_OWN_ON}.")
        raise


def _double(rate: float) -> str:
    """As Java reads it."""
    return "NaN" if math.isnan(rate) else repr(rate).replace("inf", "Infinity")


def _keys(of: Examples, sides: Sequence[Label | Features]) -> tuple[list[list[str]], list[list[str]]]:
    """The key columns of the impressions, and those of each other side."""
    left = _convert.Columns("tailrace.examples", of._impressions)
    pairs = [_convert.keys(one.on, left, _convert.Columns("tailrace.examples", one.frame)) for one in sides]
    return [lefts for lefts, _ in pairs], [rights for _, rights in pairs]
