"""Tailrace on a real broker: the README's pipelines, each in a process with Spark's Kafka connector."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pages

if TYPE_CHECKING:
    from tailrace.kafka import KafkaBroker

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.spark("<4.3", reason="Maven Central lacks Spark 4.3's connector for Kafka"),
]

_SCENARIO = Path(__file__).with_name("kafka_scenario.py")


def _run(broker: KafkaBroker, root: Path, name: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(_SCENARIO), broker.servers, str(root), name],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr[-6000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_an_at_least_once_topic_is_read_once(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    kafka_broker.create_topic("topic-1", 4)
    kafka_broker.create_topic("topic-2", 2)
    found = _run(kafka_broker, tmp_path, "replays")
    each = list(range(1000))
    assert found["written"] > 1500, "pipeline 1 has written nothing twice"
    assert found["partitions kept"] == 0
    # Kafka's order is the one that records are judged in, unless a partition is read by several tasks.
    assert found["filtered"]
    assert found["shuffled"] == {"in order": False, "split": True}
    for reading in ("after the first failure", "in order", "split", "batch"):
        assert found[reading] == each, reading


def test_readmes_topics_give_what_its_program_shows(
    kafka_broker: KafkaBroker, repository: Path, tmp_path: Path
) -> None:
    def send(topic: str, columns: str, *rows: tuple[int, int, str, str]) -> None:
        kafka_broker.create_topic(topic, 2)
        records = [
            json.dumps(dict(zip(columns.split(), (user, item, f"2026-01-01T{at}Z", kind), strict=True)))
            for user, item, at, kind in rows
        ]
        kafka_broker.produce(topic, records, partitions=[n % 2 for n in range(len(rows))])

    send(
        "impressions",
        "user_id item_id served_at position",
        *((7, 42, "12:00:00", "top"), (7, 43, "12:00:00", "side")),
        *((8, 42, "12:00:02", "top"), (9, 44, "13:00:00", "top")),
    )
    send(
        "engagements",
        "user_id item_id engaged_at kind",
        *((8, 42, "12:21:40", "click"), (7, 42, "12:04:31", "buy")),
        *((7, 42, "12:00:09", "click"), (9, 44, "13:00:05", "click")),
    )
    program, shown = pages.examples(repository, "README.md", "quickstart")
    topics = pages.example(repository, "README.md", "kafka").replace("localhost:9092", kafka_broker.servers)
    head, rest = program.split("def arrive", 1)
    _, join = rest.split("examples = tailrace.join(", 1)
    head = head.replace("SparkSession.builder", "SparkSession.builder.config('spark.jars', connector_jars())")
    script = tmp_path / "first.py"
    script.write_text(
        f"from tailrace.kafka import connector_jars\n{head}{topics}examples = tailrace.join({join}"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr[-6000:]
    assert done.stdout.strip() == shown.strip()


@pytest.mark.long
def test_producers_whose_originals_would_look_like_replays(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    for topic, partitions in {
        "first": 2,
        "second": 2,
        "copied": 2,
        "spread": 4,
        "merged": 2,
        "numbers": 2,
    }.items():
        kafka_broker.create_topic(topic, partitions)
    kafka_broker.produce("first", map(str, range(20)), partitions=[i % 2 for i in range(20)])
    kafka_broker.produce("numbers", map(str, range(200)), partitions=[i % 2 for i in range(200)])
    # As a producer writes who leaves the partition to Kafka's hash of the key.
    pid, tag = 7, b"\xff\x54\x52\x02"
    keys = [tag + pid.to_bytes(8) + (0).to_bytes(4) + offset.to_bytes(8) for offset in range(200)]
    kafka_broker.produce("spread", map(str, range(200)), keys=keys)
    found = _run(kafka_broker, tmp_path, "misuse,spread,merged")
    assert found["misuse"] == {
        "right": "done",
        "one partition": "done",
        "no partition": "TAILRACE_METADATA_PARTITION",
        "by the value": "TAILRACE_METADATA_PARTITION",
        "several tasks": "TAILRACE_METADATA_ORDER",
        "several topics": "TAILRACE_METADATA_SHARED",
        "several topics, told apart": "done",
    }
    split = "TAILRACE_REPLAY_ORIGIN_SPLIT"
    assert found["spread"] == {
        "plain": split,
        "plain, batches out": 0,
        "split": split,
        "split, batches out": 0,
    }
    assert found["merged"]["written"] > 10, "nothing was written twice"
    assert found["merged"]["numbers"] == list(range(200))
    kafka_broker.delete_topic("first")
    kafka_broker.create_topic("first", 2)
    kafka_broker.produce("first", map(str, range(30)), partitions=[i % 2 for i in range(30)])
    assert _run(kafka_broker, tmp_path, "anew") == {
        "right": "TAILRACE_METADATA_TOPIC_ANEW",
        "right 2": "done",
        "new checkpoint": "done",
    }


@pytest.mark.long
def test_the_label_join_from_two_topics_to_parquet(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    kafka_broker.create_topic("left", 3)
    kafka_broker.create_topic("right", 2)
    found = _run(kafka_broker, tmp_path, "label-join")
    # A right row of the same key every ten seconds: at 0, 10 and 20 seconds after the left one.
    expected = [[i, [r for r in (i, i + 10, i + 20) if r < 500]] for i in range(500)]
    assert found["groups"] == expected


def test_a_watermark_travels_through_a_topic(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    kafka_broker.create_topic("log-lines", 1)
    kafka_broker.create_topic("stamped", 2)
    found = _run(kafka_broker, tmp_path, "stamps")
    # The first stamp is that of rows before any was read, the second one's is a's time: b may lag.
    assert found["b lags"] == found["stamped in one partition"] == []
    assert found["stamped in both"] == [[0, 2]]
    assert found["headers"] == [["trace", "watermark"]], "behind the headers that were there"


def test_a_synced_join_waits_for_a_partition_that_has_sent_nothing(
    kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    kafka_broker.create_topic("bids", 1)
    kafka_broker.create_topic("impressions", 2)
    found = _run(kafka_broker, tmp_path, "synced")
    silent, held_back, back = found["silent"], found["held back"], found["back"]
    assert silent["waits for"][0] == held_back["waits for"][0] == ["right", "impressions-1", "waiting"]
    assert silent["rows"] == held_back["rows"] == []
    # Of sixty each, as many are read as may be held, and at most a tenth more.
    read = held_back["read"]
    assert 20 <= read["bids-0"] <= 22
    assert 20 <= read["impressions-0"] <= 22
    assert read["impressions-1"] == 0
    # The other impressions are ahead of all bids, which have come out: nobody waits for them.
    assert (back["read"]["bids-0"], back["read"]["impressions-1"]) == (62, 2)
    assert ["a", 1] in back["rows"]
    assert ["b", None] in back["rows"]
    # All bids of ten seconds past noon: the slowest partition is at thirty.
    assert len(back["rows"]) == 62


@pytest.mark.long
def test_a_synced_join_that_failed_before_its_batch_was_committed_goes_on(
    kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    kafka_broker.create_topic("asks", 1)
    kafka_broker.create_topic("shows", 2)
    found = _run(kafka_broker, tmp_path, "synced-again")
    # The partitions of the right topic have been read up to 18 and 19 seconds past noon.
    for name in ("plain", "held back", "available now"):
        assert found[name]["ends"] == ["failed", "done"], name
        assert found[name]["rows"] == sorted([f"k{i}", True] for i in range(13)), name


def test_a_backfill_ends_at_an_offset_or_at_a_time(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    for topic, partitions in (("topic-1", 4), ("topic-2", 2), ("timed", 2)):
        kafka_broker.create_topic(topic, partitions)
    found = _run(kafka_broker, tmp_path, "backfill-by-position,backfill-by-time")
    position = found["backfill-by-position"]
    assert position["of the table"] == 400 < position["written"]
    assert position["read"] == list(range(400))
    # Each record pairs with those of its key in ten seconds from its own time on: itself and the next one.
    pairs = [[n, m] for n in range(400) for m in (n, n + 10) if m < 400]
    assert found["backfill-by-time"]["pairs"] == pairs
