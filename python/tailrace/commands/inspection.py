"""`tailrace inspect`: the state of the joins in a checkpoint, for people and for machines."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any

from tailrace.commands import java_program, terminal
from tailrace.errors import TailraceStateError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_NO_MANAGER = "CANNOT_LOAD_CHECKPOINT_FILE_MANAGER.UNCATEGORIZED"
_SAYS_REASON = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing"
    ".FileSystemBasedCheckpointFileManager"
}
_PROGRAM = "io.tailrace.ops.inspect.Inspect"
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_STEP = 1000


def inspect_checkpoint(
    checkpoint: str, version: int | None = None, settings: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Reads the contents of a checkpoint from its manifests; the query may run meanwhile.

    Args:
        checkpoint: the query's checkpointLocation: a path, or a URI of a file system that Spark can read.
        version: the state's version: the number of the batch that made it, plus one. None takes the newest
            whose batch has completed.
        settings: Spark properties, for instance of an object store.

    Returns:
        The fields that jvm/docs/formats.md describes.

    Raises:
        TailraceStateError: it is no checkpoint, holds no join or not this version, or is damaged.
    """
    chosen = [checkpoint] if version is None else [checkpoint, str(version)]
    return read_checkpoint(_PROGRAM, chosen, settings or {})


def read_checkpoint(program: str, arguments: Sequence[str], settings: Mapping[str, str]) -> dict[str, Any]:
    """Runs a program that reads a checkpoint.

    Args:
        program: its class.
        arguments: the checkpoint, and the program's other arguments.
        settings: Spark properties.

    Returns:
        The program's answer.

    Raises:
        TailraceStateError: the checkpoint can't be read.
    """
    try:
        return dict(java_program.run(program, arguments, settings))
    except TailraceStateError as error:
        if _NO_MANAGER not in str(error):
            raise
        # Spark gives no reason. This manager does: mostly, the jar of a file system is missing.
        return dict(java_program.run(program, arguments, {**settings, **_SAYS_REASON}))


def show(report: Mapping[str, Any], *, as_json: bool) -> None:
    """Prints a report on the standard output.

    Args:
        report: the result of `inspect_checkpoint`.
        as_json: for machines: one JSON object.
    """
    terminal.show_report(report, lambda: _parts(report), as_json=as_json)


def _parts(report: Mapping[str, Any]) -> Iterator[str | terminal.Table]:
    yield f"checkpoint  {report['checkpoint']} (format {report['checkpointFormat']})"
    yield f"version     {report['version']}, after batch {report['batch']}"
    yield f"watermark   {report['watermark'] or 'none yet'}"
    for operator in report["operators"]:
        yield ""
        yield (
            f"operator {operator['operator']}, {operator['name']}: {operator['rows']:,} rows of "
            f"{_size(operator['bytes'])}, {operator['files']:,} files of {_size(operator['fileBytes'])}"
        )
        width = max(len(name) for name in operator["settings"])
        for name, value in sorted(operator["settings"].items()):
            yield f"  {name:<{width}}  {_setting(value)}"
        yield ""
        yield _table(_STORE_HEADER, _store_rows(operator), left={1})
        yield ""
        yield _table(_FILE_HEADER, _file_rows(operator), left=set())


_STORE_HEADER = ("partition", "store", "rows", "bytes", "oldest", "newest")
_FILE_HEADER = ("partition", "files", "bytes", "results out through")


def _store_rows(operator: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    everything: Mapping[str, Any] = {"partition": "all", "stores": operator["stores"]}
    for partition in (everything, *operator["partitions"]):
        for store in partition["stores"]:
            # Rows up to there have expired; only the run itself would show which row is the oldest now.
            bound = ">=" if store["oldestIsBound"] else ""
            yield (
                str(partition["partition"]),
                store["store"],
                f"{store['rows']:,}",
                _size(store["bytes"]),
                f"{bound}{store['oldest'] or '-'}",
                store["newest"] or "-",
            )


def _file_rows(operator: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    yield "all", f"{operator['files']:,}", _size(operator["fileBytes"]), ""
    for partition in operator["partitions"]:
        yield (
            str(partition["partition"]),
            f"{partition['files']:,}",
            _size(partition["fileBytes"]),
            partition["expiredThrough"] or "-",
        )


def _table(head: Sequence[str], rows: Iterator[Sequence[str]], left: set[int]) -> terminal.Table:
    """Numbers and times to the right, `left` columns to the left."""
    return terminal.Table(head, list(rows), frozenset(range(len(head))) - left, indent=2)


def _size(count: int) -> str:
    """A number of bytes with three digits or so: 999 B, 1.2 kB, 34.5 MB."""
    if count < _STEP:
        return f"{count} B"
    value, unit = count / _STEP, 1
    # A value that would be rounded up to 1000.0 belongs to the next unit.
    while value >= _STEP - 0.05 and unit < len(_UNITS) - 1:
        value, unit = value / _STEP, unit + 1
    return f"{value:.1f} {_UNITS[unit]}"


def _setting(value: str) -> str:
    """A setting of the join, its durations in hours, minutes and seconds."""
    micros = re.fullmatch(r"(\d+) microseconds", value)
    return str(dt.timedelta(microseconds=int(micros[1]))) if micros else value
