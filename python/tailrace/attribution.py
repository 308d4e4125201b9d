"""Attributions: the impressions to which an event of `tailrace.examples` is credited."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from tailrace._bridge import arguments

if TYPE_CHECKING:
    from tailrace.options import Duration


# The error of a sum of weights such as 0.7, 0.2 and 0.1, as the JVM allows it.
_ROUNDED = 1e-9


@dataclass(frozen=True)
class Attribution:
    """The choice of the impressions to which an event is credited, made by `last_touch`, `linear` and so on.

    Attributes:
        kind: the name of the function that has made it.
        half_life: of `time_decay`.
        weights: of `position`: first, middle, last.
    """

    kind: str
    half_life: Duration | None = None
    weights: tuple[float, ...] | None = None

    def __str__(self) -> str:
        """In one line: "linear", "time_decay 1 hour", "position 0.4 0.2 0.4"."""
        of = [] if self.half_life is None else [self.half_life]
        return " ".join(map(str, [self.kind, *of, *(self.weights or ())]))


def last_touch() -> Attribution:
    """Credits an event to the latest of the impressions in whose window it is. The others don't have it."""
    return Attribution("last_touch")


def first_touch() -> Attribution:
    """Credits an event to the earliest of the impressions in whose window it is. The others don't have it."""
    return Attribution("first_touch")


def linear() -> Attribution:
    """Credits an event to all impressions in whose window it is, in equal shares."""
    return Attribution("linear")


def time_decay(half_life: Duration) -> Attribution:
    """Credits an event to all impressions in whose window it is, the more the nearer they are to it.

    Args:
        half_life: an impression has half the share of one that is nearer by this. Above zero.

    Raises:
        TailraceJoinError: a timedelta isn't above zero. A string is read when the examples are planned.
        TypeError: it is no duration.
    """
    if isinstance(half_life, timedelta) and half_life <= timedelta(0):
        raise arguments.refused("tailrace.time_decay", "half_life", half_life, "a duration above zero")
    return Attribution("time_decay", half_life=arguments.duration(half_life, "half_life"))


def position(first: float, middle: float, last: float) -> Attribution:
    """Credits an event to all impressions in whose window it is, by their place among them.

    Args:
        first: the share of the earliest one; 0 or more, and the three sum to 1.
        middle: the share of those between the earliest and the latest one, in equal parts. Where there are
            none, the others have their shares in proportion.
        last: the share of the latest one.

    Raises:
        TailraceJoinError: a share is below 0, or they don't sum to 1.
        TypeError: a share is no number.
    """
    weights = (arguments.rate(first, "first"), arguments.rate(middle, "middle"), arguments.rate(last, "last"))
    for name, weight in zip(("first", "middle", "last"), weights, strict=True):
        # NaN is neither.
        if not weight >= 0:
            raise arguments.refused("tailrace.position", name, weight, "0 or more")
    if not math.isclose(sum(weights), 1.0, rel_tol=0, abs_tol=_ROUNDED):
        given = ", ".join(map(repr, weights))
        raise arguments.refused(
            "tailrace.position", "first, middle, last", given, "three shares that sum to 1"
        )
    return Attribution("position", weights=weights)
