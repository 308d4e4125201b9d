"""The matrix: each action on each operator with each set of options (`matrix/__init__.py`).

Every run takes some cells of a few entries, by a seed, which each failure names.
`TAILRACE_SEED` sets it, and `TAILRACE_MATRIX` takes other cells:

    TAILRACE_MATRIX=all                the whole
    TAILRACE_MATRIX=join,as_of         those of these operators
    TAILRACE_MATRIX=3/8                the third of eight slices
    TAILRACE_MATRIX=join-early/erase   one cell; `join-early` all of one entry, `/erase` one action of all
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from matrix.actions import ACTIONS, Cell, CellError, Changed, condition_of
from matrix.entries import ENTRIES
from matrix.outcomes import cells
from matrix.runs import Baselines
from matrix.shape import MayRefuse, Refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from matrix.shape import Entry, Outcome

_ALL = [(entry, action, outcome) for entry in ENTRIES for action, outcome in cells(entry)]
_SEED = int(os.environ.get("TAILRACE_SEED") or random.randrange(10**6))
_OF_EACH = 2
_BY_NAME = {entry.name: entry for entry in ENTRIES}


def _chosen(asked: str | None) -> list[tuple[Entry, str, Outcome]]:
    if asked is None:
        return _few(random.Random(_SEED))
    if asked == "all":
        return _ALL
    number, _, parts = asked.partition("/")
    if number.isdigit():
        # Whole entries: their runs without an action are made once.
        names = list(_BY_NAME)[int(number) - 1 :: int(parts)]
        return [cell for cell in _ALL if cell[0].name in names]
    wanted = [one.partition("/") for one in asked.split(",")]
    found = [
        cell
        for cell in _ALL
        if any(w[0] in {"", cell[0].name, cell[0].operator} and w[2] in {"", cell[1]} for w in wanted)
    ]
    if not found:
        raise pytest.UsageError(f"TAILRACE_MATRIX={asked} names no cell")
    return found


def _few(draw: random.Random) -> list[tuple[Entry, str, Outcome]]:
    """Some cells of a few entries: what all cells of an entry need is run once."""
    entries = draw.sample(ENTRIES, len(ENTRIES) // 16)
    each = [[cell for cell in _ALL if cell[0] is entry] for entry in entries]
    return [cell for mine in each for cell in draw.sample(mine, min(_OF_EACH, len(mine)))]


def _parameters() -> Iterator[Any]:
    for entry, action, outcome in _chosen(os.environ.get("TAILRACE_MATRIX")):
        yield pytest.param(entry.name, action, outcome, id=f"{entry.name}/{action}")


@pytest.fixture(scope="module")
def baselines(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:  # noqa: ANN401
    @cache
    def of(entry: str) -> Baselines:
        return Baselines(spark, tmp_path_factory.mktemp(entry), _SEED)

    return of


@pytest.mark.guard
@pytest.mark.parametrize(("name", "action", "outcome"), list(_parameters()))
def test_a_cell(baselines: Any, tmp_path: Path, name: str, action: str, outcome: Outcome) -> None:  # noqa: ANN401
    print(f"TAILRACE_SEED={_SEED} TAILRACE_MATRIX={name}/{action}")
    entry = _BY_NAME[name]
    cell = Cell(entry, action, baselines(name), tmp_path, _SEED, dict(cells(entry)))
    act = ACTIONS[action]
    if isinstance(outcome, Refused):
        assert isinstance(act, Changed)
        act.refused(cell, outcome.condition)
        return
    try:
        act(cell)
    except Exception as error:
        condition = None if isinstance(error, CellError) else condition_of(error)
        if condition is None:
            raise
        if not isinstance(outcome, MayRefuse) or condition != outcome.condition:
            raise CellError(f"refused by {condition}: {error}") from error
        assert isinstance(act, Changed)
        act.refused(replace(cell, directory=tmp_path / "refused"), condition)
