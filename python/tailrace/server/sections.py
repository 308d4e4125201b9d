"""The contents of the page's sections about an application."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tailrace.server import hostpages, views
from tailrace.server.api import known_app
from tailrace.server.charts import MAX_SERIES, lag_chart, topology
from tailrace.server.choice import HOSTS
from tailrace.server.ledger import HISTORY_KEPT
from tailrace.server.names import plain, shown_some
from tailrace.server.reporters import shown_holders, shown_name, shown_reads
from tailrace.server.times import NEVER, shown_lag, shown_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.server.answers import AppState, HostState, OperatorState
    from tailrace.server.choice import Choice
    from tailrace.server.ledger import Ledger
    from tailrace.server.state import App, Limits

_WINDOWS = 12
_OVERRIDES = 10
_WARNINGS = 20
_REPORTERS = 100
_NAMES = 3
_WAITS = 3
_REMOVED = 50


def shown(ledger: Ledger, name: str) -> dict[str, Any]:
    """The contents of the sections that are the same for everybody.

    Raises:
        UnknownAppError: there is no application of this name.
    """
    app = known_app(ledger, name)
    now = ledger.clock()
    state = views.app_state(app, ledger.now(), ledger.limits)
    # Only the history of the operators that the chart shows is read: the slowest.
    slowest = sorted(
        state.topology,
        key=lambda o: (NEVER if o.output_low_watermark is None else o.output_low_watermark, o.operator),
    )
    charted = ["", *(o.operator for o in slowest[:MAX_SERIES])]
    waits = hostpages.host_page(app, hostpages.Asked(state="holds", limit=_WAITS), now, ledger.limits)
    reporters = [(operator, reporter) for operator in state.topology for reporter in operator.reporters]
    return {
        "app": state,
        "labels": {o.operator: o.label for o in state.topology if o.label},
        "drawing": topology(state.topology),
        "chart": lag_chart(views.history(ledger.records.recent(app, now - HISTORY_KEPT, charted))),
        "waits": [_host(host, state) for host in waits.hosts],
        "slowest": "" if waits.hosts else _slowest(app, state, ledger.limits),
        "holders": {o.operator: _held_by(o) for o in state.topology},
        "reported_by": {o.operator: _reported_by(o) for o in state.topology},
        "shown_reads": [shown_reads(reporter.model_dump()) for _, reporter in reporters[:_REPORTERS]],
        "others": waits.total - len(waits.hosts),
        "warnings": [*_warnings(state)][:_WARNINGS],
        "reporters": reporters[:_REPORTERS],
        "all_reporters": len(reporters),
        "windows": views.window_page(ledger.records.windows(app, None, _WINDOWS, 0)),
        "overrides": views.override_page(ledger.records.audit(app, _OVERRIDES, 0)),
        "advanced": [o for o in state.topology if o.advanced_to is not None],
        "removed": sorted(o.name for o in app.operators.values() if o.removed)[:_REMOVED],
    }


def shown_hosts(ledger: Ledger, choice: Choice) -> dict[str, Any]:
    """The contents of the sections about the hosts that a user has chosen.

    Raises:
        UnknownAppError: there is no such application.
    """
    app = known_app(ledger, choice.app)
    hosts = hostpages.host_page(app, choice.asked(), ledger.clock(), ledger.limits)
    pages = max(1, -(-hosts.total // HOSTS))
    if choice.page > pages:
        # There were more when the user chose the page.
        choice = replace(choice, page=pages)
        hosts = hostpages.host_page(app, choice.asked(), ledger.clock(), ledger.limits)
    return {"hosts": hosts, "choice": choice, "pages": pages}


def _host(host: HostState, state: AppState) -> str:
    of = next(len(o.reporters) for o in state.topology if o.operator == host.operator)
    name = plain(host.host)
    return f"{name} of {plain(' and '.join(host.queries))}" if of > 1 else name


def _slowest(app: App, state: AppState, limits: Limits) -> str:
    """The slowest host of what holds the watermark, where no host is behind another, such as a single one."""
    sources = {o.operator for o in state.topology if o.hosts} & set(state.held_by)
    if len(sources) != 1:
        return ""
    asked = hostpages.Asked(operator=sources.pop(), limit=1)
    found = hostpages.host_page(app, asked, state.at, limits).hosts
    at = found[0].progress if found else None
    return "" if at is None else f"{_host(found[0], state)}, read up to {shown_time(at)}"


def _held_by(operator: OperatorState) -> str:
    """The queries that hold back an operator, where they aren't obvious."""
    if len(operator.reporters) > 1:
        return shown_holders([reporter.model_dump() for reporter in operator.reporters], operator.label)
    return next((plain(reporter.query) for reporter in operator.reporters if reporter.query), "")


def _reported_by(operator: OperatorState) -> str:
    reporters = [reporter.model_dump() for reporter in operator.reporters]
    names = [shown_name(one, reporters) for one in reporters[:_NAMES]]
    return shown_some(names, _NAMES, quoted=False, of=len(reporters))


def _warnings(state: AppState) -> Iterator[tuple[str, str]]:
    """Operators whose queries have ended, or had a part of their report ignored."""
    for operator in state.topology:
        reporters = [reporter.model_dump() for reporter in operator.reporters]
        for reporter, fields in zip(operator.reporters, reporters, strict=True):
            if not reporter.live:
                gone = "has ended" if reporter.leaving else "isn't heard of"
                ago = shown_lag(state.at - reporter.heard_at)
                named = shown_name(fields, reporters)
                yield operator.operator, f"{named} {gone} ({ago} ago), and its data still counts"
            for text in reporter.warnings:
                yield operator.operator, text
