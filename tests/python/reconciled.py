"""Landed rows and a batch answer as lists, and the counts of `tailrace.reconcile` in pure Python."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from streams import at, second

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

LABELS = ("buy", "click")
_EVENT = "array<struct<id: long, price: double, tags: map<string, double>>>"
SCHEMA = (
    "user long, item string, at timestamp, position double, facts map<string, double>, "
    f"click {_EVENT}, buy {_EVENT}"
)
KEYS = ("user", "item", "at")
WINDOW = 100


class Example(NamedTuple):
    """A row of either side; `at` is its second."""

    user: int | None
    item: str | None
    at: int
    position: float | None
    facts: dict[str, float | None] | None
    click: list[tuple[int, float | None, dict[str, float]]] | None
    buy: list[tuple[int, float | None, dict[str, float]]] | None

    @property
    def key(self) -> tuple[int | None, str | None, int]:
        return self.user, self.item, self.at

    @property
    def window(self) -> int:
        return self.at // WINDOW * WINDOW


def frame(spark: SparkSession, rows: Sequence[Example]) -> DataFrame:
    """A DataFrame of examples."""
    return spark.createDataFrame([(*row[:2], at(row.at), *row[3:]) for row in rows], SCHEMA)


def examples(rng: random.Random, count: int) -> list[Example]:
    """Random examples with keys of their own, with nulls, NaN and negative zeros everywhere."""
    numbers = [None, math.nan, -0.0, 0.0, 1.5]
    keys = {
        (rng.choice([None, *range(5)]), rng.choice([None, "a", "<b>"]), rng.randrange(3 * WINDOW))
        for _ in range(count)
    }

    def group() -> list[tuple[int, float | None, dict[str, float]]] | None:
        made = [(i, rng.choice(numbers), {"x": 1.0, "y": math.nan}) for i in range(rng.randrange(3))]
        return None if rng.random() < 0.1 else made

    return [
        Example(*key, rng.choice(numbers), rng.choice([None, {}, {"p": None, "q": -0.0}]), group(), group())
        for key in sorted(keys, key=str)
    ]


def respelled(rng: random.Random, row: Example) -> Example:
    """The same example, with zeros of the other sign and maps in another order."""

    def number(value: float | None) -> float | None:
        return -value if value == 0 and rng.random() < 0.5 else value

    def turned(values: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if values is None else {k: number(v) for k, v in reversed(values.items())}

    def group(events: Any) -> Any:  # noqa: ANN401
        return events and [(i, number(price), turned(tags)) for i, price, tags in events]

    return Example(*row[:3], number(row.position), turned(row.facts), group(row.click), group(row.buy))


def changed(rng: random.Random, row: Example) -> tuple[Example, set[str]]:
    """The example with some columns changed, and their names."""
    ways: dict[str, Callable[[Any], Any]] = {
        "position": lambda value: 7.0 if value is None else None,
        "facts": lambda value: {"r": 1.0} if not value else {**value, "q": 3.0},
        "click": lambda value: [] if value is None else None,
        "buy": lambda value: [*(value or []), (9, math.nan, {})],
    }
    names = rng.sample(sorted(ways), rng.randint(1, 4))
    return row._replace(**{name: ways[name](getattr(row, name)) for name in names}), set(names)


def canonical(value: Any) -> Any:  # noqa: ANN401
    """A value that Python compares as Spark's `<=>` does."""
    match value:
        case float():
            return "NaN" if math.isnan(value) else value + 0.0
        case dict():
            return "map", frozenset((k, canonical(v)) for k, v in value.items())
        case list() | tuple():
            return tuple(map(canonical, value))
        case _:
            return value


@dataclass
class Counted:
    """What a window has to have."""

    landed_rows: int = 0
    batch_rows: int = 0
    missing: int = 0
    extra: int = 0
    differing: int = 0
    repeated_keys: int = 0
    of_label: Counter[str] = field(default_factory=Counter)


@dataclass
class Difference:
    """What a key has to have."""

    kind: str
    columns: frozenset[str]
    landed_rows: int
    batch_rows: int
    differences: int


def brute_force(
    landed: Iterable[Example], batch: Iterable[Example]
) -> tuple[dict[int, Counted], dict[tuple[Any, ...], Difference]]:
    """The counts by window, and the differences by key."""
    sides: list[dict[tuple[Any, ...], list[Example]]] = [defaultdict(list), defaultdict(list)]
    windows: dict[int, Counted] = defaultdict(Counted)
    for side, name, rows in ((0, "landed", landed), (1, "batch", batch)):
        for row in rows:
            sides[side][row.key].append(row)
            window = windows[row.window]
            setattr(window, f"{name}_rows", getattr(window, f"{name}_rows") + 1)
            for label in LABELS:
                group = getattr(row, label)
                if group is not None:
                    window.of_label[f"{label} {name}_rows"] += 1
                    window.of_label[f"{label} {name}_matched"] += bool(group)
                    window.of_label[f"{label} {name}_labels"] += len(group)
    differences: dict[tuple[Any, ...], Difference] = {}
    for key in {*sides[0], *sides[1]}:
        ours, theirs = (side.get(key, []) for side in sides)
        window = windows[key[2] // WINDOW * WINDOW]
        left, right = (Counter(canonical(row) for row in rows) for rows in (ours, theirs))
        rest, lack = (left - right).total(), (right - left).total()
        differing, extra, missing = min(rest, lack), max(0, rest - lack), max(0, lack - rest)
        repeated = len(ours) > 1 or len(theirs) > 1
        columns: frozenset[str] = frozenset()
        if not repeated and ours and theirs:
            of = zip(Example._fields, canonical(ours[0]), canonical(theirs[0]), strict=True)
            columns = frozenset(name for name, one, other in of if one != other)
        window.missing += missing
        window.extra += extra
        window.differing += differing
        window.repeated_keys += repeated
        for label in LABELS:
            window.of_label[f"{label} differing"] += differing if repeated else label in columns
        if rest or lack:
            kind = "duplicate" if repeated else "missing" if missing else "extra" if extra else "differing"
            differences[key] = Difference(kind, columns, len(ours), len(theirs), missing + extra + differing)
    return windows, differences


def by_window(rows: Iterable[Row]) -> dict[int, Row]:
    """Rows of `windows` by the second at which the window begins."""
    return {second_of(row.window_start): row for row in rows}


def second_of(moment: Any) -> int:  # noqa: ANN401
    """The second of a timestamp that was collected, which has no zone."""
    return second(moment.astimezone(at(0).tzinfo))


def key_of(row: Row) -> tuple[Any, ...]:
    """The key of a row of `differences`, as `Example.key`."""
    return row.key.user, row.key.item, second_of(row.key.at)
