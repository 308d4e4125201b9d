"""The campaign of each operator: a folder, the number of faults, and where its checkpoint and tasks are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import test_kill
import test_kill_as_of
import test_kill_examples
import test_kill_recursion
import test_kill_replays
import test_kill_sync
import test_kill_watermark
import test_kill_windows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from places import Place

CAMPAIGNS: Mapping[str, Callable[[Path, int, Place], None]] = {
    "join": test_kill.campaign,
    "sync_join": test_kill_sync.campaign,
    "as_of": test_kill_as_of.campaign,
    "examples": test_kill_examples.campaign,
    "filter_replays": test_kill_replays.campaign,
    "recursively": test_kill_recursion.campaign,
    "accurate_watermark": test_kill_watermark.campaign,
    "write_windows": test_kill_windows.campaign,
}
