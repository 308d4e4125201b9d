"""Two streams of many types whose query changes its columns, and what each row has to be then."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from streams import at

if TYPE_CHECKING:
    import random

    from pyspark.sql import DataFrame

    from tailrace.testing import StreamQuery, StreamTest

# What the streams have: both sides the same, each column named with its side's letter.
SOURCE = (
    "key long, ts timestamp, n int, f float, d decimal(5,2), note string, "
    "s struct<a: int, b: string>, l array<struct<a: int>>, m map<string, int>"
)

# Each column in the order of its widenings, and how to read a value of the source as one of it.
SHAPES: dict[str, list[str]] = {
    "n": ["n", "cast(n as bigint)", "cast(n as decimal(20,0))"],
    "f": ["f", "cast(f as double)"],
    "d": ["d", "cast(d as decimal(8,3))"],
    "note": ["note"],
    "s": [
        "s",
        "case when s is not null then named_struct('b', s.b, 'a', cast(s.a as bigint), 'c', s.b) end",
    ],
    "l": ["l", "transform(l, x -> named_struct('x', 'new', 'a', cast(x.a as bigint)))"],
    "m": ["m", "cast(m as map<string, bigint>)"],
}


def values(rng: random.Random) -> dict[str, Any]:
    def maybe(value: Any) -> Any:  # noqa: ANN401
        return None if rng.random() < 0.2 else value

    return {
        "n": maybe(rng.randint(-9, 9)),
        "f": maybe(rng.randint(-9, 9) / 4),
        "d": maybe(Decimal(rng.randint(-999, 999)) / 100),
        "note": maybe("x" * rng.randint(0, 20)),
        "s": maybe({"a": maybe(rng.randint(0, 9)), "b": maybe("b")}),
        "l": maybe([{"a": maybe(i)} for i in range(rng.randint(0, 3))]),
        "m": maybe({"k": rng.randint(0, 9)}),
    }


def shaped(row: dict[str, Any], arrived: dict[str, int], now: dict[str, int], side: str) -> dict[str, Any]:
    """A row as a query of the shapes `now` gives it that has read it with the shapes `arrived`."""
    out: dict[str, Any] = {}
    for name, shape in now.items():
        value = row[name] if name in arrived else None
        if name == "s" and shape == 1 and value is not None:
            value = {"b": value["b"], "a": value["a"], "c": value["b"] if arrived["s"] == 1 else None}
        if name == "l" and shape == 1 and value is not None:
            value = [{"x": "new" if arrived["l"] == 1 else None, "a": e["a"]} for e in value]
        out[f"{side}_{name}"] = value
    return out


def widened(shapes: dict[str, int], rng: random.Random) -> dict[str, int]:
    """Shapes of a later version: some columns are wider, some gone, some new, all in another order."""
    now = {name: min(len(SHAPES[name]) - 1, shape + rng.randint(0, 1)) for name, shape in shapes.items()}
    for name in list(now):
        if rng.random() < 0.2:
            del now[name]
    # None comes again in another type than it had.
    for name in set(SHAPES) - set(shapes):
        if rng.random() < 0.5:
            now[name] = len(SHAPES[name]) - 1
    names = list(now)
    rng.shuffle(names)
    return {name: now[name] for name in names}


class Evolving:
    """The two streams, and what has been added to them, with the shapes of the query that has read it."""

    def __init__(self, test: StreamTest, rng: random.Random) -> None:
        self.rng = rng
        self.sources = {side: test.source(f"id long, {SOURCE}") for side in "lr"}
        self.shapes = {side: {n: 0 for n in SHAPES if rng.random() < 0.7} for side in "lr"}
        self.rows: dict[str, dict[int, tuple[dict[str, Any], dict[str, int]]]] = {"l": {}, "r": {}}
        self.times: dict[str, dict[int, tuple[int, int]]] = {"l": {}, "r": {}}

    def are_rewritten(self) -> None:
        """Rows that wait have the columns of the query from now on, and no others."""
        for side, rows in self.rows.items():
            for number, (row, arrived) in rows.items():
                rows[number] = (row, {name: arrived[name] for name in arrived if name in self.shapes[side]})

    def change(self) -> None:
        self.shapes = {side: widened(shapes, self.rng) for side, shapes in self.shapes.items()}

    def frame(self, side: str) -> DataFrame:
        columns = [f"{SHAPES[name][shape]} as {side}_{name}" for name, shape in self.shapes[side].items()]
        own = [f"id as {side}_id", "key", f"ts as {side}_ts", *columns]
        self.rng.shuffle(own)
        return self.sources[side].frame.selectExpr(*own)

    def add(self, side: str, key: int, second: int) -> None:
        row = values(self.rng)
        number = len(self.rows[side])
        self.rows[side][number] = (row, self.shapes[side])
        self.times[side][number] = (key, second)
        ordered = [row[c] for c in ("n", "f", "d", "note", "s", "l", "m")]
        self.sources[side].add((number, key, at(second), *ordered))

    def add_some(self, begin: int, end: int, count: int = 6) -> None:
        for side in "lr":
            for _ in range(count):
                self.add(side, self.rng.randint(1, 4), self.rng.randint(begin, end))

    def matches(self, number: int, after: int) -> list[int]:
        key, second = self.times["l"][number]
        window = range(second, second + after + 1)
        return [r for r, (k, s) in self.times["r"].items() if k == key and s in window]

    def pairs(self, query: StreamQuery) -> list[tuple[int, int]]:
        """The ids of the rows that come out now, with -1 for no right row. All of them are checked."""
        query.run()
        pairs: list[tuple[int, int]] = []
        for row in query.new_rows():
            self.check(row, "l")
            labels = row.get("labels", [row])
            for label in labels:
                self.check(label, "r")
            pairs += [(row["l_id"], label["r_id"]) for label in labels] or [(row["l_id"], -1)]
        return pairs

    def check(self, row: dict[str, Any], side: str) -> None:
        """Whether a row that has come out has the values of the row that went in, in the newest shapes."""
        given, arrived = self.rows[side][row[f"{side}_id"]]
        expected = shaped(given, arrived, self.shapes[side], side)
        assert {name: row[name] for name in expected} == expected
