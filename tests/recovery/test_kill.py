"""kill -9 of the whole process at random moments; then the output is the oracle's, row for row.

`TAILRACE_KILLS` sets the number of kills: 20 by default, a campaign has 200.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from join_oracle import Oracle
from streams import SCHEMA, Row, arrow

_WORKER = Path(__file__).with_name("worker.py")
_KILLS = int(os.environ.get("TAILRACE_KILLS", "20"))
_SLICES_PER_KILL = 4


def _make(root: Path, slices: int, rng: random.Random) -> dict[int, list[int]]:
    """Writes the streams in slices, in arrival order; returns the oracle's groups of all closed windows."""
    oracle = Oracle(before=5, after=30, delay=10)
    expected: dict[int, list[int]] = {}
    number = 0
    for i in range(slices + 1):
        sides: dict[str, list[Row]] = {}
        for side in ("left", "right"):
            rows = []
            for _ in range(60):
                number += 1
                # At most 9 seconds late, with a delay of 10: no row is behind the watermark.
                rows.append(Row(number, rng.randrange(12), i * 20 + rng.randrange(20) - rng.randrange(10)))
            sides[side] = rows if i < slices else [Row(10**6, 99, i * 20 + 1000)]
            path = root / side / f"{i:05d}.parquet"
            path.parent.mkdir(exist_ok=True)
            pq.write_table(arrow(sides[side]), path)
            os.utime(path, (1_600_000_000 + i, 1_600_000_000 + i))
        groups, _ = oracle.step(sides["left"], sides["right"])
        expected.update(groups)
    assert not oracle.late
    return expected


def _start(root: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(_WORKER), str(root)],
        stdout=subprocess.PIPE,
        stderr=log,
        # A group of its own: the JVM is a child of the Python process, and both die at the same moment.
        start_new_session=True,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _output(root: Path) -> list[tuple[int, list[int]]]:
    """What the sink has committed: files of attempts that never were committed aren't part of it."""
    log = root / "out" / "_spark_metadata"
    compacted = sorted(
        (int(p.name.removesuffix(".compact")), p) for p in log.glob("[0-9]*") if p.suffix != ".crc"
    )
    start = max((n for n, p in compacted if p.suffix == ".compact"), default=-1)
    files = {}
    for n, path in compacted:
        if n >= start:
            for line in path.read_text().splitlines()[1:]:
                entry = json.loads(line)
                files[entry["path"]] = entry
    tables = [pq.read_table(path.removeprefix("file://"), columns=["l_id", "labels"]) for path in files]
    rows = pa.concat_tables(tables).to_pylist()
    return [(r["l_id"], [m["r_id"] for m in r["labels"]]) for r in rows]


def _is_in_order(group: list[int], expected: list[int]) -> bool:
    # Equal times are ordered by content, which the oracle doesn't know.
    return sorted(group) == sorted(expected)


def test_output_after_kills_equals_the_oracle(tmp_path: Path) -> None:
    assert [f.name for f in SCHEMA] == ["id", "key", "ts", "note"]
    rng = random.Random(20261121)
    expected = _make(tmp_path, _KILLS * _SLICES_PER_KILL, rng)
    finished_early = 0
    with (tmp_path / "worker.log").open("wb") as log:
        for _ in range(_KILLS):
            process = _start(tmp_path, log)
            assert process.stdout is not None
            # From the start of the query on: before that there is nothing to lose.
            assert process.stdout.readline().strip() == b"READY", (tmp_path / "worker.log").read_text()[
                -4000:
            ]
            time.sleep(rng.uniform(0.0, 3.5))
            if process.poll() is None:
                _kill(process)
            else:
                finished_early += 1
        last = _start(tmp_path, log)
        output, _ = last.communicate(timeout=600)
    assert b"DONE" in output, (tmp_path / "worker.log").read_text()[-4000:]
    assert finished_early < _KILLS // 2, "the data was read before the killing was done: it proves little"
    got = _output(tmp_path)
    assert len(got) == len({left for left, _ in got}), "a left row came out twice"
    assert {left for left, _ in got} == set(expected)
    wrong = {left for left, group in got if not _is_in_order(group, expected[left])}
    assert not wrong
