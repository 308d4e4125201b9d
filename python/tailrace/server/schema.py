"""The tables, the same in SQLite and PostgreSQL. Times are microseconds since 1970-01-01 UTC.

`app.version` counts the transactions that have changed the application; the other tables' `version` is the
one that changed a row last. Increasing it is also the lock that puts an application's writers in a row, so
versions are in the order of commits, and a server takes in what others have written by asking for the rows
above the version that it has.
"""

from __future__ import annotations

FORMAT = 2

TABLES = (
    "CREATE TABLE IF NOT EXISTS format (version BIGINT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS app (
        id {identity},
        name TEXT NOT NULL UNIQUE,
        version BIGINT NOT NULL,
        told BIGINT,
        reported_at BIGINT NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS operator (
        id {identity},
        app_id BIGINT NOT NULL,
        name TEXT NOT NULL,
        version BIGINT NOT NULL,
        kind TEXT NOT NULL,
        client TEXT NOT NULL,
        upstreams TEXT NOT NULL, -- a JSON array
        completeness TEXT NOT NULL,
        idle_after BIGINT,
        reported_at BIGINT NOT NULL,
        stamps BIGINT,
        advanced_to BIGINT,
        told_input BIGINT,
        told_output BIGINT,
        roster_stated SMALLINT NOT NULL,
        roster_version BIGINT NOT NULL,
        roster_wanted BIGINT NOT NULL,
        has_roster SMALLINT NOT NULL,
        removed SMALLINT NOT NULL,
        UNIQUE (app_id, name)
    )""",
    """CREATE TABLE IF NOT EXISTS host (
        operator_id BIGINT NOT NULL,
        name TEXT NOT NULL,
        progress BIGINT NOT NULL, -- -1: never seen
        rostered SMALLINT NOT NULL,
        excluded SMALLINT NOT NULL,
        version BIGINT NOT NULL,
        PRIMARY KEY (operator_id, name)
    ){clustered}""",
    """CREATE TABLE IF NOT EXISTS key_group (
        operator_id BIGINT NOT NULL,
        name TEXT NOT NULL,
        low_watermark BIGINT NOT NULL,
        version BIGINT NOT NULL,
        PRIMARY KEY (operator_id, name)
    ){clustered}""",
    """CREATE TABLE IF NOT EXISTS closed_window (
        operator_id BIGINT NOT NULL,
        start_at BIGINT NOT NULL,
        end_at BIGINT NOT NULL,
        late_rows BIGINT NOT NULL,
        passed BIGINT NOT NULL,
        expected BIGINT NOT NULL,
        missing TEXT NOT NULL, -- JSON: [{{"host": ..., "progress": ...}}]
        PRIMARY KEY (operator_id, end_at, start_at)
    ){clustered}""",
    """CREATE TABLE IF NOT EXISTS history (
        app_id BIGINT NOT NULL,
        at BIGINT NOT NULL,
        operator TEXT NOT NULL, -- '' for the global low watermark
        low_watermark BIGINT NOT NULL,
        PRIMARY KEY (app_id, at, operator)
    ){clustered}""",
    """CREATE TABLE IF NOT EXISTS audit (
        id {identity},
        app_id BIGINT NOT NULL,
        at BIGINT NOT NULL,
        action TEXT NOT NULL,
        operator TEXT NOT NULL, -- '' for the whole application
        advance_to BIGINT,
        host TEXT,
        name TEXT NOT NULL,
        reason TEXT NOT NULL
    )""",
)
