"""A Kafka broker on this machine, and Spark's Kafka connector: for tests, examples and benchmarks.

    with tailrace.kafka.run_kafka() as broker:
        broker.create_topic("clicks", partitions=8)
        broker.produce("clicks", ["one", "two"], keys=["a", "b"])
        ...option("kafka.bootstrap.servers", broker.servers)...

The broker is one process in KRaft mode, bound to loopback, which ends with the process that has started it,
however that ends. It comes from its Maven artifacts: they are resolved once,
by the Apache Ivy jar that pyspark ships, into the user's cache directory. It needs a JDK 17 and no other
installation. Spark needs its Kafka connector besides: `connector_jars()`, for `spark.jars`.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Mapping
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyspark

from tailrace._installation.ivy import resolve
from tailrace._installation.versions import SCALA_SERIES, series
from tailrace.kafka.process import KafkaProcess, Record

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

__all__ = ["KAFKA_VERSION", "KafkaBroker", "connector_jars", "resolve", "run_kafka"]

KAFKA_VERSION = "4.1.0"
_END = object()
_CONNECTOR_VERSION = f"{series(pyspark.__version__)}.0"
# The broker, and the tools that create topics; with all that they depend on.
_BROKER = (
    ("org.apache.kafka", f"kafka_{SCALA_SERIES}", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
)
# Spark's connector, of the series' first release, which fits all of them, with those of its dependencies that
# Spark doesn't ship. Not every release of its token provider, which changes little, is in every mirror.
_CONNECTOR = (
    ("org.apache.spark", f"spark-sql-kafka-0-10_{SCALA_SERIES}", _CONNECTOR_VERSION),
    ("org.apache.spark", f"spark-token-provider-kafka-0-10_{SCALA_SERIES}", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)


def connector_jars() -> str:
    """Spark's own Kafka connector for `spark.jars`: paths with commas between, resolved at the first call.

    Raises:
        RuntimeError: they can't be resolved.
    """
    folder = resolve(f"spark-kafka-{_CONNECTOR_VERSION}", _CONNECTOR, transitive=False)
    return ",".join(sorted(str(jar) for jar in folder.glob("*.jar")))


class KafkaBroker:
    """A broker that runs. Its methods may be called by several threads.

    Attributes:
        servers: the value of `bootstrap.servers` for clients: "127.0.0.1:PORT".
    """

    def __init__(self, servers: str, process: KafkaProcess) -> None:
        self.servers = servers
        self._process = process

    def create_topic(self, name: str, partitions: int) -> None:
        """Creates a topic, with one replica, and waits until it exists.

        Args:
            name: it must not exist yet.
            partitions: their number.

        Raises:
            RuntimeError: the broker refuses; its words are the message.
        """
        self._process.create_topic(name, partitions)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic, and waits until it no longer exists.

        Raises:
            RuntimeError: the broker refuses; its words are the message.
        """
        self._process.delete_topic(name)

    def produce(
        self,
        topic: str,
        values: Iterable[str | bytes | None],
        *,
        keys: Iterable[str | bytes | None] | None = None,
        partitions: Iterable[int | None] | int | None = None,
        headers: Iterable[Mapping[str, str | bytes | None]] | None = None,
    ) -> None:
        """Writes records, and waits until the broker has all of them.

        Args:
            topic: it must exist.
            values: one of each record; a text is written as UTF-8, None as Kafka's null.
            keys: one for each value; without them records have none.
            partitions: one for each value, or one for all; None leaves it to Kafka's producer: by the key, or
                without keys a partition at a time, which may be one for all records of a call.
            headers: names and values for each value.

        Raises:
            TypeError: one text is given instead of a list, a value or a key is neither text nor bytes nor
                None, a partition isn't a number, or headers aren't a mapping for each value; earlier records
                may be written.
            ValueError: there are more or fewer keys, partitions or headers than values, or a partition is
                negative; earlier records may be written.
            RuntimeError: the topic isn't there, or records weren't written; the message names the topic, how
                many, which is the first of them, and the broker's or the client's reason.
        """
        each = repeat(partitions) if isinstance(partitions, int | None) else partitions
        self._process.produce(topic, _records(values, keys, each, headers))

    def end_offsets(self, topic: str) -> dict[int, int]:
        """The offset after the last record of each partition of a topic, by the partition's number.

        Raises:
            RuntimeError: the broker refuses; its words are the message.
        """
        return self._process.end_offsets(topic)

    def topic_id(self, topic: str) -> str:
        """The id of a topic, another one for each topic of a name: an epoch for `tailrace.producer_id`.

        Raises:
            RuntimeError: the broker refuses; its words are the message.
        """
        return self._process.topic_id(topic)


def _records(
    values: Iterable[str | bytes | None],
    keys: Iterable[str | bytes | None] | None,
    partitions: Iterable[int | None],
    headers: Iterable[Mapping[str, str | bytes | None]] | None,
) -> Iterator[Record]:
    for argument, one in (("values", values), ("keys", keys)):
        if isinstance(one, str | bytes):
            raise TypeError(
                f"`{argument}` must be a list, of one text alone [{one[:20]!r}], not its letters."
            )
    if isinstance(headers, Mapping | str | bytes):
        raise TypeError(
            "`headers` must be a list with a mapping for each value: of one record [{'name': 'value'}]."
        )
    lists = [("keys", keys), ("partitions", partitions), ("headers", headers)]
    given: dict[str, Iterator[Any]] = {name: iter(each) for name, each in lists if each is not None}
    for value in values:
        own: dict[str, Any] = {name: next(each, _END) for name, each in given.items()}
        short = [name for name, found in own.items() if found is _END]
        if short:
            raise ValueError(f"There are fewer {' and '.join(short)} than values.")
        key = _bytes(own.get("keys"), "A key")
        named = _headers(own.get("headers", {}))
        yield Record(_bytes(value, "A value"), key, _partition(own.get("partitions")), named)
    for name, each in given.items():
        if not isinstance(each, repeat) and next(each, _END) is not _END:
            raise ValueError(f"There are more {name} than values.")


def _partition(given: object) -> int | None:
    if given is None:
        return None
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"A partition must be a number or None, not {type(given).__name__}: {_shown(given)}.")
    if given < 0:
        raise ValueError(f"A partition is negative: {given}.")
    return given


def _headers(given: object) -> tuple[tuple[str, bytes | None], ...]:
    if not isinstance(given, Mapping):
        raise TypeError(
            f"The headers of a value must be a mapping of names and values, not {type(given).__name__}: "
            f"{_shown(given)}."
        )
    headers = cast("Mapping[Any, object]", given)
    for name in headers:
        if not isinstance(name, str):
            raise TypeError(f"A header's name must be a str, not {type(name).__name__}: {_shown(name)}.")
    return tuple((name, _bytes(value, f"The header {name!r}")) for name, value in headers.items())


def _bytes(value: object, what: str) -> bytes | None:
    if isinstance(value, str):
        return value.encode()
    if value is None or isinstance(value, bytes):
        return value
    raise TypeError(f"{what} must be str, bytes or None, not {type(value).__name__}: {_shown(value)}.")


def _shown(value: object) -> str:
    return repr(value)[:80]


@contextmanager
def run_kafka() -> Generator[KafkaBroker]:
    """Runs a broker until the block ends. All of it is in a temporary directory, which is deleted then.

    Raises:
        RuntimeError: the artifacts can't be resolved, or the broker doesn't start; the text has its last
            output.
    """
    jars = resolve(f"kafka-{KAFKA_VERSION}", _BROKER, transitive=True)
    with tempfile.TemporaryDirectory(prefix="tailrace-kafka-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        port, controller = _free_ports()
        config = directory / "server.properties"
        config.write_text(_properties(directory, port, controller), encoding="utf-8")
        servers = f"127.0.0.1:{port}"
        process = KafkaProcess(str(jars / "*"), config, servers, directory)
        try:
            yield KafkaBroker(servers, process)
        finally:
            process.end()


def _properties(directory: Path, port: int, controller: int) -> str:
    return "\n".join(
        [
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@127.0.0.1:{controller}",
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names=CONTROLLER",
            f"log.dirs={directory / 'data'}",
            "offsets.topic.replication.factor=1",
            "offsets.topic.num.partitions=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "share.coordinator.state.topic.replication.factor=1",
            "share.coordinator.state.topic.min.isr=1",
            "group.initial.rebalance.delay.ms=0",
            "auto.create.topics.enable=false",
            "",
        ]
    )


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        for one_socket in (one, two):
            one_socket.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]
