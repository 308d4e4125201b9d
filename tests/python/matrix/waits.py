"""Which rows wait in the state of a join at the end of the first phase, by counting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matrix.rows import FIRST
from streams import NOON, second

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matrix.runs import Baselines
    from matrix.shape import Entry

# `after` of all entries, in seconds.
WINDOW = 30
# Of the first phase, at its end: its newest rows less the delay.
WATERMARK = 34

# The side of a row, and its time in seconds since 1970.
StoredRow = tuple[str, int]


def is_needed(entry: Entry, row: StoredRow, stored: Iterable[StoredRow]) -> bool:
    """Whether a row in the state of a join still waits for something.

    Others stay there until the whole section that they are in is dropped.

    Args:
        entry: the join.
        row: in its state.
        stored: all rows of its key that are there.
    """
    noon = round(NOON.timestamp())
    side, time = row[0], row[1] - noon
    is_inner = any(call.options.get("how") == "inner" for call in entry.calls)
    if side == "left":
        return not is_inner or time + WINDOW > WATERMARK
    if entry.of("sync_join") is not None:
        return True
    if entry.of("as_of") is not None:
        ages = [_seconds(call.options.get("max_age")) for call in entry.calls]
        return max(ages) == 0 or time > WATERMARK - max(ages)
    before = max(_seconds(call.options.get("before")) for call in entry.calls)
    if time > WATERMARK - before:
        return True
    is_matched_on_arrival = is_inner or entry.settings or entry.has("release")
    lefts = [at - noon for of, at in stored if of == "left"]
    return not is_matched_on_arrival and any(-before <= time - left <= WINDOW for left in lefts)


def further_parts(entry: Entry) -> dict[int, int]:
    """Of each hot key the number of its parts without the first one."""
    hot = next((call.options for call in entry.calls if "salted_keys" in call.options), None)
    return {} if hot is None else dict.fromkeys(hot["salted_keys"], hot["salt_buckets"] - 1)


def _seconds(duration: object) -> int:
    return 0 if duration is None else int(str(duration).partition(" ")[0])


def _is_taken(entry: Entry, number: int) -> bool:
    """Whether a label of the entry takes a right row with this `r_n`: `where="r_n % 2 = 1"`."""
    wheres = [call.options.get("where") for call in entry.calls if call.operator == "Examples.label"]
    return not wheres or any(where is None or number % 2 == int(where[-1]) for where in wheres)


def _emit(entry: Entry) -> object:
    return next((call.options["emit"] for call in entry.calls if "emit" in call.options), None)


class Waits:
    """Which rows have to be in the state at the end of the first phase, and which may be, by counting.

    A left row waits until it has come out, or its window has closed. A right row that is ahead of the
    watermark waits for left rows that are still to come, unless it can have one match only.
    """

    def __init__(self, entry: Entry, baselines: Baselines) -> None:
        rows = baselines.rows
        first = baselines.of(entry).first_rows
        lefts = [row for i in FIRST for row in rows.batches[i]["left"]]
        rights = [row for i in FIRST for row in rows.batches[i]["right"] if _is_taken(entry, row[3])]
        one_to_one = entry.of("sync_join") is not None or any(
            c.options.get("one_to_one") for c in entry.calls
        )
        pairs = any(c.options.get("how") == "inner" for c in entry.calls)
        amended = entry.has("amend_for")
        out = {row["l_id"] for row in first if row.get("final", True) and row.get("l_id") is not None}
        on_time = {row[0] for row in lefts} - rows.late
        if pairs:
            ends = {row[0]: second(row[2]) + WINDOW for row in lefts}
            # A row without a key has no pair.
            self.left_most = on_time - {row[0] for row in lefts if row[1] is None}
            self.left_least = set() if one_to_one else {n for n in self.left_most if ends[n] > WATERMARK}
        elif entry.of("Examples.sample") is not None or _emit(entry) == "late_positives":
            # Those whose last version doesn't come out have left the state, too.
            ends = {row[0]: second(row[2]) + WINDOW for row in lefts}
            self.left_most = on_time - out
            self.left_least = {n for n in on_time - out if ends[n] > WATERMARK}
        else:
            self.left_least = on_time - out
            self.left_most = on_time if amended else on_time - out
        self.right_most = {row[0] for row in rights}
        ahead = {row[0] for row in rights if second(row[2]) > WATERMARK} - rows.late
        self.right_least = set() if one_to_one else ahead
