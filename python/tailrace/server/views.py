"""An application as the API, the page and the metrics show it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

from tailrace.server import answers
from tailrace.server.protocol import MissingHost
from tailrace.server.rules import allowed
from tailrace.server.times import EARLIEST
from tailrace.server.topology import held_by

_Point = TypeVar("_Point")
_REPORTERS = 100
_LABELS = 3
MAX_POINTS = 400
"""Points of a line on the screen."""

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.server.database import Row
    from tailrace.server.reporter import Reporter
    from tailrace.server.state import App, Limits, Operator
    from tailrace.server.times import Moment
    from tailrace.server.topology import LowWatermarks


def app_state(app: App, moment: Moment, limits: Limits) -> answers.AppState:
    """An application with its operators, in the order in which they came."""
    low = app.remembered(limits)
    application = low.application
    present, upstreams = app.present(), app.upstreams()
    holders = held_by(upstreams, low)
    gone = {
        name: None
        for holder in holders
        for name, reporter in present[holder].reporters.items()
        if not reporter.client.is_live(moment)
    }
    return answers.AppState(
        app=app.name,
        operators=len(present),
        global_low_watermark=application,
        reported_at=app.reported_at,
        at=moment.at,
        lag=_lag(application, moment.at),
        held_by=holders,
        held_by_clients=list(gone),
        topology=[
            _operator_state(o, upstreams[name], low, moment, limits.forget_hosts_after)
            for name, o in present.items()
        ],
    )


def app_summary(app: App, limits: Limits) -> answers.AppSummary:
    """An application without its operators."""
    return answers.AppSummary(
        app=app.name,
        operators=len(app.present()),
        global_low_watermark=app.remembered(limits).application,
        reported_at=app.reported_at,
    )


def window_page(rows: Sequence[Row]) -> answers.WindowPage:
    """Completeness reports out of the store's rows."""
    return answers.WindowPage(
        windows=[
            answers.WindowState(
                operator=operator,
                start=start,
                end=end,
                expected=expected,
                passed=passed,
                missing=[MissingHost(**host) for host in json.loads(missing)],
                late_rows=late_rows,
            )
            for operator, start, end, expected, passed, missing, late_rows in rows
        ]
    )


def history(rows: Sequence[Row]) -> answers.History:
    """Low watermarks over time out of the store's rows, thinned to what a screen shows."""
    series: dict[str, list[tuple[int, int]]] = {}
    for operator, at, low in rows:
        series.setdefault(operator, []).append((at, low))
    return answers.History(
        series={
            name: [answers.HistoryPoint(at=at, low_watermark=low) for at, low in thinned(points)]
            for name, points in series.items()
        }
    )


def thinned(points: Sequence[_Point]) -> Sequence[_Point]:
    """Every n-th of some points, always including the newest, so that they fit on a screen."""
    every = -(-len(points) // MAX_POINTS)
    return points[::-1][::every][::-1] if every > 1 else points


def override_page(rows: Sequence[Row]) -> answers.OverridePage:
    """The audit table out of the store's rows."""
    names = ("at", "action", "operator", "to", "host", "name", "reason")
    return answers.OverridePage(
        overrides=[answers.Override(**dict(zip(names, row, strict=True))) for row in rows]
    )


def _operator_state(
    operator: Operator, upstreams: Sequence[str], low: LowWatermarks, moment: Moment, forget_after: int
) -> answers.OperatorState:
    output = low.outputs[operator.name]
    hosts = operator.hosts() if operator.is_source else None
    counting = None if hosts is None else hosts.counting()
    slowest, fastest = (None, None) if hosts is None else hosts.extent()
    reporters = sorted(operator.reporters.values(), key=lambda reporter: -reporter.reported_at)
    holding = operator.holding(output, forget_after)
    return answers.OperatorState(
        operator=operator.name,
        kind=operator.kind,
        label=_label(reporters),
        client=reporters[0].client.name if reporters else "",
        reporters=[
            _reporter_state(operator, reporter, reporter.client.name in holding, moment)
            for reporter in reporters[:_REPORTERS]
        ],
        advanced_to=operator.advanced_to,
        upstreams=list(upstreams),
        reported_at=operator.reported_at,
        input_low_watermark=low.inputs[operator.name],
        output_low_watermark=output,
        lag=_lag(output, moment.at),
        completeness=None if hosts is None else operator.completeness_text(),
        hosts=counting,
        hosts_behind=None if hosts is None else hosts.behind(EARLIEST if output is None else output),
        hosts_allowed=None if counting is None else allowed(counting, operator.completeness()),
        hosts_excluded=None if hosts is None else len(hosts.excluded()),
        hosts_idle=None if hosts is None else len(hosts.idle()),
        backlog=_lag(slowest, moment.at),
        skew=None if slowest is None or fastest is None else fastest - slowest,
        has_roster=None if hosts is None else hosts.has_roster,
        key_groups=None if operator.is_source else sum(len(r.groups) for r in reporters),
    )


def _label(reporters: Sequence[Reporter]) -> str | None:
    """The description of an operator in all queries that report it, whichever has reported last."""
    labels = sorted({reporter.settings.label for reporter in reporters if reporter.settings.label})
    if not labels:
        return None
    more = f" and {len(labels) - _LABELS:,} others" if len(labels) > _LABELS else ""
    return "; ".join(labels[:_LABELS]) + more


def _reporter_state(
    operator: Operator, reporter: Reporter, holds: bool, moment: Moment
) -> answers.ReporterState:
    client, settings = reporter.client, reporter.settings
    return answers.ReporterState(
        client=client.name,
        query=client.query or None,
        run=client.run,
        label=settings.label or None,
        reads=None if settings.reads is None else list(settings.reads[: answers.MAX_READS_NAMED]),
        reads_count=None if settings.reads is None else len(settings.reads),
        logs=settings.logs or None,
        batches=reporter.batches,
        gone_back_from=reporter.had,
        holds=holds,
        live=client.is_live(moment),
        leaving=client.leaving,
        heard_at=client.heard_at,
        reported_at=reporter.reported_at,
        output_low_watermark=reporter.told_output,
        hosts=len(reporter.hosts) if operator.is_source else None,
        warnings=list(reporter.warnings),
    )


def _lag(time: int | None, now: int) -> int | None:
    return None if time is None else now - time
