"""kill -9 between the writes of a micro-batch into a topic and its commit: who filters has each row once."""

from __future__ import annotations

import json
import random
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from kafka_sink_worker import PARTITIONS, TOPIC
from killing import SEED, begin, committed_files, kill, start

import pages
from arrivals import arrive
from streams import Row, arrow

if TYPE_CHECKING:
    from tailrace.kafka import KafkaBroker

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.spark("<4.3", reason="Maven Central lacks Spark 4.3's connector for Kafka"),
]

_REPOSITORY = Path(__file__).resolve().parents[2]
_WORKER = Path(__file__).with_name("kafka_sink_worker.py")
_SLICES = 9
_HALF, _WHOLE = 4, 6


def _make(root: Path) -> dict[int, list[int]]:
    """Writes both streams, a file a micro-batch; the labels of each left row."""
    rng = random.Random(SEED)
    sides: dict[str, list[Row]] = {"left": [], "right": []}
    for i in range(_SLICES):
        for side, rows in sides.items():
            new = [Row(len(rows) + n, rng.randrange(12), i * 20 + rng.randrange(20)) for n in range(60)]
            arrive(root / side, i, arrow(new))
            rows.extend(new)
    for side in sides:
        arrive(root / side, _SLICES, arrow([Row(10**6, 99, 10_000)]))
    return {
        left.id: sorted(
            right.id
            for right in sides["right"]
            if right.key == left.key and left.second <= right.second <= left.second + 30
        )
        for left in sides["left"]
    }


def _records(broker: KafkaBroker) -> int:
    return sum(broker.end_offsets(TOPIC).values())


def _read(root: Path) -> list[dict[str, Any]]:
    values = [row["value"] for path in committed_files(root) for row in pq.read_table(path).to_pylist()]
    return [json.loads(value) for value in values]


def test_a_reader_that_filters_has_each_row_once(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    (tmp_path / "recipe.py").write_text(pages.example(_REPOSITORY, "docs/guides/replays.md", "kafka-sink"))
    expected = _make(tmp_path)
    kafka_broker.create_topic(TOPIC, PARTITIONS)
    log_path = tmp_path / "workers.log"
    with log_path.open("wb") as log, ExitStack() as stack:

        def run(task: str, *moments: int) -> None:
            """Runs a worker until it has ended, or has written what it is to be killed for."""
            more = (task, kafka_broker.servers, *map(str, moments))
            process = start(_WORKER, tmp_path, *more, log=log)
            stack.callback(kill, process)
            begin(process, log_path)
            assert process.stdout
            said = b"DONE"
            if set(moments) - {-1}:
                said = process.stdout.readline().strip()
                assert said == b"WRITTEN", log_path.read_text()[-4000:]
                kill(process)
            else:
                assert b"DONE" in process.communicate(timeout=300)[0], log_path.read_text()[-4000:]

        run("write", _HALF, -1)
        half = _records(kafka_broker)
        run("write", -1, _WHOLE)
        whole = _records(kafka_broker)
        assert 0 < half < whole
        run("read")
        before = len(_read(tmp_path))
        run("write", -1, -1)
        run("read")
    rows = _read(tmp_path)
    found = Counter(row["l_id"] for row in rows)
    assert max(found.values()) == 1
    assert {row["l_id"]: sorted(label["r_id"] for label in row.get("labels", [])) for row in rows} == expected
    # What was written before either kill was written again.
    assert _records(kafka_broker) > len(rows) > before > 0
