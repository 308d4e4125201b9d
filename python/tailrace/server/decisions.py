"""Applies a person's decision, which overrides the rules, to an application's state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.server.reporter import RefusedError
from tailrace.server.times import shown_lag, shown_time
from tailrace.server.topology import below, latest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tailrace.server.journal import Journal
    from tailrace.server.protocol import OverrideRequest
    from tailrace.server.state import App, Limits, Operator
    from tailrace.server.times import Moment


def decide(app: App, request: OverrideRequest, moment: Moment, limits: Limits, journal: Journal) -> None:
    """Applies a decision; the caller purges a whole application.

    Raises:
        RefusedError: what it names is unknown, the time is in the future of all that is known, or it isn't
            confirmed. Nothing has changed then.
    """
    if request.action == "remove":
        _remove(app, request, moment, journal)
        return
    operator = known_operator(app, request.operator or "", removed_too=request.action == "purge")
    if request.to is not None:
        _advance(app, operator, request, moment, limits)
    elif request.action == "undo":
        if operator.advanced_to is None:
            raise RefusedError(f"{operator.name!r} isn't advanced: there is nothing to undo")
        operator.advanced_to = None
        _forget_told(app, below(app.edges(), operator.name), journal)
    elif request.action == "purge":
        refuse_cut(operator, operator.reporters, moment)
        _purge(app, operator, request, journal)
    elif request.host is not None:
        refuse_unknown_host(app, operator.name, request.host)
        excluded = request.action == "exclude"
        operator.exclude(request.host, excluded=excluded)
        journal.put_excluded(operator, request.host, excluded=excluded)
    if operator.name in app.operators:
        journal.put_operator(app, operator)


def refuse_unknown_host(app: App, source: str, host: str) -> None:
    """Refuses a decision on a host that a source neither has nor has taken out.

    Raises:
        RefusedError: there is no such host, or no such source.
    """
    operator = app.source(source)
    known = any(reporter.hosts.is_known(host) for reporter in operator.reporters.values())
    if not known and host not in operator.excluded:
        raise RefusedError(f"{operator.name!r} has no host {host!r}")


def refuse_unconfirmed(request: OverrideRequest, what: str) -> None:
    """Refuses an irreversible decision unless it is confirmed.

    Raises:
        RefusedError: it isn't.
    """
    if not request.confirm:
        raise RefusedError(f"{what}. To do it, send it again with confirm")


def refuse_cut(operator: Operator, clients: Iterable[str], moment: Moment) -> None:
    """Refuses to forget reporters that are sending a first report in several requests.

    The requests that follow don't repeat the hosts of those before, and the watermark wouldn't wait for them.

    Raises:
        RefusedError: a client is between two such requests. One that is dead may be forgotten.
    """
    for client in clients:
        reporter = operator.reporters[client]
        if reporter.roster.missing and reporter.client.is_live(moment):
            raise RefusedError(
                f"{client!r} is sending the hosts of {operator.name!r} in several requests, and not all have "
                "arrived: send this again in a moment, or stop that query first"
            )


def known_operator(app: App, name: str, *, removed_too: bool = False) -> Operator:
    """An operator by its name.

    Args:
        app: the application.
        name: the operator's.
        removed_too: takes one that was removed as well.

    Raises:
        RefusedError: there is none.
    """
    operator = app.operators.get(name)
    if operator is None or (operator.removed and not removed_too):
        raise RefusedError(f"{app.name!r} has no operator {name!r}")
    return operator


def _advance(app: App, operator: Operator, request: OverrideRequest, moment: Moment, limits: Limits) -> None:
    to = request.to or 0
    text = advance_text(app, operator, to, moment, limits)
    now = app.computed(limits).outputs[operator.name]
    if now is None or to > now:
        refuse_unconfirmed(request, text)
    operator.advanced_to = latest(operator.advanced_to, to)


def advance_text(app: App, operator: Operator, to: int, moment: Moment, limits: Limits) -> str:
    """Says what an advance would do.

    Raises:
        RefusedError: the time is in the future of all that is known.
    """
    end = max(moment.at, app.newest())
    if to > end:
        raise RefusedError(f"{to} is after now and after all event times known, {end}")
    now = app.computed(limits).outputs[operator.name]
    if now is not None and to <= now:
        return (
            f"{operator.name!r} is at {shown_time(now)} by itself, and would be at {shown_time(to)} at least"
        )
    by = "from nothing known" if now is None else f"by {shown_lag(to - now)}"
    behind = operator.hosts().behind(to) if operator.is_source else 0
    hosts = f" past {behind:,} hosts that haven't been read so far" if behind else ""
    return (
        f"{operator.name!r} would be advanced to {shown_time(to)}, {by},{hosts} and rows before that "
        "which are still to come would be late everywhere"
    )


def _remove(app: App, request: OverrideRequest, moment: Moment, journal: Journal) -> None:
    if request.client is not None:
        _remove_client(app, request, request.client, moment, journal)
        return
    if request.operator is not None:
        chosen: Collection[Operator] = [known_operator(app, request.operator)]
    else:
        chosen = present_operators(app)
    for operator in chosen:
        refuse_cut(operator, operator.reporters, moment)
    for operator in list(chosen):
        drop(app, operator, list(operator.reporters), journal)


def present_operators(app: App) -> Collection[Operator]:
    """The operators that a removal of all removes.

    Raises:
        RefusedError: there are none.
    """
    found = app.present().values()
    if not found:
        raise RefusedError(f"{app.name!r} has no operators")
    return found


def reported_by(app: App, operator: str | None, client: str) -> list[Operator]:
    """The operators, or one of them, that a client reports; a client of the application may report none.

    Raises:
        RefusedError: there is no such client, or it doesn't report the operator.
    """
    chosen = app.present().values() if operator is None else [known_operator(app, operator)]
    found = [one for one in chosen if client in one.reporters]
    if not found and (operator is not None or client not in app.clients):
        of = app.name if operator is None else operator
        raise RefusedError(f"{client!r} is no client of {of!r}")
    return found


def _remove_client(app: App, request: OverrideRequest, client: str, moment: Moment, journal: Journal) -> None:
    found = reported_by(app, request.operator, client)
    for one in found:
        refuse_cut(one, [client], moment)
    for one in found:
        drop(app, one, [client], journal)
    if not any(client in one.reporters for one in app.operators.values()):
        journal.drop_client(app, app.clients.pop(client))


def drop(app: App, operator: Operator, clients: Iterable[str], journal: Journal) -> None:
    """Removes reporters of an operator; the operator is removed with its last one."""
    # Its upstreams are kept, so that they hold those who read from it.
    upstreams = operator.upstreams
    for client in clients:
        journal.drop_reporter(app, operator.reporters.pop(client))
    operator.shrunk()
    app.rewired()
    if not operator.reporters:
        operator.left_upstreams, operator.removed = upstreams, True
        journal.put_operator(app, operator)


def _purge(app: App, operator: Operator, request: OverrideRequest, journal: Journal) -> None:
    refuse_unconfirmed(
        request,
        f"{operator.name!r} would be forgotten, with what was told of it and what followed of that",
    )
    names = below(app.edges(), operator.name)
    journal.drop_operator(app, operator)
    del app.operators[operator.name]
    app.rewired()
    _forget_told(app, names, journal)


def _forget_told(app: App, names: Iterable[str], journal: Journal) -> None:
    """Forgets the answers of some operators; new answers follow from the current state."""
    app.told = None
    for client in app.clients.values():
        client.told = None
        journal.put_client(app, client)
    for name in names:
        operator = app.operators.get(name)
        if operator is None:
            continue
        operator.told_input = operator.told_output = None
        for reporter in operator.reporters.values():
            reporter.told_input = reporter.told_output = None
            journal.put_reporter(app, reporter)
        journal.put_operator(app, operator)
