"""Reads an application from the database: all rows written since the version in memory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tailrace.server.hosts import HostTable
from tailrace.server.reporter import Client, Reporter, RosterState, Settings
from tailrace.server.state import App, Operator

if TYPE_CHECKING:
    from tailrace.server.database import Database, Row
    from tailrace.server.times import Moment

_HEAD = "SELECT id, version, told, reported_at, cleared FROM app WHERE name = ?"
_CLIENT = """SELECT id, name, run, heard_at, leaving, told, took, query FROM client
    WHERE app_id = ? AND version > ? ORDER BY id"""
_OPERATOR = """SELECT id, name, kind, advanced_to, told_input, told_output, removed, upstreams FROM operator
    WHERE app_id = ? AND version > ? ORDER BY id"""
_REPORTER = """SELECT reporter.id, operator.name, client.name, reporter.upstreams, completeness, idle_after,
    key_groups,
    reads, reporter.reported_at, stamps, reporter.told_input, reporter.told_output, roster_stated,
    roster_version, roster_wanted, has_roster, active, overflowed, warnings, cleared,
    label, logs, batches, begun, had
    FROM reporter JOIN operator ON operator.id = operator_id JOIN client ON client.id = client_id
    WHERE reporter.app_id = ? AND reporter.version > ? ORDER BY reporter.id"""


def refresh(database: Database, app: App, moment: Moment, *, at_start: bool) -> None:
    """Takes in what has been written since the version that is known; one that isn't there has no id.

    Args:
        database: the store.
        app: the application as it is in memory.
        moment: now.
        at_start: this server has just started: how long ago clients of an application that it doesn't know
            were heard of is measured by the clock of the day.
    """
    head = database.rows(_HEAD, app.name)
    if not head or head[0][0] != app.id or head[0][1] < app.version:
        # It was purged, and perhaps created again.
        app.__dict__.update(App(0, app.name).__dict__)
    if not head or head[0][1] == app.version:
        return
    at_start = at_start and not app.version
    app.id, version, app.told, app.reported_at, cleared = head[0]
    if app.version and cleared > app.version:
        _drop_what_is_gone(database, app)
    for row in database.rows(_CLIENT, app.id, app.version):
        _client(app, row, moment, at_start=at_start)
    for row in database.rows(_OPERATOR, app.id, app.version):
        _operator(database, app, row)
    for row in database.rows(_REPORTER, app.id, app.version):
        _reporter(database, app, row, moment)
    app.version = version
    app.rewired()


def _drop_what_is_gone(database: Database, app: App) -> None:
    def kept(table: str) -> set[int]:
        found = database.rows(f"SELECT id FROM {table} WHERE app_id = ?", app.id)
        return {row[0] for row in found}

    clients, operators, reporters = kept("client"), kept("operator"), kept("reporter")
    app.clients = {name: client for name, client in app.clients.items() if client.id in clients}
    app.operators = {name: operator for name, operator in app.operators.items() if operator.id in operators}
    for operator in app.operators.values():
        operator.reporters = {n: r for n, r in operator.reporters.items() if r.id in reporters}
        operator.shrunk()


def _client(app: App, row: Row, moment: Moment, *, at_start: bool) -> None:
    identity, name, run, heard_at, leaving, told, took, query = row
    client = app.clients.get(name)
    if client is None or client.id != identity:
        client = app.clients[name] = Client(identity, name, run)
    if client.heard_at != heard_at:
        # Another server has heard of it, whose clock may be wrong, so "now" is assumed. A client that is
        # taken for live too long only delays; one that is replaced too early loses its rows.
        ago = max(0, moment.at - heard_at) if at_start else 0
        client.heard_tick = moment.tick - ago
    client.run, client.heard_at, client.leaving, client.told = run, heard_at, bool(leaving), told
    client.took, client.query = set(json.loads(took)), query


def _operator(database: Database, app: App, row: Row) -> None:
    identity, name, kind, advanced_to, told_input, told_output, removed, upstreams = row
    operator = app.operators.get(name)
    if operator is None or operator.id != identity:
        operator = app.operators[name] = Operator(identity, name, kind)
    operator.kind, operator.advanced_to, operator.removed = kind, advanced_to, bool(removed)
    operator.told_input, operator.told_output = told_input, told_output
    operator.left_upstreams = tuple(json.loads(upstreams))
    # In place, because host tables share the set.
    operator.excluded.clear()
    operator.excluded.update(
        name for (name,) in database.rows("SELECT name FROM excluded_host WHERE operator_id = ?", identity)
    )
    for reporter in operator.reporters.values():
        reporter.hosts.exclusions_changed()
    operator.changed()


def _reporter(database: Database, app: App, row: Row, moment: Moment) -> None:
    identity, operator_name, client_name = row[:3]
    operator, client = app.operators[operator_name], app.clients[client_name]
    reporter = operator.reporters.get(client_name)
    since = app.version
    if reporter is None or reporter.id != identity or row[19] > since:
        before = reporter
        reporter = Reporter(identity, client, Settings(), hosts=HostTable(operator.excluded))
        if before is not None and before.id == identity:
            reporter.raised_tick, reporter.hosts.active = before.raised_tick, before.hosts.active
        operator.reporters[client_name] = reporter
        operator.shrunk()
        since = 0
    reporter.client = client
    reads = None if row[7] is None else tuple(json.loads(row[7]))
    if reads == reporter.settings.reads:
        reads = reporter.settings.reads
    reporter.settings = Settings(tuple(json.loads(row[3])), row[4], row[5], row[6], reads, row[20], row[21])
    _shift_silence(reporter, row[16], row[8], moment)
    reporter.reported_at, reporter.stamps, reporter.told_input, reporter.told_output = row[8:12]
    reporter.roster = RosterState(bool(row[12]), row[13], row[14])
    reporter.overflowed, reporter.warnings = row[17], tuple(json.loads(row[18]))
    reporter.batches, reporter.begun, reporter.had = row[22], bool(row[23]), row[24]
    hosts = reporter.hosts
    hosts.active, hosts.idle_after, hosts.has_roster = row[16], row[5], bool(row[15])
    # A reporter's row has the version of its newest host or key group.
    hosts.fill(
        database.rows(
            "SELECT name, progress, rostered, risen FROM host WHERE reporter_id = ? AND version > ?",
            *(identity, since),
        )
    )
    groups = database.rows(
        "SELECT name, low_watermark FROM key_group WHERE reporter_id = ? AND version > ?", identity, since
    )
    reporter.raise_groups(dict(groups))
    operator.changed()


def _shift_silence(reporter: Reporter, active: int, reported_at: int, moment: Moment) -> None:
    """Leaves out of a reporter's time what another server has counted, or it would count twice.

    The other server's clock, which may be wrong, says when it has counted last. So time may be lost here, for
    which a silent host is waited for longer; but none is added to what this server would have counted alone.
    """
    if reporter.raised_tick is None:
        return
    counted_until = moment.tick - max(0, moment.at - reported_at)
    rest = max(reporter.raised_tick + active - reporter.hosts.active, counted_until)
    reporter.raised_tick = min(rest, moment.tick)
