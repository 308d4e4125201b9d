"""The end of a command: its exit code, and its one-line message about an error.

Commands raise errors. Only here do they become `tailrace: <cause and cure>` on the standard error and an exit
code. TAILRACE_DEBUG=1 shows the traceback instead.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import sys
import traceback
from typing import TYPE_CHECKING, TextIO

from tailrace.commands.terminal import printable
from tailrace.errors import TailraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEBUG = "TAILRACE_DEBUG"
FAILED = 1
INTERRUPTED = 128 + signal.SIGINT

EXIT_CODES = {
    0: "The command has done what it says, or the reader of its output has closed it, as `head` does.",
    FAILED: "It failed, and one line on the standard error says why and what to do; or it has found what is "
    "wrong: a check of `doctor` that fails, a demo whose result isn't right, differences without a reason.",
    2: "The arguments make no sense. Usage and reason are on the standard error; nothing was begun.",
    INTERRUPTED: "Ctrl-C.",
    128 + signal.SIGTERM: "A demo was ended by SIGTERM, and has deleted what it had written.",
}

_MODULES = {"py4j": "pyspark", "pyarrow": "pyarrow"}


def exit_code(command: Callable[[], int]) -> int:
    """Runs a command and returns its exit code, whatever happens.

    Args:
        command: returns its own exit code.
    """
    # A stand-in for it, such as that of a notebook, may have no such method.
    reconfigure: Callable[..., None] | None = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        # A character that the terminal lacks must not make the command fail.
        reconfigure(errors="backslashreplace")
    try:
        code = command()
        # Here, because errors at the interpreter's end are not caught.
        sys.stdout.flush()
    except Exception as error:  # noqa: BLE001  any error becomes a line
        return _ended(error)
    except KeyboardInterrupt:
        # As a shell's commands end.
        return INTERRUPTED
    return code


def _ended(error: Exception) -> int:
    # A socket of a JVM that has died breaks, too.
    if isinstance(error, BrokenPipeError) and _is_closed(sys.stdout):
        # `tailrace inspect ... | head`: the reader has ended.
        _leave(sys.stdout)
        return 0
    if any(isinstance(one, KeyboardInterrupt) for one in _chain(error)):
        # The interrupted code has failed while it was ending.
        return INTERRUPTED
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
        return FAILED
    with contextlib.suppress(OSError, ValueError):
        # An argument that isn't UTF-8 may be in it.
        line = printable(told(error)).encode(errors="backslashreplace").decode()
        print(f"tailrace: {line}", file=sys.stderr, flush=True)
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        return FAILED
    _leave(sys.stdout)
    return FAILED


def _is_closed(stream: TextIO) -> bool:
    """True if a stream is a pipe that nobody reads."""
    try:
        asked = select.poll()
        asked.register(stream.fileno(), 0)
        return any(found & select.POLLERR for _, found in asked.poll(0))
    except (AttributeError, OSError, ValueError):
        # It is no file, because a test has replaced it; or Windows has no `poll`.
        return False


def _leave(stream: TextIO) -> None:
    """Python would write to it again at its end, and complain."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def told(error: BaseException) -> str:
    """The error in one line.

    Args:
        error: of any kind.
    """
    match error:
        case TailraceError():
            return " ".join(str(error).split())
        case ModuleNotFoundError(name=str(name)) if name.partition(".")[0] in _MODULES:
            package = _MODULES[name.partition(".")[0]]
            return (
                f"The Python package {name} isn't installed, which this command needs: pip install {package}."
            )
        case OSError(errno=errno.ENOSPC, filename=None):
            return "The output can't be written: no space is left on the device."
        case OSError(strerror=str(reason)):
            about = "" if error.filename is None else f": {error.filename}"
            return f"{reason}{about}."
        case UnicodeError():
            return f"A text isn't UTF-8: {first_line(error)}."
        case _:
            return f"{first_line(error)} ({DEBUG}=1 shows where.)"


def first_line(error: BaseException) -> str:
    """The first meaningful line of an error's text. Spark's plan and Java's stack follow it."""
    lines = [line.strip() for line in str(error).splitlines()]
    said = [line for line in lines if line and not line.startswith("An error occurred while calling")]
    # Py4J's second line is ": java.lang.IllegalStateException: ...".
    return said[0].removeprefix(": ").rstrip(";") if said else type(error).__name__
