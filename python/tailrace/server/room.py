"""Checks that an application has room for a report's contents: reporters, hosts of rosters, key groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.server.names import shown_some
from tailrace.server.reporter import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tailrace.server.identity import Rival
    from tailrace.server.protocol import Report
    from tailrace.server.reporter import Reporter
    from tailrace.server.state import App, Limits


def check_room(app: App, report: Report, gone: Mapping[str, Sequence[Rival]], limits: Limits) -> bool:
    """Refuses reporters, names of what they read, rosters and key groups that exceed a limit.

    New hosts in progress aren't refused: hosts above the limit hold their source. No row stops a query.

    Args:
        app: before the report is taken in.
        report: the client's.
        gone: the reporters whose place the client takes, by operator.
        limits: the server's.

    Returns:
        Whether there is room for the rosters only if hosts leave that they don't name.

    Raises:
        RefusedError: there is no room.
    """
    leave = {id(rival.reporter) for rivals in gone.values() for rival in rivals}

    def stay() -> list[Reporter]:
        # Computed late: most reports bring nothing new.
        return [r for o in app.operators.values() for r in o.reporters.values() if id(r) not in leave]

    _check_reporters(app, report, stay, limits)
    _check_groups(app, report, stay, limits)
    return _check_rosters(app, report, stay, limits)


def _check_reporters(
    app: App, report: Report, stay: Callable[[], Sequence[Reporter]], limits: Limits
) -> None:
    added = more = 0
    for reported in report.operators:
        own = app.reporter(report.client, reported.operator)
        added += own is None
        if reported.reads is not None:
            known = None if own is None else own.settings.reads
            more += max(0, len(reported.reads) - len(known or ()))
    if added and len(stay()) + added > limits.reporters:
        raise RefusedError(
            f"an application's operators have at most {limits.reporters:,} reporters in all: remove clients "
            f"of {app.name!r} that are gone"
        )
    if more and sum(len(reporter.settings.reads or ()) for reporter in stay()) + more > limits.reads:
        raise RefusedError(
            f"an application's reporters name at most {limits.reads:,} inputs in all: report fewer `reads`, "
            "for instance topics in place of their partitions"
        )


def _check_rosters(app: App, report: Report, stay: Callable[[], Sequence[Reporter]], limits: Limits) -> bool:
    more, least = 0, 0
    names: list[str] = []
    for reported in report.operators:
        if reported.roster is None:
            continue
        roster = set(reported.roster)
        if len(roster) > limits.hosts:
            raise RefusedError(
                f"{reported.operator!r} has a roster of {len(roster):,} hosts, and a source has at most "
                f"{limits.hosts:,}"
            )
        own = app.reporter(report.client, reported.operator)
        known = 0 if own is None else len(own.hosts)
        whole = len(roster) if own is None else known + len(own.hosts.unknown(roster))
        more += (whole if whole <= limits.hosts else len(roster)) - known
        # With an empty roster the hosts seen count, so none leaves.
        least += (len(roster) if roster else known) - known
        names.append(reported.operator)
    if not names:
        return False
    hosts = sum(len(reporter.hosts) for reporter in stay())
    if hosts + least > limits.app_hosts and least > 0:
        raise RefusedError(
            f"{app.name!r} would have {hosts + least:,} hosts, and an application has at most "
            f"{limits.app_hosts:,} hosts: shorten the roster of {shown_some(names)}, or remove what is gone"
        )
    return hosts + more > limits.app_hosts


def _check_groups(app: App, report: Report, stay: Callable[[], Sequence[Reporter]], limits: Limits) -> None:
    more = 0
    for reported in report.operators:
        own = app.reporter(report.client, reported.operator)
        known = {} if own is None else own.groups
        groups = len(reported.low_watermarks)
        if own is None or not own.keeps_groups(reported.key_groups):
            more -= len(known)
        else:
            groups = len(reported.low_watermarks.keys() - known.keys())
            if groups and groups + len(known) > limits.groups:
                groups += len(known)
        if groups > limits.groups:
            raise RefusedError(
                f"{reported.operator!r} would have {groups:,} key groups, and an operator has at most "
                f"{limits.groups:,} key groups of a query: say with key_groups how many there are now, or "
                "remove it first"
            )
        more += groups
    if more <= 0:
        return
    groups = more + sum(len(reporter.groups) for reporter in stay())
    if groups > limits.app_groups:
        raise RefusedError(
            f"{app.name!r} would have {groups:,} key groups, and an application has at most "
            f"{limits.app_groups:,} key groups: remove what is gone"
        )
