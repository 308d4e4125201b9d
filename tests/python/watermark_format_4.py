"""Makes a database of the watermark server one of format 4, which the release before this one wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3

    import psycopg

_LATER = {"reporter": ("logs", "batches", "begun", "had"), "client": ("query",)}


def make(connection: sqlite3.Connection | psycopg.Connection[Any]) -> None:
    """Takes out what format 5 has added; a host that was never seen is at -1 again."""
    for table, columns in _LATER.items():
        for column in columns:
            connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
    connection.execute("UPDATE host SET progress = -1 WHERE progress = -9007199254740992")
    connection.execute("UPDATE format SET version = 4")
