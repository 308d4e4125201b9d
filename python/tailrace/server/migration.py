"""From a database of format 2, which knew one reporter of each operator, to format 3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.server.schema import FORMAT, TABLES

if TYPE_CHECKING:
    from tailrace.server.database import Database

OLDEST = 2

# In format 2 an operator's row had what its reporter says now. The reporter gets the operator's number, so
# that hosts and key groups stay where they are.
_STEPS = (
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


def migrate(database: Database) -> None:
    """Makes format 3 of format 2, in the transaction that its caller has opened.

    A removed operator leaves without its reporter, and is back with all that is reported then.
    """
    for table in TABLES:
        database.run(table.format(**database.dialect))
    for step in _STEPS:
        database.run(step)
    for table in ("host", "key_group"):
        database.run(
            f"""DELETE FROM {table} WHERE reporter_id IN (SELECT id FROM operator WHERE removed = 1)"""
        )
    database.run("DELETE FROM reporter WHERE operator_id IN (SELECT id FROM operator WHERE removed = 1)")
    database.renumber("reporter")
    database.run("UPDATE format SET version = ?", FORMAT)
