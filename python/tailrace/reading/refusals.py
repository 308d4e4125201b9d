"""The errors of what is read: each says what is wrong with the folder or the call, and the cure."""

from __future__ import annotations

from tailrace._bridge import arguments
from tailrace.errors import TailraceError, TailraceWatermarkError, clause, from_condition

CALL = "tailrace.reading.WindowReader"


def not_found(path: str) -> TailraceError:
    """There is no such folder."""
    text = f"{path} has no windows of write_windows."
    cure = "Name the folder that the query writes to. The first micro-batch creates it."
    return _refusal("TAILRACE_WINDOWS_NOT_FOUND", text, cure, path=path)


def window_itself(path: str) -> TailraceError:
    """The path is one window of a folder."""
    text = f"{path} is one window of write_windows, and not the folder of all."
    cure = f"Name that folder, {path.rpartition('/')[0]}. `since` and `until` choose windows."
    return _refusal("TAILRACE_WINDOWS_NOT_FOUND", text, cure, path=path)


def mixed(path: str, columns: str) -> TailraceError:
    """The folder has windows of several writers."""
    text = f"{path} has windows of several columns: {columns}."
    cure = "A folder of write_windows has one: move the directories of the others away."
    return _refusal("TAILRACE_WINDOWS_MIXED", text, cure, path=path, columns=columns)


def out_of_order(path: str, unmarked: str, complete: str) -> TailraceError:
    """A window without a marker comes before a complete one."""
    text = f"In {path} {complete} is complete, and {unmarked} before it has no _SUCCESS."
    cure = "write_windows marks windows in order of time. Restore the file, or move the directory away."
    condition = "TAILRACE_WINDOWS_ORDER"
    return _refusal(condition, text, cure, path=path, unmarked=unmarked, complete=complete)


def missing(path: str, gone: str, complete: str) -> TailraceError:
    """A window between two complete ones has no directory."""
    text = f"In {path} the window {complete} is complete, and {gone} before it has no directory."
    cure = (
        "write_windows marks windows without rows, too, so it was deleted or moved. Restore it. To read "
        "without it, make a pass with `until` at its start, and one with `since` after it."
    )
    named = {"path": path, "missing": gone, "complete": complete}
    return _refusal("TAILRACE_WINDOWS_MISSING", text, cure, **named)


def report(path: str, reason: str) -> TailraceError:
    """A marker isn't that of this release."""
    text = f"{path} is no completeness report that this release knows ({_clause(reason)})."
    cure = "Another program has written it, or a newer release: then update tailrace here."
    return _refusal("TAILRACE_WINDOWS_REPORT", text, cure, path=path, reason=reason)


def none_complete(path: str) -> TailraceError:
    """The folder has no complete window."""
    text = f"{path} has no complete window yet: none has a file _SUCCESS."
    cure = (
        "Wait for the low watermark of the query (`tailrace why` says what holds it back), or read with "
        "`follow=True`. If the query writes to another folder, name that one."
    )
    return _refusal("TAILRACE_WINDOWS_NONE_COMPLETE", text, cure, path=path)


def changed(window: str) -> TailraceError:
    """Files of a window are gone, or others."""
    text = (
        f"Files of {window} were added, deleted or replaced since it was complete, since it was listed, or "
        "since a saved state."
    )
    cure = (
        "Restore them, or start without a state, with `since` after this window. If write_windows writes "
        "complete windows into a table, their rows are there: read the table."
    )
    return _refusal("TAILRACE_WINDOWS_READ_CHANGED", text, cure, window=window)


def schema(file: str, columns: str) -> TailraceError:
    """A file has other columns than those before it."""
    text = f"The columns of {file} differ from those of earlier files: {columns}."
    cure = "Name columns that all windows have with `columns`, or read the windows from here on with `since`."
    return _refusal("TAILRACE_WINDOWS_SCHEMA", text, cure, file=file, columns=columns)


def condition(where: str, file: str, reason: str) -> TailraceError:
    """The condition doesn't fit the rows of a file."""
    text = f"`where` is {where}, which doesn't fit the rows of {file}: {_clause(reason)}."
    cure = (
        "It has to be true or false. Name columns that all windows have, in their types, or read other "
        "windows with `since` and `until`."
    )
    return _refusal("TAILRACE_WINDOWS_CONDITION", text, cure, where=where, file=file, reason=reason)


def unreadable(file: str, reason: str) -> TailraceError:
    """A file isn't Parquet, or is damaged."""
    text = f"{file} can't be read as Parquet: {_clause(reason)}."
    cure = "Restore the file. If write_windows hasn't written it, move it away."
    return _refusal("TAILRACE_WINDOWS_FILE", text, cure, file=file, reason=reason)


def too_large(window: str, reason: str) -> TailraceError:
    """The shuffled rows have more than an array of Arrow can have."""
    text = f"`shuffle` is too large for the rows of {window}: {_clause(reason)}."
    cure = "A column has at most 2 GiB of text or bytes in the buffer: set a smaller `shuffle`."
    return _refusal("TAILRACE_WINDOWS_SHUFFLE", text, cure, window=window, reason=reason)


def weight(column: str, window: str) -> TailraceError:
    """A weight is null or isn't positive."""
    text = (
        f"`weights` names the column {column}, and a row of {window} has a weight that is null or not a "
        "positive number."
    )
    cure = (
        "Leave rows out that a sample doesn't weigh, such as marked late ones, for instance with "
        "where=pyarrow.compute.field('_mark').is_null()."
    )
    return _refusal("TAILRACE_WINDOWS_WEIGHT", text, cure, column=column, window=window)


def state(reason: str) -> TailraceError:
    """A pass can't begin at a state."""
    text = f"The reader can't resume from this state: {_clause(reason)}."
    cure = (
        "Resume with the options that it was taken with; between two windows any option may change. To begin "
        "elsewhere, leave the state out and use `since`."
    )
    return _refusal("TAILRACE_WINDOWS_STATE", text, cure, reason=reason)


def late_of_many(argument: str) -> TailraceError:
    """Late rows are asked for by a reader that shares its rows with others."""
    reason = "two workers could find different files of late rows"
    return arguments.conflict(CALL, "late", "True", argument, reason)


def unread() -> TailraceError:
    """A state is wanted from a process that reads nothing."""
    text = "This process has read no rows: worker processes of a DataLoader know their own places."
    cure = (
        "Take the state of torchdata.stateful_dataloader.StatefulDataLoader, which asks them, or set "
        "num_workers=0."
    )
    return _refusal("TAILRACE_WINDOWS_UNREAD", text, cure)


def tensor(column: str, reason: str) -> TailraceError:
    """A column can't be a tensor."""
    text = f"The column {column} has {reason}, and no tensor can."
    cure = (
        "Leave it out of `columns`, exclude nulls with `where`, or give a `convert` that makes the model's "
        "input from a pyarrow.RecordBatch."
    )
    return _refusal("TAILRACE_WINDOWS_TENSOR", text, cure, column=column, reason=reason)


def package(name: str, cure: str) -> TailraceError:
    """A package isn't installed."""
    return _refusal("TAILRACE_WINDOWS_DEPENDENCY", f"{name} isn't installed.", cure, package=name)


def column(argument: str, name: str, window: str, known: str) -> TailraceError:
    """A named column isn't there."""
    text = f"`{argument}` of {CALL} names the column `{name}`, which isn't a column of {window}."
    named = {"call": CALL, "argument": argument, "column": name, "frame": window, "columns": known}
    return from_condition("TAILRACE_COLUMN_NOT_FOUND", f"{text} Name one of these: {known}.", named)


def weights_type(name: str, window: str, kind: str) -> TailraceError:
    """The column of weights has no numbers."""
    text = (
        f"`weights` of {CALL} names the column `{name}` of {window}, which has the type {kind}. It has to be "
        "a number. Name the column that `sample` has added."
    )
    named = {"call": CALL, "argument": "weights", "column": name, "frame": window, "type": kind}
    return from_condition("TAILRACE_COLUMN_TYPE", text, {**named, "expected": "a number"})


def _clause(reason: str) -> str:
    """The first line of another library's text, as a part of a sentence."""
    return clause(reason.partition("\n")[0])


def _refusal(condition: str, text: str, cure: str, **parameters: str) -> TailraceError:
    return TailraceWatermarkError(f"{text} {cure}", condition=condition, parameters=parameters)
