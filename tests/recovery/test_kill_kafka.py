"""kill -9 of either of two pipelines over a real broker: what comes out is topic 1, record for record.

`TAILRACE_KILLS` sets the number of kills, over both; 2 by default, for each starts a Spark.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from killing import SEED, begin, committed_files, kill, kill_count, start

if TYPE_CHECKING:
    import subprocess

    from tailrace.kafka import KafkaBroker

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.spark("<4.3", reason="Maven Central lacks Spark 4.3's connector for Kafka"),
]

_WORKER = Path(__file__).with_name("kafka_worker.py")
_KILLS = kill_count(2)
# More than pipeline 1 copies in the time that it has between two kills.
_RECORDS_PER_KILL = 6000
_PARTITIONS = 4
_PROVING = 10
_LONGEST_SECONDS = 30


def _wait_for_records(broker: KafkaBroker, process: subprocess.Popen[bytes]) -> None:
    """Waits until pipeline 1 has written some: on a machine that is slow, it would die before it has."""

    def written() -> int:
        return sum(broker.end_offsets("kill-2").values())

    before = written()
    end = time.monotonic() + _LONGEST_SECONDS
    while written() == before and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)


def test_output_equals_topic_1_after_kills_of_either_pipeline(
    kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    count = _KILLS * _RECORDS_PER_KILL
    kafka_broker.create_topic("kill-1", _PARTITIONS)
    kafka_broker.create_topic("kill-2", 2)
    kafka_broker.produce("kill-1", map(str, range(count)))

    log_path = tmp_path / "workers.log"
    running: dict[str, subprocess.Popen[bytes]] = {}
    with log_path.open("wb") as log, ExitStack() as stack:

        def prepare(pipeline: str, until: str) -> subprocess.Popen[bytes]:
            process = start(_WORKER, tmp_path, pipeline, until, kafka_broker.servers, log=log)
            stack.callback(kill, process)
            return process

        for pipeline in ("copy", "read"):
            running[pipeline] = prepare(pipeline, "go-on")
        for process in running.values():
            begin(process, log_path)
        for i in range(_KILLS):
            victim = "copy" if i == 0 else rng.choice(["copy", "read"])
            upcoming = prepare(victim, "go-on")
            if victim == "copy":
                _wait_for_records(kafka_broker, running[victim])
                time.sleep(rng.uniform(0.0, 0.5))
            else:
                time.sleep(rng.uniform(0.0, 3.0))
            assert running[victim].poll() is None, log_path.read_text()[-4000:]
            kill(running[victim])
            running[victim] = upcoming
            begin(upcoming, log_path)
        for process in running.values():
            kill(process)
        for pipeline in ("copy", "read"):
            running[pipeline] = prepare(pipeline, "drain")
        for process in running.values():
            begin(process, log_path)
            output, _ = process.communicate(timeout=600)
            assert b"DONE" in output, log_path.read_text()[-4000:]

    found: Counter[int] = Counter()
    for path in committed_files(tmp_path):
        found.update(int(row["value"]) for row in pq.read_table(path).to_pylist())
    assert sorted(found) == list(range(count))
    assert max(found.values()) == 1
    # Few kills may all fall between two batches.
    assert _KILLS < _PROVING or sum(kafka_broker.end_offsets("kill-2").values()) > count, (
        "pipeline 1 has written nothing twice: no proof"
    )
