"""Random shapes of a column with structs, arrays and maps, and what a value of one is in another one.

A shape is a type that a value can be made in from one number: `int`, `bigint` or `string`, a struct as a
dict of its fields, `["array", shape]` or `["map", shape]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streams import at

if TYPE_CHECKING:
    import random

    from pyspark.sql import DataFrame

    from tailrace.testing import StreamTest

Shape = Any
_WIDER = {("int", "bigint")}


def expression(shape: Shape, number: str) -> str:
    """The SQL that makes a value of a column of numbers."""
    match shape:
        case "string":
            return f"concat('s', {number})"
        case str():
            return f"cast({number} as {shape})"
        case ["array", element]:
            return "array({0}, {0})".format(expression(element, number))
        case ["map", item]:
            return f"map('k', {expression(item, number)})"
        case _:
            fields = [f"'{name}', {expression(of, number)}" for name, of in shape.items()]
            return f"named_struct({', '.join(fields)})"


def value(shape: Shape, number: int) -> Any:  # noqa: ANN401 - of any shape
    """The same value in Python."""
    match shape:
        case "string":
            return f"s{number}"
        case str():
            return number
        case ["array", element]:
            return [value(element, number)] * 2
        case ["map", item]:
            return {"k": value(item, number)}
        case _:
            return {name: value(of, number) for name, of in shape.items()}


def _fits(was: Shape, now: Shape) -> bool:
    if isinstance(was, dict) and isinstance(now, dict):
        return True
    if isinstance(was, list) and isinstance(now, list):
        return was[0] == now[0] and _fits(was[1], now[1])
    return was == now or (isinstance(was, str) and isinstance(now, str) and (was, now) in _WIDER)


def projected(of: Any, was: Shape, now: Shape) -> Any:  # noqa: ANN401 - of any shape
    """A value in another shape: by the names of fields, with null for each field alone that doesn't fit."""
    if of is None or not _fits(was, now):
        return None
    if isinstance(now, dict):
        return {
            name: projected(of[name], was[name], field) if name in was else None
            for name, field in now.items()
        }
    if isinstance(now, list):
        if now[0] == "array":
            return [projected(element, was[1], now[1]) for element in of]
        return {key: projected(item, was[1], now[1]) for key, item in of.items()}
    return of


def made(rng: random.Random, depth: int) -> Shape:
    """Any shape, with structs in structs, arrays and maps down to a depth."""
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(["int", "bigint", "string"])
    fields = {name: made(rng, depth - 1) for name in rng.sample("pqr", rng.randint(1, 3))}
    return rng.choice([fields, ["array", fields], ["map", fields], ["array", rng.choice(["int", "string"])]])


def changed(shape: Shape, rng: random.Random) -> Shape:
    """The shape of the next start: a change that is accepted beside it."""
    match shape:
        case "int":
            return rng.choice(["int", "bigint"])
        case str():
            return shape
        case [kind, element]:
            return [kind, changed(element, rng)]
    fields = {name: changed(of, rng) for name, of in shape.items() if rng.random() < 0.7}
    for name in "pqr":
        # It may be one that was dropped before, in any type.
        if name not in shape and (rng.random() < 0.5 or not fields):
            fields[name] = made(rng, 1)
    if not fields:
        return shape
    names = list(fields)
    rng.shuffle(names)
    return {name: fields[name] for name in names}


class ShapedRows:
    """One side's stream, and each of its rows with the shape that the state has it in."""

    def __init__(self, test: StreamTest, side: str, first: int) -> None:
        self.rows: dict[int, tuple[Any, Shape]] = {}
        self._side, self._first = side, first
        self._source = test.source("id bigint, key bigint, ts timestamp, v bigint")

    def frame(self, shape: dict[str, Shape]) -> DataFrame:
        """The stream with a column for each field of a struct."""
        columns = [f"{expression(of, 'v')} as {self._side}_{name}" for name, of in shape.items()]
        return self._source.frame.selectExpr(
            f"id as {self._side}_id", "key", f"ts as {self._side}_ts", *columns
        )

    def add(self, number: int, shape: dict[str, Shape]) -> None:
        self.rows[number] = (value(shape, number), shape)
        self._source.add((number, number % 2, at(self._first + number), number))

    def are_rewritten(self, shape: dict[str, Shape]) -> None:
        """All rows so far are written again with the columns of a query."""
        self.rows = {number: (projected(of, was, shape), shape) for number, (of, was) in self.rows.items()}

    def check(self, row: dict[str, Any], now: dict[str, Shape]) -> None:
        """A row has the values of the row that went in, in the columns of now."""
        of, was = self.rows[row[f"{self._side}_id"]]
        assert {name: row[f"{self._side}_{name}"] for name in now} == projected(of, was, now)

    def check_some(self, frame: DataFrame, now: dict[str, Shape]) -> None:
        for row in frame.collect():
            self.check(row.asDict(recursive=True), now)

    def check_all(self, frame: DataFrame, now: dict[str, Shape]) -> None:
        self.check_some(frame, now)
        found = [row[f"{self._side}_id"] for row in frame.collect()]
        assert sorted(found) == sorted(self.rows)
