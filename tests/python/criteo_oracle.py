"""The streams of a file in the Criteo layout, joined by loops."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from criteo_query import Credits, Examples, Joined

if TYPE_CHECKING:
    from collections.abc import Iterable

    from criteo_layout import Told

WINDOW_S = 30 * 86_400
WHOLE = 10**9


def joined(told: Told) -> Joined:
    """What has to come out. No two clicks of a user and a campaign may be in one second."""
    columns = {name: values.tolist() for name, values in told.columns.items()}
    keys = list(zip(columns["uid"], columns["campaign"], strict=True))
    bought: dict[int, tuple[tuple[int, int], int]] = {}
    for i, number in enumerate(columns["conversion_id"]):
        if columns["conversion"][i] == 1 and number >= 0:
            bought.setdefault(number, (keys[i], columns["conversion_timestamp"][i]))
    of_key = defaultdict(list)
    for number, (key, at) in bought.items():
        of_key[key].append((at, number))
    first_of = []
    for key, served in zip(keys, columns["timestamp"], strict=True):
        found = sorted((at, number) for at, number in of_key[key] if served <= at <= served + WINDOW_S)
        first_of.append(found[0][1] if found else -1)
    clicks = [i for i, clicked in enumerate(columns["click"]) if clicked]
    last, first, linear = [], [], []
    for number, (key, at) in bought.items():
        touches = [i for i in clicks if keys[i] == key and at - WINDOW_S <= columns["timestamp"][i] <= at]
        touches.sort(key=lambda i: columns["timestamp"][i])
        assert len({columns["timestamp"][i] for i in touches}) == len(touches)
        if touches:
            share = WHOLE // len(touches)
            last.append((touches[-1], number, WHOLE))
            first.append((touches[0], number, WHOLE))
            linear += [(i, number, share) for i in touches[:-1]]
            linear.append((touches[-1], number, WHOLE - share * (len(touches) - 1)))
    return Joined(
        Examples(np.arange(len(told)), told["click"] == 1, np.array(first_of)),
        np.array(clicks, np.int64),
        _credits(last),
        _credits(first),
        _credits(linear),
    )


def _credits(rows: Iterable[tuple[int, int, int]]) -> Credits:
    return Credits(*np.array([*rows], np.int64).reshape(-1, 3).T)


def as_sets(result: Joined) -> dict[str, list[tuple[int, ...]]]:
    """All rows of a result, in an order that doesn't depend on it."""
    examples = result.examples
    rows = zip(
        examples.impression.tolist(), examples.clicked.tolist(), examples.conversion.tolist(), strict=True
    )
    found: dict[str, list[tuple[int, ...]]] = {
        "examples": sorted(rows),
        "clicks": sorted((i,) for i in result.clicks.tolist()),
    }
    for name in ("last", "first", "linear"):
        own: Credits = getattr(result, name)
        shares = zip(own.impression.tolist(), own.conversion.tolist(), own.billionths.tolist(), strict=True)
        found[name] = sorted(shares)
    return found
