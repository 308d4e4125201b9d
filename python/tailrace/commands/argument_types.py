"""Argument types that several commands have in common."""

from __future__ import annotations

import argparse
import re

# All of these are a 64-bit number.
_DIGITS = 18


def positive(text: str) -> int:
    """A whole number of one or more."""
    if not text.isdecimal() or len(text) > _DIGITS or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} isn't a whole number of one or more, and less than 10^18")
    return int(text)


def number(text: str) -> int:
    """A whole number of zero or more."""
    return 0 if text == "0" else positive(text)


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
