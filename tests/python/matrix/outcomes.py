"""What each cell of the matrix is.

The rules say it for all entries. What is refused by name stands in the rules, too: it is a part of the
contract, and the documentation may promise no more.
"""

from __future__ import annotations

from matrix.actions import ACTIONS
from matrix.pins import CHECKPOINTS
from matrix.shape import Entry, Equal, MayRefuse, NotApplicable, Outcome, Refused

UNSUPPORTED = "TAILRACE_STATE_EXCHANGE_UNSUPPORTED"
INCOMPATIBLE = "TAILRACE_CHECKPOINT_INCOMPATIBLE"
UNFIT = "TAILRACE_STATE_EXCHANGE_UNFIT"
WITHOUT_JOIN = "TAILRACE_CHECKPOINT_WITHOUT_JOIN"

_COLUMNS = ("added", "dropped", "widened")
_IMPORTS = ("import_session", "import_query")


def outcome(entry: Entry, action: str) -> Outcome:
    """What an action gives for an entry."""
    if action in {"restart", "crash", "pinned"}:
        return Equal()
    if action == "kept":
        kept = entry.name in CHECKPOINTS
        return Equal() if kept else NotApplicable("another entry has the same bytes")
    if not entry.state:
        return _without_state(entry, action)
    rules = {
        **dict.fromkeys(_IMPORTS, _imported),
        "longer": _longer,
        "readers": _read,
    }
    return rules[action](entry, action) if action in rules else Equal()


def _without_state(entry: Entry, action: str) -> Outcome:
    if action in {"readers", "why", "longer", "twice", *_COLUMNS}:
        return NotApplicable("it keeps no rows in a join")
    if action == "erase" and entry.name.startswith("recursion-feedback"):
        return Refused("TAILRACE_STATE_ERASE_RECURSION")
    return Refused(WITHOUT_JOIN)


def _imported(entry: Entry, action: str) -> Outcome:
    join = entry.of("join") or entry.of("examples")
    # A note of a match is of a right row, whose left row is no longer there.
    if entry.has("orphans"):
        return Refused(UNSUPPORTED)
    if join is None or entry.has("salted_keys") or len(_joins(entry)) > 1 or entry.of("accurate_watermark"):
        return Refused(UNSUPPORTED)
    # A session doesn't know which left rows of the export are events of others, too.
    if action == "import_session" and entry.has("attribution"):
        return Refused("TAILRACE_STATE_EXCHANGE_QUERY_NEEDED")
    if entry.settings:
        return MayRefuse(UNFIT, "eager matching doesn't note which labels came late for a row that waits")
    return Equal()


def _joins(entry: Entry) -> list[str]:
    with_state = ("join", "as_of", "sync_join", "examples", "Examples.features")
    return [call.operator for call in entry.calls if call.operator in with_state]


def _read(entry: Entry, _: str) -> Outcome:
    if len(_joins(entry)) > 1:
        return NotApplicable("which of two joins a row waits in isn't counted by hand")
    return Equal()


def _longer(entry: Entry, _: str) -> Outcome:
    empty = {
        "it has no window": not entry.longer,
        "rows that have left the first join wait in the second one": len(_joins(entry)) > 1,
        "rows that have been paired could have had others": entry.has("one_to_one")
        and entry.of("join") is not None,
    }
    reason = next((reason for reason, applies in empty.items() if applies), None)
    if reason is not None:
        return NotApplicable(reason)
    only_newest = entry.of("as_of") is not None or entry.of("sync_join") is not None
    # With an attribution, impressions of before that would have had a share are gone.
    is_bound = entry.has("early") or entry.has("horizons") or entry.has("attribution")
    return Refused(INCOMPATIBLE) if only_newest or is_bound else Equal()


def cells(entry: Entry) -> list[tuple[str, Outcome]]:
    """All cells of an entry that aren't empty."""
    found = [(action, outcome(entry, action)) for action in ACTIONS]
    return [one for one in found if not isinstance(one[1], NotApplicable)]
