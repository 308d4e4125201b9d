"""The Spark of the tests, made the way a user makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

import tailrace
from tailrace.testing.plugin import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Mapping

# Of a session that many tests share: to compile code for each query was a third of the tests' time. Generated
# code runs in the processes that tests start.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def start(memory: str, more: Mapping[str, str] | None = None) -> SparkSession:
    """Starts it in this process.

    Args:
        memory: of the driver: "1g".
        more: further settings.
    """
    settings: dict[str, Any] = {**SETTINGS, "spark.driver.memory": memory, **(more or {})}
    return tailrace.configure(SparkSession.builder.config(map=settings)).getOrCreate()
