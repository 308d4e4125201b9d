"""The errors that Tailrace raises.

    TailraceError
    ├── TailraceSessionError   the Spark session lacks a part, or has an invalid setting
    ├── TailraceVersionError   wheel, jar, Spark, Scala and Java don't fit together
    ├── TailraceJoinError      a join that can't be planned: columns, types, durations, options, watermarks
    ├── TailraceReplayError    record metadata or a replay filter that isn't right
    ├── TailraceWatermarkError a watermark that can't be planned, or a host's clock far ahead
    ├── TailraceTableError     a table that can't be written, or that two runs write
    ├── TailraceRecursionError a recursion whose op isn't supported, or that exceeded a limit
    ├── TailraceStateError     a checkpoint or a state file that doesn't belong to this query, or is damaged
    ├── TailraceMemoryError    a task that Spark has no memory left for
    └── TailraceServerError    a watermark server that can't start, or that can't be reached

An argument of a wrong Python type raises `TypeError`, as everywhere in Python.

Calls of this package raise these. From `configure` or the first such call on, so do Spark's own: `start()`
when Tailrace refuses the query, `awaitTermination()` when Tailrace has ended it, `collect()` when a batch
fails. Such an error is Spark's exception too, for instance a `StreamingQueryException`, so code that catches
that one still does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class TailraceError(Exception):
    """The root of all errors of this package.

    Attributes:
        condition: the error class, for instance "TAILRACE_JOIN_WATERMARK_MISSING". Match on it rather than on
            the text. None for what has no class: an installation or a process that isn't as it has to be.
        parameters: what the text was filled with, by name, for instance {"side": "left", "column":
            "served_at"}; empty if unknown.
    """

    def __init__(
        self, message: str, *, condition: str | None = None, parameters: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.condition = condition
        self.parameters: dict[str, str] = dict(parameters or {})

    def __str__(self) -> str:
        """The text behind its condition, which is what one searches for."""
        # Exception's, not super()'s: an error that is Spark's as well has Spark's text next in line.
        text = Exception.__str__(self)
        return f"[{self.condition}] {text}" if self.condition else text


class TailraceSessionError(TailraceError):
    """The Spark session lacks a part (`TAILRACE_{SESSION,CONNECT}_*`), or has a wrong setting.

    Parts are the jar and the extension; settings are those of `spark.tailrace.*` (`TAILRACE_CONF_*`).
    """


class TailraceVersionError(TailraceError):
    """Wheel, jar, Spark, Scala and Java don't fit together (`TAILRACE_SPARK_VERSION_*`)."""


class TailraceJoinError(TailraceError):
    """A join that can't be planned (`TAILRACE_{JOIN,SYNC}_*`), or one that a partition has stalled."""


class TailraceReplayError(TailraceError):
    """Record metadata or a replay filter that isn't right (`TAILRACE_{FUNCTION,METADATA,REPLAY}_*`)."""


class TailraceWatermarkError(TailraceError):
    """A watermark that can't be planned, or a row too far ahead (`TAILRACE_{WATERMARK,WINDOWS}_*`)."""


class TailraceTableError(TailraceError):
    """A table that can't be written: its library, its columns, its writers (`TAILRACE_TABLE_*`)."""


class TailraceRecursionError(TailraceError):
    """A recursion that can't go round, or went beyond a limit or in a cycle (`TAILRACE_RECURSION_*`)."""


class TailraceStateError(TailraceError):
    """A checkpoint or state file that is another query's, or damaged.

    `TAILRACE_{STATE,CHECKPOINT,BACKFILL}_*`.
    """


class TailraceMemoryError(TailraceError):
    """A task that needs more memory for rows than Spark has (`TAILRACE_MEMORY_*`)."""


class TailraceServerError(TailraceError):
    """A watermark server that can't start, or can't be asked (`TAILRACE_SERVER_*`)."""


_PREFIXES: Mapping[type[TailraceError], tuple[str, ...]] = {
    TailraceSessionError: ("CONNECT_", "SESSION_", "CONF_", "CONTINUOUS_MODE_", "ASYNC_PROGRESS_"),
    TailraceMemoryError: ("MEMORY_",),
    TailraceVersionError: ("SPARK_VERSION_",),
    TailraceJoinError: ("JOIN_", "EXAMPLES_", "SYNC_", "OUTPUT_MODE_", "REAL_TIME_MODE_"),
    TailraceReplayError: ("FUNCTION_", "METADATA_", "REPLAY_"),
    TailraceWatermarkError: ("WATERMARK_", "WINDOWS_"),
    TailraceTableError: ("TABLE_",),
    TailraceRecursionError: ("RECURSION_",),
    TailraceStateError: ("STATE_", "CHECKPOINT_", "BACKFILL_"),
    TailraceServerError: ("SERVER_",),
}


# The errors that any call may refuse its arguments with: which exception they are depends on the call.
_OF_ANY_CALL = ("TAILRACE_OPTION_", "TAILRACE_COLUMN_", "TAILRACE_NAME_", "TAILRACE_PATH_")
_BY_CALL: Mapping[str, type[TailraceError]] = {
    "tailrace.join": TailraceJoinError,
    "tailrace.examples": TailraceJoinError,
    "tailrace.position": TailraceJoinError,
    "tailrace.time_decay": TailraceJoinError,
    "tailrace.as_of": TailraceJoinError,
    "tailrace.sync_join": TailraceJoinError,
    "tailrace.label_maturity": TailraceJoinError,
    "tailrace.merge_maturity": TailraceJoinError,
    "tailrace.preflight": TailraceJoinError,
    "tailrace.reconcile": TailraceJoinError,
    "tailrace.filter_replays": TailraceReplayError,
    "tailrace.stream_metadata": TailraceReplayError,
    "tailrace.accurate_watermark": TailraceWatermarkError,
    "tailrace.stamped_watermark": TailraceWatermarkError,
    "tailrace.stamp_watermark": TailraceWatermarkError,
    "tailrace.write_windows": TailraceWatermarkError,
    "tailrace.window_report": TailraceWatermarkError,
    "tailrace.reading.WindowReader": TailraceWatermarkError,
    "tailrace.reading.ray_dataset": TailraceWatermarkError,
    "tailrace.write_table": TailraceTableError,
    "tailrace.recursively": TailraceRecursionError,
    "tailrace.backfill": TailraceStateError,
}


def clause(text: str) -> str:
    """Another library's text without its full stop: as a part of a sentence that ends with one."""
    return text.rstrip(" .\n")


def from_condition(
    condition: str, message: str, parameters: Mapping[str, str] | None = None
) -> TailraceError:
    """Makes the exception of an error class.

    Args:
        condition: the error class, which begins with `TAILRACE_`; one that this release doesn't know gives
            the root.
        message: the text for the user.
        parameters: what the text was filled with.
    """
    if condition.startswith(_OF_ANY_CALL):
        # The text names the call, too, where the parameters are lost.
        call = (parameters or {}).get("call") or next((c for c in _BY_CALL if f"{c} " in message), "")
        # One of a label of tailrace.examples names it, behind a comma.
        kind = _BY_CALL.get(call.split(",")[0], TailraceError)
    else:
        name = condition.removeprefix("TAILRACE_")
        kind = next((kind for kind, known in _PREFIXES.items() if name.startswith(known)), TailraceError)
    return kind(message, condition=condition, parameters=parameters)
