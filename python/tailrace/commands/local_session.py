"""The local Spark of Tailrace's own commands."""

from __future__ import annotations

import contextlib
import logging
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

import tailrace
from tailrace._bridge import jvm
from tailrace.commands.failures import first_line
from tailrace.commands.java_program import LOGGING, spark_home
from tailrace.errors import TailraceError, TailraceSessionError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path


@contextmanager
def local_session(
    name: str, driver_memory: str, settings: Mapping[str, str] | None = None, scratch: Path | None = None
) -> Generator[SparkSession]:
    """A quiet local session on all cores, reachable from this machine only; stopped at the end.

    Args:
        name: of the application.
        driver_memory: heap of the JVM, as Spark reads sizes ("2g").
        settings: further Spark properties, which win over these.
        scratch: directory for temporary files; None takes the JVM's.
    """
    spark_home()
    # Py4J logs calls that a Ctrl-C interrupts, with a traceback, on a root logger that isn't configured.
    logging.getLogger().addHandler(logging.NullHandler())
    # A command runs where it is called, whatever server the shell has for notebooks.
    for variable in ("SPARK_API_MODE", "SPARK_REMOTE"):
        os.environ.pop(variable, None)
    options = [f"-Dlog4j2.configurationFile={LOGGING}"]
    if scratch is not None:
        quoted = str(scratch).replace("\\", "\\\\").replace('"', '\\"')
        options.append(f'"-Djava.io.tmpdir={quoted}"')
    builder = (
        SparkSession.builder.master("local[*]")
        .appName(name)
        .config("spark.driver.memory", driver_memory)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraJavaOptions", " ".join(options))
    )
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    spark = started(tailrace.configure(builder))
    try:
        yield spark
    finally:
        with contextlib.suppress(*jvm.SPARK_ERRORS, OSError):
            # After Ctrl-C or a crash the JVM may have ended.
            spark.stop()


def started(builder: SparkSession.Builder) -> SparkSession:
    """The session of a builder, whose JVM may not start.

    Raises:
        TailraceSessionError: it doesn't.
    """
    try:
        return builder.getOrCreate()
    except TailraceError:
        raise
    except (*jvm.SPARK_ERRORS, OSError) as error:
        raise TailraceSessionError(
            f"Spark doesn't start ({first_line(error)}). What its JVM says is above. Check the settings of "
            "the command: heap, --conf, PYSPARK_SUBMIT_ARGS. `tailrace doctor` checks Java, Spark and jar."
        ) from error
