"""The answer to a report: low watermarks, excluded and idle hosts, warnings."""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING

from tailrace.server.answers import MAX_HOLDERS_NAMED, ReportAnswer, ToldOperator
from tailrace.server.names import shown_some
from tailrace.server.protocol import MAX_IDLE_NAMED
from tailrace.server.topology import latest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tailrace.server.journal import Journal
    from tailrace.server.protocol import Report
    from tailrace.server.reporter import Client, Reporter
    from tailrace.server.state import App, Limits, Operator
    from tailrace.server.times import Moment
    from tailrace.server.topology import LowWatermarks

_GONE_NAMED = 20
_APART_NAMED = 5

_log = logging.getLogger(__name__)


def answer_all(
    app: App, reports: Mapping[int, Report], moment: Moment, limits: Limits, journal: Journal
) -> dict[int, ReportAnswer]:
    """Answers reports that were accepted together, and stores the answers."""
    log_silence(app, list(reports.values()))
    # Without earlier answers: a new client doesn't get the answers of other clients.
    computed = app.computed(limits)
    found: dict[int, ReportAnswer] = {}
    for i, report in reports.items():
        found[i] = answer(app, report, computed, moment, limits)
        for reported in report.operators:
            journal.put_reporter(app, app.operators[reported.operator].reporters[report.client])
        journal.put_client(app, app.clients[report.client])
    return found


def answer(app: App, report: Report, computed: LowWatermarks, moment: Moment, limits: Limits) -> ReportAnswer:
    """Answers one report, never below earlier answers to this client, and remembers the answer.

    Args:
        app: with the report applied.
        report: the client's.
        computed: low watermarks of the current state, without earlier answers.
        moment: now.
        limits: the server's.
    """
    client = app.clients[report.client]
    # A source that has read nothing yet gets no watermark: it can't be derived from others' progress.
    mute = [
        name
        for name, operator in app.operators.items()
        if operator.is_source
        and client.name in operator.reporters
        and operator.reporters[client.name].is_mute()
    ]
    low = app.computed(limits, mute) if mute else computed
    reported = [app.operators[one.operator] for one in report.operators]
    begun = [operator for operator in reported if operator.reporters[client.name].begun]
    for operator in begun:
        operator.reporters[client.name].tell(low.inputs[operator.name], low.outputs[operator.name])
    # Nor does it get the global one, which doesn't include its rows yet, and which a client never forgets.
    if not mute and any(client.name in operator.reporters for operator in app.operators.values()):
        client.told = latest(client.told, low.application)
    sources = [operator for operator in reported if operator.is_source]
    excluded = {operator.name: operator.hosts().excluded() for operator in sources}
    idle = {operator.name: operator.hosts().idle()[:MAX_IDLE_NAMED] for operator in sources}
    own = [operator.reporters[client.name] for operator in sources]
    others = {operator.name: _others(operator, client, low, limits) for operator in sources}
    return ReportAnswer(
        operators={operator.name: _told(operator.reporters[client.name]) for operator in reported},
        global_low_watermark=client.told if len(begun) == len(reported) else None,
        excluded_hosts={name: hosts for name, hosts in excluded.items() if hosts},
        idle_hosts={name: hosts for name, hosts in idle.items() if hosts},
        held_by={name: holders for name, holders in others.items() if holders},
        need_roster=any(reporter.roster.missing or not reporter.roster.stated for reporter in own),
        warnings=[
            *(text for operator in reported for text in _warnings(operator, client)),
            *_waits_for(app, reported, client, moment),
        ],
    )


def _others(operator: Operator, client: Client, low: LowWatermarks, limits: Limits) -> list[str]:
    """The other queries that hold back a source's low watermark; none if this one does, too."""
    if len(operator.reporters) == 1:
        return []
    names = operator.holding(low.outputs[operator.name], limits.forget_hosts_after)
    if client.name in names:
        return []
    holders = [operator.reporters[name].client for name in sorted(names)[:MAX_HOLDERS_NAMED]]
    return [holder.query or holder.name for holder in holders]


def _told(reporter: Reporter) -> ToldOperator:
    # For a run that hasn't reported where it begins, it is unknown whether it has gone back.
    return ToldOperator(
        input_low_watermark=reporter.told_input if reporter.begun else None,
        output_low_watermark=reporter.told_output if reporter.begun else None,
        batches=reporter.batches_before,
    )


def _warnings(operator: Operator, client: Client) -> Iterator[str]:
    yield from operator.reporters[client.name].warnings
    if len(operator.reporters) == 1:
        return
    if operator.is_source:
        yield from _apart(operator)
    shares = {reporter.settings.completeness for reporter in operator.reporters.values()}
    if operator.is_source and len(shares) > 1:
        yield (
            f"queries ask for different completeness of {operator.name!r}, {', '.join(sorted(shares))}: the "
            "strictest counts"
        )


def _apart(operator: Operator) -> Iterator[str]:
    """Warnings about hosts that are waited for although another query has read them."""
    for client, (hosts, count) in islice(operator.apart().items(), _APART_NAMED):
        others = f" and {count - len(hosts):,} others" if count > len(hosts) else ""
        yield (
            f"{operator.name!r} waits for {shown_some(hosts)}{others}: the roster of {client!r} has them, "
            "and it has read no row of them; another query has. If both read parts of the same logs, give "
            "both one logs= name"
        )


def _waits_for(app: App, reported: Sequence[Operator], client: Client, moment: Moment) -> list[str]:
    """Warnings about dead clients that report the same operators; at most _GONE_NAMED are named."""
    gone = {n for n, other in app.clients.items() if n != client.name and not other.is_live(moment)}
    found: list[str] = []
    others = 0
    for operator in reported if gone else ():
        names = operator.reporters.keys() & gone
        shown = sorted(names)[: _GONE_NAMED - len(found)] if len(found) < _GONE_NAMED else []
        others += len(names) - len(shown)
        found.extend(
            f"{operator.name!r} is reported by {name!r} too, of which nothing is heard: what it has not "
            "read is waited for. Start it again, or remove that client"
            for name in shown
        )
    return [*found, f"and {others:,} others"] if others else found


def log_silence(app: App, reports: Sequence[Report]) -> None:
    """Logs the hosts that have become idle with these reports."""
    for report in reports:
        for reported in report.operators:
            operator = app.operators[reported.operator]
            hosts = operator.reporters[report.client].hosts
            idle = hosts.newly_idle() if operator.is_source else []
            if idle:
                _log.warning(
                    "%s/%s: nothing of %s for %s microseconds in which others rose: not waited for",
                    *(app.name, operator.name, shown_some(idle, MAX_IDLE_NAMED, quoted=False)),
                    hosts.idle_after,
                )
