"""The process of `tailrace.kafka`'s broker, and its requests: KafkaProcess.java has the other half."""

from __future__ import annotations

import base64
import os
import struct
import subprocess
import threading
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from tailrace._installation.java import find_java

if TYPE_CHECKING:
    from collections.abc import Iterable

_START_SECONDS = 90
_END_SECONDS = 10
_MEMORY = ("-Xms256m", "-Xmx512m")
# Java compiles it when it runs: it belongs to no jar, and needs the broker's alone.
_SOURCE = Path(__file__).with_name("KafkaProcess.java")
# At once: their bytes are in memory here and there.
_MOST_RECORDS = 10_000
_MOST_BYTES = 16 * 2**20
# As a failure names it.
_ASKED = {
    b"C": "Creating",
    b"D": "Deleting",
    b"I": "Asking for the id of",
    b"E": "Asking for the end offsets of",
    b"P": "Writing to",
}


class Record(NamedTuple):
    """A record to write: bytes, or None; a partition, or None for the producer's own choice."""

    value: bytes | None
    key: bytes | None
    partition: int | None
    headers: tuple[tuple[str, bytes | None], ...]


class KafkaProcess:
    """Runs until `end`, or until this process has ended."""

    def __init__(self, class_path: str, config: Path, servers: str, directory: Path) -> None:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        line = [str(find_java(os.environ).path), *_MEMORY, "-cp", class_path, str(_SOURCE)]
        self.directory = directory
        self._log = directory / "broker.log"
        self._lock = threading.Lock()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*line, str(config), cluster, servers, str(directory), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=directory,
            )
        self._requests = cast("BinaryIO", self._process.stdin)
        self._answers = cast("BinaryIO", self._process.stdout)
        too_long = threading.Timer(_START_SECONDS, self._process.kill)
        too_long.start()
        try:
            self._status()
        except BaseException:
            self.end()
            raise
        finally:
            too_long.cancel()

    @property
    def pid(self) -> int:
        """The broker's process."""
        return self._process.pid

    def end(self) -> None:
        """Ends it; it deletes its directory."""
        # The rest of a write that has failed can't be written now either, and isn't the fault to report.
        with suppress(OSError):
            self._requests.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def create_topic(self, topic: str, partitions: int) -> None:
        """Creates a topic."""
        with self._lock:
            self._ask(b"C", topic, struct.pack(">i", partitions))

    def delete_topic(self, topic: str) -> None:
        """Deletes a topic."""
        with self._lock:
            self._ask(b"D", topic)

    def topic_id(self, topic: str) -> str:
        """Kafka's id of a topic."""
        with self._lock:
            self._ask(b"I", topic)
            return self._read_text()

    def end_offsets(self, topic: str) -> dict[int, int]:
        """The offset after the last record of each partition."""
        with self._lock:
            self._ask(b"E", topic)
            count = self._number(">i")
            return {self._number(">i"): self._number(">q") for _ in range(count)}

    def produce(self, topic: str, records: Iterable[Record]) -> None:
        """Raises RuntimeError with the number of unwritten records, and the reason for the first one."""
        done = size = 0
        chunk: list[bytes] = []
        for record in records:
            chunk.append(_record(record))
            size += len(chunk[-1])
            if len(chunk) == _MOST_RECORDS or size >= _MOST_BYTES:
                done = self._produce(topic, chunk, done)
                chunk, size = [], 0
        self._produce(topic, chunk, done)

    def _produce(self, topic: str, chunk: list[bytes], done: int) -> int:
        with self._lock:
            self._ask(b"P", topic, b"".join(chunk) + b"\0")
            failed, first, why = self._number(">i"), self._number(">i"), self._read_text()
        if failed:
            raise RuntimeError(
                f"{failed} of {len(chunk)} records weren't written to {topic}, after {done} that were; "
                f"the first of them, number {done + first}: {why}"
            )
        return done + len(chunk)

    def _ask(self, request: bytes, topic: str, more: bytes = b"") -> None:
        try:
            self._requests.write(request + _text(topic) + more)
            self._requests.flush()
        except OSError as error:
            raise self._dead() from error
        self._status(f"{_ASKED[request]} the topic {topic!r} has failed: ")

    def _status(self, failed: str = "") -> None:
        if self._read(1) != b"\0":
            raise RuntimeError(failed + self._read_text())

    def _number(self, layout: str) -> int:
        found: int = struct.unpack(layout, self._read(struct.calcsize(layout)))[0]
        return found

    def _read_text(self) -> str:
        return self._read(self._number(">i")).decode()

    def _read(self, length: int) -> bytes:
        found = self._answers.read(length)
        if len(found) < length:
            raise self._dead()
        return found

    def _dead(self) -> RuntimeError:
        said = self._log.read_text(errors="replace")[-3000:] if self._log.exists() else ""
        return RuntimeError(f"The broker isn't there, or hasn't started: {said}")


def _record(record: Record) -> bytes:
    partition = -1 if record.partition is None else record.partition
    headers = b"".join(_text(name) + _bytes(value) for name, value in record.headers)
    head = b"\1" + struct.pack(">i", partition)
    return head + _bytes(record.key) + _bytes(record.value) + struct.pack(">i", len(record.headers)) + headers


def _text(text: str) -> bytes:
    return _bytes(text.encode())


def _bytes(value: bytes | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
