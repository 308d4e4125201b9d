"""Checks that wheel, jar, Spark, Scala and Java fit together. `_bridge/jvm.py` reads the JVM's versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace._installation.java import MINIMUM_MAJOR, major_version
from tailrace._version import __version__
from tailrace.errors import TailraceVersionError

if TYPE_CHECKING:
    from collections.abc import Mapping

SCALA_SERIES = "2.13"


def series(version: str) -> str:
    """The major and minor part of a version: "4.2" for "4.2.0"."""
    return ".".join(version.split(".")[:2])


def check_versions(jvm: Mapping[str, str], pyspark: str, *, remote: bool = False) -> None:
    """Compares all the versions that meet in a session.

    Args:
        jvm: the versions that the jar found on its JVM: "tailrace" (the jar's own version), "spark" (the
            Spark it runs in), "builtForSpark", "scala" and "java".
        pyspark: the version of the pyspark package in this process.
        remote: whether the JVM is that of a Spark Connect server.

    Raises:
        TailraceVersionError: two of them don't fit; one sentence names both and the fix.
    """
    problem = _problem(jvm, pyspark, remote=remote)
    if problem is not None:
        raise TailraceVersionError(problem)


def _problem(jvm: Mapping[str, str], pyspark: str, *, remote: bool) -> str | None:
    if jvm["tailrace"] != __version__:
        return (
            f"The Python package is tailrace {__version__} and the jar that Spark loaded is tailrace "
            f"{jvm['tailrace']}: remove the other jar from spark.jars and from Spark's jars folder, or "
            f"install tailrace=={jvm['tailrace']}."
        )
    if series(jvm["spark"]) != series(jvm["builtForSpark"]):
        right = f"tailrace-spark{series(jvm['spark'])}_{SCALA_SERIES}-{__version__}.jar"
        return (
            f"The jar of tailrace is built for Spark {series(jvm['builtForSpark'])} and the session "
            f"runs Spark {jvm['spark']}: start Spark with {right} instead, whose path "
            f"`tailrace jar --spark {series(jvm['spark'])}` prints where it is installed."
        )
    if series(pyspark) != series(jvm["spark"]):
        where = "the Spark Connect server" if remote else "the JVM"
        cure = (
            f"install pyspark {series(jvm['spark'])} here, or ask for a server of Spark {series(pyspark)}"
            if remote
            else f"unset SPARK_HOME, or install pyspark {series(jvm['spark'])}"
        )
        return f"The Python package is pyspark {pyspark} and {where} runs Spark {jvm['spark']}: {cure}."
    if series(jvm["scala"]) != SCALA_SERIES:
        return (
            f"This release of tailrace is built for Scala {SCALA_SERIES} and the session runs Scala "
            f"{jvm['scala']}: use the Spark distribution for Scala {SCALA_SERIES}."
        )
    if major_version(jvm["java"]) < MINIMUM_MAJOR:
        return (
            f"The session runs on Java {jvm['java']} and tailrace needs Java {MINIMUM_MAJOR} or newer: "
            "install one and set JAVA_HOME to it."
        )
    return None
