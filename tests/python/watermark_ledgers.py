"""Ledgers of one database, as several servers have it, with clocks that a test sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tailrace.server.ledger import Ledger
from tailrace.server.opening import open_database
from tailrace.server.protocol import OverrideRequest, Report
from tailrace.server.store import Store
from tailrace.server.views import app_state
from watermark_servers import SECOND, T

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from tailrace.server.answers import AppState, ReportAnswer
    from tailrace.server.database import Database
    from tailrace.server.state import Limits

MINUTE = 60 * SECOND


class Clock:
    """Two clocks: one that may jump, and one that doesn't."""

    now = T
    tick = 5

    def wait(self, time: int) -> None:
        """Lets time pass."""
        self.now += time
        self.tick += time


class Ledgers:
    """Opens ledgers of one store, and closes them at the end of its block.

    Args:
        url: of the store.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = Clock()
        self._opened: list[Database] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for database in self._opened:
            database.close()

    def make(self, limits: Limits | None = None, *, ahead: int = 0) -> Ledger:
        """A server's ledger.

        Args:
            limits: of the server.
            ahead: of `clock`, that its clock of the day is.
        """
        database = open_database(self.url)
        self._opened.append(database)
        return Ledger(
            database, Store(database), lambda: self.clock.now + ahead, lambda: self.clock.tick, limits
        )


def report_of(
    client: str, *operators: Mapping[str, Any], run: str = "1", leaving: bool = False, app: str = "app"
) -> tuple[str, Report]:
    """A report as a ledger takes it."""
    body = {"client": client, "run": run, "leaving": leaving, "operators": list(operators)}
    return app, Report.model_validate(body)


def tell(
    ledger: Ledger, client: str, *operators: Mapping[str, Any], run: str = "1", leaving: bool = False
) -> ReportAnswer:
    """The answer to one report, alone in its transaction."""
    (answer,) = tell_together(ledger, report_of(client, *operators, run=run, leaving=leaving))
    return answer


def tell_together(ledger: Ledger, *reports: tuple[str, Report]) -> list[ReportAnswer]:
    """The answers to reports of one transaction, none of which may be refused."""
    found = []
    for answer in ledger.report(reports):
        if isinstance(answer, Exception):
            raise answer
        found.append(answer)
    return found


def low(answer: ReportAnswer, operator: str = "source") -> int | None:
    """An operator's output low watermark."""
    return answer.operators[operator].output_low_watermark


def state(ledger: Ledger, name: str = "app") -> AppState:
    """An application as readers see it."""
    app = ledger.app(name)
    assert app is not None
    return app_state(app, ledger.now(), ledger.limits)


def decide(ledger: Ledger, action: str, **fields: object) -> None:
    """A person's decision."""
    given = {"operator": "source", "name": "dana", "reason": "a test", **fields}
    ledger.override("app", OverrideRequest.model_validate({"action": action, **given}))


def unisolated(html: str) -> str:
    """HTML of the page without the isolation of names."""
    return html.replace("<bdi>", "").replace("</bdi>", "")
