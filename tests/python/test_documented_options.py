"""The pages are held to the catalogue of the matrix.

It says which options there are, their values, and which may change when a query resumes from its checkpoint.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import pages
from matrix.operators import OPERATORS, choices, parameters
from matrix.restarts import INCOMPATIBLE, RESTARTS

if TYPE_CHECKING:
    from pathlib import Path

GUARANTEES = "docs/explanation/guarantees.md"
COMPARED = "docs/explanation/compared.md"
_GUIDES = {
    "join": ("label-join",),
    "as_of": ("as-of",),
    "sync_join": ("synced-join",),
    "examples": ("training-examples",),
    "Examples.label": ("training-examples",),
    "Examples.features": ("training-examples",),
    "Examples.horizons": ("versions-of-examples",),
    "Examples.sample": ("training-examples",),
    "accurate_watermark": ("complete-windows", "watermark-server"),
    "stamped_watermark": ("complete-windows",),
    "stamp_watermark": ("complete-windows",),
    "write_windows": ("complete-windows", "lakehouse", "watermark-server"),
    "stream_metadata": ("replays",),
    "filter_replays": ("replays",),
    "recursively": ("recursion",),
}
# The rows of the table of changes, and the operators whose options each of them has.
_ROWS = {
    "`join`": ("join",),
    "`examples`": (
        "examples",
        "Examples.label",
        "Examples.features",
        "Examples.horizons",
        "Examples.sample",
    ),
    "`sync_join`": ("sync_join",),
    "`as_of`": ("as_of",),
    "`accurate_watermark`, `stamped_watermark`": ("accurate_watermark", "stamped_watermark"),
    "`write_windows`": ("write_windows",),
    "`filter_replays`": ("filter_replays",),
    "`recursively`": ("recursively",),
}
# The joins whose settings the table of pinned settings has, with the operators that they are made by.
_JOINS = {
    "join": ("join",),
    "examples": ("examples", "Examples.label", "Examples.horizons", "Examples.sample"),
    "as_of": ("as_of", "Examples.features"),
    "sync_join": ("sync_join",),
}
# Options that a checkpoint has under the name of another setting.
_PINNED_AS = {
    "early": "horizons",
    "emit": "horizons",
    "salt_buckets": "salted_keys",
    "attribution": "examples: LABEL",
    "seed": "examples: sample seed",
}
# Where a server is, and the application there, which a sink has in common with its sources.
_WITHOUT_RESTART = frozenset({"server", "token", "app"})
# Options of Spark's with these names.
_ALSO_OF_SPARK = frozenset({"format", "mode"})


@pytest.mark.parametrize("name", OPERATORS)
def test_a_guide_names_each_option(repository: Path, name: str) -> None:
    if name not in _GUIDES:
        # The attributions, whose arguments are no options.
        assert not OPERATORS[name].options
        return
    text = "".join((repository / f"docs/guides/{page}.md").read_text() for page in _GUIDES[name])
    wanted = OPERATORS[name].options
    assert [one for one in wanted if not re.search(rf"`[^`]*\b{one}\b[^`]*`|\b{one}=", text)] == []


def test_values_in_the_pages_exist(repository: Path) -> None:
    values: dict[str, set[str]] = {}
    for operator in OPERATORS.values():
        for name in parameters(operator).keys() - _ALSO_OF_SPARK:
            values.setdefault(name, set()).update(choices(operator, name))
    found = [
        (file.name, name, value)
        for file in pages.written(repository)
        for name, value in re.findall(r'\b(\w+)="([^"]*)"', file.read_text())
        if values.get(name)
    ]
    assert len(found) > 20
    assert [one for one in found if one[2] not in values[one[1]]] == []


def _table(repository: Path) -> dict[str, tuple[set[str], set[str]]]:
    """By the row of the table of changes: the names that may be changed, and those that are refused."""
    lines = (repository / GUARANTEES).read_text().splitlines()
    begin = lines.index("| | may be changed | refused by name |")
    rows = {}
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        head, changed, refused = (cell.strip() for cell in line.strip("|").split(" | "))
        rows[head] = (set(re.findall(r"`(\w+)`", changed)), set(re.findall(r"`(\w+)`", refused)))
    return rows


def _options(operators: tuple[str, ...]) -> set[str]:
    found = [OPERATORS[operator] for operator in operators]
    return {option for operator in found for option in operator.options if option not in operator.of_library}


@pytest.mark.parametrize("row", _ROWS)
def test_guarantees_says_of_each_option_whether_it_may_change(repository: Path, row: str) -> None:
    operators = _ROWS[row]
    accepted, refused = (
        {
            option
            for one in RESTARTS
            for option in one.options
            if one.operator in operators and (one.refused is None) == wanted
        }
        for wanted in (True, False)
    )
    known = _options(operators)
    assert known - accepted - refused - _WITHOUT_RESTART == set(), "no restart changes them"
    changed, fixed = (names & known for names in _table(repository)[row])
    assert changed - _WITHOUT_RESTART == accepted & known - _WITHOUT_RESTART
    assert fixed == refused & known


def _pinned(repository: Path) -> dict[str, set[str]]:
    """By the join: the settings that its checkpoints pin. `RestartDecisionsSuite` compares the table."""
    text = (repository / GUARANTEES).read_text()
    table = re.search(r"<!-- pinned settings[^\n]*\n(.*?)\n<!-- end", text, re.DOTALL)
    assert table
    head, _, *lines = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()
    )
    joins = [name.strip("`") for name in head[1:]]
    assert joins == list(_JOINS)
    return {join: {line[0].strip("`") for line in lines if line[1 + i]} for i, join in enumerate(joins)}


@pytest.mark.parametrize("join", _JOINS)
def test_a_restart_is_refused_for_a_setting_that_is_pinned(repository: Path, join: str) -> None:
    refused = {
        _PINNED_AS.get(option, option)
        for one in RESTARTS
        for option in one.options
        if one.operator in _JOINS[join] and one.refused == INCOMPATIBLE
    }
    pinned = _pinned(repository)[join]
    assert refused
    assert refused - pinned == set()
    # With horizons, which fix the labels' windows, no restart of the matrix changes `after`.
    assert (pinned & _options(_JOINS[join])) - refused - ({"after"} if join == "examples" else set()) == set()


def test_every_row_of_the_table_is_known(repository: Path) -> None:
    assert set(_table(repository)) == set(_ROWS)


def test_what_is_fixed_in_the_comparison_is_refused(repository: Path) -> None:
    text = " ".join((repository / COMPARED).read_text().split())
    sentence = re.search(r"keys, ([^;.]*?) are fixed", text)
    assert sentence
    names = set(re.findall(r"`(\w+)`", sentence[1]))
    assert names
    assert names <= {option for one in RESTARTS if one.refused for option in one.options}
