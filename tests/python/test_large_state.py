"""State that is large for its heap of 512 MB: of a synced join that stalls, of one key, of origins and hosts.

The short form has a tenth of the rows that `TAILRACE_LARGE=1` has: 10,000,000 rows of a stalled synced join,
2,000,000 labels of one key, 2,000,000 origins and 1,000,000 hosts. Each query checks what comes out. At full
size each has a JVM of its own, because the largest fills most of it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.long

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "memory.py"
QUERIES = ["sync", "label", "replay", "watermark"]
IS_LARGE = "TAILRACE_LARGE" in os.environ


def _benchmark(work: Path, *options: str) -> list[dict[str, Any]]:
    command = [sys.executable, str(BENCHMARK), "--work", str(work), "--scale", "1.0" if IS_LARGE else "0.1"]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [*command, *options], check=False, capture_output=True, text=True, timeout=900, env=environment
    )
    assert done.returncode == 0, (options, done.stderr[-3000:])
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_large_state_comes_out_in_a_small_heap(tmp_path: Path) -> None:
    if IS_LARGE:
        _benchmark(tmp_path, "--stage", "write")
        alone = (_benchmark(tmp_path, "--stage", "run", "--queries", query) for query in QUERIES)
        found = [run for runs in alone for run in runs]
    else:
        found = _benchmark(tmp_path, "--together")
    assert [run["query"] for run in found] == QUERIES
