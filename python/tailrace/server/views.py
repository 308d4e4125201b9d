"""What readers see of an application: the API, the page and the metrics show the same."""

from __future__ import annotations

import json
from heapq import nsmallest
from typing import TYPE_CHECKING, Literal

from tailrace.server import protocol
from tailrace.server.rules import NEVER, allowed
from tailrace.server.topology import held_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.server.database import Row
    from tailrace.server.hosts import Host
    from tailrace.server.state import App, Operator
    from tailrace.server.topology import LowWatermarks


def app_state(app: App, now: int) -> protocol.AppState:
    """An application with its operators, in the order in which they came."""
    low = app.low_watermarks()
    present, upstreams = app.present(), app.upstreams()
    return protocol.AppState(
        app=app.name,
        operators=len(present),
        global_low_watermark=low.application,
        reported_at=app.reported_at,
        at=now,
        lag=_lag(low.application, now),
        held_by=held_by(upstreams, low),
        topology=[_operator_state(o, upstreams[name], low, now) for name, o in present.items()],
    )


def host_page(app: App, operator: str | None, limit: int, offset: int, now: int) -> protocol.HostPage:
    """Hosts of one source, or of all, the slowest first.

    Raises:
        RefusedError: the operator is no source.
    """
    sources = (
        [o for o in app.present().values() if o.is_source] if operator is None else [app.source(operator)]
    )
    found = [(source, host) for source in sources for host in source.hosts.slowest(offset + limit)]
    rules = {source.name: source.hosts.low_watermark(source.completeness()) for source in sources}
    first = nsmallest(offset + limit, found, key=lambda row: (_progress(row[1]), row[0].name, row[1].name))
    return protocol.HostPage(
        total=sum(len(source.hosts) for source in sources),
        hosts=[
            protocol.HostState(
                operator=source.name,
                host=host.name,
                progress=host.progress,
                lag=_lag(host.progress, now),
                state=_state(host, rules[source.name]),
            )
            for source, host in first[offset:]
        ],
    )


def window_page(rows: Sequence[Row]) -> protocol.WindowPage:
    """Completeness reports out of the store's rows."""
    return protocol.WindowPage(
        windows=[
            protocol.WindowState(
                operator=operator,
                start=start,
                end=end,
                expected=expected,
                passed=passed,
                missing=[protocol.MissingHost(**host) for host in json.loads(missing)],
                late_rows=late_rows,
            )
            for operator, start, end, expected, passed, missing, late_rows in rows
        ]
    )


def history(rows: Sequence[Row]) -> protocol.History:
    """Low watermarks over time out of the store's rows."""
    series: dict[str, list[protocol.HistoryPoint]] = {}
    for operator, at, low in rows:
        series.setdefault(operator, []).append(protocol.HistoryPoint(at=at, low_watermark=low))
    return protocol.History(series=series)


def override_page(rows: Sequence[Row]) -> protocol.OverridePage:
    """The audit table out of the store's rows."""
    names = ("at", "action", "operator", "to", "host", "name", "reason")
    return protocol.OverridePage(
        overrides=[protocol.Override(**dict(zip(names, row, strict=True))) for row in rows]
    )


def _operator_state(
    operator: Operator, upstreams: Sequence[str], low: LowWatermarks, now: int
) -> protocol.OperatorState:
    output = low.outputs[operator.name]
    source = operator if operator.is_source else None
    counting = source.hosts.counting() if source else None
    return protocol.OperatorState(
        operator=operator.name,
        kind=operator.settings.kind,
        client=operator.settings.client,
        upstreams=list(upstreams),
        reported_at=operator.reported_at,
        input_low_watermark=low.inputs[operator.name],
        output_low_watermark=output,
        lag=_lag(output, now),
        completeness=source.settings.completeness if source else None,
        hosts=counting,
        hosts_behind=source.hosts.behind(0 if output is None else output) if source else None,
        hosts_allowed=allowed(counting, source.completeness()) if source and counting is not None else None,
        hosts_excluded=len(source.hosts.excluded()) if source else None,
        hosts_idle=len(source.hosts.idle()) if source else None,
        has_roster=source.hosts.has_roster if source else None,
        key_groups=None if source else len(operator.key_groups),
    )


def _lag(time: int | None, now: int) -> int | None:
    return None if time is None else now - time


def _progress(host: Host) -> int:
    return NEVER if host.progress is None else host.progress


def _state(
    host: Host, rule: int | None
) -> Literal["holds", "behind", "passed", "excluded", "idle", "not in roster"]:
    if host.excluded:
        return "excluded"
    if host.idle:
        return "idle"
    if not host.counts:
        return "not in roster"
    bound = NEVER if rule is None else rule
    if _progress(host) == bound:
        return "holds"
    return "behind" if _progress(host) < bound else "passed"
