"""The parts of the page, each a piece of HTML that the page's script may replace by a newer one."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from tailrace.server.chart import lag_chart
from tailrace.server.drawing import MOST_DRAWN, topology
from tailrace.server.wording import shown_lag, shown_some, shown_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tailrace.server import answers

_MISSING_SHOWN = 3
_WARNINGS_SHOWN = 20


@dataclass(frozen=True)
class Standing:
    """All that the page shows of an application."""

    app: answers.AppState
    hosts: answers.HostPage
    windows: answers.WindowPage
    history: answers.History
    overrides: answers.OverridePage


def sections(standing: Standing) -> dict[str, str]:
    """The HTML of each part, by the id of the element that it fills."""
    app = standing.app
    return {
        "summary": _summary(standing),
        "topology": topology(app.topology, app.held_by),
        "operators": _operators(app),
        "hosts": _hosts(standing.hosts),
        "history": lag_chart(standing.history),
        "windows": _windows(standing.windows),
        "overrides": _overrides(standing.overrides),
        "names": "".join(f'<option value="{escape(o.operator)}">' for o in app.topology),
    }


def _summary(standing: Standing) -> str:
    app = standing.app
    holders = ", ".join(f"<b>{escape(name)}</b>" for name in app.held_by)
    waits = [host for host in standing.hosts.hosts if host.state == "holds" and host.operator in app.held_by]
    hosts = ", ".join(escape(host.host) for host in waits[:_MISSING_SHOWN])
    # How many there are isn't known: the page has the slowest hosts alone.
    more = ", ..." if len(waits) > _MISSING_SHOWN else ""
    who = f"Held by {holders}{f', which waits for {hosts}{more}' if hosts else ''}." if holders else ""
    return (
        f'<div class="figure"><span>global low watermark</span>'
        f'<b id="global">{shown_time(app.global_low_watermark)}</b></div>'
        f'<div class="figure"><span>lag</span><b>{shown_lag(app.lag)}</b></div>'
        f'<div class="figure"><span>last report</span><b>{shown_lag(app.at - app.reported_at)} ago</b></div>'
        f'<p id="held">{who}</p>'
    )


def _operators(app: answers.AppState) -> str:
    rows = []
    for o in app.topology[:MOST_DRAWN]:
        hosts = ""
        if o.hosts is not None:
            hosts = f"{o.hosts:,}{'' if o.has_roster else ' seen'}"
        behind = "" if o.hosts_behind is None else f"{o.hosts_behind:,} of {o.hosts_allowed:,} allowed"
        share = "" if o.completeness is None else _percent(o.completeness)
        name = f"<b>{escape(o.operator)}</b>" if o.operator in app.held_by else escape(o.operator)
        cells = (
            *(name, o.kind, shown_time(o.input_low_watermark), shown_time(o.output_low_watermark)),
            *(shown_lag(o.lag), share, hosts, behind, f"{shown_lag(app.at - o.reported_at)} ago"),
        )
        rows.append((o.operator, cells))
    head = ("operator", "kind", "input", "output", "lag", "completeness", "hosts", "behind", "last report")
    if not rows:
        return _none("No operator has reported yet.")
    shown = f"<p class='more'>{len(rows):,} of {len(app.topology):,} operators</p>"
    more = shown if len(app.topology) > len(rows) else ""
    return f"{_table(head, rows, numbers={4, 5, 6, 7, 8})}{more}{_reporters(app)}"


def _reporters(app: answers.AppState) -> str:
    """What is odd about who reports: gone, or told of what wasn't taken."""
    told = []
    for o in app.topology:
        for reporter in o.reporters:
            ended = "has ended" if reporter.leaving else "isn't heard of"
            if not reporter.live:
                told.append(
                    f"<b>{escape(o.operator)}</b>: {escape(reporter.client)} {ended} "
                    f"({shown_lag(app.at - reporter.heard_at)} ago), and its data still counts"
                )
            told.extend(f"<b>{escape(o.operator)}</b>: {escape(text)}" for text in reporter.warnings)
    return "".join(f"<p class='warning'>{text}</p>" for text in told[:_WARNINGS_SHOWN])


def _hosts(page: answers.HostPage) -> str:
    if not page.hosts:
        return _none("No host was seen or rostered yet.")
    rows = [
        (
            host.host,
            (
                escape(host.host),
                escape(host.operator),
                shown_time(host.progress),
                shown_lag(host.lag),
                f'<span class="state {host.state.replace(" ", "-")}">{host.state}</span>',
            ),
        )
        for host in page.hosts
    ]
    table = _table(("host", "source", "read up to", "lag", ""), rows, numbers={3})
    return f"{table}<p class='more'>{len(page.hosts):,} of {page.total:,} hosts, the slowest first</p>"


def _windows(page: answers.WindowPage) -> str:
    if not page.windows:
        return _none("No window has closed yet.")
    rows = []
    for window in page.windows:
        share = window.passed / window.expected if window.expected else 1.0
        missing = shown_some([host.host for host in window.missing], _MISSING_SHOWN, quoted=False)
        cells = (
            escape(window.operator),
            f"{shown_time(window.start)} – {shown_time(window.end)}",  # noqa: RUF001  a dash, as it is meant
            f'<meter min="0" max="1" value="{share:.6f}"></meter> {100 * share:.2f} %',
            f"{window.passed:,} of {window.expected:,}",
            escape(missing),
            f"{window.late_rows:,}",
        )
        rows.append((window.operator, cells))
    head = ("operator", "window", "completeness", "hosts passed", "missing", "late rows")
    return _table(head, rows, numbers={3, 5})


def _overrides(page: answers.OverridePage) -> str:
    if not page.overrides:
        return _none("Nobody has overridden the rules.")
    rows = []
    for line in page.overrides:
        what = f"to {shown_time(line.to)}" if line.to is not None else escape(line.host or "")
        cells = (
            shown_time(line.at),
            line.action,
            escape(line.operator) or "all",
            what,
            escape(line.name),
            escape(line.reason),
        )
        rows.append((line.operator, cells))
    return _table(("at", "action", "operator", "", "by", "reason"), rows, numbers=set())


def _percent(completeness: str) -> str:
    # By text: 99.9 % is what was said, whatever a double makes of it.
    whole, _, decimals = completeness.partition(".")
    digits = (whole + decimals.ljust(2, "0")).lstrip("0")
    cut = len(decimals) - 2
    text = f"{digits[:-cut].rjust(1, '0')}.{digits[-cut:]}".rstrip("0").rstrip(".") if cut > 0 else digits
    return f"{text} %"


def _table(head: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]], numbers: set[int]) -> str:
    """A table of cells that are HTML already; each row carries its key as data-key."""

    def cells(tag: str, values: Sequence[str]) -> str:
        kinds = (' class="number"' if i in numbers else "" for i in range(len(values)))
        return "".join(f"<{tag}{kind}>{value}</{tag}>" for kind, value in zip(kinds, values, strict=True))

    body = "".join(f'<tr data-key="{escape(key)}">{cells("td", values)}</tr>' for key, values in rows)
    return f"<table><thead><tr>{cells('th', head)}</tr></thead><tbody>{body}</tbody></table>"


def _none(text: str) -> str:
    return f'<p class="none">{text}</p>'
