"""Reports, overrides and reads of state and database, each as one transaction.

A report raises maxima; the low watermarks that follow are written in the same transaction, and then it is
answered. The transaction first takes the application's lock, then reads the writes of other servers. So it
sees the earlier answers of all servers, and no answer is below them.
"""

from __future__ import annotations

import gc
import logging
from typing import TYPE_CHECKING

from tailrace.server import answering, decisions, identity, intake
from tailrace.server.apart import one_by_one
from tailrace.server.database import DatabaseError, NotBegunError
from tailrace.server.records import Records
from tailrace.server.reporter import RefusedError
from tailrace.server.state import App, Limits
from tailrace.server.times import SECOND, Moment, ticks, wall_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.server.answers import ReportAnswer
    from tailrace.server.database import Database
    from tailrace.server.protocol import OverrideRequest, Report
    from tailrace.server.store import Store
    from tailrace.server.topology import LowWatermarks

_log = logging.getLogger(__name__)

HISTORY_STEP = 10 * SECOND
HISTORY_KEPT = 6 * 3_600 * SECOND
WINDOWS_KEPT = 1_000
AUDIT_KEPT = 10_000
_PRUNE_EVERY = 60 * HISTORY_STEP
_WINDOWS_BETWEEN = 20_000


class Ledger:
    """All applications, used by one thread.

    Args:
        database: the database of the applications.
        store: its statements.
        clock: microseconds since 1970-01-01 UTC.
        tick: microseconds of a monotonic clock; None: as `clock`, if that was given.
        limits: the server's.

    Attributes:
        tidy: does the work that commits have deferred.
        close: closes the connection.
    """

    def __init__(
        self,
        database: Database,
        store: Store,
        clock: Callable[[], int] = wall_clock,
        tick: Callable[[], int] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.clock: Callable[[], int] = clock
        self.store: Store = store
        self.tidy: Callable[[], None] = database.tidy
        self.close: Callable[[], None] = database.close
        self.records: Records = Records(database)
        self.limits: Limits = limits or Limits()
        self._tick = tick or (ticks if clock is wall_clock else clock)
        self._database = database
        self._apps: dict[str, App] = {}
        self._starts = True
        self._sampled: dict[str, int] = {}
        self._windows: dict[str, int] = {}

    def load(self) -> None:
        """Reads all applications, so that the first report of each needn't."""
        # Loading a million rows makes no garbage; the collector would take a third of the time.
        collecting = gc.isenabled()
        gc.disable()
        try:
            for name in self.names():
                self.app(name)
            self._starts = False
        finally:
            if collecting:
                gc.enable()

    def now(self) -> Moment:
        """This moment, by both clocks."""
        return Moment(self.clock(), self._tick())

    def names(self) -> list[str]:
        """All applications, by name."""
        return self.store.names()

    def app(self, name: str) -> App | None:
        """An application as it is in the database now, to be read only; None if there is none."""
        app = self._known(name)
        try:
            with self._database.snapshot():
                self.store.refresh(app, self.now(), at_start=self._starts)
        except DatabaseError:
            self._apps.clear()
            raise
        return self._keep(app)

    def report(self, reports: Sequence[tuple[str, Report]]) -> list[ReportAnswer | Exception]:
        """Accepts reports, all in one transaction.

        Args:
            reports: each with the name of its application.

        Returns:
            For each report its answer, or its refusal: then it has changed nothing. An error that isn't a
            refusal affects its application alone.

        Raises:
            DatabaseError: none of them is known to be in the database: send them again.
        """
        # In a fixed order, or two servers could deadlock.
        names = sorted({name for name, _ in reports})
        try:
            return self._report(names, reports)
        except NotBegunError:
            raise
        except DatabaseError as error:
            if len(names) == 1:
                raise
            _log.warning("Reports of %s applications are taken one by one: %s", len(names), error)
        return one_by_one(names, reports, self._report, self._tick)

    def _report(
        self, names: Sequence[str], reports: Sequence[tuple[str, Report]]
    ) -> list[ReportAnswer | Exception]:
        found: dict[int, ReportAnswer | Exception] = {}
        kept: list[App] = []
        try:
            with self._database.transaction():
                for name in names:
                    mine = {i: report for i, (app, report) in enumerate(reports) if app == name}
                    try:
                        # A single application needs no savepoint.
                        if len(names) == 1:
                            kept.append(self._report_app(name, mine, found))
                        else:
                            with self._database.savepoint():
                                kept.append(self._report_app(name, mine, found))
                    except DatabaseError:
                        raise
                    except Exception as error:
                        if len(names) == 1:
                            raise
                        _log.exception("Reports of %r have failed", name)
                        self._apps.pop(name, None)  # memory may be ahead of the database
                        found.update(dict.fromkeys(mine, error))
        except BaseException:
            self._apps.clear()
            raise
        for app in kept:
            self._keep(app)
        return [found[i] for i in range(len(reports))]

    def _report_app(
        self, name: str, reports: dict[int, Report], found: dict[int, ReportAnswer | Exception]
    ) -> App:
        app = self._locked(name)
        taken: dict[int, Report] = {}
        moment = self.now()
        for i, report in reports.items():
            try:
                self._take_in(app, report, moment)
            except RefusedError as error:
                found[i] = error
                if identity.is_turned_away(app, report, error, self.store):
                    found.update(answering.answer_all(app, taken, moment, self.limits, self.store))
                    taken.clear()
                    identity.turn_away(app, report, moment, self.store)
                continue
            taken[i] = report
            if report.leaving:
                # Answered now: a later report may replace this client.
                found.update(answering.answer_all(app, taken, moment, self.limits, self.store))
                taken.clear()
        if app.id:
            is_due = self._tell_readers(app)
            found.update(answering.answer_all(app, taken, moment, self.limits, self.store))
            windows = self._windows.get(name, 0) + sum(len(report.windows) for report in reports.values())
            is_due |= windows > _WINDOWS_BETWEEN
            self._windows[name] = 0 if is_due else windows
            if is_due:
                self.records.prune(app, moment.at - HISTORY_KEPT, WINDOWS_KEPT, AUDIT_KEPT)
                intake.forget_silent(app, moment, self.limits, self.store)
        return app

    def override(self, name: str, request: OverrideRequest) -> int:
        """Applies a person's decision, and writes it to the audit table.

        Returns:
            The moment that the audit table has for it.

        Raises:
            RefusedError: it names something unknown, the time is after all known event times, or it isn't
                confirmed.
            DatabaseError: it isn't known to have been applied.
        """
        moment = self.now()
        refused: RefusedError | None = None
        try:
            with self._database.transaction():
                app = self._locked(name)
                try:
                    if request.action == "purge" and request.operator is None:
                        self._purge(app, request, moment)
                    else:
                        decisions.decide(app, request, moment, self.limits, self.store)
                except RefusedError as error:
                    refused = error  # the transaction ends well: memory has the version that it has made
                else:
                    if app.id:
                        which = request.host or request.client
                        line = (request.action, request.operator or "", request.to, which)
                        self.store.add_audit(app, moment.at, (*line, request.name, request.reason))
                        self._tell_readers(app)
        except BaseException:
            self._apps.clear()
            raise
        self._keep(app)
        if refused is not None:
            raise refused
        return moment.at

    def _purge(self, app: App, request: OverrideRequest, moment: Moment) -> None:
        for operator in app.operators.values():
            decisions.refuse_cut(operator, operator.reporters, moment)
        decisions.refuse_unconfirmed(request, f"{app.name!r} would be forgotten with all its operators")
        self.store.drop_app(app)
        # Its audit table is deleted too; the log keeps who purged it.
        _log.warning("%r was purged by %r: %s", app.name, request.name, request.reason)
        self._apps.pop(app.name, None)
        self._sampled.pop(app.name, None)
        app.id = 0

    def _known(self, name: str) -> App:
        return self._apps.get(name) or App(0, name)

    def _keep(self, app: App) -> App | None:
        # Only applications of the database: requests for other names must not fill the memory.
        if not app.id:
            self._apps.pop(app.name, None)
            return None
        self._apps[app.name] = app
        return app

    def _locked(self, name: str) -> App:
        app = self._known(name)
        if self.store.lock(name):
            self.store.refresh(app, self.now(), at_start=self._starts)
        elif app.id:
            app = App(0, name)  # it was purged by another server
        return app

    def _take_in(self, app: App, report: Report, moment: Moment) -> None:
        intake.check(app, report, moment, self.limits, self.store)
        if not app.id:
            if self.store.count() >= self.limits.apps:
                raise RefusedError(
                    f"this server has {self.limits.apps:,} applications, and takes no more: purge those that "
                    "are gone"
                )
            self.store.create(app.name, moment)
            self.store.refresh(app, moment)
            # Again, because another server may have created it meanwhile.
            intake.check(app, report, moment, self.limits, self.store)
        intake.take_in(app, report, moment, self.limits, self.store)

    def _tell_readers(self, app: App) -> bool:
        """Writes the low watermarks for readers; returns whether old records are to be pruned."""
        low = app.remembered(self.limits)
        for name, operator in app.operators.items():
            if operator.removed:
                continue
            told = (low.inputs[name], low.outputs[name])
            if told != (operator.told_input, operator.told_output):
                operator.told_input, operator.told_output = told
                self.store.put_operator(app, operator)
        app.told = low.application
        self.store.put_app(app)
        return self._sample(app, low)

    def _sample(self, app: App, low: LowWatermarks) -> bool:
        now = self.clock()
        before = self._sampled.get(app.name)
        if before is not None and before // HISTORY_STEP == now // HISTORY_STEP:
            return False
        self.records.put_history(app, now, low)
        self._sampled[app.name] = now
        return before is None or before // _PRUNE_EVERY != now // _PRUNE_EVERY
