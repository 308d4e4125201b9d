"""The ratio that rules for the rate of negatives achieve on made days with bursts: for ADR 31.

    .venv/bin/python benchmarks/negative_ratio.py

It simulates partitions, without Spark. `tests/python/test_examples_ratio.py` holds the operator to the rule
that is called "window" here.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

_RATIO = 3.0
_MINUTES = 24 * 60
_PARTITIONS = 32
_NEGATIVES_PER_POSITIVE = 50
_BURST_AT = 12  # tens of minutes within four hours

Counts = tuple[float, float]


def _rate(positives: float, negatives: float, least: float = 1.0) -> float:
    return min(1.0, _RATIO * max(least, positives) / max(1.0, negatives))


class Window:
    """The sums of the last releases."""

    def __init__(self, length: int) -> None:
        self._counts: deque[Counts] = deque(maxlen=length)

    def rate(self) -> float:
        """The rate of the next release."""
        if not self._counts:
            return 1.0
        return _rate(sum(p for p, _ in self._counts), sum(n for _, n in self._counts))

    def add(self, counts: Counts) -> None:
        """Counts a release."""
        self._counts.append(counts)


class Decay:
    """Sums in which a release weighs half as much as one that is nearer by a half-life."""

    def __init__(self, half_life: float) -> None:
        self._factor = 0.5 ** (1 / half_life)
        self._positives = self._negatives = 0.0

    def rate(self) -> float:
        """The rate of the next release."""
        return _rate(self._positives, self._negatives, least=1e-9) if self._negatives else 1.0

    def add(self, counts: Counts) -> None:
        """Counts a release."""
        self._positives = self._positives * self._factor + counts[0]
        self._negatives = self._negatives * self._factor + counts[1]


@dataclass
class Day:
    """A release per minute and partition: positives and negatives."""

    positives: np.ndarray
    negatives: np.ndarray


def _day(per_release: float, rng: np.random.Generator) -> Day:
    """Twice as many positives at noon as at midnight, and every four hours a burst of ten minutes.

    A burst has ten times as many.
    """
    minutes = np.arange(_MINUTES)
    curve = 1.0 - np.cos(2 * np.pi * minutes / _MINUTES) / 3
    burst = np.where(minutes % 240 // 10 == _BURST_AT, 10.0, 1.0)
    shape = (_PARTITIONS, _MINUTES)
    positives = rng.poisson(per_release * curve * burst, shape)
    negatives = rng.poisson(per_release * _NEGATIVES_PER_POSITIVE * np.ones(_MINUTES), shape)
    return Day(positives, negatives)


def _exact(day: Day) -> np.ndarray:
    """The rates of a batch job: by the counts of all partitions in each hour."""
    hours = (
        day.positives.sum(axis=0).reshape(-1, 60).sum(axis=1),
        day.negatives.sum(axis=0).reshape(-1, 60).sum(axis=1),
    )
    rates = [_rate(p, n) for p, n in zip(*hours, strict=True)]
    return np.broadcast_to(np.repeat(rates, 60), day.positives.shape)


def _rates(day: Day, made: Callable[[], Window | Decay]) -> np.ndarray:
    rates = np.empty(day.positives.shape)
    for partition in range(_PARTITIONS):
        rule = made()
        for minute in range(_MINUTES):
            rates[partition, minute] = rule.rate()
            rule.add((float(day.positives[partition, minute]), float(day.negatives[partition, minute])))
    return rates


_RULES: dict[str, Callable[[], Window | Decay] | None] = {
    "previous release": lambda: Window(1),
    "window of 10 minutes": lambda: Window(10),
    "window of 1 hour": lambda: Window(60),
    "window of 4 hours": lambda: Window(240),
    "decay, half-life of 1 hour": lambda: Decay(60),
    "exact by hour (batch)": None,
}


def main() -> None:
    """Prints the table."""
    print("| positives per release | rule | the day | hours, 5% to 95% | greatest weight | error |")
    print("|---|---|---|---|---|---|")
    for per_release in (0.02, 0.2, 2.0):
        rng = np.random.default_rng(1)
        day = _day(per_release, rng)
        for name, made in _RULES.items():
            rates = _exact(day) if made is None else _rates(day, made)
            # The first window has no counts before it.
            first = 240
            kept = rng.binomial(day.negatives, rates)[:, first:]
            positives = day.positives[:, first:]
            by_hour = kept.sum(axis=0).reshape(-1, 60).sum(axis=1) / positives.sum(axis=0).reshape(
                -1, 60
            ).sum(axis=1)
            low, high = np.quantile(by_hour, [0.05, 0.95])
            known = day.negatives[:, first:]
            spread = np.sqrt((known * (1 / rates[:, first:] - 1)).sum()) / known.sum()
            print(
                f"| {per_release} | {name} | {kept.sum() / positives.sum():.2f} | {low:.2f} to {high:.2f} | "
                f"{1 / rates[:, first:].min():,.0f} | {spread:.2%} |"
            )


if __name__ == "__main__":
    main()
