"""The queries that report an operator, in words, from `answers.ReporterState` as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.server.names import shown_some

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HOLDERS = 3
_READS = 2


def shown_holders(reporters: Sequence[Mapping[str, Any]]) -> str:
    """The queries that hold back an operator's low watermark, each with the operator's description."""
    found = [r for r in reporters if r["holds"]] or (reporters if len(reporters) == 1 else [])
    texts = [f"{r['label']} of {shown_query(r)}" if r["label"] else shown_query(r) for r in found]
    return shown_some(texts, _HOLDERS, quoted=False)


def shown_query(reporter: Mapping[str, Any]) -> str:
    """A reporter's query: its name, if it has one, and the id in its checkpoint."""
    return f"{reporter['query']} ({reporter['client']})" if reporter["query"] else reporter["client"]


def shown_reads(reporter: Mapping[str, Any]) -> str:
    """The inputs or outputs of a reporter."""
    names: list[str] = reporter["reads"] or []
    text = shown_some(names, _READS, quoted=False, of=reporter["reads_count"])
    return f"{text} (parts of {reporter['logs']})" if reporter["logs"] else text


def shown_standing(reporter: Mapping[str, Any]) -> str:
    """The state of a reporter's query: whether it is alive, has gone back, and is waited for."""
    life = "live" if reporter["live"] else "ended" if reporter["leaving"] else "gone"
    back = (
        [f"gone back from {reporter['gone_back_from']:,}"] if reporter["gone_back_from"] is not None else []
    )
    return ", ".join([life, *back, *(["waited for"] if reporter["holds"] else [])])
