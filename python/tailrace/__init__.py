"""Tailrace: event-time joins for Spark Structured Streaming that emit each row once, complete.

`configure` readies a session, `join` joins two streams in it, and every refusal is a `TailraceError`.
On the command line, `tailrace doctor` says what an installation lacks and `tailrace demo` shows it at work.
"""

from tailrace._jar import jar_path
from tailrace._session import configure
from tailrace._version import __version__
from tailrace.errors import (
    TailraceError,
    TailraceJoinError,
    TailraceMemoryError,
    TailraceSessionError,
    TailraceStateError,
    TailraceVersionError,
)
from tailrace.join import join

__all__ = [
    "TailraceError",
    "TailraceJoinError",
    "TailraceMemoryError",
    "TailraceSessionError",
    "TailraceStateError",
    "TailraceVersionError",
    "__version__",
    "configure",
    "jar_path",
    "join",
]
