"""A query whose first start is refused leaves with what it has reported: else its sink would be waited for.

    sink of q, at the beginning     taken in: from here on it is waited for
    source of q                     refused: another query reads the same; q fails
    (the sink of q leaves)
    sink of q, sent meanwhile       refused
    q ends                          its row stays for a while, without anything reported

Who has told of a row, or has reported in an earlier start, goes on counting: what it holds is still to come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.server.decisions import drop
from tailrace.server.identity import BY_SERVER, CONFLICT
from tailrace.server.reporter import RefusedError

if TYPE_CHECKING:
    from tailrace.server.clock import Moment
    from tailrace.server.journal import Journal
    from tailrace.server.protocol import Report
    from tailrace.server.reporter import Reporter
    from tailrace.server.state import App


def check(app: App, report: Report) -> None:
    """Refuses operators behind the sources of a start that was turned away.

    Raises:
        RefusedError: with the code CONFLICT.
    """
    client = app.clients.get(report.client)
    if client is None or client.run != report.run or not client.leaving or not report.operators:
        return
    if (
        report.leaving
        or any(one.kind == "source" for one in report.operators)
        or app.reporters_of(client.name)
    ):
        return
    raise RefusedError(
        f"the run {report.run!r} of {client.name!r} has ended, or was refused with what it reads: report its "
        "sources first",
        CONFLICT,
    )


def is_turned_away(app: App, report: Report, error: RefusedError, journal: Journal) -> bool:
    """Whether a refused report's client has to leave: it is its first start, and has read nothing yet."""
    client = app.clients.get(report.client)
    if error.code != CONFLICT or client is None or client.run != report.run:
        return False
    reporters = app.reporters_of(client.name)
    said = {one.operator for one in report.operators if one.reads is not None}
    return (
        bool(reporters)
        # One that was let in before may be refused for what it reads now.
        and not said & reporters.keys()
        and not any(map(_has_told, reporters.values()))
        and not any(client.name in other.took for other in app.clients.values())
        and not journal.has_former_runs(app, client)
    )


def _has_told(reporter: Reporter) -> bool:
    return not reporter.is_mute() or reporter.overflowed is not None or any(reporter.groups.values())


def turn_away(app: App, report: Report, moment: Moment, journal: Journal) -> None:
    """Takes all out that a client has reported."""
    client = app.clients[report.client]
    for name in app.reporters_of(client.name):
        drop(app, app.operators[name], [client.name], journal)
        reason = (
            f"the first start of {client.name!r} was refused, and nothing that it had reported is waited for"
        )
        line = ("refuse", name, None, client.name, BY_SERVER, reason[:2_000])
        journal.add_audit(app, moment.at, line)
    client.heard_at, client.heard_tick = moment.at, moment.tick
    client.leaving, client.told = True, None
    journal.put_client(app, client)
