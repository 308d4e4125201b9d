"""A made sample in the layout of the Criteo attribution data set, from a seed.

The numbers are of no site. As in the real file, users see several banners of a campaign, some of them two of
one page in the same second. They click some, and convert days later or never; some convert twice. Some have
clicked before the file begins, and the file counts these clicks, though it doesn't have their lines.
"""

from __future__ import annotations

import gzip
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from criteo_layout import COLUMNS, DAY_S, WINDOW_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DAYS = 30
_DAYS_BEFORE = 5
_CLICKED = 0.35
_CONVERTED = 0.4
_AGAIN = 0.25
_ATTRIBUTED = 0.6
_BESIDE = 0.05
_MEAN_DELAY_S = 2 * DAY_S


@dataclass(frozen=True)
class _Impression:
    second: int
    clicked: bool


def write(path: Path, users: int = 400, seed: int = 7) -> None:
    """Writes the sample, compressed: about five impressions a user.

    Args:
        path: of the file to write.
        users: how many.
        seed: the same one makes the same sample.
    """
    rng = random.Random(seed)  # noqa: S311 - no secrets
    lines: list[dict[str, object]] = []
    for user in range(users):
        for campaign in rng.sample(range(1000, 1010), rng.choice((1, 1, 2))):
            lines.extend(_timeline(rng, 10_000 + user, campaign, 100_000 + 10 * len(lines)))
    lines.sort(key=lambda line: int(str(line["timestamp"])))
    text = "\n".join("\t".join(str(line[name]) for name in COLUMNS) for line in lines)
    with path.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
        packed.write(("\t".join(COLUMNS) + "\n" + text + "\n").encode())


def _timeline(rng: random.Random, user: int, campaign: int, first_id: int) -> Iterator[dict[str, object]]:
    """The lines of a user and a campaign."""
    shown = sorted(rng.randrange(-_DAYS_BEFORE * DAY_S, _DAYS * DAY_S) for _ in range(rng.randint(1, 8)))
    seen: list[_Impression] = []
    for second in shown:
        seen.append(_Impression(second, rng.random() < _CLICKED))
        if rng.random() < _BESIDE:
            seen.append(_Impression(second, clicked=False))
    bought = _conversions(rng, shown)
    of = [_next(bought, one.second) for one in seen]
    attributed = [rng.random() < _ATTRIBUTED for _ in bought]
    last_click: int | None = None
    for i, one in enumerate(seen):
        number = of[i]
        touches = [j for j, other in enumerate(of) if other == number and seen[j].clicked]
        counts = number is not None and one.clicked
        is_attributed = number is not None and bool(touches) and attributed[number]
        if one.second >= 0:
            yield {
                "timestamp": one.second,
                "uid": user,
                "campaign": campaign,
                "conversion": int(number is not None),
                "conversion_timestamp": -1 if number is None else bought[number],
                "conversion_id": -1 if number is None else first_id + number,
                "attribution": int(is_attributed),
                "click": int(one.clicked),
                "click_pos": touches.index(i) if counts else -1,
                "click_nb": len(touches) if counts else -1,
                "cost": f"{rng.expovariate(5_000):.8f}",
                "cpo": f"{rng.uniform(0.05, 0.5):.8f}",
                "time_since_last_click": -1 if last_click is None else one.second - last_click,
                **{f"cat{c}": rng.randrange(10**7) for c in range(1, 10)},
            }
        last_click = one.second if one.clicked else last_click


def _conversions(rng: random.Random, shown: list[int]) -> list[int]:
    """When the user converts, if at all: after some impression, in the order of time."""
    found: list[int] = []
    if rng.random() < _CONVERTED:
        found.append(rng.choice(shown) + 1 + int(rng.expovariate(1 / _MEAN_DELAY_S)))
        if rng.random() < _AGAIN:
            found.append(found[0] + 1 + int(rng.expovariate(1 / _MEAN_DELAY_S)))
    return found


def _next(bought: list[int], second: int) -> int | None:
    """The conversion that the data give an impression: the next one, if it is within 30 days."""
    for number, at in enumerate(bought):
        if at >= second:
            return number if at - second <= WINDOW_S else None
    return None
