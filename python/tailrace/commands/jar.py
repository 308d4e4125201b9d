"""`tailrace jar`, `tailrace connect-conf` and `tailrace --version`: the jar for each version of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark

from tailrace._installation.jar import jar_path, jars
from tailrace._version import __version__
from tailrace.errors import TailraceError
from tailrace.session import server_settings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable


def version(_: argparse.Namespace) -> int:
    """Prints the version, and which of the jars the installed pyspark takes.

    Raises:
        TailraceError: there is no jar for that pyspark.
    """
    print(f"tailrace {__version__}, with jars for Spark {', '.join(jars()) or 'none'}")
    print(f"pyspark {pyspark.__version__} takes {jar_path().name}")
    return 0


def fill(jar: argparse.ArgumentParser) -> None:
    """Adds the arguments of `tailrace jar`."""
    _fill(jar, _jar)


def fill_connect(connect: argparse.ArgumentParser) -> None:
    """Adds the arguments of `tailrace connect-conf`."""
    _fill(connect, _connect_conf)


def _fill(command: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int]) -> None:
    command.add_argument(
        "--spark",
        metavar="VERSION",
        help="for this version of Spark, such as 4.3 (default: that of the pyspark which is installed)",
    )
    command.set_defaults(run=run)


def _jar(parsed: argparse.Namespace) -> int:
    print(jar_path(parsed.spark))
    return 0


def _connect_conf(parsed: argparse.Namespace) -> int:
    jar = jar_path(parsed.spark)
    if any(character.isspace() for character in str(jar)):
        raise TailraceError(
            f"The path of the jar has a blank, at which a shell splits what this command prints: {jar}. Give "
            'the server the jar by hand: start-connect-server.sh --jars "$(tailrace jar)" ...'
        )
    print(f"--jars {jar}")
    for name, value in server_settings().items():
        print(f"--conf {name}={value}")
    return 0
