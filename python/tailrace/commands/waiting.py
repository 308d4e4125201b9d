"""`tailrace why`: the reasons why rows of a checkpoint are buffered, for people and for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.commands import terminal
from tailrace.commands.inspection import read_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PROGRAM = "io.tailrace.ops.why.Why"
_HEADER = ("side", "key", "time", "since", "leaves at", "matches")


def explain(
    checkpoint: str, key: str | None = None, rows: int = 5, settings: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Explains why the rows in a checkpoint are buffered; the query may run meanwhile.

    Args:
        checkpoint: the query's checkpointLocation: a path, or a URI of a file system that Spark can read.
        key: a value for each key column of the joins, `user_id=7,item_id=42`. None takes the oldest rows.
        rows: how many of each join there are at most.
        settings: Spark properties, for instance of an object store.

    Returns:
        The fields that jvm/docs/formats.md describes.

    Raises:
        TailraceStateError: it is no checkpoint, or is damaged.
        TailraceError: the key isn't one of the joins.
    """
    asked = [] if key is None else [key]
    return read_checkpoint(_PROGRAM, [checkpoint, str(rows), *asked], settings or {})


def show(report: Mapping[str, Any], *, as_json: bool) -> None:
    """Prints a report on the standard output.

    Args:
        report: the result of `explain`.
        as_json: for machines: one JSON object.
    """
    terminal.show_report(report, lambda: _parts(report), as_json=as_json)


def _parts(report: Mapping[str, Any]) -> Iterator[str | terminal.Table]:
    begun = f", which began at {report['batchTime']}" if report["batchTime"] else ""
    yield f"checkpoint  {report['checkpoint']}"
    yield f"batch       {report['batch']}{begun}"
    if report["key"]:
        yield f"key         {report['key']}"
    yield ""
    yield from report["text"]
    for operator in report["operators"]:
        yield ""
        yield f"operator {operator['operator']}, {operator['name']}"
        yield from (f"  {sentence}" for sentence in operator["text"])
        if operator["rows"]:
            yield ""
            yield terminal.Table(_HEADER, [_row(row) for row in operator["rows"]], frozenset({5}), indent=2)
        if operator["more"]:
            yield f"  and {operator['more']:,} more rows of this key: --rows shows more"


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    key = "null" if row["key"] is None else ", ".join(f"{name}={value}" for name, value in row["key"].items())
    since = row["since"]
    began = f" ({since['time']})" if since["time"] else ""
    matches = "" if row["matches"] is None else f"{row['matches']:,}"
    return (row["side"], key, row["time"], f"batch {since['batch']}{began}", row["leaves"] or "-", matches)
