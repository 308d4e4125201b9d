"""`tailrace doctor`: checks an installation from Java upwards, and suggests fixes."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql import SparkSession

from tailrace._bridge import jvm
from tailrace._installation.jar import jar_path, jars, read_versions
from tailrace._installation.java import JavaUnusableError, find_java
from tailrace._installation.user_settings import launch_settings
from tailrace._installation.versions import SCALA_SERIES, series
from tailrace._version import __version__
from tailrace.commands import terminal
from tailrace.commands.failures import first_line
from tailrace.errors import TailraceError
from tailrace.session import configure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@dataclass(frozen=True)
class Finding:
    """The outcome of a check: its name, its finding (or the problem and its fix), and whether it passed."""

    name: str
    detail: str
    ok: bool

    def line(self) -> str:
        """The finding as a line of the report."""
        return f"{'ok  ' if self.ok else 'FAIL'}  {self.name:<10}  {self.detail}"


class CheckFailedError(Exception):
    """A check has failed. The message has the problem and its fix."""


def report(*, with_session: bool) -> bool:
    """Prints a line per check on the standard output, and returns whether all have passed.

    Args:
        with_session: whether to start a small local Spark, once the other checks have passed.
    """
    well = True
    with terminal.bar("checking"):
        for finding in findings(os.environ, with_session=with_session):
            print(finding.line(), flush=True)
            well = well and finding.ok
    return well


def findings(environ: Mapping[str, str], *, with_session: bool) -> Iterator[Finding]:
    """Yields the finding of each check in turn, from the Java up.

    Args:
        environ: environment variables that the checks read.
        with_session: whether to start a small local Spark, once the other checks have passed.
    """
    checks: list[tuple[str, Callable[[Mapping[str, str]], str]]] = [
        ("java", _check_java),
        ("pyspark", _check_pyspark),
        ("jar", _check_jar),
        ("SPARK_HOME", _check_spark_home),
        ("settings", _check_settings),
        ("disk", _check_disk),
        ("network", _check_network),
    ]
    well = True
    for name, check in checks:
        finding = _finding(name, check, environ)
        well = well and finding.ok
        yield finding
    if with_session and well:
        yield _finding("session", _check_session, environ)


def _finding(name: str, check: Callable[[Mapping[str, str]], str], environ: Mapping[str, str]) -> Finding:
    try:
        return Finding(name, check(environ), ok=True)
    except (CheckFailedError, JavaUnusableError, TailraceError) as error:
        return Finding(name, str(error), ok=False)


def _check_java(environ: Mapping[str, str]) -> str:
    java = find_java(environ)
    return f"{java.version} ({java.path})"


def _check_pyspark(_: Mapping[str, str]) -> str:
    jar_path()
    return f"{pyspark.__version__}, and tailrace has jars for Spark {', '.join(jars())}"


def _check_jar(_: Mapping[str, str]) -> str:
    jar = jar_path()
    versions = read_versions(jar)
    found = (versions.tailrace, series(versions.spark), series(versions.scala))
    wanted = (__version__, series(pyspark.__version__), SCALA_SERIES)
    if found != wanted:
        raise CheckFailedError(
            f"{jar} is tailrace {versions.tailrace} for Spark {versions.spark} and Scala {versions.scala}, "
            f"and {wanted[0]} for Spark {wanted[1]} and Scala {wanted[2]} is wanted: "
            "pip install --force-reinstall tailrace."
        )
    return f"tailrace {versions.tailrace} for Spark {versions.spark}, Scala {versions.scala} ({jar})"


def _check_spark_home(environ: Mapping[str, str]) -> str:
    home = environ.get("SPARK_HOME")
    if not home:
        return "not set: pyspark's own Spark is used"
    core = next(Path(home).glob("jars/spark-core_*.jar"), None)
    named = re.search(r"spark-core_[\d.]+-(.+)\.jar", core.name) if core is not None else None
    if named is None:
        raise CheckFailedError(
            f"SPARK_HOME is {home}, which holds no Spark, and pyspark would start it: unset SPARK_HOME."
        )
    if named[1] != pyspark.__version__:
        raise CheckFailedError(
            f"SPARK_HOME is {home}, a Spark {named[1]}, and pyspark is {pyspark.__version__}: unset "
            f"SPARK_HOME, or pip install pyspark=={named[1]} if tailrace supports it."
        )
    return f"{home}, Spark {named[1]}"


def _check_network(environ: Mapping[str, str]) -> str:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            listener.bind(("127.0.0.1", 0))
    except OSError as error:
        raise CheckFailedError(
            f"No port can be opened on 127.0.0.1 ({error}), over which Python and the JVM talk: allow local "
            "connections in the firewall or the sandbox."
        ) from error
    if environ.get("SPARK_LOCAL_IP"):
        _check_own(environ["SPARK_LOCAL_IP"])
        return f"127.0.0.1 is open, SPARK_LOCAL_IP is {environ['SPARK_LOCAL_IP']}"
    try:
        address = socket.gethostbyname(socket.gethostname())
    except OSError as error:
        raise CheckFailedError(
            f"This machine's name {socket.gethostname()!r} has no address ({error}), and Spark looks it up "
            "when it starts: export SPARK_LOCAL_IP=127.0.0.1, or add the name to the hosts file."
        ) from error
    return f"127.0.0.1 is open, this machine is {address}"


def _check_own(address: str) -> None:
    """Refuses an address that no interface of this machine has: Spark would listen on it."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.bind(place)
    except OSError as error:
        raise CheckFailedError(
            f"SPARK_LOCAL_IP is {address}, on which this machine can't listen ({error.strerror}): set it to "
            "an address of the machine, for instance 127.0.0.1, or unset it."
        ) from error


def _check_disk(environ: Mapping[str, str]) -> str:
    named = environ.get("SPARK_LOCAL_DIRS")
    places = named.split(",") if named else [tempfile.gettempdir()]
    for place in places:
        try:
            # As Spark does: it makes the directory if it isn't there.
            Path(place).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=place):
                pass
        except OSError as error:
            name = "SPARK_LOCAL_DIRS" if named else "TMPDIR"
            raise CheckFailedError(
                f"Spark can't write its temporary files into {place} ({error.strerror}): set {name} to a "
                "directory that can be written to."
            ) from error
    return f"temporary files go into {', '.join(places)}"


def _check_settings(environ: Mapping[str, str]) -> str:
    launch = launch_settings(environ)
    return f"{len(launch.defaults)} in spark-defaults.conf, {len(launch.submit)} in PYSPARK_SUBMIT_ARGS"


def _check_session(_: Mapping[str, str]) -> str:
    builder = (
        SparkSession.builder.master("local[1]")
        .appName("tailrace doctor")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
    )
    try:
        spark = configure(builder).getOrCreate()
    except (*jvm.SPARK_ERRORS, OSError) as error:
        raise CheckFailedError(
            f"Spark doesn't start ({first_line(error)}): its own messages are above; "
            "try a plain pyspark session without tailrace."
        ) from error
    try:
        jvm.check_session(spark)
        return f"Spark {spark.version} runs with Tailrace's extension"
    finally:
        with contextlib.suppress(*jvm.SPARK_ERRORS, OSError):
            spark.stop()
