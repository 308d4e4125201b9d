"""Decides whether a client may report: its current run, and other reporters of the same operator.

A query whose first start is refused leaves, with all that it has reported; otherwise others wait for it:

    sink of q, at the beginning     accepted: from here on it is waited for
    source of q                     refused: another query reads the same; q fails
    (the sink of q leaves)
    sink of q, sent meanwhile       refused
    q ends                          its row stays for a while, without anything reported

A client that has reported progress, or that has reported in an earlier start, still counts, because its rows
are still expected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.server.decisions import drop
from tailrace.server.hosts import INHERITED
from tailrace.server.names import Inputs, shown_client, shown_some
from tailrace.server.reporter import LIVE_FOR, Client, RefusedError
from tailrace.server.rules import known
from tailrace.server.times import SECOND

if TYPE_CHECKING:
    from tailrace.server.journal import Journal
    from tailrace.server.protocol import OperatorReport, Report
    from tailrace.server.reporter import Reporter
    from tailrace.server.state import App, Operator
    from tailrace.server.times import Moment

CONFLICT = "TAILRACE_WATERMARK_REPORTER_CONFLICT"
REPLACED = "TAILRACE_WATERMARK_RUN_REPLACED"

BY_SERVER = "the server"


def check_run(app: App, report: Report, journal: Journal) -> None:
    """Refuses a run that another one has replaced.

    Raises:
        RefusedError: with the code REPLACED.
    """
    client = app.clients.get(report.client)
    if client is None or client.run == report.run:
        return
    # The last request of a refused start may arrive when the next start has begun. Nothing is kept of a
    # refused start, so it would count as a newer one.
    is_goodbye = report.leaving and not report.operators and not report.windows
    if not is_goodbye and not journal.was_replaced(client, report.run):
        return
    shown = f"the run {report.run!r}" if report.run else "a client that names no run"
    query = shown_client(report.client, report.query or client.query)
    raise RefusedError(
        f"{shown} of {query} was replaced by the run {client.run!r}, which reports now: stop this one. To go "
        f"back to it, remove the client {report.client!r} first",
        REPLACED,
    )


def hear(app: App, report: Report, moment: Moment, journal: Journal) -> Client:
    """Notes that a client is alive; a new run replaces its former one."""
    client = app.clients.get(report.client)
    says_batches = report.version > 1
    if client is not None and client.run != report.run and _holds_nothing(app, client):
        # Its last start was refused, or has reported nothing: this start counts as the first.
        journal.drop_client(app, client)
        client = None
    if client is None:
        client = Client(0, report.client, report.run)
        journal.add_client(app, client)
        app.clients[client.name] = client
    elif client.run != report.run:
        journal.replace_run(client, report.run)
        client.run = report.run
        for operator in app.operators.values():
            reporter = operator.reporters.get(client.name)
            if reporter is not None:
                _begin_again(operator, reporter, says_batches=says_batches)
                journal.put_reporter(app, reporter)
    # Set even if the clock went back: other servers notice a change of this value.
    client.heard_at, client.heard_tick = moment.at, moment.tick
    client.leaving = report.leaving
    if report.query is not None or says_batches:
        client.query = report.query or ""
    client.took &= app.clients.keys()
    return client


def _holds_nothing(app: App, client: Client) -> bool:
    return client.leaving and not app.reporters_of(client.name)


def _begin_again(operator: Operator, reporter: Reporter, *, says_batches: bool) -> None:
    """Resets the last progress of hosts, which only the new run can report; its beginning is unknown, too."""
    reporter.raised_tick = None
    if not says_batches:
        # The query was started with an earlier release.
        reporter.batches = reporter.had = None
    reporter.begun = reporter.batches is None
    operator.changed()


@dataclass(frozen=True)
class Rival:
    """A reporter whose place a client takes.

    Attributes:
        reporter: it is no longer alive.
        why: what both have in common, for people.
        wholly: the client takes its place at all operators downstream of this one, too.
    """

    reporter: Reporter
    why: str
    wholly: bool


def rivals(app: App, report: Report, moment: Moment) -> dict[str, list[Rival]]:
    """Reporters that a report's client replaces, by operator.

    They are dead. And the client reads all their inputs, or has replaced their sources, or they come from a
    database of format 2, which didn't store the reporters of its key groups.

    Raises:
        RefusedError: with the code CONFLICT: one of them is alive, or has read more.
    """
    found: dict[str, list[Rival]] = {}
    by = app.clients.get(report.client)
    took: set[str] = set() if by is None else by.took & app.clients.keys()
    for reported in report.operators:
        operator = app.operators.get(reported.operator)
        if operator is not None and operator.reporters.keys() - {report.client}:
            found[operator.name] = _of_same_input(operator, report, reported, moment)
            took.update(rival.reporter.client.name for rival in found[operator.name])
    for reported in report.operators:
        if reported.operator in found:
            operator = app.operators[reported.operator]
            found[operator.name] += _behind(operator, report.client, reported, took, moment)
    return found


def _of_same_input(
    operator: Operator, report: Report, reported: OperatorReport, moment: Moment
) -> list[Rival]:
    own = operator.reporters.get(report.client)
    # The same inputs as before were checked before.
    if reported.reads is None or (own is not None and own.settings.reads == tuple(reported.reads)):
        return []
    found: list[Rival] = []
    inputs = Inputs(reported.reads)
    for name, shared in operator.sharing(inputs).items():
        other = operator.reporters[name]
        if name == report.client:
            continue
        if other.client.is_live(moment):
            raise RefusedError(_conflict(operator.name, report, other.client, shared), CONFLICT)
        rest = inputs.lacking(other.settings.reads or ())
        if rest:
            raise RefusedError(_left_over(operator.name, report, other.client, shared, rest), CONFLICT)
        found.append(Rival(other, f"reads {shared!r} too", wholly=True))
    return found


def _behind(
    operator: Operator, client: str, reported: OperatorReport, took: set[str], moment: Moment
) -> list[Rival]:
    """Reporters that don't report their inputs, because they follow a source or were inherited."""
    if not took and reported.key_groups is None:
        return []
    found: list[Rival] = []
    for name, other in operator.reporters.items():
        if name == client or other.settings.reads is not None or other.client.is_live(moment):
            continue
        if name in took:
            found.append(Rival(other, "reads what its source had read", wholly=True))
        elif reported.key_groups is not None and other.settings.key_groups == INHERITED:
            found.append(Rival(other, "says which key groups there are", wholly=False))
    return found


def replace(app: App, operator: Operator, gone: Rival, by: Client, moment: Moment, journal: Journal) -> None:
    """Removes a reporter that another one replaces."""
    reporter = gone.reporter
    name = reporter.client.name
    journal.drop_reporter(app, reporter)
    del operator.reporters[name]
    operator.shrunk()
    if gone.wholly:
        by.took.add(name)
    if not any(name in other.reporters for other in app.operators.values()):
        journal.drop_client(app, reporter.client)
        del app.clients[name]
        by.took.discard(name)
    app.rewired()
    silence = (moment.tick - reporter.client.heard_tick) // SECOND
    why = "it has ended" if reporter.client.leaving else f"nothing was heard of it for {silence} s"
    reason = f"{by.name!r} {gone.why}, and takes the place of {name!r}: {why}"
    journal.add_audit(app, moment.at, ("replace", operator.name, None, name, BY_SERVER, reason[:2_000]))


def _left_over(operator: str, report: Report, other: Client, shared: str, rest: list[str]) -> str:
    why = "has ended" if other.leaving else "isn't heard of any more"
    this = shown_client(report.client, report.query, report.run)
    gone = shown_client(other.name, other.query, other.run)
    return (
        f"{operator!r} was reported by {gone} too, which {why}. {this} has {shared!r} of what that had, but "
        f"not {shown_some(rest)}, where the former may have left rows unread. Start the former again, give "
        f"this query an operator= of its own, or remove the client {other.name!r} for good"
    )


def _conflict(operator: str, report: Report, other: Client, shared: str) -> str:
    this = shown_client(report.client, report.query, report.run)
    return (
        f"{operator!r} is reported by two queries that live, {this} and "
        f"{shown_client(other.name, other.query, other.run)}, and both of them have {shared!r}: one would be "
        "told what the other has read. Give each an operator= of its own, or stop one; a query that has "
        f"crashed is taken for a live one for {LIVE_FOR // SECOND} s"
    )


def check_sources_first(app: App, report: Report) -> None:
    """Refuses operators downstream of the sources of a refused start.

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
        f"the run {report.run!r} of {shown_client(client.name, report.query or client.query)} has ended, or "
        "was refused with what it reads: report its sources first",
        CONFLICT,
    )


def is_turned_away(app: App, report: Report, error: RefusedError, journal: Journal) -> bool:
    """True if a refused report's client has to leave: it is its first start, and has read nothing yet."""
    client = app.clients.get(report.client)
    if error.code != CONFLICT or client is None or client.run != report.run:
        return False
    reporters = app.reporters_of(client.name)
    said = {one.operator for one in report.operators if one.reads is not None}
    return (
        bool(reporters)
        # A client that was accepted before may be refused for new inputs.
        and not said & reporters.keys()
        and not any(map(_has_told, reporters.values()))
        and not any(client.name in other.took for other in app.clients.values())
        and not journal.has_former_runs(client)
    )


def _has_told(reporter: Reporter) -> bool:
    return (
        not reporter.is_mute()
        or reporter.overflowed is not None
        or known(max(reporter.groups.values(), default=None)) is not None
    )


def turn_away(app: App, report: Report, moment: Moment, journal: Journal) -> None:
    """Removes all reporters of a client."""
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
