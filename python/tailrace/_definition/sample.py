"""The sample of training examples: rates by predicate, or a ratio of negatives to positives."""

# Callers without a type checker pass values of other types: they are checked all the same.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace._bridge import arguments
from tailrace._definition.text import call_text, shown

if TYPE_CHECKING:
    from tailrace.options import Duration


@dataclass(frozen=True)
class Sample:
    """The arguments of `Examples.sample`: rates by predicate, or ratios by label."""

    rates: dict[str, float]
    ratio: dict[str, float]
    options: dict[str, object]

    @classmethod
    def of(
        cls,
        rates: Mapping[str, float] | None,
        ratio: Mapping[str, float] | None,
        *,
        seed: int,
        weight: str,
        over: Duration | None,
        start: float | None,
    ) -> Sample:
        """Checks the arguments of `Examples.sample`.

        Raises:
            TailraceJoinError: a rate isn't from 0 to 1, a ratio isn't above 0, or there is none of both.
            TypeError: an argument has a wrong Python type.
        """
        shares = _shares_of({} if rates is None else rates, needed=ratio is None)
        ratios = {} if ratio is None else _ratios_of(ratio)
        options = arguments.counts(seed=seed) | arguments.texts(weight=weight)
        if over is not None:
            options |= arguments.durations(over=over)
        if start is not None:
            options["start"] = _start_of(start)
        return cls(shares, ratios, options)

    def fields(self) -> dict[str, object]:
        """The sample as `ExampleSample` of the JVM reads it."""
        return {
            "rates": [{"predicate": predicate, "rate": rate} for predicate, rate in self.rates.items()],
            "ratio": [{"label": label, "ratio": ratio} for label, ratio in self.ratio.items()],
            **self.options,
        }

    def text(self) -> str:
        """The call that makes it."""
        rates = [self.rates] if self.rates else []
        ratio = {"ratio": self.ratio} if self.ratio else {}
        return call_text("sample", *rates, **ratio, **shown(self.options))


def _shares_of(rates: Mapping[str, float], *, needed: bool) -> dict[str, float]:
    """The rates of a sample, by predicate.

    Raises:
        TailraceJoinError: one isn't from 0 to 1, or there is none and they are needed.
        TypeError: they are no mapping of strings to numbers.
    """
    arguments.kind(rates, Mapping, "rates")
    shares = {arguments.text(one, "rates"): arguments.rate(share, "rates") for one, share in rates.items()}
    if needed and not shares:
        one = 'one predicate or more, each with its rate, such as {"size(click) = 0": 0.1}'
        allowed = f"{one}, or none with `ratio`"
        raise arguments.refused("tailrace.examples", "rates", {}, allowed)
    for predicate, share in shares.items():
        # NaN is neither.
        if not 0 <= share <= 1:
            raise arguments.refused("tailrace.examples", f"the rate of {predicate}", share, "0 to 1")
    return shares


def _ratios_of(ratio: Mapping[str, float]) -> dict[str, float]:
    """The ratios of a sample, by label.

    Raises:
        TailraceJoinError: one isn't above 0, or there is none.
        TypeError: they are no mapping of strings to numbers.
    """
    arguments.kind(ratio, Mapping, "ratio", 'such as {"click": 3}')
    wanted = "a number above 0"
    ratios = {
        arguments.text(label, "ratio"): arguments.rate(one, "ratio", wanted) for label, one in ratio.items()
    }
    if not ratios:
        allowed = 'one label or more, each with its negatives per positive, such as {"click": 3}'
        raise arguments.refused("tailrace.examples", "ratio", {}, allowed)
    for label, one in ratios.items():
        # NaN is neither.
        if not 0 < one < math.inf:
            raise arguments.refused("tailrace.examples", f"the ratio of '{label}'", one, wanted)
    return ratios


def _start_of(start: float) -> float:
    """The rate of a partition that hasn't emitted an example.

    Raises:
        TailraceJoinError: it isn't above 0, or above 1.
        TypeError: it is no number.
    """
    rate = arguments.rate(start, "start")
    if not 0 < rate <= 1:
        raise arguments.refused("tailrace.examples", "start", rate, "above 0, and at most 1")
    return rate
