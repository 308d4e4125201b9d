"""The Spark of benchmarks: in the process that measures, which may be one of its own for each run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

import tailrace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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


def launch(script: str, arguments: Sequence[str]) -> Any:  # noqa: ANN401 - what the script prints
    """Runs a benchmark's script in a process of its own, and thus a JVM of its own.

    What earlier runs have written is on the disk by then, for it isn't this run that pays for it.

    Args:
        script: its `__file__`.
        arguments: of its command line.

    Returns:
        The last line that it prints, which is JSON.
    """
    os.sync()
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    line = [sys.executable, script, *arguments]
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])
