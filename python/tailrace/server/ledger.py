"""What a report, an override and a reader do to state and database, each as one transaction.

A report raises maxima, the low watermarks that follow are written beside them, and only then is it answered.
The application's lock is taken first, and what other servers have written is read behind it: whatever was
told by any server before is known, and no answer is below it.
"""

from __future__ import annotations

import gc
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace.server.database import DatabaseError
from tailrace.server.protocol import MAX_IDLE_NAMED, LowWatermark, ReportAnswer
from tailrace.server.state import App, RefusedError, RosterState, Settings
from tailrace.server.topology import latest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from tailrace.server.database import Database
    from tailrace.server.protocol import OperatorReport, OverrideRequest, Report
    from tailrace.server.state import Operator
    from tailrace.server.store import Store
    from tailrace.server.topology import LowWatermarks

_log = logging.getLogger(__name__)

SECOND = 1_000_000
HISTORY_STEP = 10 * SECOND
HISTORY_KEPT = 6 * 3_600 * SECOND
WINDOWS_KEPT = 1_000
_PRUNE_EVERY = 60 * HISTORY_STEP


def wall_clock() -> int:
    """Microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000


class Ledger:
    """All applications, used by one thread.

    Args:
        database: where they are.
        store: its statements.
        clock: microseconds since 1970-01-01 UTC.
    """

    def __init__(self, database: Database, store: Store, clock: Callable[[], int] = wall_clock) -> None:
        self.clock = clock
        self.store = store
        self._database = database
        self._apps: dict[str, App] = {}
        self._sampled: dict[str, int] = {}

    def load(self) -> None:
        """Reads all applications, so that the first report of each needn't."""
        # A million rows make no garbage, and looking for some among them takes a third of the time.
        collecting = gc.isenabled()
        gc.disable()
        try:
            for name in self.names():
                self.app(name)
        finally:
            if collecting:
                gc.enable()

    def names(self) -> list[str]:
        """All applications, by name."""
        return self.store.names()

    def app(self, name: str) -> App | None:
        """An application as it is in the database now, to be read only; None if there is none."""
        app = self._known(name)
        try:
            with self._database.snapshot():
                self.store.refresh(app)
        except DatabaseError:
            self._apps.clear()
            raise
        return self._keep(app)

    def report(self, reports: Sequence[tuple[str, Report]]) -> list[ReportAnswer | RefusedError]:
        """Takes reports in, all in one transaction; a refused one changes nothing.

        Args:
            reports: each with the name of its application.

        Raises:
            DatabaseError: none of them is in the database, or isn't known to be: send them again.
        """
        names = sorted(
            {name for name, _ in reports}
        )  # in one order, or two servers could wait for each other
        refused: dict[int, RefusedError] = {}
        try:
            with self._database.transaction():
                apps = {name: self._locked(name) for name in names}
                changed: dict[str, set[str]] = {name: set() for name in names}
                for i, (name, report) in enumerate(reports):
                    try:
                        self._take_in(apps[name], report)
                        changed[name].update(operator.operator for operator in report.operators)
                    except RefusedError as error:
                        refused[i] = error
                low = {name: self._tell(app, changed[name]) for name, app in apps.items() if app.id}
        except BaseException:
            self._apps.clear()  # memory may be ahead of the database
            raise
        for app in apps.values():
            self._keep(app)
        return [
            refused[i] if i in refused else _answer(apps[name], report, low[name])
            for i, (name, report) in enumerate(reports)
        ]

    def tidy(self) -> None:
        """Does what commits have left for later."""
        self._database.tidy()

    def override(self, name: str, request: OverrideRequest) -> int:
        """Does what an operator has decided, and writes it to the audit table.

        Returns:
            The moment that the audit table has for it.

        Raises:
            RefusedError: what it names is unknown, or the time is in the future of all that is known.
            DatabaseError: it hasn't happened, or isn't known to have.
        """
        now = self.clock()
        refused: RefusedError | None = None
        try:
            with self._database.transaction():
                app = self._locked(name)
                try:
                    self._decide(app, request, now)
                except RefusedError as error:
                    refused = error  # the transaction ends well: memory has the version that it has made
                else:
                    line = (request.action, request.operator or "", request.to, request.host)
                    self.store.add_audit(app, now, (*line, request.name, request.reason))
                    self._tell(app, {request.operator} if request.operator else set(app.operators))
        except BaseException:
            self._apps.clear()
            raise
        self._keep(app)
        if refused is not None:
            raise refused
        return now

    def _known(self, name: str) -> App:
        return self._apps.get(name) or App(0, name)

    def _keep(self, app: App) -> App | None:
        # Only what is in the database: names that somebody asked for don't fill the memory.
        if not app.id:
            return None
        self._apps[app.name] = app
        return app

    def _locked(self, name: str) -> App:
        app = self._known(name)
        if self.store.lock(name):
            self.store.refresh(app)
        return app

    def _take_in(self, app: App, report: Report) -> None:
        app.check(report)
        if not app.id:
            self.store.create(app.name)
            self.store.refresh(app)
            app.check(report)  # against what another server may have created meanwhile
        app.reported_at = max(app.reported_at, self.clock())
        for reported in report.operators:
            self._take_in_operator(app, report.client, reported)
        for window in report.windows:
            self.store.put_window(app.operators[window.operator], window)

    def _take_in_operator(self, app: App, client: str, reported: OperatorReport) -> None:
        operator = app.operators.get(reported.operator)
        completeness = reported.completeness or (operator.settings.completeness if operator else "1")
        upstreams = tuple(dict.fromkeys(reported.upstreams))
        settings = Settings(reported.kind, client, upstreams, completeness, reported.idle_after)
        if operator is None:
            operator = self.store.add_operator(app, reported.operator, settings)
            app.operators[operator.name] = operator
        operator.settings = settings
        operator.removed = False
        operator.reported_at = max(operator.reported_at, self.clock())
        operator.stamps = latest(operator.stamps, reported.input_low_watermark)
        self._take_in_roster(app, operator, reported)
        progress = operator.hosts.news(reported.progress)
        if progress:
            self.store.put_progress(app, operator, progress)
            operator.hosts.advance(progress)
        known = operator.key_groups
        groups = {g: t for g, t in reported.low_watermarks.items() if known.get(g, -1) < t}
        if groups:
            self.store.put_key_groups(app, operator, groups)
            known.update(groups)

    def _take_in_roster(self, app: App, operator: Operator, reported: OperatorReport) -> None:
        roster = operator.roster
        version = roster.version if reported.roster_version is None else reported.roster_version
        operator.roster = replace(roster, wanted=max(roster.wanted, version))
        if reported.roster is None or version < roster.version:
            return
        operator.roster = RosterState(True, version, operator.roster.wanted)
        if operator.hosts.roster() != set(reported.roster):
            self.store.put_roster(app, operator, reported.roster)
            operator.hosts.set_roster(reported.roster)

    def _decide(self, app: App, request: OverrideRequest, now: int) -> None:
        present = app.present()
        if request.operator is None:
            _remove(app, present.values())
            return
        operator = present.get(request.operator)
        if operator is None:
            raise RefusedError(f"{app.name!r} has no operator {request.operator!r}")
        if request.action == "remove":
            _remove(app, [operator])
        if request.to is not None:
            end = max(now, app.newest())
            if request.to > end:
                # It could never be taken back.
                raise RefusedError(f"{request.to} is after now and after all event times known, {end}")
            operator.advanced_to = latest(operator.advanced_to, request.to)
        if request.host is not None:
            hosts = app.source(operator.name).hosts
            if not hosts.is_known(request.host):
                raise RefusedError(f"{operator.name!r} has no host {request.host!r}")
            excluded = request.action == "exclude"
            self.store.put_excluded(app, operator, request.host, excluded=excluded)
            hosts.set_excluded(request.host, excluded=excluded)

    def _tell(self, app: App, changed: set[str]) -> LowWatermarks:
        """Writes the operators that have changed, and the low watermarks, never to be taken back."""
        for operator in app.operators.values():
            self._judge_silence(app, operator)
        low = app.low_watermarks()
        for name, operator in app.operators.items():
            told = (operator.told_input, operator.told_output)
            if not operator.removed:
                told = (low.inputs[name], low.outputs[name])
            if name in changed or told != (operator.told_input, operator.told_output):
                operator.told_input, operator.told_output = told
                self.store.put_operator(app, operator)
        app.told = low.application
        self.store.put_app(app)
        self._sample(app, low)
        return low

    def _judge_silence(self, app: App, operator: Operator) -> None:
        limit = operator.settings.idle_after
        idle = operator.hosts.judge_silence(self.clock(), limit)
        if idle:
            _log.warning(
                "%s/%s: nothing of %s%s for %s microseconds: not waited for",
                *(app.name, operator.name, ", ".join(idle[:MAX_IDLE_NAMED])),
                *(" and others" if len(idle) > MAX_IDLE_NAMED else "", limit),
            )

    def _sample(self, app: App, low: LowWatermarks) -> None:
        now = self.clock()
        before = self._sampled.get(app.name)
        if before is not None and before // HISTORY_STEP == now // HISTORY_STEP:
            return
        self.store.put_history(app, now, low)
        if before is None or before // _PRUNE_EVERY != now // _PRUNE_EVERY:
            self.store.prune(app, now - HISTORY_KEPT, WINDOWS_KEPT)
        self._sampled[app.name] = now


def _remove(app: App, operators: Collection[Operator]) -> None:
    if not operators:
        raise RefusedError(f"{app.name!r} has no operators")
    for operator in operators:
        operator.removed = True


def _answer(app: App, report: Report, low: LowWatermarks) -> ReportAnswer:
    reported = [app.operators[operator.operator] for operator in report.operators]
    sources = [operator for operator in reported if operator.is_source]
    excluded = {operator.name: operator.hosts.excluded() for operator in sources}
    idle = {operator.name: operator.hosts.idle()[:MAX_IDLE_NAMED] for operator in sources}
    return ReportAnswer(
        operators={
            o.name: LowWatermark(
                input_low_watermark=low.inputs[o.name], output_low_watermark=low.outputs[o.name]
            )
            for o in reported
        },
        global_low_watermark=low.application,
        excluded_hosts={name: hosts for name, hosts in excluded.items() if hosts},
        idle_hosts={name: hosts for name, hosts in idle.items() if hosts},
        need_roster=any(operator.roster.missing or not operator.roster.stated for operator in sources),
    )
