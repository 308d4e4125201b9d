"""The only thread that uses state and database. Reports that wait together share a transaction."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from tailrace.server.database import DatabaseError
from tailrace.server.reading import BusyError
from tailrace.server.reporter import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.server.answers import ReportAnswer
    from tailrace.server.ledger import Ledger
    from tailrace.server.protocol import Report

_Result = TypeVar("_Result")
_MAX_TOGETHER = 64
_MOST_WAITING = 1_024
_TIDY_SECONDS = 2.0
# The interval of database checks while nobody reports, so that a health check needs no thread.
_LOOK_SECONDS = 5.0
_STUCK_SECONDS = 90.0
_log = logging.getLogger(__name__)


@dataclass
class Tally:
    """Counts since the server started, for the metrics.

    Attributes:
        reports: reports that were accepted into a transaction.
        refused: reports among them that contradicted the known state.
        failed: reports among them that the database, or a fault of the server, stopped.
        transactions: transactions that have succeeded.
        transaction_seconds: their total time.
        is_failing: whether the database has refused the last transaction.
        is_unreadable: whether the worker's last read of the database has failed.
        seen_at: when the worker was last between two jobs, by the monotonic clock.
    """

    reports: int = 0
    refused: int = 0
    failed: int = 0
    transactions: int = 0
    transaction_seconds: float = 0.0
    is_failing: bool = False
    is_unreadable: bool = False
    seen_at: float = field(default_factory=time.monotonic)

    def is_well(self) -> bool:
        """True if the database can be read, transactions succeed, and the worker runs."""
        return not (self.is_failing or self.is_unreadable or time.monotonic() - self.seen_at > _STUCK_SECONDS)


@dataclass(frozen=True)
class _Reported:
    app: str
    report: Report
    answer: Future[ReportAnswer]


class Worker:
    """Runs jobs in order, until it is stopped.

    Args:
        ledger: nobody else may use it.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.tally: Tally = Tally()
        self._tidied = time.monotonic()
        self._ledger = ledger
        self._jobs: queue.SimpleQueue[_Reported | Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="watermark-ledger", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def is_alive(self) -> bool:
        """True if the thread runs."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Ends the thread when all earlier jobs are done."""
        self._jobs.put(None)
        self._thread.join()
        self._ledger.close()

    async def report(self, app: str, report: Report) -> ReportAnswer:
        """Accepts a report; it is in the database when this returns.

        Raises:
            RefusedError: it contradicts the known state.
            DatabaseError: the database fails.
            BusyError: too many wait already.
        """
        if self._jobs.qsize() >= _MOST_WAITING:
            raise BusyError("too many reports are waiting: send it again")
        answer: Future[ReportAnswer] = Future()
        self._jobs.put(_Reported(app, report, answer))
        return await asyncio.wrap_future(answer)

    async def call(self, function: Callable[[Ledger], _Result]) -> _Result:
        """Runs a function on the ledger, and returns its result or raises its error."""
        answer: Future[_Result] = Future()

        def job() -> None:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(function(self._ledger))
                except Exception as error:  # noqa: BLE001  raised where it is awaited
                    answer.set_exception(error)

        self._jobs.put(job)
        return await asyncio.wrap_future(answer)

    def _work(self) -> None:
        job = self._jobs.get()
        while job is not None:
            if isinstance(job, _Reported):
                job = self._report(job)
            else:
                job()
                job = self._next()

    def _report(self, first: _Reported) -> _Reported | Callable[[], None] | None:
        """Accepts a report and those that are queued after it; returns the next job."""
        together = [first]
        following: _Reported | Callable[[], None] | None = None
        try:
            while len(together) < _MAX_TOGETHER:
                following = self._jobs.get_nowait()
                if not isinstance(following, _Reported):
                    break
                together.append(following)
            else:
                following = self._jobs.get_nowait()
            waiting = True
        except queue.Empty:
            waiting = False
        self._commit([job for job in together if job.answer.set_running_or_notify_cancel()])
        return following if waiting else self._next()

    def _next(self) -> _Reported | Callable[[], None] | None:
        """Waits for a job; when none waits, cleans up first from time to time."""
        if self._jobs.empty() and time.monotonic() - self._tidied > _TIDY_SECONDS:
            self._tidy()
        while True:
            self.tally.seen_at = time.monotonic()
            try:
                return self._jobs.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                self._tidy()

    def _tidy(self) -> None:
        try:
            self._ledger.tidy()
            self._ledger.names()
        except DatabaseError as error:
            # No client waits for this; the next transaction reports the error to its client.
            log = _log.debug if self.tally.is_unreadable else _log.warning
            log("The store can't be looked at: %s", error)
            self.tally.is_unreadable = True
        else:
            self.tally.is_unreadable = False
        self._tidied = time.monotonic()

    def _commit(self, jobs: list[_Reported]) -> None:
        started = time.monotonic()
        self.tally.reports += len(jobs)
        answers: list[ReportAnswer | Exception] = []
        try:
            answers += self._ledger.report([(job.app, job.report) for job in jobs])
        except Exception as error:  # noqa: BLE001  raised where it is awaited
            answers += [error] * len(jobs)
        # An error in one application's reports isn't an error of the database.
        failed = [answer for answer in answers if isinstance(answer, DatabaseError)]
        is_failing = bool(jobs) and len(failed) == len(jobs)
        if is_failing and not self.tally.is_failing:
            _log.error("The database refuses reports: %s", failed[0])
        self.tally.is_failing = is_failing
        if not is_failing:
            self.tally.transactions += 1
            self.tally.transaction_seconds += time.monotonic() - started
        for job, answer in zip(jobs, answers, strict=True):
            if isinstance(answer, Exception):
                self.tally.refused += isinstance(answer, RefusedError)
                self.tally.failed += not isinstance(answer, RefusedError)
                job.answer.set_exception(answer)
            else:
                job.answer.set_result(answer)
