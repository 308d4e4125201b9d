"""The Spark session of the processes that campaigns kill."""

from __future__ import annotations

from pyspark.sql import SparkSession

import tailrace


def start(**more: str) -> SparkSession:
    """Starts it, with more settings, by their names with _ for the dots."""
    builder = SparkSession.builder.master("local[2]")
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        # Often, so that purging is killed too.
        "spark.sql.streaming.stateStore.maintenanceInterval": "300ms",
        "spark.sql.streaming.minBatchesToRetain": "3",
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return tailrace.configure(builder).getOrCreate()
