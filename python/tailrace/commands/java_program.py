"""Runs a program of the jar on Spark's class path, without a Spark session: it answers in a second or two."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from pyspark.find_spark_home import _find_spark_home  # pyright: ignore[reportPrivateUsage]

from tailrace._installation.jar import jar_path
from tailrace._installation.java import JavaUnusableError, find_java
from tailrace._installation.user_settings import launch_settings
from tailrace.errors import TailraceError, TailraceSessionError, from_condition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# As a URI, in which a path has no blanks to be split at.
LOGGING = Path(__file__).resolve().with_name("log4j2.properties").as_uri()
# A short life: no time for the second compiler, nor for a garbage collector's threads.
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={LOGGING}")


def run(program: str, arguments: Sequence[str], settings: Mapping[str, str]) -> Any:  # noqa: ANN401 - it is JSON
    """Runs a program and returns its answer.

    Args:
        program: class with a main method, which reads Spark properties as a JSON object from its standard
            input, and prints its answer as JSON, or condition, message and parameters of an error.
        arguments: the program's arguments.
        settings: Spark properties, which win over those of spark-defaults.conf.

    Raises:
        TailraceError: the one that the program refused with; or it failed, and its last output is the text.
        TailraceSessionError: there is no Java, no Spark or no jar.
    """
    environ = os.environ
    try:
        java = find_java(environ)
    except JavaUnusableError as error:
        raise TailraceSessionError(str(error)) from error
    properties = {**launch_settings(environ).merged(), **settings}
    done = subprocess.run(
        [java.path, *_QUICK, "-cp", _class_path(environ, properties), program, *arguments],
        input=json.dumps(properties).encode(),
        capture_output=True,
        check=False,
    )
    try:
        answer = json.loads(done.stdout)
    except ValueError as error:
        said = done.stderr.decode(errors="replace").strip()
        failure = TailraceError(
            f"{program} failed with exit code {done.returncode} ({_reason(said)}): `tailrace doctor` looks "
            "for what is wrong with Java, Spark and the jar."
        )
        failure.add_note(said)
        raise failure from error
    if done.returncode != 0:
        raise from_condition(answer["condition"], _text(answer), answer["parameters"])
    return answer


def spark_home() -> Path:
    """The directory of the Spark that PySpark starts.

    Raises:
        TailraceSessionError: there is none.
    """
    home = Path(_find_spark_home())
    if not (home / "jars").is_dir():
        raise TailraceSessionError(f"SPARK_HOME is {home}, which holds no Spark: unset SPARK_HOME.")
    return home


def _reason(said: str) -> str:
    """The most meaningful line of a program's last output."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith(("Exception in thread", "Error"))]
    return [*causes, *lines, "it said nothing"][0]


def _text(refusal: Mapping[str, Any]) -> str:
    message = str(refusal["message"]).removeprefix(f"[{refusal['condition']}]")
    # Spark appends the SQL state, to the reasons in the text too. The condition already implies it.
    return " ".join(re.sub(r" SQLSTATE: \w{5}\b\.?", "", message).split())


def _class_path(environ: Mapping[str, str], properties: Mapping[str, str]) -> str:
    """The class path that Spark's own launcher gives a driver, and Tailrace's jar."""
    home = spark_home()
    own = [environ.get("SPARK_CONF_DIR") or str(home / "conf"), str(jar_path()), str(home / "jars" / "*")]
    first = [properties.get("spark.driver.extraClassPath", "")]
    added = [_local_path(jar.strip()) for jar in properties.get("spark.jars", "").split(",")]
    named = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
    entries = [*first, *own, *added, *(environ.get(name, "") for name in named)]
    # An empty entry would be the current directory.
    return os.pathsep.join(entry for entry in entries if entry)


def _local_path(jar: str) -> str:
    return unquote(urlparse(jar).path) if jar.startswith(("file:", "local:")) else jar
