"""The tables, the same in SQLite and PostgreSQL. Times are microseconds since 1970-01-01 UTC.

`app.version` counts the transactions that have changed the application; the other tables' `version` is the
one that changed a row last. Increasing it is also the lock that puts an application's writers in a row, so
versions are in the order of commits, and a server takes in what others have written by asking for the rows
above the version that it has. Rows that are gone can't be asked for: `cleared` is the version in which rows
below this one were deleted last, and who has an older one reads all that are there anew.

Format 3 knows who has reported what, and format 4 what each operator does, in words. Format 5 has times
before 1970, names of queries and of logs, and micro-batches. `migrate` makes the latest of those before.
Indexes are no part of a format, nor is `store`: who opens a store adds what it lacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.server.times import EARLIEST, NEVER

if TYPE_CHECKING:
    from tailrace.server.database import Database

FORMAT = 5
OLDEST = 2
"""The oldest format that `migrate` makes the current one of."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS format (version BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS store (name TEXT NOT NULL)",  # one row, a random text
    """CREATE TABLE IF NOT EXISTS app (
        id {identity},
        name TEXT NOT NULL UNIQUE,
        version BIGINT NOT NULL,
        told BIGINT,
        reported_at BIGINT NOT NULL,
        cleared BIGINT NOT NULL DEFAULT 0 -- of clients, operators and reporters
    )""",
    """CREATE TABLE IF NOT EXISTS client (
        id {identity},
        app_id BIGINT NOT NULL,
        name TEXT NOT NULL,
        version BIGINT NOT NULL,
        run TEXT NOT NULL,
        heard_at BIGINT NOT NULL,
        leaving SMALLINT NOT NULL,
        told BIGINT,
        took TEXT NOT NULL DEFAULT '[]', -- a JSON array: clients whose place it has taken
        query TEXT NOT NULL DEFAULT '', -- what its user calls it
        UNIQUE (app_id, name)
    )""",
    """CREATE TABLE IF NOT EXISTS former_run (
        id {identity},
        client_id BIGINT NOT NULL,
        run TEXT NOT NULL,
        UNIQUE (client_id, run)
    )""",
    """CREATE TABLE IF NOT EXISTS operator (
        id {identity},
        app_id BIGINT NOT NULL,
        name TEXT NOT NULL,
        version BIGINT NOT NULL,
        kind TEXT NOT NULL,
        upstreams TEXT NOT NULL, -- a JSON array: of a removed one, what it read from
        advanced_to BIGINT,
        told_input BIGINT,
        told_output BIGINT,
        removed SMALLINT NOT NULL,
        UNIQUE (app_id, name)
    )""",
    """CREATE TABLE IF NOT EXISTS excluded_host (
        operator_id BIGINT NOT NULL,
        name TEXT NOT NULL,
        PRIMARY KEY (operator_id, name)
    ){clustered}""",
    """CREATE TABLE IF NOT EXISTS reporter (
        id {identity},
        app_id BIGINT NOT NULL,
        operator_id BIGINT NOT NULL,
        client_id BIGINT NOT NULL,
        version BIGINT NOT NULL,
        cleared BIGINT NOT NULL, -- of hosts and key groups
        upstreams TEXT NOT NULL, -- a JSON array
        completeness TEXT NOT NULL,
        idle_after BIGINT,
        key_groups BIGINT, -- NULL: its client doesn't say; -1: of format 2, and not reported since
        reads TEXT, -- a JSON array; NULL: unknown
        reported_at BIGINT NOT NULL,
        stamps BIGINT,
        told_input BIGINT,
        told_output BIGINT,
        roster_stated SMALLINT NOT NULL,
        roster_version TEXT NOT NULL,
        roster_wanted TEXT NOT NULL,
        has_roster SMALLINT NOT NULL,
        active BIGINT NOT NULL,
        overflowed BIGINT,
        warnings TEXT NOT NULL, -- a JSON array
        label TEXT NOT NULL DEFAULT '', -- empty: its client has never said
        logs TEXT NOT NULL DEFAULT '', -- empty: they are its own
        batches BIGINT, -- micro-batches that it includes; NULL: its client doesn't say
        begun SMALLINT NOT NULL DEFAULT 1, -- whether this run has said so
        had BIGINT, -- how many it had included when it went back; NULL: it hasn't, or has caught up
        UNIQUE (operator_id, client_id)
    )""",
    """CREATE TABLE IF NOT EXISTS host (
        reporter_id BIGINT NOT NULL,
        name TEXT NOT NULL,
        progress BIGINT NOT NULL, -- times.NEVER: never seen
        rostered SMALLINT NOT NULL,
        version BIGINT NOT NULL,
        risen BIGINT NOT NULL, -- reporter.active when it rose last; -1: of format 2
        PRIMARY KEY (reporter_id, name)
    ){clustered}""",
    """CREATE TABLE IF NOT EXISTS key_group (
        reporter_id BIGINT NOT NULL,
        name TEXT NOT NULL,
        low_watermark BIGINT NOT NULL, -- times.EARLIEST: none
        version BIGINT NOT NULL,
        PRIMARY KEY (reporter_id, name)
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
        host TEXT, -- or the client
        name TEXT NOT NULL,
        reason TEXT NOT NULL
    )""",
    # Read in each report's transaction, and by each page: without them all applications' rows are.
    "CREATE INDEX IF NOT EXISTS reporter_of_app ON reporter (app_id, version)",
    "CREATE INDEX IF NOT EXISTS audit_of_app ON audit (app_id, id)",
)

# In format 2 an operator's row had what its reporter says now. The reporter gets the operator's number, so
# that hosts and key groups stay where they are.
_STEPS_OF_2 = (
    "ALTER TABLE app ADD COLUMN cleared BIGINT NOT NULL DEFAULT 0",
    """INSERT INTO client (app_id, name, version, run, heard_at, leaving, told)
    SELECT app_id, client, max(operator.version), '', max(operator.reported_at), 0, max(told)
    FROM operator JOIN app ON app.id = app_id GROUP BY app_id, client""",
    """INSERT INTO reporter (id, app_id, operator_id, client_id, version, cleared, upstreams,
        completeness, idle_after, key_groups, reported_at, stamps, told_input, told_output, roster_stated,
        roster_version, roster_wanted, has_roster, active, warnings)
    SELECT operator.id, operator.app_id, operator.id, client.id, operator.version, 0, upstreams, completeness,
        idle_after, CASE WHEN kind = 'source' THEN NULL ELSE -1 END, reported_at, stamps, told_input,
        told_output, roster_stated,
        CASE WHEN roster_version = 0 THEN '' ELSE CAST(roster_version AS TEXT) END,
        CASE WHEN roster_wanted = 0 THEN '' ELSE CAST(roster_wanted AS TEXT) END, has_roster, 0, '[]'
    FROM operator JOIN client ON client.app_id = operator.app_id AND client.name = operator.client""",
    """INSERT INTO excluded_host (operator_id, name) SELECT operator_id, name FROM host WHERE excluded = 1""",
    "ALTER TABLE host RENAME COLUMN operator_id TO reporter_id",
    "ALTER TABLE host DROP COLUMN excluded",
    "ALTER TABLE host ADD COLUMN risen BIGINT NOT NULL DEFAULT -1",
    "ALTER TABLE key_group RENAME COLUMN operator_id TO reporter_id",
    *(
        f"ALTER TABLE operator DROP COLUMN {column}"
        for column in (
            *("client", "completeness", "idle_after", "reported_at", "stamps"),
            *("roster_stated", "roster_version", "roster_wanted", "has_roster"),
        )
    ),
)

# Steps from each format to the next one. A server of an earlier format that still runs writes rows without
# the new columns.
_STEPS = {
    3: ("ALTER TABLE reporter ADD COLUMN label TEXT NOT NULL DEFAULT ''",),
    4: (
        "ALTER TABLE client ADD COLUMN query TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE reporter ADD COLUMN logs TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE reporter ADD COLUMN batches BIGINT",
        "ALTER TABLE reporter ADD COLUMN begun SMALLINT NOT NULL DEFAULT 1",
        "ALTER TABLE reporter ADD COLUMN had BIGINT",
    ),
}

# Up to format 4 times were 0 or more: 0 stood for none, and -1 for a host that was never seen.
_SIGNED = (
    f"UPDATE host SET progress = {NEVER} WHERE progress = -1",
    f"UPDATE host SET progress = {EARLIEST} WHERE progress = 0",
    f"UPDATE key_group SET low_watermark = {EARLIEST} WHERE low_watermark = 0",
    "DELETE FROM history WHERE low_watermark = 0",
    *(
        f"UPDATE {table} SET {column} = NULL WHERE {column} = 0"
        for table, column in (
            *(("app", "told"), ("client", "told"), ("reporter", "stamps")),
            *((table, told) for table in ("operator", "reporter") for told in ("told_input", "told_output")),
        )
    ),
)


def migrate(database: Database, found: int) -> None:
    """Makes the current format of an earlier one, in the transaction that its caller has opened.

    Args:
        database: the store.
        found: its format, from OLDEST on.
    """
    if found == OLDEST:
        _migrate_operators(database)
    else:
        for step in (step for before in range(found, FORMAT) for step in _STEPS[before]):
            database.run(step)
    for table in TABLES:
        database.run(table.format(**database.dialect))
    for step in _SIGNED:
        database.run(step)
    database.run("UPDATE format SET version = ?", FORMAT)


def _migrate_operators(database: Database) -> None:
    """Makes reporters of format 2's operators.

    A removed operator leaves without its reporter, and is back with all that is reported then.
    """
    for table in TABLES:
        database.run(table.format(**database.dialect))
    for step in _STEPS_OF_2:
        database.run(step)
    for table in ("host", "key_group"):
        database.run(
            f"""DELETE FROM {table} WHERE reporter_id IN (SELECT id FROM operator WHERE removed = 1)"""
        )
    database.run("DELETE FROM reporter WHERE operator_id IN (SELECT id FROM operator WHERE removed = 1)")
    database.renumber("reporter")
