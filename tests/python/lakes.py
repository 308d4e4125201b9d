"""Delta and Iceberg in the session of the tests: `TAILRACE_LAKE=delta`, of a process that a test starts."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

import pytest

from tailrace._installation.ivy import resolve

if TYPE_CHECKING:
    from pathlib import Path

LAKE = os.environ.get("TAILRACE_LAKE", "")
# Each library is for one minor version of Spark.
LAKES = [
    pytest.param("delta", marks=pytest.mark.spark("==4.2.*", reason="Delta 4.4's library is for Spark 4.2")),
    pytest.param(
        "iceberg", marks=pytest.mark.spark("==4.1.*", reason="Iceberg 1.12's library is for Spark 4.1")
    ),
]
_MODULES = {
    "delta": [("io.delta", "delta-spark_4.2_2.13", "4.4.0"), ("io.delta", "delta-storage", "4.4.0")],
    "iceberg": [("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0")],
}
_SETTINGS = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # A small log is read by one task, and not by fifty.
        "spark.databricks.delta.snapshotPartitions": "2",
    },
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
    },
}


def settings(lake: str = LAKE, warehouse: Path | None = None) -> dict[str, str]:
    """What a session needs for the tables of a library; nothing if the process has none.

    Args:
        lake: "delta" or "iceberg".
        warehouse: the folder of its tables.
    """
    if not lake:
        return {}
    (_, module, version), *_ = _MODULES[lake]
    jars = resolve(f"{module}-{version}", _MODULES[lake], transitive=False)
    folder = str(warehouse or tempfile.mkdtemp(prefix="tailrace-lake-"))
    places = {"spark.sql.warehouse.dir": folder, "spark.sql.catalog.lake.warehouse": folder}
    return {"spark.jars": ",".join(map(str, jars.glob("*.jar"))), **_SETTINGS[lake], **places}


def table(name: str, lake: str = LAKE) -> str:
    """A table of the session's, by its whole name."""
    return f"lake.db.{name}" if lake == "iceberg" else f"default.{name}"
