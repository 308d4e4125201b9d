"""Applications in the database: what is read of them, and every write, each of which only raises a maximum.

The exceptions are what somebody decides rather than measures: settings of an operator, its roster, excluded
hosts. There the latest write stands, and the lock of the application says which one that is.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tailrace.server.state import App, Operator, RosterState, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tailrace.server.database import Database, Row
    from tailrace.server.protocol import WindowReport
    from tailrace.server.topology import LowWatermarks

_OPERATOR = """SELECT id, name, kind, client, upstreams, completeness, reported_at, stamps, advanced_to,
    told_input, told_output, roster_stated, roster_version, roster_wanted, removed, has_roster, idle_after
    FROM operator WHERE app_id = ? AND version > ? ORDER BY id"""


class Store:
    """The statements; see schema for what the columns mean."""

    def __init__(self, database: Database) -> None:
        self._database = database
        rows, greatest = database.keyed_rows, database.greatest
        self._put_progress = f"""INSERT INTO host (operator_id, name, progress, rostered, excluded, version)
            SELECT ?, name, value, 0, 0, ? FROM {rows}
            ON CONFLICT (operator_id, name) DO UPDATE
            SET progress = {greatest}(host.progress, excluded.progress), version = excluded.version"""
        self._put_roster = f"""INSERT INTO host (operator_id, name, progress, rostered, excluded, version)
            SELECT ?, name, value, 1, 0, ? FROM {rows}
            ON CONFLICT (operator_id, name) DO UPDATE SET rostered = 1, version = excluded.version"""
        self._put_key_groups = f"""INSERT INTO key_group (operator_id, name, low_watermark, version)
            SELECT ?, name, value, ? FROM {rows}
            ON CONFLICT (operator_id, name) DO UPDATE
            SET low_watermark = {greatest}(key_group.low_watermark, excluded.low_watermark),
                version = excluded.version"""

    def names(self) -> list[str]:
        """All applications, by name, but those of which every operator was removed."""
        found = self._database.rows(
            """SELECT name FROM app WHERE NOT EXISTS (SELECT 1 FROM operator WHERE app_id = app.id)
            OR EXISTS (SELECT 1 FROM operator WHERE app_id = app.id AND removed = 0) ORDER BY name"""
        )
        return [row[0] for row in found]

    def lock(self, name: str) -> bool:
        """Makes the transaction the only one that writes the application; False if there is none."""
        return self._database.run("UPDATE app SET version = version + 1 WHERE name = ?", name) > 0

    def create(self, name: str) -> None:
        """Creates an application, unless another server just has, and locks it."""
        self._database.run(
            "INSERT INTO app (name, version, reported_at) VALUES (?, 0, 0) ON CONFLICT (name) DO NOTHING",
            name,
        )
        self.lock(name)

    def refresh(self, app: App) -> None:
        """Takes in what has been written since the version that is known; leaves an unknown one as it is."""
        head = self._database.rows("SELECT id, version, told, reported_at FROM app WHERE name = ?", app.name)
        if not head or head[0][1] == app.version:
            return
        app.id, version, app.told, app.reported_at = head[0]
        for row in self._database.rows(_OPERATOR, app.id, app.version):
            operator = _fill(app, row)
            # An operator's row has the version of the newest row below it.
            since = (operator.id, app.version)
            operator.hosts.fill(
                self._database.rows(
                    """SELECT name, progress, rostered, excluded FROM host
                    WHERE operator_id = ? AND version > ?""",
                    *since,
                )
            )
            operator.hosts.has_roster = bool(row[15])
            operator.key_groups.update(
                (name, low)
                for name, low in self._database.rows(
                    "SELECT name, low_watermark FROM key_group WHERE operator_id = ? AND version > ?", *since
                )
            )
        app.version = version

    def add_operator(self, app: App, name: str, settings: Settings) -> Operator:
        """Writes a new operator."""
        self._database.run(
            """INSERT INTO operator (app_id, name, version, kind, client, upstreams, completeness, idle_after,
            reported_at, roster_stated, roster_version, roster_wanted, has_roster, removed)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0)""",
            *(app.id, name, app.version, settings.kind, settings.client),
            *(json.dumps(settings.upstreams), settings.completeness, settings.idle_after),
        )
        found = self._database.rows("SELECT id FROM operator WHERE app_id = ? AND name = ?", app.id, name)
        return Operator(found[0][0], name, settings)

    def put_operator(self, app: App, operator: Operator) -> None:
        """Writes what has changed of an operator but its hosts and key groups."""
        settings, roster = operator.settings, operator.roster
        self._database.run(
            """UPDATE operator SET version = ?, kind = ?, client = ?, upstreams = ?, completeness = ?,
            idle_after = ?, reported_at = ?, stamps = ?, advanced_to = ?, told_input = ?, told_output = ?,
            roster_stated = ?, roster_version = ?, roster_wanted = ?, has_roster = ?, removed = ?
            WHERE id = ?""",
            *(
                app.version,
                settings.kind,
                settings.client,
                json.dumps(settings.upstreams),
                settings.completeness,
                settings.idle_after,
            ),
            *(operator.reported_at, operator.stamps, operator.advanced_to),
            *(operator.told_input, operator.told_output),
            *(int(roster.stated), roster.version, roster.wanted, int(operator.hosts.has_roster)),
            *(int(operator.removed), operator.id),
        )

    def put_progress(self, app: App, operator: Operator, progress: Mapping[str, int]) -> None:
        """Raises hosts' progress."""
        given = self._database.keyed(progress)
        self._database.run(self._put_progress, operator.id, app.version, *given)

    def put_roster(self, app: App, operator: Operator, names: Sequence[str]) -> None:
        """Replaces a source's roster."""
        self._database.run(
            "UPDATE host SET rostered = 0, version = ? WHERE operator_id = ? AND rostered = 1",
            app.version,
            operator.id,
        )
        given = self._database.keyed(dict.fromkeys(names, -1))
        self._database.run(self._put_roster, operator.id, app.version, *given)

    def put_excluded(self, app: App, operator: Operator, host: str, *, excluded: bool) -> None:
        """Takes a host out, or back in."""
        self._database.run(
            "UPDATE host SET excluded = ?, version = ? WHERE operator_id = ? AND name = ?",
            *(int(excluded), app.version, operator.id, host),
        )

    def put_key_groups(self, app: App, operator: Operator, low_watermarks: Mapping[str, int]) -> None:
        """Raises key groups' low watermarks."""
        given = self._database.keyed(low_watermarks)
        self._database.run(self._put_key_groups, operator.id, app.version, *given)

    def put_app(self, app: App) -> None:
        """Writes what has changed of an application itself."""
        self._database.run(
            "UPDATE app SET told = ?, reported_at = ? WHERE id = ?", app.told, app.reported_at, app.id
        )

    def put_window(self, operator: Operator, window: WindowReport) -> None:
        """Writes a window's completeness, unless a later report of it is there."""
        missing = [host.model_dump() for host in sorted(window.missing, key=lambda host: host.host)]
        # The greatest of all that were reported stands, whatever their order: rows come late one by one.
        self._database.run(
            """INSERT INTO closed_window (operator_id, start_at, end_at, late_rows, passed, expected, missing)
            VALUES (?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (operator_id, end_at, start_at) DO UPDATE SET late_rows = excluded.late_rows,
            passed = excluded.passed, expected = excluded.expected, missing = excluded.missing
            WHERE (excluded.late_rows, excluded.passed, excluded.expected, excluded.missing) >
            (closed_window.late_rows, closed_window.passed, closed_window.expected, closed_window.missing)""",
            *(operator.id, window.start, window.end, window.late_rows, window.passed, window.expected),
            json.dumps(missing),
        )

    def put_history(self, app: App, at: int, low: LowWatermarks) -> None:
        """Writes the outputs at a moment; the same moment again changes them."""
        series = {**low.outputs, "": low.application}
        known = {name: value for name, value in series.items() if value is not None}
        if known:
            self._database.run(
                f"""INSERT INTO history (app_id, at, operator, low_watermark)
                SELECT ?, ?, name, value FROM {self._database.keyed_rows}
                ON CONFLICT (app_id, at, operator) DO UPDATE SET low_watermark = excluded.low_watermark""",
                *(app.id, at),
                *self._database.keyed(known),
            )

    def prune(self, app: App, history_before: int, windows_kept: int) -> None:
        """Deletes old history, and of each operator all but the latest windows."""
        self._database.run("DELETE FROM history WHERE app_id = ? AND at < ?", app.id, history_before)
        for operator in app.operators.values():
            self._database.run(
                """DELETE FROM closed_window WHERE operator_id = ? AND end_at < (
                SELECT end_at FROM closed_window WHERE operator_id = ?
                ORDER BY end_at DESC LIMIT 1 OFFSET ?)""",
                *(operator.id, operator.id, windows_kept - 1),
            )

    def add_audit(self, app: App, at: int, line: Sequence[object]) -> None:
        """Writes a line of the audit table: action, operator, advance_to, host, name, reason."""
        self._database.run(
            """INSERT INTO audit (app_id, at, action, operator, advance_to, host, name, reason)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
            *(app.id, at, *line),
        )

    def windows(self, app: App, operator: str | None, limit: int, offset: int) -> Sequence[Row]:
        """Completeness reports, the latest first: operator, start, end, expected, passed, missing, late."""
        return self._database.rows(
            """SELECT operator.name, start_at, end_at, expected, passed, missing, late_rows
            FROM closed_window JOIN operator ON operator.id = operator_id
            WHERE app_id = ? AND (CAST(? AS TEXT) IS NULL OR operator.name = ?)
            ORDER BY end_at DESC, start_at DESC, operator.name LIMIT ? OFFSET ?""",
            *(app.id, operator, operator, limit, offset),
        )

    def history(self, app: App, since: int) -> Sequence[Row]:
        """Low watermarks by time: operator, at, low watermark."""
        return self._database.rows(
            "SELECT operator, at, low_watermark FROM history WHERE app_id = ? AND at >= ? ORDER BY at",
            *(app.id, since),
        )

    def audit(self, app: App, limit: int, offset: int) -> Sequence[Row]:
        """Overrides, the latest first."""
        return self._database.rows(
            """SELECT at, action, operator, advance_to, host, name, reason FROM audit
            WHERE app_id = ? ORDER BY id DESC LIMIT ? OFFSET ?""",
            *(app.id, limit, offset),
        )


def _fill(app: App, row: Row) -> Operator:
    identity, name, kind, client, upstreams, completeness = row[:6]
    settings = Settings(kind, client, tuple(json.loads(upstreams)), completeness, row[16])
    operator = app.operators.setdefault(name, Operator(identity, name, settings))
    operator.settings = settings
    operator.reported_at, operator.stamps, operator.advanced_to = row[6:9]
    operator.told_input, operator.told_output = row[9:11]
    operator.roster = RosterState(bool(row[11]), row[12], row[13])
    operator.removed = bool(row[14])
    return operator
