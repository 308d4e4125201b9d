"""Makes the exceptions that PySpark raises for Tailrace's errors `TailraceError`s too.

When Tailrace ends a query, PySpark builds a Python exception of the JVM's in one of two places, in classic
sessions and over Spark Connect: its `convert_exception` for all that is raised, and
`StreamingQuery.exception` for what is returned. `jvm_failures` and `connect_failures` add a step to
both. An exception whose text has a condition of Tailrace's gets a class that is both, for instance
`TailraceStateError` and `StreamingQueryException`. All other exceptions stay the same objects.
"""

# The class of an exception that is there is replaced: types can't say that.
# pyright: basic, reportAttributeAccessIssue=false

from __future__ import annotations

import re
from functools import cache, wraps
from typing import TYPE_CHECKING, Any

from tailrace.errors import TailraceError, from_condition

if TYPE_CHECKING:
    from collections.abc import Callable

# "[TAILRACE_STATE_FILE_MISSING] The state file ..." up to the stack trace, the blank line, Spark's
# description of the query, or the same error as a cause, that may follow.
_MESSAGE = re.compile(
    r"\[(TAILRACE_[A-Z_]+)\] (.*?)(?=\n\s*\n|\n\s*at |\n\s*Driver stacktrace|\n=== |: io\.tailrace\.|\Z)",
    re.DOTALL,
)


def said(text: str) -> tuple[str, str] | None:
    """Finds the first condition of Tailrace's, and its text in one line, in an exception's text."""
    found = _MESSAGE.search(text)
    return found and (found[1], " ".join(found[2].split()))


def as_tailrace(error: Any, parameters: Callable[[str], dict[str, str]]) -> Any:
    """The error of both kinds, if its text has a condition of Tailrace's; else the error itself.

    Args:
        error: an exception of PySpark's.
        parameters: finds what the text of a condition was filled with; {} if nobody knows.
    """
    found = None if isinstance(error, TailraceError) else said(str(error))
    if found is None:
        return error
    condition, text = found
    tailrace = from_condition(condition, text, parameters(condition))
    error.__class__ = _both(type(tailrace), type(error))  # type: ignore[arg-type]
    # Set here, because TailraceError's constructor would call PySpark's, which wants the JVM's object.
    error.args, error.condition, error.parameters = (text,), condition, tailrace.parameters
    return error


def convert_what_ends(query: Any, parameters: Callable[[Any, str], dict[str, str]]) -> None:
    """Has `StreamingQuery.exception` of a class return errors of both kinds.

    Args:
        query: the class.
        parameters: of an error and its condition.
    """
    ended_by = query.exception

    @wraps(ended_by)
    def exception(self: Any) -> Any:
        error = ended_by(self)
        return None if error is None else as_tailrace(error, lambda condition: parameters(error, condition))

    query.exception = exception


@cache
def _both(kind: type[TailraceError], spark: type[Exception]) -> type[Exception]:
    def plain(error: TailraceError) -> tuple[Any, ...]:
        # Objects of py4j and of gRPC can't be pickled.
        return from_condition, (error.condition, error.args[0], error.parameters)

    own = {
        "__module__": kind.__module__,
        "__reduce__": plain,
        # PySpark asks Spark's catalog for the text, and Tailrace's aren't in it.
        "getMessage": TailraceError.__str__,
    }
    return type(kind.__name__, (kind, spark), own)
