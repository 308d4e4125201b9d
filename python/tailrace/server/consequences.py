"""The consequences of a person's decision, in words, for the person to confirm. Nothing is changed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.server import decisions
from tailrace.server.reporter import RefusedError
from tailrace.server.times import shown_time
from tailrace.server.topology import below

if TYPE_CHECKING:
    from tailrace.server.protocol import OverrideRequest
    from tailrace.server.state import App, Limits, Operator
    from tailrace.server.times import Moment

_AUDITED = "Your name and the reason are kept."


def consequence(app: App, request: OverrideRequest, moment: Moment, limits: Limits) -> str:
    """Describes the consequences of a decision, one sentence per line.

    Raises:
        RefusedError: it names something unknown, or there is nothing to do.
    """
    text = _text(app, request, moment, limits)
    if request.action == "purge" and request.operator is None:
        return f"{text}\nThe audit table goes too; the server's log keeps your name and the reason."
    return f"{text}\n{_AUDITED}"


def _text(app: App, request: OverrideRequest, moment: Moment, limits: Limits) -> str:
    if request.action == "remove":
        return _removal(app, request)
    if request.action == "purge" and request.operator is None:
        return (
            f"The application {app.name!r} is forgotten for good: its {len(app.operators):,} operators, "
            "what was told of them, its windows and its history.\nThis can't be undone. A query that still "
            "reports it begins from nothing."
        )
    operator = decisions.known_operator(app, request.operator or "", removed_too=request.action == "purge")
    if request.action == "purge":
        return (
            f"{operator.name!r} is forgotten for good, with its hosts, its windows, its history, and what "
            f"was told of it and of {_readers(app, operator)}.\nTheir low watermarks may go back. This can't "
            "be undone. A query that still reports it begins from nothing."
        )
    if request.to is not None:
        return decisions.advance_text(app, operator, request.to, moment, limits)
    if request.action == "undo":
        return _undo(app, operator)
    return _of_host(app, operator, request)


def _undo(app: App, operator: Operator) -> str:
    if operator.advanced_to is None:
        raise RefusedError(f"{operator.name!r} isn't advanced: there is nothing to undo")
    return (
        f"The advance of {operator.name!r} to {shown_time(operator.advanced_to)} is taken back, with what "
        f"was told of it and of {_readers(app, operator)}.\nTheir low watermarks follow again from what was "
        "reported, and may go back. A query that has closed windows meanwhile doesn't open them again."
    )


def _of_host(app: App, operator: Operator, request: OverrideRequest) -> str:
    host = request.host or ""
    decisions.refuse_unknown_host(app, operator.name, host)
    if request.action == "include":
        if host not in operator.excluded:
            return f"Nothing changes: {host!r} isn't excluded from {operator.name!r}."
        return (
            f"{host!r} counts for {operator.name!r} again, which waits for it from then on.\nWhat was told "
            "meanwhile isn't taken back: its rows before that are late."
        )
    if host in operator.excluded:
        return f"Nothing changes: {host!r} is excluded from {operator.name!r} already."
    hosts = operator.hosts()
    now = hosts.low_watermark(operator.completeness())
    without = hosts.low_watermark(operator.completeness(), without=host)
    return (
        f"{operator.name!r} waits for {host!r} no longer. By its hosts it stands at {shown_time(now)}, and "
        f"without this one at {shown_time(without)}.\nRows of {host!r} that come behind the low watermark "
        "are late. Include it to take this back."
    )


def _removal(app: App, request: OverrideRequest) -> str:
    if request.client is not None:
        found = decisions.reported_by(app, request.operator, request.client)
        of = ", ".join(repr(operator.name) for operator in found) or "no operator"
        gone = [o.name for o in found if len(o.reporters) == 1]
        last = f" No other query reports {', '.join(map(repr, gone))}: removed too." if gone else ""
        return (
            f"The query {request.client!r} is removed from {of}: nothing waits for what it has reported."
            f"{last}\nIt is back when it reports again."
        )
    if request.operator is None:
        names = decisions.present_operators(app)
        return (
            f"All {len(names):,} operators of {app.name!r} are removed, with their reporters.\nEach is back "
            "when it is reported again."
        )
    operator = decisions.known_operator(app, request.operator)
    return (
        f"{operator.name!r} is removed, with its {len(operator.reporters):,} reporters: nothing waits for "
        "it, and whoever reads from it reads from its upstreams.\nIt is back when it is reported again."
    )


def _readers(app: App, operator: Operator) -> str:
    readers = len(below(app.edges(), operator.name)) - 1
    if not readers:
        return "no other"
    return "the operator that reads from it" if readers == 1 else f"{readers:,} operators that read from it"
