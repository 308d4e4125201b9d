"""What the streams of a run get: micro-batches of fifteen seconds each, and one that closes all windows.

    0 1 2     [0, 15), [15, 30), [30, 45) seconds after noon
    3         late right rows only. The watermark is at 34 s now, with a delay of 10 s
    4 5 6     the second phase: [45, 60), [60, 75), [75, 90)
    end       rows of 400 s

Each micro-batch ends with rows of keys 98 and 99 at its last second. They move watermarks and partitions, so
that it makes no difference whether rows of another key are there. Ids are unique, and so are the seconds of a
micro-batch on each side: the order of equal times isn't pinned. A query that adds a column takes `*_extra`.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streams import NOON, at

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator

SCHEMAS = {
    "left": "l_id long, key long, l_ts timestamp, l_n int, l_note string, l_extra string, "
    "part int, host string",
    "right": "r_id long, key long, r_ts timestamp, r_n int, r_note string, r_extra string, part int, of long",
    "profile": "p_id long, key long, p_ts timestamp, p_n int",
    "log": "pid long, source int, position long, topic string, partition int, offset long, "
    "at timestamp, n int",
    "stamped": "l_id long, key long, l_ts timestamp, l_n int, topic string, partition int, watermark binary",
}
# Right rows from before the streams. The key that is erased has none.
INITIAL: dict[str, list[tuple[Any, ...]]] = {
    "right": [(-key, key, at(-key), key, "note", "extra", 0, 0) for key in (2, 3)],
    "profile": [(-key, key, at(-key), key) for key in (2, 3)],
}
FIRST, SECOND = range(4), range(4, 7)
# The first phase ends with a micro-batch of late rows. Left rows wait for their release then, and are closed.
_ONLY_LATE = 3
END_SECOND = 400
ERASED = 1
_KEYS = (1, 2, 3, 4)
_WIDTH = 15
_WHOLE_SHARE = 10**18

Batch = dict[str, list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Variant:
    """What a run gets instead of all rows.

    Attributes:
        without_key: whether rows of the key `ERASED` are missing in the first phase.
        without_extra: whether the columns `*_extra` are null in the first phase.
        without_late: whether late rows are missing in the first phase.
        punctual: whether they are missing in both.
    """

    without_key: bool = False
    without_extra: bool = False
    without_late: bool = False
    punctual: bool = False


class Rows:
    """The rows of a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._ids = iter(range(1, 10**6))
        self._lefts: list[tuple[int, int, int]] = []
        self.late: set[int] = set()
        self._offsets = {0: 0, 1: 0}
        self._positions = {0: 0, 1: 0}
        self.batches: list[Batch] = [self._batch(i) for i in (*FIRST, *SECOND)]
        self.end: Batch = {
            "left": list(self._pacers_left(END_SECOND)),
            "right": list(self._pacers_right(END_SECOND)),
            "profile": [(next(self._ids), 98, at(END_SECOND), 0)],
            "log": [],
            "stamped": list(self._pacers_stamped(END_SECOND)),
        }

    def of(self, number: int, variant: Variant) -> Batch:
        """The rows of a micro-batch."""
        first = number in FIRST

        def kept(side: str, row: tuple[Any, ...]) -> bool:
            is_erased = variant.without_key and first and _key(side, row) == ERASED
            no_late = variant.punctual or (variant.without_late and first)
            return not is_erased and not (no_late and row[0] in self.late)

        return {
            side: [
                _without_extra(side, row) if variant.without_extra and first else row
                for row in rows
                if kept(side, row)
            ]
            for side, rows in self.batches[number].items()
        }

    def _batch(self, number: int) -> Batch:
        if number == _ONLY_LATE:
            rights = [self._late(self._right_row(key, 20 + key, 0, None)) for key in _KEYS]
            return {"left": [], "right": rights, "profile": [], "log": [], "stamped": []}
        begin = (number if number < _ONLY_LATE else number - 1) * _WIDTH
        return {
            "left": list(self._left(begin, number)),
            "right": list(self._right(begin, number)),
            "profile": list(self._profiles(begin)),
            "log": list(self._log(begin)),
            "stamped": list(self._stamped(begin)),
        }

    def _seconds(self, begin: int, count: int) -> list[int]:
        return [begin + s for s in self._random.sample(range(_WIDTH - 1), count)]

    def _left_row(self, key: int | None, when: int, part: int) -> tuple[Any, ...]:
        number = next(self._ids)
        if key is not None:
            self._lefts.append((number, key, when))
        host = "ab"[part]
        # Small, and not the same for equal keys: a recursion goes down it.
        return (number, key, at(when), number % 4, f"note {number}", f"extra {number}", part, host)

    def _left(self, begin: int, number: int) -> Iterator[tuple[Any, ...]]:
        seconds = self._seconds(begin, 7)
        if number == 0:
            # Their windows have closed when the second phase begins. One is of the key that is erased.
            seconds = [0, 1, *(s for s in seconds if s > 1)]
        for key, when in zip((*_KEYS, 1, 2, None), seconds[:7], strict=False):
            yield self._left_row(key, when, self._random.randrange(2))
        if number in {2, 5}:
            # Behind the watermark, and so is its window.
            yield self._late(self._left_row(3, begin - 45, 0))
        yield from self._pacers_left(begin + _WIDTH - 1)

    def _late(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        self.late.add(row[0])
        return row

    def _pacers_left(self, when: int) -> Iterator[tuple[Any, ...]]:
        for part in (0, 1):
            yield self._left_row(99, when, part)

    def _right_row(self, key: int, when: int, part: int, of: int | None) -> tuple[Any, ...]:
        number = next(self._ids)
        own = -number if of is None else of
        return (number, key, at(when), number % 5, f"label {number}", f"more {number}", part, own)

    def _right(self, begin: int, number: int) -> Iterator[tuple[Any, ...]]:
        for key, when in zip((*_KEYS, *_KEYS, 1), self._seconds(begin, 9), strict=True):
            # The left row of an id is at most ten seconds older, or two younger.
            near = [one for one in self._lefts if one[1] == key and -2 <= when - one[2] <= 10]
            chosen = self._random.choice(near) if near else None
            if chosen is not None:
                self._lefts.remove(chosen)
            yield self._right_row(key, when, self._random.randrange(2), chosen and chosen[0])
        if number in {1, 2, 5}:
            # Behind the watermark, while windows that it is in are open; and behind all that are.
            yield self._late(self._right_row(1 + number % 2, begin - 12, 0, None))
            yield self._late(self._right_row(2, begin - 60, 1, None))
        if number in SECOND:
            # For windows that have closed lately.
            for key in _KEYS:
                yield self._late(self._right_row(key, begin - 40 - key, 0, None))
        yield from self._pacers_right(begin + _WIDTH - 1)

    def _pacers_right(self, when: int) -> Iterator[tuple[Any, ...]]:
        for part in (0, 1):
            yield self._right_row(98, when, part, None)

    def _profiles(self, begin: int) -> Iterator[tuple[Any, ...]]:
        for key, when in zip((*_KEYS, 98), (*self._seconds(begin, 4), begin + _WIDTH - 1), strict=True):
            number = next(self._ids)
            yield (number, key, at(when), number % 7)

    def _log(self, begin: int) -> Iterator[tuple[Any, ...]]:
        for partition in (0, 1):
            for step in range(5):
                # The third record is written again, as after a failure of the producer.
                position = self._positions[partition] - (1 if step in {3, 4} else 0)
                self._positions[partition] = max(self._positions[partition], position + 1)
                yield (
                    *(7 + partition, partition, position),
                    *("t", partition, self._offsets[partition]),
                    *(at(begin + step), position),
                )
                self._offsets[partition] += 1

    def _stamped(self, begin: int) -> Iterator[tuple[Any, ...]]:
        for key, when in zip(_KEYS, self._seconds(begin, 4), strict=True):
            yield self._stamped_row(key, when, key % 2, max(0, begin - 5))
        yield from self._pacers_stamped(begin + _WIDTH - 1)

    def _pacers_stamped(self, when: int) -> Iterator[tuple[Any, ...]]:
        for part in (0, 1):
            yield self._stamped_row(99, when, part, when - 5)

    def _stamped_row(self, key: int, when: int, part: int, low: int) -> tuple[Any, ...]:
        number = next(self._ids)
        return (number, key, at(when), number % 4, "t", part, _stamp(at(low)))


def _stamp(low: dt.datetime) -> bytes:
    micros = round((low - NOON).total_seconds()) * 10**6 + round(NOON.timestamp()) * 10**6
    return struct.pack(">bqq", 1, micros, _WHOLE_SHARE)


def _key(side: str, row: tuple[Any, ...]) -> object:
    return row[1] if side in {"left", "right", "profile"} else None


def _without_extra(side: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*row[:5], None, *row[6:]) if side in {"left", "right"} else row
