"""A pytest plugin: a real Kafka broker for the tests of this package, and of whoever builds on it.

    pytest_plugins = ["tailrace.testing"]          # in conftest.py; then any test may ask for `kafka_broker`

    def test_my_pipeline(kafka_broker):
        kafka_broker.create_topic("clicks", partitions=8)
        ...option("kafka.bootstrap.servers", kafka_broker.servers)...

`tailrace.kafka` says what the broker is and needs. Spark needs its Kafka connector besides, for `spark.jars`:
`tailrace.kafka.connector_jars()`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tailrace.kafka import KafkaBroker, run_kafka

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["KafkaBroker", "kafka_broker"]


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[KafkaBroker]:
    """One broker for the whole session; each test makes topics of its own."""
    with run_kafka() as broker:
        yield broker
