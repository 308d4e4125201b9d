"""Tables that are only shown: closed windows, history, the audit table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tailrace.server.database import Database, Row
    from tailrace.server.state import App
    from tailrace.server.topology import LowWatermarks

_STEP = 10_000_000
_EVERY = 6
_ALL_BEHIND = 5 * 3_600_000_000


class Records:
    """Statements of tables that nothing is computed of."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._put_history = f"""INSERT INTO history (app_id, at, operator, low_watermark)
            SELECT ?, ?, name, value FROM {database.keyed_rows}
            ON CONFLICT (app_id, at, operator) DO UPDATE SET low_watermark = excluded.low_watermark"""
        self._history_of = f"""SELECT operator, at, low_watermark FROM history
            WHERE app_id = ? AND at >= ? AND (at >= ? OR (at / {_STEP}) % {_EVERY} = 0)
            AND operator IN (SELECT name FROM {database.keyed_rows}) ORDER BY at"""

    def look(self) -> None:
        """Reads from the database.

        Raises:
            DatabaseError: it can't be read, or isn't the one that was opened.
        """
        with self._database.snapshot():
            self._database.rows("SELECT version FROM format")

    def write(self) -> None:
        """Makes a durable write that changes nothing.

        Raises:
            DatabaseError: the database takes no writes: its disk is full, it may only be read, a writer has
                locked it, or it isn't the one that was opened.
        """
        with self._database.transaction():
            self._database.run("UPDATE format SET version = version")

    def put_history(self, app: App, at: int, low: LowWatermarks) -> None:
        """Writes the outputs at a moment; replaces those of the same moment."""
        series = {**low.outputs, "": low.application}
        known = {name: value for name, value in series.items() if value is not None}
        if known:
            self._database.run(self._put_history, app.id, at, *self._database.keyed(known))

    def prune(self, app: App, history_before: int, windows_kept: int, audit_kept: int) -> None:
        """Deletes old history, all but the latest windows of each operator, and the oldest audit lines."""
        self._database.run("DELETE FROM history WHERE app_id = ? AND at < ?", app.id, history_before)
        for operator in app.operators.values():
            self._database.run(
                """DELETE FROM closed_window WHERE operator_id = ? AND end_at < (
                SELECT end_at FROM closed_window WHERE operator_id = ?
                ORDER BY end_at DESC LIMIT 1 OFFSET ?)""",
                *(operator.id, operator.id, windows_kept - 1),
            )
        self._database.run(
            """DELETE FROM audit WHERE app_id = ? AND id <= (SELECT id FROM audit WHERE app_id = ?
            ORDER BY id DESC LIMIT 1 OFFSET ?)""",
            *(app.id, app.id, audit_kept),
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

    def history(
        self, app: App, since: int, operator: str | None = None, most: int = 100_000
    ) -> tuple[Sequence[Row], int | None]:
        """Low watermarks by time, of all operators or of one: operator, at, low watermark.

        Six hours of a thousand operators are two million rows, so the answer comes in parts. A part ends
        between two moments.

        Returns:
            The rows, and the moment from which on there are more, if there are.
        """
        rows = self._database.rows(
            """SELECT operator, at, low_watermark FROM history WHERE app_id = ? AND at >= ?
            AND (CAST(? AS TEXT) IS NULL OR operator = ?) ORDER BY at LIMIT ?""",
            *(app.id, since, operator, operator, most + 1),
        )
        if len(rows) <= most:
            return rows, None
        after: int = rows[-1][1]
        return [row for row in rows if row[1] < after], after

    def recent(self, app: App, since: int, operators: Collection[str]) -> Sequence[Row]:
        """The history of some operators, with only one in six of the points older than an hour.

        The page doesn't show more, and requests it every two seconds.
        """
        given = self._database.keyed(dict.fromkeys(operators, 0))
        return self._database.rows(self._history_of, app.id, since, since + _ALL_BEHIND, *given)

    def audit(self, app: App, limit: int, offset: int) -> Sequence[Row]:
        """Overrides, the latest first."""
        return self._database.rows(
            """SELECT at, action, operator, advance_to, host, name, reason FROM audit
            WHERE app_id = ? ORDER BY id DESC LIMIT ? OFFSET ?""",
            *(app.id, limit, offset),
        )
