"""May a client report? Which run speaks for it, and who else reports the same operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.server.clock import SECOND
from tailrace.server.names import Inputs
from tailrace.server.reporter import LIVE_FOR, Client, RefusedError

if TYPE_CHECKING:
    from tailrace.server.clock import Moment
    from tailrace.server.journal import Journal
    from tailrace.server.protocol import OperatorReport, Report
    from tailrace.server.reporter import Reporter
    from tailrace.server.state import App, Operator

CONFLICT = "TAILRACE_WATERMARK_REPORTER_CONFLICT"
REPLACED = "TAILRACE_WATERMARK_RUN_REPLACED"

BY_SERVER = "the server"
_INHERITED = "what its source had read"


def check_run(app: App, report: Report, journal: Journal) -> None:
    """Refuses a run that another one has taken the place of.

    Raises:
        RefusedError: with the code REPLACED.
    """
    client = app.clients.get(report.client)
    if client is None or client.run == report.run or not journal.was_replaced(app, client, report.run):
        return
    shown = f"the run {report.run!r}" if report.run else "a client that names no run"
    raise RefusedError(
        f"{shown} of {report.client!r} was replaced by the run {client.run!r}, which reports now: stop this "
        f"one. To go back to it, remove the client {report.client!r} first",
        REPLACED,
    )


def hear(app: App, report: Report, moment: Moment, journal: Journal) -> Client:
    """Notes that a client lives; a run that is new speaks for it from now on."""
    client = app.clients.get(report.client)
    if client is None:
        client = Client(0, report.client, report.run)
        journal.add_client(app, client)
        app.clients[client.name] = client
    elif client.run != report.run:
        journal.replace_run(app, client, report.run)
        client.run = report.run
        for operator in app.operators.values():
            reporter = operator.reporters.get(client.name)
            if reporter is not None:
                _begin_again(operator, reporter)
    client.heard_at, client.heard_tick = max(client.heard_at, moment.at), moment.tick
    client.leaving = report.leaving
    return client


def _begin_again(operator: Operator, reporter: Reporter) -> None:
    """What only a run can say of its input is unknown, till the new one has said it."""
    reporter.raised_tick = None
    operator.changed()


def rivals(app: App, report: Report, reported: OperatorReport, moment: Moment) -> list[tuple[Reporter, str]]:
    """Reporters of the operator whose place the client takes: they share an input, and live no more.

    Returns:
        Each with an input that both read.

    Raises:
        RefusedError: with the code CONFLICT: one of them lives.
    """
    operator = app.operators.get(reported.operator)
    if operator is None or not operator.reporters.keys() - {report.client}:
        return []
    by = app.clients.get(report.client)
    own = operator.reporters.get(report.client)
    reads = reported.reads
    # What was said before was looked at then.
    is_new = reads is not None and (own is None or own.settings.reads != tuple(reads))
    inputs = Inputs(reads or ()) if is_new else None
    found = []
    for name, other in operator.reporters.items():
        if name == report.client:
            continue
        theirs = other.inputs()
        shared = None if theirs is None or inputs is None else inputs.shared(theirs)
        if shared is not None:
            if other.client.is_live(moment):
                raise RefusedError(_conflict(operator.name, report.client, name, shared), CONFLICT)
            found.append((other, shared))
        elif theirs is None and by is not None and name in by.took and not other.client.is_live(moment):
            # An operator behind a source whose place it has taken.
            found.append((other, _INHERITED))
    return found


def replace(
    app: App,
    operator: Operator,
    gone: tuple[Reporter, str],
    by: Client,
    moment: Moment,
    journal: Journal,
) -> None:
    """Takes a reporter out whose place another one takes."""
    reporter, shared = gone
    name = reporter.client.name
    journal.drop_reporter(app, reporter)
    del operator.reporters[name]
    operator.shrunk()
    by.took.add(name)
    if not any(name in other.reporters for other in app.operators.values()):
        journal.drop_client(app, reporter.client)
        del app.clients[name]
    app.rewired()
    silence = (moment.tick - reporter.client.heard_tick) // SECOND
    why = "it has ended" if reporter.client.leaving else f"nothing was heard of it for {silence} s"
    reason = f"{by.name!r} reads {shared!r} too, and takes the place of {name!r}: {why}"
    journal.add_audit(app, moment.at, ("replace", operator.name, None, name, BY_SERVER, reason[:2_000]))


def _conflict(operator: str, client: str, other: str, shared: str) -> str:
    return (
        f"{operator!r} is reported by two queries that live, {client!r} and {other!r}, and both of them have "
        f"{shared!r}: one would be told what the other has read. Give each an operator= of its own, or stop "
        f"one; a query that has crashed is taken for a live one for {LIVE_FOR // SECOND} s"
    )
