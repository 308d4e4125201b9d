"""What a campaign tells `join_worker.py`: options of the join, settings of the session, when files come."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

WORKER = Path(__file__).with_name("join_worker.py")
# The test reads in Spark's logs which files each micro-batch has read.
KEEPS_LOGS = {"spark.sql.streaming.minBatchesToRetain": "10000"}

_SLICES_A_SILENCE = 3
_LONGEST_SECONDS = 60


def configure(root: Path, settings: dict[str, str], **options: object) -> None:
    (root / "join.json").write_text(json.dumps([settings, options]))


def configured(root: Path) -> tuple[dict[str, str], dict[str, Any]]:
    settings, options = json.loads((root / "join.json").read_text())
    return settings, options


def configure_stall(root: Path, first: int, last: int) -> None:
    """Files of the right side from `first` on come only when the left ones before `last` have come."""
    _stall(root).write_text(json.dumps([first, last]))


def _stall(root: Path) -> Path:
    return root / "stall.json"


def later(root: Path) -> Path:
    """Where files are that have yet to come, by side. If it is there, they come with pauses."""
    return root / "later"


def _files(root: Path, side: str) -> list[Path]:
    return sorted((later(root) / side).glob("*.parquet"))


def feed(root: Path, query: StreamingQuery) -> None:
    """Lets the files in that have yet to come."""
    if _stall(root).exists():
        _feed_beside_a_stall(root, query)
    else:
        _feed_with_silences(root, query)


def _feed_beside_a_stall(root: Path, query: StreamingQuery) -> None:
    first, last = json.loads(_stall(root).read_text())
    while left := _files(root, "left"):
        number = int(left[0].stem)
        stalls = first <= number < last
        for file in [left[0], *([] if stalls else _files(root, "right"))]:
            if int(file.stem) <= number:
                file.rename(root / file.parent.name / file.name)
        query.processAllAvailable()


def _feed_with_silences(root: Path, query: StreamingQuery) -> None:
    """Lets the files in, one of each side at a time, and waits now and then until no left row waits any more.

    Files without one of the other side come only if there is nothing else.
    """
    slices = max(1, len(_files(root, "left")))
    for n in range(slices):
        for side in ("left", "right"):
            for file in _files(root, side)[:1]:
                file.rename(root / side / file.name)
        query.processAllAvailable()
        if n % _SLICES_A_SILENCE == _SLICES_A_SILENCE - 1 or n == slices - 1:
            _wait_for_silence(query)


def _wait_for_silence(query: StreamingQuery) -> None:
    end = time.monotonic() + _LONGEST_SECONDS
    while _waits(query):
        assert query.isActive
        assert time.monotonic() < end, "left rows wait, though nothing has come for long"
        time.sleep(0.02)


def _waits(query: StreamingQuery) -> bool:
    progress = query.lastProgress
    assert progress is not None
    return bool(progress["stateOperators"][0]["customMetrics"]["leftStoreBytes"])
