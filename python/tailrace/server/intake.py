"""Applies a report to an application's state: all checks first, then the changes."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tailrace.server import identity
from tailrace.server.hosts import HostTable
from tailrace.server.names import shown_some
from tailrace.server.reporter import RefusedError, Reporter, RosterState, Settings
from tailrace.server.room import check_room
from tailrace.server.rules import known
from tailrace.server.state import Operator
from tailrace.server.times import EARLIEST, NEVER, shown_time
from tailrace.server.topology import find_cycle, latest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tailrace.server.journal import Journal
    from tailrace.server.protocol import OperatorReport, Report
    from tailrace.server.reporter import Client
    from tailrace.server.state import App, Limits
    from tailrace.server.times import Moment

_HOUR = 3_600_000_000

_log = logging.getLogger(__name__)


def check(app: App, report: Report, moment: Moment, limits: Limits, journal: Journal) -> None:
    """Refuses a report that contradicts the known state, before any of it is applied.

    Raises:
        RefusedError: its run was replaced, it reads what a live reporter reads, it closes a cycle of
            operators, changes the kind of an operator, exceeds a limit, or has windows of an unknown
            operator.
    """
    identity.check_run(app, report, journal)
    identity.check_sources_first(app, report)
    if report.client not in app.clients and len(app.clients) >= limits.clients:
        raise RefusedError(
            f"an application has at most {limits.clients:,} clients: remove those of {app.name!r} that are "
            "gone"
        )
    for reported in report.operators:
        known = app.operators.get(reported.operator)
        if known is not None and (reported.kind == "source") != known.is_source:
            raise RefusedError(f"{known.name!r} is known as a {known.kind}, not as a {reported.kind}")
    gone = identity.rivals(app, report, moment)
    _check_graph(app, report, gone, limits)
    check_room(app, report, gone, limits)
    named = {reported.operator for reported in report.operators}
    for window in report.windows:
        if window.operator not in app.operators and window.operator not in named:
            raise RefusedError(f"the windows are of {window.operator!r}, an operator that is unknown")


def _check_graph(
    app: App, report: Report, gone: Mapping[str, Sequence[identity.Rival]], limits: Limits
) -> None:
    if not any(_rewires(app, report.client, reported) for reported in report.operators):
        return
    edges = {name: dict.fromkeys(upstreams) for name, upstreams in app.edges().items()}
    for reported in report.operators:
        operator = app.operators.get(reported.operator)
        # The graph after this report: without earlier edges of this client and of those that it replaces.
        leave = {report.client, *(rival.reporter.client.name for rival in gone.get(reported.operator, ()))}
        kept = [] if operator is None else [r for n, r in operator.reporters.items() if n not in leave]
        edges[reported.operator] = dict.fromkeys(reported.upstreams)
        for reporter in kept:
            edges[reported.operator].update(dict.fromkeys(reporter.settings.upstreams))
    cycle = find_cycle(edges)
    if cycle is not None:
        raise RefusedError(f"operators read from each other in a circle: {' <- '.join(cycle)}"[:2_000])
    if len(edges) > limits.operators:
        raise RefusedError(
            f"an application has at most {limits.operators:,} operators, removed ones too: purge those that "
            "are gone for good"
        )
    if sum(map(len, edges.values())) > limits.edges:
        raise RefusedError(f"an application's operators name at most {limits.edges:,} upstreams")


def _rewires(app: App, client: str, reported: OperatorReport) -> bool:
    own = app.reporter(client, reported.operator)
    return own is None or own.settings.upstreams != tuple(dict.fromkeys(reported.upstreams))


def take_in(app: App, report: Report, moment: Moment, limits: Limits, journal: Journal) -> None:
    """Applies a report that `check` has accepted."""
    app.reported_at = moment.at
    client = identity.hear(app, report, moment, journal)
    gone = identity.rivals(app, report, moment)
    around = _Around(report, moment, limits, journal, is_tight=check_room(app, report, gone, limits))
    for reported in report.operators:
        operator = _operator(app, reported, journal)
        for rival in gone.get(operator.name, ()):
            identity.replace(app, operator, rival, client, moment, journal)
        _Intake(app, operator, client, reported, around).run()
    for window in report.windows:
        journal.put_window(app.operators[window.operator], window)


def forget_silent(app: App, moment: Moment, limits: Limits, journal: Journal) -> None:
    """Removes hosts that were idle for too long, and dead clients that report nothing."""
    for operator in app.operators.values():
        for name, reporter in operator.reporters.items():
            silent = reporter.hosts.silent_for(limits.forget_hosts_after)
            if silent:
                _forget(app, operator, reporter, silent, journal)
                said = f"{shown_some(silent)} of {name!r}: silent for too long, and in no roster"
                line = ("forget", operator.name, None, None, identity.BY_SERVER, said[:2_000])
                journal.add_audit(app, moment.at, line)
    busy = {name for operator in app.operators.values() for name in operator.reporters}
    for name in app.clients.keys() - busy:
        # A client that was refused just now may have another report in transit.
        if app.clients[name].is_silent(moment):
            journal.drop_client(app, app.clients.pop(name))


def _forget(app: App, operator: Operator, reporter: Reporter, names: list[str], journal: Journal) -> None:
    journal.forget_hosts(app, reporter, names)
    reporter.hosts.forget(names)
    operator.shrunk()


def _operator(app: App, reported: OperatorReport, journal: Journal) -> Operator:
    operator = app.operators.get(reported.operator)
    if operator is None:
        operator = Operator(0, reported.operator, reported.kind)
        journal.add_operator(app, operator)
        app.operators[operator.name] = operator
    if operator.kind != reported.kind or operator.removed:
        operator.kind, operator.removed = reported.kind, False
        operator.changed()
        journal.put_operator(app, operator)
    return operator


@dataclass(frozen=True)
class _Around:
    """Values that all operators of a report share; `is_tight`: only hosts of rosters fit."""

    report: Report
    moment: Moment
    limits: Limits
    journal: Journal
    is_tight: bool


class _Intake:
    """One operator's part of a report."""

    def __init__(
        self, app: App, operator: Operator, client: Client, reported: OperatorReport, around: _Around
    ) -> None:
        self._app = app
        self._operator = operator
        self._reported = reported
        self._is_tight = around.is_tight
        self._batches = around.report.batches
        self._has_zeros = around.report.version == 1
        self._moment = around.moment
        self._limits = around.limits
        self._journal = around.journal
        self._warnings: list[str] = []
        self._reporter = self._known_reporter(client)

    def run(self) -> None:
        reporter, reported = self._reporter, self._reported
        reporter.reported_at = self._moment.at
        self._begin()
        if reported.input_low_watermark is not None:
            stamp = self._not_ahead("the input low watermark", {"": reported.input_low_watermark}).get("")
            reporter.stamps = latest(reporter.stamps, known(stamp))
        if self._operator.is_source:
            reporter.hosts.idle_after = reported.idle_after
            self._take_roster()
            self._take_progress()
        else:
            self._take_groups()
        reporter.warnings = tuple(self._warnings)
        self._operator.changed()

    def _known_reporter(self, client: Client) -> Reporter:
        operator, reported = self._operator, self._reported
        reporter = operator.reporters.get(client.name)
        before = Settings() if reporter is None else reporter.settings
        settings = Settings(
            tuple(dict.fromkeys(reported.upstreams)),
            reported.completeness or before.completeness,
            reported.idle_after,
            reported.key_groups,
            before.reads if reported.reads is None else _kept(before.reads, reported.reads),
            before.label if reported.label is None else reported.label,
            reported.logs or "",
        )
        if reporter is None:
            reporter = Reporter(0, client, settings, hosts=HostTable(operator.excluded))
            self._journal.add_reporter(self._app, operator, reporter)
            operator.reporters[client.name] = reporter
            self._app.rewired()
        elif before.upstreams != settings.upstreams:
            self._app.rewired()
        if reporter.groups and not reporter.keeps_groups(reported.key_groups):
            self._journal.drop_groups(self._app, reporter)
            reporter.drop_groups()
        reporter.settings = settings
        return reporter

    def _begin(self) -> None:
        """Detects whether the client has gone back, and discards progress that will be reported again."""
        reporter, batches = self._reporter, self._batches
        before = reporter.batches_before = reporter.batches
        if batches is None:
            return
        if not reporter.begun and before is not None and batches < before:
            self._forget_all()
            reporter.batches = batches
            # The last micro-batch may have been reported before its commit: after a crash it comes again.
            if batches < before - 1:
                reporter.had = max(before, reporter.had or 0)
                self._note_rollback(batches, before)
        reporter.begun = True
        reporter.batches = max(batches, reporter.batches or 0)
        if reporter.had is not None and batches >= reporter.had:
            reporter.had = None
        if reporter.had is not None:
            self._warnings.append(self._rollback(batches, reporter.had))

    def _forget_all(self) -> None:
        reporter = self._reporter
        reporter.told_input = reporter.told_output = reporter.client.told = None
        reporter.stamps = reporter.overflowed = reporter.raised_tick = None
        if self._operator.is_source:
            # As if it was new: the watermark waits for all hosts that the client begins with.
            self._forget(list(reporter.hosts.names))
            reporter.hosts.set_roster([])
            reporter.roster = RosterState()
        else:
            self._journal.drop_groups(self._app, reporter)
            reporter.drop_groups()
            self._operator.changed()

    def _note_rollback(self, batches: int, before: int) -> None:
        client = self._reporter.client
        text = self._rollback(batches, before)
        _log.warning("%s: %s", self._app.name, text)
        line = ("rollback", self._operator.name, None, client.name, identity.BY_SERVER, text[:2_000])
        self._journal.add_audit(self._app, self._moment.at, line)

    def _rollback(self, batches: int, had: int) -> str:
        client, operator = self._reporter.client, self._operator
        named = f"{client.query!r} ({client.name})" if client.query else repr(client.name)
        text = (
            f"the query {named} has gone back: it tells of {batches:,} micro-batches of {operator.name!r}, "
            f"and had told of {had:,}. Its checkpoint was restored from an older copy. It gets no low "
            "watermark of what it reads again, and others wait for it until it has caught up"
        )
        if operator.advanced_to is not None:
            text += (
                f". The advance of {operator.name!r} to {shown_time(operator.advanced_to)} stands, and rows "
                "before it are late: undo it if they aren't to be"
            )
        return text

    def _take_roster(self) -> None:
        reporter, reported = self._reporter, self._reported
        roster = reporter.roster
        wanted = roster.wanted if reported.roster_version is None else str(reported.roster_version)
        if reported.roster is None:
            reporter.roster = replace(roster, wanted=wanted)
            return
        reporter.roster = RosterState(True, wanted, wanted)
        hosts, names = reporter.hosts, reported.roster
        if hosts.roster() == set(names) and not self._is_tight:
            return
        is_tight = self._is_tight or len(hosts) + len(hosts.unknown(names)) > self._limits.hosts
        if names and is_tight:
            # Hosts outside of the roster don't count.
            self._forget(sorted(set(hosts.unrostered()) - set(names)))
            self._forget(sorted(hosts.roster() - set(names)))
        self._journal.put_roster(self._app, reporter, names)
        hosts.set_roster(names)
        if hosts.has_roster:
            reporter.overflowed = None

    def _take_progress(self) -> None:
        reporter, hosts = self._reporter, self._reporter.hosts
        progress = hosts.news(self._not_ahead("progress", self._reported.progress))
        self._count_silence(bool(progress))
        progress = self._within_limits(progress)
        if progress:
            hosts.advance(progress)
            self._journal.put_progress(self._app, reporter, progress)

    def _count_silence(self, rises: bool) -> None:
        reporter, tick = self._reporter, self._moment.tick
        if not rises and not self._reported.unread:
            return
        if reporter.raised_tick is not None and not self._reported.unread:
            idle_after = reporter.hosts.idle_after
            # One pause adds a bounded time: perhaps no host logged in it, and then no host was idle.
            most = _HOUR if idle_after is None else idle_after // 2
            reporter.hosts.active += min(max(tick - reporter.raised_tick, 0), most)
        reporter.raised_tick = tick

    def _within_limits(self, progress: dict[str, int]) -> dict[str, int]:
        reporter, hosts = self._reporter, self._reporter.hosts
        unknown = hosts.unknown(progress)
        if not unknown:
            return progress
        others = [r.hosts for o in self._app.operators.values() for r in o.reporters.values()]
        limits = self._limits
        room, full = min(
            (limits.hosts - len(hosts), f"{self._operator.name!r} has more than {limits.hosts:,} hosts"),
            (
                limits.app_hosts - sum(map(len, others)),
                f"the sources of {self._app.name!r} have more than {limits.app_hosts:,} hosts",
            ),
        )
        if len(unknown) <= room:
            return progress
        over = unknown[max(0, room) :]
        if not hosts.has_roster:
            reporter.overflowed = hosts.active
            self._warnings.append(
                f"{full}, which is what is kept. Of {self._operator.name!r} that leaves out "
                f"{shown_some(over)}: its low watermark stays, for theirs isn't known. Give it a roster, or "
                "exclude what tells of so many hosts and purge the operator"
            )
        gone = set(over)
        return {name: time for name, time in progress.items() if name not in gone}

    def _take_groups(self) -> None:
        there = self._reporter.groups
        given = self._not_ahead("low watermarks of key groups", self._reported.low_watermarks)
        groups = {group: time for group, time in given.items() if there.get(group, NEVER) < time}
        if groups:
            self._journal.put_groups(self._app, self._reporter, groups)
            self._reporter.raise_groups(groups)

    def _not_ahead(self, what: str, times: Mapping[str, int]) -> dict[str, int]:
        last = self._moment.at + self._limits.future
        if self._has_zeros and 0 in times.values():
            times = {name: time or EARLIEST for name, time in times.items()}
        if not times or max(times.values()) <= last:
            return dict(times)
        ahead = sorted(name for name, time in times.items() if time > last)
        named = f" of {shown_some(ahead)}" if ahead != [""] else ""
        self._warnings.append(
            f"{self._operator.name!r}: {what}{named} more than {self._limits.future // 1_000_000:,} s ahead "
            "of the server's clock isn't taken"
        )
        return {name: time for name, time in times.items() if time <= last}

    def _forget(self, names: list[str]) -> None:
        if names:
            _forget(self._app, self._operator, self._reporter, names, self._journal)


def _kept(before: tuple[str, ...] | None, reads: list[str]) -> tuple[str, ...]:
    """The known object while the names are equal, so that `InputIndex` has nothing to do."""
    return before if before is not None and before == tuple(reads) else tuple(reads)
