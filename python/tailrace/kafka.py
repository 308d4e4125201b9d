"""A Kafka broker on this machine, and Spark's Kafka connector: for tests, examples and benchmarks.

    with tailrace.kafka.run_kafka() as broker:
        broker.create_topic("clicks", partitions=8)
        ...option("kafka.bootstrap.servers", broker.servers)...

The broker is one process in KRaft mode, bound to loopback, from its Maven artifacts: they are resolved once,
by the Apache Ivy jar that pyspark ships, into the user's cache directory. It needs a JDK 17 and no other
installation. Spark needs its Kafka connector besides: `connector_jars()`, for `spark.jars`.
"""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from tailrace._java import find_java
from tailrace._versions import SCALA_SERIES, SPARK_SERIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

KAFKA_VERSION = "4.1.0"
_START_SECONDS = 90
_MEMORY = ("-Xms256m", "-Xmx512m")
_CONNECTOR_VERSION = f"{SPARK_SERIES}.0"
# The broker, and the tools that create topics; with all that they depend on.
_BROKER = (
    ("org.apache.kafka", f"kafka_{SCALA_SERIES}", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
)
# Spark's connector, of the series' first release, which fits all of it, with what Spark doesn't ship of what
# it depends on. Of its token provider, which changes little, not every release is in every mirror.
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
    """A broker that runs.

    Attributes:
        servers: what clients call `bootstrap.servers`: "127.0.0.1:PORT".
    """

    def __init__(self, port: int, class_path: str, directory: Path) -> None:
        self.servers = f"127.0.0.1:{port}"
        self._class_path = class_path
        self._directory = directory

    def create_topic(self, name: str, partitions: int) -> None:
        """Creates a topic, with one replica.

        Args:
            name: it must not be there yet.
            partitions: how many it has.

        Raises:
            RuntimeError: the broker refuses; its words are the message.
        """
        self._topics("--create", "--topic", name, "--partitions", str(partitions))

    def delete_topic(self, name: str) -> None:
        """Deletes a topic.

        Raises:
            RuntimeError: the broker refuses; its words are the message.
        """
        self._topics("--delete", "--topic", name)

    def produce(self, topic: str, values: Iterable[str]) -> None:
        """Writes records without keys, spread over the topic's partitions by Kafka's producer.

        Args:
            topic: it must be there.
            values: one line each, without line breaks in them; written as UTF-8.

        Raises:
            RuntimeError: the broker refuses; its words are the message.
        """
        lines = "".join(f"{value}\n" for value in values)
        self._tool("ConsoleProducer", "--topic", topic, text=lines)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """The offset after the last record of each partition of a topic, by the partition's number.

        Raises:
            RuntimeError: the broker refuses; its words are the message.
        """
        lines = self._tool("GetOffsetShell", "--topic", topic).splitlines()
        fields = [line.rsplit(":", 2) for line in lines if line.startswith(f"{topic}:")]
        return {int(partition): int(offset) for _, partition, offset in fields}

    def _topics(self, *arguments: str) -> None:
        self._tool("TopicCommand", *arguments)

    def _tool(self, name: str, *arguments: str, text: str = "") -> str:
        tool = f"org.apache.kafka.tools.{name}"
        line = _java(self._class_path, tool, "--bootstrap-server", self.servers, *arguments)
        done = subprocess.run(
            line, capture_output=True, text=True, input=text, check=False, cwd=self._directory
        )
        if done.returncode != 0:
            raise RuntimeError(f"{name} {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout


@contextmanager
def run_kafka() -> Iterator[KafkaBroker]:
    """Runs a broker until the block ends. All of it is in a temporary directory, which is deleted then.

    Raises:
        RuntimeError: the artifacts can't be resolved, or the broker doesn't start; its last words are told.
    """
    jars = resolve(f"kafka-{KAFKA_VERSION}", _BROKER, transitive=True)
    class_path = str(jars / "*")
    with tempfile.TemporaryDirectory(prefix="tailrace-kafka-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        port, controller = _free_ports()
        config = directory / "server.properties"
        config.write_text(_properties(directory, port, controller), encoding="utf-8")
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        _must(
            # With =, for an id may begin with a dash.
            _java(
                class_path, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(config)
            ),
            directory,
        )
        log = directory / "broker.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                _java(class_path, "kafka.Kafka", str(config)),
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=directory,
            )
        try:
            _wait(process, port, log)
            yield KafkaBroker(port, class_path, directory)
        finally:
            process.kill()
            process.wait()


def _java(class_path: str, *arguments: str) -> list[str]:
    java = str(find_java(os.environ).path)
    return [java, *_MEMORY, "-cp", class_path, *arguments]


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


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise RuntimeError(f"The broker hasn't started: {log.read_text(errors='replace')[-3000:]}")


def _must(line: list[str], directory: Path) -> None:
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=directory)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(line[-4:])}: {done.stdout}{done.stderr}")


def _cache() -> Path:
    home = Path.home()
    if sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "tailrace"


def resolve(name: str, modules: Sequence[tuple[str, str, str]], *, transitive: bool) -> Path:
    """Has Ivy fetch the jars of some Maven modules, once, into the user's cache.

    Args:
        name: of their directory in the cache; with a version in it, for what is there is taken.
        modules: organisation, name and version of each.
        transitive: whether what they depend on is wanted too.

    Returns:
        The directory with the jars.

    Raises:
        RuntimeError: Ivy can't reach its repositories, or one of the modules isn't there.
    """
    found = _cache() / name
    if found.is_dir():
        return found
    found.parent.mkdir(parents=True, exist_ok=True)
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    # Resolved aside and moved into place: a cut download never leaves half of the jars.
    with tempfile.TemporaryDirectory(dir=found.parent) as temporary:
        aside = Path(temporary)
        wanted = aside / "ivy.xml"
        wanted.write_text(_ivy_file(modules, transitive=transitive), encoding="utf-8")
        _must(
            [
                *[str(find_java(os.environ).path), "-jar", str(ivy), "-ivy", str(wanted)],
                *["-confs", "default", "-types", "jar", "bundle", "-cache", f"{aside}/ivy"],
                *["-retrieve", f"{aside}/jars/[artifact]-[revision](-[classifier]).[ext]"],
            ],
            aside,
        )
        for _, module, _ in modules:
            if not list((aside / "jars").glob(f"{module}-*.jar")):
                raise RuntimeError(
                    f"Ivy hasn't resolved {module}: check the network and Java's proxy settings."
                )
        try:
            (aside / "jars").rename(found)
        except OSError:
            # Another process was faster.
            if not found.is_dir():
                raise
            shutil.rmtree(aside / "jars")
    return found


def _ivy_file(modules: Sequence[tuple[str, str, str]], *, transitive: bool) -> str:
    dependencies = "".join(
        f'<dependency org="{organisation}" name="{name}" rev="{version}" conf="default->default" '
        f'transitive="{str(transitive).lower()}"/>'
        for organisation, name, version in modules
    )
    return (
        '<ivy-module version="2.0"><info organisation="tailrace" module="tests"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
