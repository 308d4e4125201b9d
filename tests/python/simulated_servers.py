"""Where the simulated jobs report to: the server's rules in memory, or two servers of one database."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

from tailrace.server import answering, decisions, identity, intake
from tailrace.server.protocol import OverrideRequest, Report
from tailrace.server.reporter import RefusedError
from tailrace.server.state import App, Limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.server.answers import ReportAnswer
    from tailrace.server.reporter import Client
    from tailrace.server.times import Moment
    from watermark_ledgers import Ledgers

SCHEDULES = int(os.environ.get("TAILRACE_SCHEDULES", "700"))
LIMITS = Limits(apps=max(1_000, SCHEDULES))


class Runs:
    """The journal of the rules: it keeps what they ask back, former runs."""

    def __init__(self) -> None:
        self.former: set[tuple[str, str]] = set()

    def was_replaced(self, client: Client, run: str) -> bool:
        return (client.name, run) in self.former

    def has_former_runs(self, client: Client) -> bool:
        return any(name == client.name for name, _ in self.former)

    def replace_run(self, client: Client, run: str) -> None:
        del run
        self.former.add((client.name, client.run))

    def drop_client(self, _: App, client: Client) -> None:
        self.former = {(name, run) for name, run in self.former if name != client.name}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  all that is only written
        return lambda *_, **__: None


class Servers(Protocol):
    """Where reports go."""

    count: int

    def take(self, server: int, moment: Moment, reports: Sequence[Report]) -> list[ReportAnswer | Exception]:
        """Reports that one server takes together."""

    def remove(self, server: int, moment: Moment, client: str) -> None:
        """A person removes a client."""

    def restart(self, server: int, moment: Moment) -> bool:
        """A server stops and starts; False if it can't."""

    def low(self, server: int) -> int | None:
        """The low watermark that readers are told."""


class InMemory:
    """The rules alone, one report after another."""

    count = 1

    def __init__(self) -> None:
        self.app = App(1, "app")
        self.journal = Runs()

    def take(self, _: int, moment: Moment, reports: Sequence[Report]) -> list[ReportAnswer | Exception]:
        found: list[ReportAnswer | Exception] = []
        for report in reports:
            try:
                intake.check(self.app, report, moment, LIMITS, self.journal)
            except RefusedError as error:
                if identity.is_turned_away(self.app, report, error, self.journal):
                    identity.turn_away(self.app, report, moment, self.journal)
                found.append(error)
                continue
            intake.take_in(self.app, report, moment, LIMITS, self.journal)
            found.append(answering.answer_all(self.app, {0: report}, moment, LIMITS, self.journal)[0])
        return found

    def remove(self, _: int, moment: Moment, client: str) -> None:
        decisions.decide(self.app, removal(client), moment, LIMITS, self.journal)

    def restart(self, _: int, __: Moment) -> bool:
        return False

    def low(self, _: int) -> int | None:
        self.app.told = self.app.remembered(LIMITS).application
        return self.app.told


class OnDatabase:
    """Two servers of one database."""

    count = 2

    def __init__(self, ledgers: Ledgers) -> None:
        self.clock = ledgers.clock
        self.opened = ledgers
        self.ledgers = [ledgers.make(LIMITS) for _ in range(self.count)]
        for ledger in self.ledgers:
            ledger.load()
        self.name = ""

    def take(self, server: int, moment: Moment, reports: Sequence[Report]) -> list[ReportAnswer | Exception]:
        self.clock.now, self.clock.tick = moment.at, moment.tick
        return self.ledgers[server].report([(self.name, report) for report in reports])

    def remove(self, server: int, moment: Moment, client: str) -> None:
        self.clock.now, self.clock.tick = moment.at, moment.tick
        self.ledgers[server].override(self.name, removal(client))

    def restart(self, server: int, moment: Moment) -> bool:
        self.clock.now, self.clock.tick = moment.at, moment.tick
        self.ledgers[server].close()
        self.ledgers[server] = self.opened.make(LIMITS)
        self.ledgers[server].load()
        return True

    def low(self, server: int) -> int | None:
        app = self.ledgers[server].app(self.name)
        return None if app is None else app.remembered(LIMITS).application


def removal(client: str) -> OverrideRequest:
    given = {"action": "remove", "client": client, "name": "dana", "reason": "it is gone"}
    return OverrideRequest.model_validate(given)
