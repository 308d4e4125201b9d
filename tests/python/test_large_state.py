"""State that is large for its heap of 512 MB: of a synced join that stalls, of one key, of origins and hosts.

The short form has a tenth of the rows that `TAILRACE_LARGE=1` has: 10,000,000 rows of a stalled synced join,
2,000,000 labels of one key, 2,000,000 origins and 1,000,000 hosts. Each query checks what comes out.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "memory.py"
QUERIES = ["sync", "label", "replay", "watermark"]
SCALE = "1.0" if "TAILRACE_LARGE" in os.environ else "0.1"


def test_large_state_comes_out_in_a_small_heap(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARK), "--work", str(tmp_path), "--scale", SCALE, "--together"]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert [run["query"] for run in json.loads(done.stdout.splitlines()[-1])] == QUERIES
