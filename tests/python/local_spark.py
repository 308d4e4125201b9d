"""The Spark of the tests, made the way a user makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

import tailrace

if TYPE_CHECKING:
    from collections.abc import Mapping


def start(memory: str, more: Mapping[str, str] | None = None) -> SparkSession:
    """Starts it in this process.

    Args:
        memory: of the driver: "1g".
        more: further settings.
    """
    settings: dict[str, Any] = {
        "spark.master": "local[2]",
        "spark.app.name": "tailrace tests",
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        **(more or {}),
    }
    return tailrace.configure(SparkSession.builder.config(map=settings)).getOrCreate()
