"""The helper that runs a broker: what it says of what it is asked for, and what is left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tailrace.kafka import KafkaBroker
from tailrace.kafka.process import KafkaProcess, Record
from waiting import wait_for

# The child keeps the parent's end of the broker's input open: the end of that alone ends no broker.
_PARENT = """
import os, signal, sys
from tailrace.kafka import run_kafka
with run_kafka() as broker:
    if os.fork() == 0:
        signal.alarm(20)
        signal.pause()
    print(broker._process.pid, broker._process.directory, flush=True)
    signal.pause()
"""


@pytest.mark.campaign
def test_records_that_were_not_written_are_told(kafka_broker: KafkaBroker) -> None:
    kafka_broker.create_topic("told", 2)
    with pytest.raises(RuntimeError, match=r"1 of 3 records.*number 1: RecordTooLarge"):
        kafka_broker.produce("told", ["a", "b" * 2_000_000, "c"])
    assert sum(kafka_broker.end_offsets("told").values()) == 2
    started = time.monotonic()
    for ask in (
        lambda: kafka_broker.produce("told-not", ["a"]),
        lambda: kafka_broker.end_offsets("told-not"),
        lambda: kafka_broker.topic_id("told-not"),
        lambda: kafka_broker.delete_topic("told-not"),
    ):
        with pytest.raises(RuntimeError, match=r"the topic 'told-not' has failed: UnknownTopic"):
            ask()
    with pytest.raises(RuntimeError, match="2 partitions, and none with the number 2"):
        kafka_broker.produce("told", ["a"], partitions=2)
    assert time.monotonic() - started < 20, "it was waited for"
    wrongs: tuple[dict[str, Any], ...] = (
        {"keys": ["a", "b"]},
        {"keys": []},
        {"partitions": [1, 0]},
        {"headers": []},
        {"partitions": -1},
    )
    for wrong in wrongs:
        with pytest.raises(ValueError, match=r"There are|negative"):
            kafka_broker.produce("told", ["a"], **wrong)
    assert sum(kafka_broker.end_offsets("told").values()) == 2


@pytest.mark.parametrize(
    ("values", "more", "said"),
    [
        ("xyz", {}, r"`values` must be a list, of one text alone \['xyz'\]"),
        (b"xyz", {}, r"`values` must be a list"),
        (["a"], {"keys": "k"}, r"`keys` must be a list, of one text alone \['k'\]"),
        ([1, 2], {}, "A value must be str, bytes or None, not int: 1"),
        (["a"], {"keys": [2.5]}, "A key must be str, bytes or None, not float: 2.5"),
        (["a"], {"headers": {"x": "1"}}, "`headers` must be a list with a mapping for each value"),
        (["a"], {"headers": "x"}, "`headers` must be a list with a mapping for each value"),
        (["a"], {"headers": ["x"]}, "must be a mapping of names and values, not str: 'x'"),
        (["a"], {"headers": [{"x": 1}]}, "The header 'x' must be str, bytes or None, not int: 1"),
        (["a"], {"headers": [{1: "x"}]}, "A header's name must be a str, not int: 1"),
        (["a"], {"partitions": ["0"]}, "A partition must be a number or None, not str: '0'"),
    ],
)
def test_a_wrong_record_is_refused_by_name(values: Any, more: dict[str, Any], said: str) -> None:  # noqa: ANN401
    process = object.__new__(KafkaProcess)
    with pytest.raises(TypeError, match=said):
        KafkaBroker("", process).produce("never", values, **more)


@pytest.mark.long
def test_more_records_than_one_request_holds(kafka_broker: KafkaBroker) -> None:
    kafka_broker.create_topic("many", 3)
    kafka_broker.produce("many", map(str, range(25_001)), partitions=1)
    assert kafka_broker.end_offsets("many") == {0: 0, 1: 25_001, 2: 0}


@pytest.mark.campaign
def test_a_topic_made_anew_has_another_id(kafka_broker: KafkaBroker) -> None:
    kafka_broker.create_topic("again", 1)
    first = kafka_broker.topic_id("again")
    kafka_broker.produce("again", ["a"])
    kafka_broker.delete_topic("again")
    kafka_broker.create_topic("again", 1)
    assert kafka_broker.topic_id("again") != first
    assert kafka_broker.end_offsets("again") == {0: 0}
    with pytest.raises(RuntimeError, match="exists"):
        kafka_broker.create_topic("again", 1)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # One that has ended and that nobody has asked about is none.
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.campaign
def test_no_broker_outlives_its_parent(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        assert parent.stdout is not None
        pid, directory = parent.stdout.readline().split()
        assert _is_there(int(pid))
        assert Path(directory).is_dir()
        parent.terminate()
        assert parent.wait(10) == -signal.SIGTERM
        wait_for(lambda: not _is_there(int(pid)), "the broker ends")
        wait_for(lambda: not Path(directory).exists(), "its directory goes")
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()


def test_a_request_ends_at_some_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 records of 60 kB were more than the broker has memory."""
    process = object.__new__(KafkaProcess)
    sent: list[int] = []

    def write(_topic: str, chunk: list[bytes], done: int) -> int:
        sent.append(sum(map(len, chunk)))
        return done + len(chunk)

    monkeypatch.setattr(process, "_produce", write)
    record = Record(b"v" * 2**20, None, None, ())
    process.produce("many", [record] * 40)
    assert len(sent) == 3
    assert max(sent) < 18 * 2**20


def test_the_end_after_a_write_that_failed_hides_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    process = object.__new__(KafkaProcess)
    with subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE) as ended:
        ended.wait()
        assert ended.stdin is not None
        monkeypatch.setattr(process, "_process", ended, raising=False)
        monkeypatch.setattr(process, "_requests", ended.stdin, raising=False)
        ended.stdin.write(b"what can't be written")
        process.end()
        assert ended.stdin.closed
