"""A database as the release before format 3 made it: its statements, and what it had been told."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

T = 1_763_700_000_000_000

# Frozen: the tables that `tailrace watermark-server` created at format 2.
_TABLES = """
CREATE TABLE format (version BIGINT NOT NULL);
CREATE TABLE app (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, version BIGINT NOT NULL, told BIGINT,
    reported_at BIGINT NOT NULL);
CREATE TABLE operator (id INTEGER PRIMARY KEY, app_id BIGINT NOT NULL, name TEXT NOT NULL,
    version BIGINT NOT NULL, kind TEXT NOT NULL, client TEXT NOT NULL,
    upstreams TEXT NOT NULL, -- a JSON array
    completeness TEXT NOT NULL, idle_after BIGINT, reported_at BIGINT NOT NULL, stamps BIGINT,
    advanced_to BIGINT, told_input BIGINT, told_output BIGINT, roster_stated SMALLINT NOT NULL,
    roster_version BIGINT NOT NULL, roster_wanted BIGINT NOT NULL, has_roster SMALLINT NOT NULL,
    removed SMALLINT NOT NULL, UNIQUE (app_id, name));
CREATE TABLE host (operator_id BIGINT NOT NULL, name TEXT NOT NULL,
    progress BIGINT NOT NULL, -- -1: never seen
    rostered SMALLINT NOT NULL, excluded SMALLINT NOT NULL, version BIGINT NOT NULL,
    PRIMARY KEY (operator_id, name)) WITHOUT ROWID;
CREATE TABLE key_group (operator_id BIGINT NOT NULL, name TEXT NOT NULL, low_watermark BIGINT NOT NULL,
    version BIGINT NOT NULL, PRIMARY KEY (operator_id, name)) WITHOUT ROWID;
CREATE TABLE closed_window (operator_id BIGINT NOT NULL, start_at BIGINT NOT NULL, end_at BIGINT NOT NULL,
    late_rows BIGINT NOT NULL, passed BIGINT NOT NULL, expected BIGINT NOT NULL, missing TEXT NOT NULL,
    PRIMARY KEY (operator_id, end_at, start_at)) WITHOUT ROWID;
CREATE TABLE history (app_id BIGINT NOT NULL, at BIGINT NOT NULL, operator TEXT NOT NULL,
    low_watermark BIGINT NOT NULL, PRIMARY KEY (app_id, at, operator)) WITHOUT ROWID;
CREATE TABLE audit (id INTEGER PRIMARY KEY, app_id BIGINT NOT NULL, at BIGINT NOT NULL, action TEXT NOT NULL,
    operator TEXT NOT NULL, advance_to BIGINT, host TEXT, name TEXT NOT NULL, reason TEXT NOT NULL);
"""

_ROWS = f"""
INSERT INTO format VALUES (2);
INSERT INTO app VALUES (1, 'clicks', 7, {T}, {T});
INSERT INTO operator VALUES
    (1, 1, 'source', 7, 'source', 'query', '[]', '1', NULL, {T}, NULL, NULL, NULL, {T}, 1, 1763700000000,
     1763700000000, 1, 0),
    (2, 1, 'sink', 7, 'sink', 'query/sink', '["map"]', '1', NULL, {T}, NULL, NULL, {T}, {T}, 0, 0, 0, 0, 0),
    (3, 1, 'map', 6, 'operator', 'query', '["source"]', '1', NULL, {T}, NULL, NULL, {T}, {T}, 0, 0, 0, 0, 1);
INSERT INTO host VALUES (1, 'h1', {T + 5}, 1, 0, 3), (1, 'h2', {T}, 1, 0, 4), (1, 'gone', -1, 1, 1, 5);
INSERT INTO key_group VALUES (2, '0', {T + 9}, 3), (2, '7', {T}, 3), (3, '0', {T}, 3);
INSERT INTO closed_window VALUES (2, {T - 60}, {T}, 12, 2, 2, '[]');
INSERT INTO history VALUES (1, {T}, '', {T});
INSERT INTO audit VALUES (1, 1, {T}, 'exclude', 'source', NULL, 'gone', 'dana', 'disk died');
"""  # noqa: S608  of the tests


def make(file: Path) -> str:
    """Makes one, and returns its URL."""
    connection = sqlite3.connect(file)
    connection.executescript(_TABLES + _ROWS)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    return f"sqlite:///{file}"
