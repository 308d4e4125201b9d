"""The place of a reader, and the values of JSON that it is saved as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace.reading import refusals
from tailrace.reading.folders import time_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORMAT = 1


@dataclass(frozen=True)
class Position:
    """The end of what a pass has emitted.

    Attributes:
        after: the name of the last finished window; None: none is.
        window: that of the window that is being read; None between two windows.
        rows: how many of its rows were emitted.
        digest: of its files.
        late: its files of late rows, by path below their folder and size. Others may come while it is read.
    """

    after: str | None = None
    window: str | None = None
    rows: int = 0
    digest: str = ""
    late: tuple[tuple[str, int], ...] = ()


def saved(position: Position, epoch: int, order: Mapping[str, Any]) -> dict[str, Any]:
    """A state.

    Args:
        position: of the reader.
        epoch: of its pass.
        order: the options that decide which rows of a window are emitted in which order.
    """
    return {
        "format": _FORMAT,
        "after": position.after,
        "window": position.window,
        "rows": position.rows,
        "files": position.digest,
        "late": [list(file) for file in position.late],
        "epoch": epoch,
        "order": dict(order),
    }


def loaded(state: Mapping[str, Any], order: Mapping[str, Any]) -> tuple[Position, int]:
    """The position of a state, and its epoch.

    Args:
        state: of `saved`.
        order: the options of the reader that resumes.

    Raises:
        TailraceWatermarkError: it is no state, or it is within a window and options of its order have
            changed.
    """
    try:
        position, epoch, before = _read(state)
    except (KeyError, TypeError, ValueError) as error:
        found = f"it has no {error}" if isinstance(error, KeyError) else repr(error)
        raise refusals.state(f"it isn't a `state_dict()` of this release ({found})") from error
    changed = [f"`{name}` ({before.get(name)!r} before)" for name in order if order[name] != before.get(name)]
    if position.window is not None and changed:
        within = f"it is within the window {position.window}"
        raise refusals.state(f"{within}, and options that order its rows have changed: {', '.join(changed)}")
    return position, epoch


def _read(state: Mapping[str, Any]) -> tuple[Position, int, dict[str, Any]]:
    if state["format"] != _FORMAT:
        raise ValueError(f"format {state['format']}")
    late = tuple((str(inside), int(size)) for inside, size in state["late"])
    names = (state["after"], state["window"])
    for name in names:
        if name is not None:
            time_of(name)
    position = Position(*names, int(state["rows"]), str(state["files"]), late)
    epoch = int(state["epoch"])
    if position.rows < 0 or epoch < 0:
        raise ValueError("a negative number")
    return position, epoch, dict(state["order"])
