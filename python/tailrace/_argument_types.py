"""Types of the commands' arguments."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """A whole number of one or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} isn't a whole number of one or more")
    return int(text)


def setting(text: str) -> tuple[str, str]:
    """A property and its value."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text} isn't NAME=VALUE")
    return name.strip(), value.strip()
