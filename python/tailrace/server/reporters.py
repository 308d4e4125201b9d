"""The queries that report an operator, in words, from `answers.ReporterState` as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.server.names import plain, shown_some

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HOLDERS = 3
_READS = 2


def shown_holders(reporters: Sequence[Mapping[str, Any]], label: str | None = None) -> str:
    """The queries that hold back an operator's low watermark, each with its description of the operator.

    Args:
        reporters: all of the operator.
        label: a description that is shown beside them, and not again.
    """
    found = [r for r in reporters if r["holds"]] or (reporters if len(reporters) == 1 else [])
    names = [shown_name(r, reporters) for r in found]
    texts = [
        f"{plain(r['label'])} of {name}" if r["label"] not in {None, "", label} else name
        for r, name in zip(found, names, strict=True)
    ]
    return shown_some(texts, _HOLDERS, quoted=False)


def shown_name(reporter: Mapping[str, Any], reporters: Sequence[Mapping[str, Any]]) -> str:
    """A reporter's query: its name, or the id in its checkpoint; both if another query has the name, too."""
    same = {r["client"] for r in reporters if r["query"] == reporter["query"]}
    return plain(reporter["query"]) if reporter["query"] and len(same) == 1 else shown_query(reporter)


def shown_query(reporter: Mapping[str, Any]) -> str:
    """A reporter's query: its name, if it has one, and the id in its checkpoint."""
    client = plain(reporter["client"])
    return f"{plain(reporter['query'])} ({client})" if reporter["query"] else client


def shown_reads(reporter: Mapping[str, Any]) -> str:
    """The inputs or outputs of a reporter."""
    reads: list[str] = reporter["reads"] or []
    text = shown_some([plain(name) for name in reads], _READS, quoted=False, of=reporter["reads_count"])
    return f"{text} (parts of {plain(reporter['logs'])})" if reporter["logs"] else text


def shown_standing(reporter: Mapping[str, Any]) -> str:
    """The state of a reporter's query: whether it is alive, has gone back, and is waited for."""
    life = "live" if reporter["live"] else "ended" if reporter["leaving"] else "gone"
    back = (
        [f"gone back from {reporter['gone_back_from']:,}"] if reporter["gone_back_from"] is not None else []
    )
    return ", ".join([life, *back, *(["waited for"] if reporter["holds"] else [])])
