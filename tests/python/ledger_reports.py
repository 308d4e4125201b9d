"""Reports to the ledger of one client, and decisions about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.server.protocol import OverrideRequest, Report
from tailrace.server.views import app_state

if TYPE_CHECKING:
    from tailrace.server.answers import AppState, ReportAnswer
    from tailrace.server.ledger import Ledger
    from tailrace.server.state import App


def tell(ledger: Ledger, body: dict[str, Any], app: str = "app") -> ReportAnswer:
    (answer,) = ledger.report([(app, Report.model_validate(body))])
    if isinstance(answer, Exception):
        raise answer
    return answer


def low(answer: ReportAnswer, operator: str = "source") -> int | None:
    return answer.operators[operator].output_low_watermark


def shown(ledger: Ledger, app: App) -> AppState:
    return app_state(app, ledger.now(), ledger.limits)


def decide(ledger: Ledger, **fields: object) -> int:
    confirm = fields.get("action") in {"advance", "purge"}
    given_fields = {
        "operator": "source",
        "name": "dana",
        "reason": "disk died",
        "confirm": confirm,
        **fields,
    }
    return ledger.override("app", OverrideRequest.model_validate(given_fields))
