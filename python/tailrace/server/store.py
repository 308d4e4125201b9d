"""Applications in the database: every write, each of which raises a maximum or is somebody's decision.

A decision is an operator's settings, its roster, excluded hosts. The latest decision counts, and the lock of
the application orders them. `loading` reads these rows, `records` has rows that are only shown.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tailrace.server.hosts import INHERITED
from tailrace.server.loading import refresh
from tailrace.server.times import NEVER

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tailrace.server.database import Database
    from tailrace.server.journal import AuditLine
    from tailrace.server.protocol import WindowReport
    from tailrace.server.reporter import Client, Reporter
    from tailrace.server.state import App, Operator
    from tailrace.server.times import Moment

# Former runs of a client that are still refused by name.
_RUNS_KEPT = 1_000


class Store:
    """The statements of a transaction; see schema for the meaning of the columns. A Journal."""

    def __init__(self, database: Database) -> None:
        self._database = database
        rows, greatest = database.keyed_rows, database.greatest
        self._put_progress = f"""INSERT INTO host (reporter_id, name, progress, rostered, version, risen)
            SELECT ?, name, value, 0, ?, ? FROM {rows}
            ON CONFLICT (reporter_id, name) DO UPDATE
            SET progress = CASE WHEN host.risen = {INHERITED} THEN excluded.progress
                ELSE {greatest}(host.progress, excluded.progress) END,
                version = excluded.version, risen = excluded.risen"""
        self._put_roster = f"""INSERT INTO host (reporter_id, name, progress, rostered, version, risen)
            SELECT ?, name, value, 1, ?, ? FROM {rows}
            ON CONFLICT (reporter_id, name) DO UPDATE SET rostered = 1, version = excluded.version"""
        self._put_groups = f"""INSERT INTO key_group (reporter_id, name, low_watermark, version)
            SELECT ?, name, value, ? FROM {rows}
            ON CONFLICT (reporter_id, name) DO UPDATE
            SET low_watermark = {greatest}(key_group.low_watermark, excluded.low_watermark),
                version = excluded.version"""
        self._delete_hosts = f"""DELETE FROM host WHERE reporter_id = ?
            AND name IN (SELECT name FROM {rows})"""

    def names(self) -> list[str]:
        """All applications, by name, except those of which every operator was removed."""
        found = self._database.rows(
            """SELECT name FROM app WHERE NOT EXISTS (SELECT 1 FROM operator WHERE app_id = app.id)
            OR EXISTS (SELECT 1 FROM operator WHERE app_id = app.id AND removed = 0) ORDER BY name"""
        )
        return [row[0] for row in found]

    def count(self) -> int:
        """The number of applications, in any state."""
        found: int = self._database.rows("SELECT count(*) FROM app")[0][0]
        return found

    def lock(self, name: str) -> bool:
        """Makes the transaction the only one that writes the application; False if there is none."""
        return self._database.run("UPDATE app SET version = version + 1 WHERE name = ?", name) > 0

    def create(self, name: str, moment: Moment) -> None:
        """Creates an application, unless another server just has, and locks it."""
        # A purged one may have had the same id; the versions must differ then.
        self._database.run(
            "INSERT INTO app (name, version, reported_at) VALUES (?, ?, 0) ON CONFLICT (name) DO NOTHING",
            *(name, moment.at),
        )
        self.lock(name)

    def refresh(self, app: App, moment: Moment, *, at_start: bool = False) -> None:
        """Reads the changes since the known version; see loading."""
        refresh(self._database, app, moment, at_start=at_start)

    def was_replaced(self, client: Client, run: str) -> bool:
        """See Journal."""
        query = "SELECT 1 FROM former_run WHERE client_id = ? AND run = ?"
        return bool(self._database.rows(query, client.id, run))

    def has_former_runs(self, client: Client) -> bool:
        """See Journal."""
        return bool(self._database.rows("SELECT 1 FROM former_run WHERE client_id = ? LIMIT 1", client.id))

    def add_client(self, app: App, client: Client) -> None:
        """See Journal."""
        self._database.run(
            """INSERT INTO client (app_id, name, version, run, heard_at, leaving)
            VALUES (?, ?, ?, ?, 0, 0)""",
            *(app.id, client.name, app.version, client.run),
        )
        client.id = self._id("SELECT id FROM client WHERE app_id = ? AND name = ?", app.id, client.name)

    def replace_run(self, client: Client, run: str) -> None:
        """See Journal."""
        self._database.run("INSERT INTO former_run (client_id, run) VALUES (?, ?)", client.id, client.run)
        self._database.run(
            """DELETE FROM former_run WHERE client_id = ? AND run <> '' AND id <= (SELECT id FROM former_run
            WHERE client_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?)""",
            *(client.id, client.id, _RUNS_KEPT),
        )
        self._database.run("UPDATE client SET run = ? WHERE id = ?", run, client.id)

    def drop_client(self, app: App, client: Client) -> None:
        """See Journal."""
        self._database.run("DELETE FROM former_run WHERE client_id = ?", client.id)
        self._database.run("DELETE FROM client WHERE id = ?", client.id)
        self._clear(app)

    def put_client(self, app: App, client: Client) -> None:
        """See Journal."""
        self._database.run(
            """UPDATE client SET version = ?, run = ?, heard_at = ?, leaving = ?, told = ?, took = ?,
            query = ? WHERE id = ?""",
            *(app.version, client.run, client.heard_at, int(client.leaving), client.told),
            *(json.dumps(sorted(client.took)), client.query, client.id),
        )

    def add_operator(self, app: App, operator: Operator) -> None:
        """See Journal."""
        self._database.run(
            """INSERT INTO operator (app_id, name, version, kind, upstreams, removed)
            VALUES (?, ?, ?, ?, '[]', 0)""",
            *(app.id, operator.name, app.version, operator.kind),
        )
        query = "SELECT id FROM operator WHERE app_id = ? AND name = ?"
        operator.id = self._id(query, app.id, operator.name)

    def put_operator(self, app: App, operator: Operator) -> None:
        """See Journal."""
        self._database.run(
            """UPDATE operator SET version = ?, kind = ?, upstreams = ?, advanced_to = ?, told_input = ?,
            told_output = ?, removed = ? WHERE id = ?""",
            *(app.version, operator.kind, json.dumps(operator.left_upstreams), operator.advanced_to),
            *(operator.told_input, operator.told_output, int(operator.removed), operator.id),
        )

    def drop_operator(self, app: App, operator: Operator) -> None:
        """See Journal."""
        for reporter in operator.reporters.values():
            self.drop_reporter(app, reporter)
        self._database.run("DELETE FROM excluded_host WHERE operator_id = ?", operator.id)
        self._database.run("DELETE FROM closed_window WHERE operator_id = ?", operator.id)
        self._database.run("DELETE FROM history WHERE app_id = ? AND operator = ?", app.id, operator.name)
        self._database.run("DELETE FROM operator WHERE id = ?", operator.id)
        self._clear(app)

    def drop_app(self, app: App) -> None:
        """Deletes an application, its audit table too."""
        for operator in app.operators.values():
            self.drop_operator(app, operator)
        for client in app.clients.values():
            self.drop_client(app, client)
        for table in ("history", "audit"):
            self._database.run(f"DELETE FROM {table} WHERE app_id = ?", app.id)
        self._database.run("DELETE FROM app WHERE id = ?", app.id)

    def add_reporter(self, app: App, operator: Operator, reporter: Reporter) -> None:
        """See Journal."""
        self._database.run(
            """INSERT INTO reporter (app_id, operator_id, client_id, version, cleared, upstreams,
            completeness, reported_at, roster_stated, roster_version, roster_wanted, has_roster, active,
            warnings)
            VALUES (?, ?, ?, ?, ?, '[]', '1', 0, 0, '', '', 0, 0, '[]')""",
            *(app.id, operator.id, reporter.client.id, app.version, app.version),
        )
        query = "SELECT id FROM reporter WHERE operator_id = ? AND client_id = ?"
        reporter.id = self._id(query, operator.id, reporter.client.id)

    def put_reporter(self, app: App, reporter: Reporter) -> None:
        """See Journal."""
        settings, roster, hosts = reporter.settings, reporter.roster, reporter.hosts
        reads = None if settings.reads is None else json.dumps(settings.reads)
        self._database.run(
            """UPDATE reporter SET version = ?, upstreams = ?, completeness = ?, idle_after = ?,
            key_groups = ?, reads = ?, reported_at = ?, stamps = ?, told_input = ?, told_output = ?,
            roster_stated = ?, roster_version = ?, roster_wanted = ?, has_roster = ?, active = ?,
            overflowed = ?, warnings = ?, label = ?, logs = ?, batches = ?, begun = ?, had = ?
            WHERE id = ?""",
            *(app.version, json.dumps(settings.upstreams), settings.completeness, settings.idle_after),
            *(settings.key_groups, reads, reporter.reported_at, reporter.stamps),
            *(reporter.told_input, reporter.told_output, int(roster.stated), roster.version, roster.wanted),
            *(int(hosts.has_roster), hosts.active, reporter.overflowed, json.dumps(reporter.warnings)),
            *(
                settings.label,
                settings.logs,
                reporter.batches,
                int(reporter.begun),
                reporter.had,
                reporter.id,
            ),
        )

    def drop_reporter(self, app: App, reporter: Reporter) -> None:
        """See Journal."""
        self._database.run("DELETE FROM host WHERE reporter_id = ?", reporter.id)
        self._database.run("DELETE FROM key_group WHERE reporter_id = ?", reporter.id)
        self._database.run("DELETE FROM reporter WHERE id = ?", reporter.id)
        self._clear(app)

    def put_progress(self, app: App, reporter: Reporter, progress: Mapping[str, int]) -> None:
        """See Journal."""
        given = self._database.keyed(progress)
        self._database.run(self._put_progress, reporter.id, app.version, reporter.hosts.active, *given)

    def put_roster(self, app: App, reporter: Reporter, names: Sequence[str]) -> None:
        """See Journal."""
        self._database.run(
            "UPDATE host SET rostered = 0, version = ? WHERE reporter_id = ? AND rostered = 1",
            *(app.version, reporter.id),
        )
        given = self._database.keyed(dict.fromkeys(names, NEVER))
        self._database.run(self._put_roster, reporter.id, app.version, reporter.hosts.active, *given)

    def forget_hosts(self, app: App, reporter: Reporter, names: Collection[str]) -> None:
        """See Journal."""
        given = self._database.keyed(dict.fromkeys(names, 0))
        self._database.run(self._delete_hosts, reporter.id, *given)
        self._clear_reporter(app, reporter)

    def put_groups(self, app: App, reporter: Reporter, low_watermarks: Mapping[str, int]) -> None:
        """See Journal."""
        given = self._database.keyed(low_watermarks)
        self._database.run(self._put_groups, reporter.id, app.version, *given)

    def drop_groups(self, app: App, reporter: Reporter) -> None:
        """See Journal."""
        self._database.run("DELETE FROM key_group WHERE reporter_id = ?", reporter.id)
        self._clear_reporter(app, reporter)

    def put_excluded(self, operator: Operator, host: str, *, excluded: bool) -> None:
        """See Journal."""
        insert = "INSERT INTO excluded_host (operator_id, name) VALUES (?, ?) ON CONFLICT DO NOTHING"
        delete = "DELETE FROM excluded_host WHERE operator_id = ? AND name = ?"
        self._database.run(insert if excluded else delete, operator.id, host)

    def put_app(self, app: App) -> None:
        """Writes changes of an application itself."""
        self._database.run(
            "UPDATE app SET told = ?, reported_at = ? WHERE id = ?", app.told, app.reported_at, app.id
        )

    def put_window(self, operator: Operator, window: WindowReport) -> None:
        """See Journal."""
        missing = [host.model_dump() for host in sorted(window.missing, key=lambda host: host.host)]
        # The greatest report counts, in whatever order reports arrive.
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

    def add_audit(self, app: App, at: int, line: AuditLine) -> None:
        """See Journal."""
        self._database.run(
            """INSERT INTO audit (app_id, at, action, operator, advance_to, host, name, reason)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
            *(app.id, at, *line),
        )

    def _clear(self, app: App) -> None:
        self._database.run("UPDATE app SET cleared = version WHERE id = ?", app.id)

    def _clear_reporter(self, app: App, reporter: Reporter) -> None:
        self._database.run(
            "UPDATE reporter SET cleared = ?, version = ? WHERE id = ?", app.version, app.version, reporter.id
        )

    def _id(self, query: str, *values: object) -> int:
        found: int = self._database.rows(query, *values)[0][0]
        return found
