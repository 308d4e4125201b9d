"""kill -9 of a query that lands windows: no row is lost or lands twice, and marked windows are complete.

`TAILRACE_KILLS` sets the number of kills, one by default.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from killing import LOCAL, SEED, kill_count, run_to_the_end

from arrivals import arrive

if TYPE_CHECKING:
    from places import Place

pytestmark = pytest.mark.campaign

_WORKER = Path(__file__).with_name("windows_worker.py")
FILES_PER_KILL = 10
_WINDOW = 40
_HOSTS = 8
_START = 1_767_268_800  # 2026-01-01T12:00:00Z
_SECOND = 1_000_000

Row = tuple[str, int, int]


class Logs:
    """Files of logs, each of them a micro-batch, and where its rows have to land: ids by directory."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        self.truth: dict[str, set[int]] = defaultdict(set)
        self._root = root
        self._rng = rng
        self._ids = 0
        self._low = 0
        (root / "logs").mkdir()

    def write(self, files: int) -> None:
        """Each host's log in order, but for some rows that come too late for sure."""
        positions = dict.fromkeys((f"h{i}" for i in range(_HOSTS)), 0)
        self._file(0, [(host, 0) for host in positions], 0)
        for number in range(1, files):
            rows = []
            for host in self._rng.sample(sorted(positions), 3):
                for _ in range(5):
                    positions[host] += self._rng.randrange(8 if host == "h0" else 12)
                    rows.append((host, positions[host]))
            if self._rng.random() < 0.3:
                rows.append(("h1", self._rng.randrange(self._low + 1)))
            self._file(number, rows, min(positions.values()))
        end = max(positions.values()) // _WINDOW * _WINDOW + 2 * _WINDOW
        self._file(files, [(host, end) for host in positions], end)
        # With few files no other row may have been late.
        self._file(files + 1, [("h1", 0)], end)

    def _file(self, number: int, rows: list[tuple[str, int]], low: int) -> None:
        table = []
        for host, second in rows:
            start = second // _WINDOW * _WINDOW
            minutes, seconds = divmod(start, 60)
            name = f"window_start=20260101T{12 + minutes // 60}{minutes % 60:02d}{seconds:02d}Z"
            late = start + _WINDOW <= self._low
            self.truth[f"_late/{name}" if late else name].add(self._ids)
            table.append((host, (_START + second) * _SECOND, self._ids))
            self._ids += 1
        self._low = low
        columns = {
            "host": pa.array([host for host, _, _ in table], pa.string()),
            "at": pa.array([at for _, at, _ in table], pa.timestamp("us", "UTC")),
            "id": pa.array([id_ for _, _, id_ in table], pa.int64()),
        }
        arrive(self._root / "logs", number, pa.table(columns))


def landed_ids(folder: Path) -> list[int]:
    return [row["id"] for file in sorted(folder.glob("*.parquet")) for row in pq.read_table(file).to_pylist()]


def _check_marked(out: Path, truth: dict[str, set[int]]) -> int:
    marked = sorted(out.glob("window_start=*/_SUCCESS"))
    for marker in marked:
        ids = landed_ids(marker.parent)
        assert sorted(ids) == sorted(truth[marker.parent.name]), marker
        assert json.loads(marker.read_text())["rows"] == len(ids)
    return len(marked)


def campaign(root: Path, kills: int, place: Place) -> None:
    rng = random.Random(SEED)
    logs = Logs(root, rng)
    logs.write(kills * FILES_PER_KILL)
    assert any(name.startswith("_late/") for name in logs.truth)
    marked = []

    def look() -> None:
        marked.append(_check_marked(place.see(root, "out"), logs.truth))

    run_to_the_end(_WORKER, root, kills, rng, place=place, after_kill=look)
    out = place.see(root, "out")
    folders = [*out.glob("window_start=*"), *out.glob("_late/*")]
    found = {str(folder.relative_to(out)): sorted(landed_ids(folder)) for folder in folders}
    assert {name: ids for name, ids in found.items() if ids} == {
        name: sorted(ids) for name, ids in logs.truth.items()
    }
    # The window of the last rows is open.
    windows = [name for name in found if not name.startswith("_late/")]
    assert _check_marked(out, logs.truth) == len(windows) - 1
    assert not list((out / "_tailrace" / "staging").glob("*"))
    assert marked == sorted(marked), "a mark is gone"


def test_each_row_lands_once_and_marked_windows_are_complete(tmp_path: Path) -> None:
    campaign(tmp_path, kill_count(1), LOCAL)
