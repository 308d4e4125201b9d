"""What the arguments of several commands have in common."""

from __future__ import annotations

import argparse
import re


def positive(text: str) -> int:
    """A whole number of one or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} isn't a whole number of one or more")
    return int(text)


def heap(text: str) -> str:
    """A size of the JVM's heap, as `java -Xmx` takes it."""
    if not re.fullmatch(r"[1-9]\d*[kmgt]?", text.lower()):
        raise argparse.ArgumentTypeError(f"{text} isn't a size of a heap: write one such as 2g or 512m")
    return text.lower()


def setting(text: str) -> tuple[str, str]:
    """A property and its value."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text} isn't NAME=VALUE")
    return name.strip(), value.strip()


def add_settings(command: argparse.ArgumentParser) -> None:
    """Adds `--conf`, Spark properties by their names."""
    command.add_argument(
        "--conf",
        type=setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a Spark property, as spark-submit takes them, for instance spark.hadoop.fs.s3a.endpoint=...",
    )
