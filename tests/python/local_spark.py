"""The Spark of the tests, made the way a user makes it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

import tailrace
from tailrace_pytest import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Of a session that many tests share: to compile code for each query was a third of the tests' time. Generated
# code runs in the processes that tests start.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def interpreted(directory: Path) -> dict[str, str]:
    """The variables of a process whose session has these settings, from a file in a new directory."""
    directory.mkdir()
    lines = "".join(f"{name} {value}\n" for name, value in INTERPRETED.items())
    (directory / "spark-defaults.conf").write_text(lines)
    return {"SPARK_CONF_DIR": str(directory)}


def start(memory: str, more: Mapping[str, str] | None = None) -> SparkSession:
    """Starts it in this process.

    Args:
        memory: of the driver: "1g".
        more: further settings.
    """
    settings: dict[str, Any] = {**SETTINGS, "spark.driver.memory": memory, **(more or {})}
    session = tailrace.configure(SparkSession.builder.config(map=settings)).getOrCreate()
    # For each error PySpark asks a dozen times for `jvm.py4j`, and each time py4j looks for such a class
    # in all jars.
    jvm: Any = session._jvm
    jvm.py4j = SimpleNamespace(reflection=jvm.py4j.reflection)
    return session
