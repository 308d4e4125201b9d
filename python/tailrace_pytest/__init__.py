"""The fixtures that pytest finds where Tailrace is installed: a session, streams of a test, a Kafka broker.

    def test_my_pipeline(stream_test):
        served = stream_test.source("user int, served_at timestamp")
        ...

    def test_of_my_topics(tailrace_spark, kafka_broker):
        kafka_broker.create_topic("clicks", partitions=8)
        ...option("kafka.bootstrap.servers", kafka_broker.servers)...

pytest loads this package in every run of an environment, also in those of other projects. So it isn't part of
`tailrace`, which imports PySpark, and imports other packages in the fixtures.

`tailrace.kafka` describes the broker and its needs. Spark also needs its Kafka connector: return
`{"spark.jars": ",".join(tailrace.kafka.connector_jars())}` from `tailrace_settings`.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tailrace.kafka import KafkaBroker
    from tailrace.testing import StreamTest

SETTINGS = {
    "spark.master": "local[2]",
    "spark.app.name": "tests",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.tailrace.connect.testing": "true",
}


@pytest.fixture(scope="session")
def tailrace_settings() -> Mapping[str, str]:
    """Further settings of `tailrace_spark`. Define a fixture of this name in conftest.py to add some."""
    return {}


@pytest.fixture(scope="session")
def tailrace_spark(tailrace_settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A small session with Tailrace, for all tests; `local[2]`, 1 GB, time zone UTC."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - pytest loads this file in every run

    import tailrace  # noqa: PLC0415

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Python's workers need the packages of the tests, not those of the first python3 on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.config(map={**SETTINGS, **tailrace_settings})
    session = tailrace.configure(builder).getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def stream_test(tailrace_spark: SparkSession, tmp_path: Path) -> Iterator[StreamTest]:
    """Streams and queries of one test. Its queries are stopped when the test has ended."""
    from tailrace.testing.streams import StreamTest  # noqa: PLC0415

    with StreamTest(tailrace_spark, tmp_path) as test:
        yield test


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[KafkaBroker]:
    """One broker for the whole session; each test makes topics of its own."""
    from tailrace.kafka import run_kafka  # noqa: PLC0415

    with run_kafka() as broker:
        yield broker
