"""The Spark of benchmarks that run in the process that measures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

import tailrace

if TYPE_CHECKING:
    from collections.abc import Mapping


def local(memory: str, more: Mapping[str, str] | None = None) -> SparkSession:
    """Starts it, with Tailrace for all engines: they write Spark's logs and state alike.

    Args:
        memory: of the driver: "3g".
        more: further settings.
    """
    builder: SparkSession.Builder = SparkSession.builder
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "ERROR",
        **(more or {}),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return tailrace.configure(builder).getOrCreate()
