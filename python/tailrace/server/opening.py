"""From the URL of a store to a database with its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from tailrace.errors import TailraceServerError
from tailrace.server.database import DatabaseError
from tailrace.server.migration import OLDEST, migrate
from tailrace.server.schema import FORMAT, TABLES
from tailrace.server.sqlite import SQLiteDatabase
from tailrace.server.wording import shown_url, without_secrets

if TYPE_CHECKING:
    from tailrace.server.database import Database


def open_database(url: str) -> Database:
    """Opens a store and creates its tables if they aren't there.

    Args:
        url: `sqlite:///FILE`, relative to the working directory (with four slashes: absolute), or
            `postgresql://USER:PASSWORD@HOST:PORT/NAME`.

    Raises:
        TailraceServerError: the URL makes no sense, the driver isn't installed, the store can't be opened, or
            another release has written it.
    """
    database = _of_url(url)
    try:
        with database.transaction():
            _create_tables(database)
    except DatabaseError as error:
        raise TailraceServerError(
            f"The store {shown_url(url)} can't be opened: {without_secrets(str(error), url)} Check that it "
            "is there, that it may be written, and that it is this server's.",
            condition="TAILRACE_SERVER_STORE_UNREACHABLE",
            parameters={"store": shown_url(url)},
        ) from None  # the driver's own text may have the password
    return database


def _create_tables(database: Database) -> None:
    database.lock_creation()
    database.run(TABLES[0].format(**database.dialect))
    found = database.rows("SELECT version FROM format")
    if found and found[0][0] == OLDEST:
        migrate(database)
        return
    if found and found[0][0] != FORMAT:
        raise DatabaseError(f"it has format {found[0][0]}, and this release reads {OLDEST} to {FORMAT}.")
    for table in TABLES:
        database.run(table.format(**database.dialect))
    if not found:
        database.run("INSERT INTO format VALUES (?)", FORMAT)


def _of_url(url: str) -> Database:
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and rest[1:]:
        return SQLiteDatabase(unquote(rest[1:]))
    if scheme in {"postgresql", "postgres"} and rest:
        try:
            # Late: its driver is an extra of its own.
            from tailrace.server.postgresql import PostgreSQLDatabase  # noqa: PLC0415
        except ImportError as error:
            raise TailraceServerError(
                "PostgreSQL's driver isn't installed. Install it: pip install 'tailrace[server,postgres]'.",
                condition="TAILRACE_SERVER_DEPENDENCY_MISSING",
                parameters={"extra": "postgres"},
            ) from error
        return PostgreSQLDatabase(url)
    raise TailraceServerError(
        f"{shown_url(url)!r} is no store. Name sqlite:///FILE or postgresql://USER:PASSWORD@HOST:PORT/NAME.",
        condition="TAILRACE_SERVER_STORE_INVALID",
        parameters={"store": shown_url(url)},
    )
