"""Opens the store: where its URL comes from, its database with the tables, its URL without secrets."""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from typing import TYPE_CHECKING
from urllib.parse import unquote, unquote_plus, urlsplit

from tailrace._installation.extras import install
from tailrace.errors import TailraceServerError
from tailrace.server.database import DatabaseError
from tailrace.server.schema import FORMAT, OLDEST, TABLES, migrate
from tailrace.server.sqlite import SQLiteDatabase

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.server.database import Database

STORE_VARIABLE = "TAILRACE_WATERMARK_STORE"
_DEFAULT = "sqlite:///watermarks.db"
_SHOWN = 10


def open_database(url: str) -> Database:
    """Opens a store and creates its tables if they don't exist.

    Args:
        url: `sqlite:///FILE`, relative to the working directory (with four slashes: absolute), or
            `postgresql://USER:PASSWORD@HOST:PORT/NAME`.

    Raises:
        TailraceServerError: the URL is invalid, the driver isn't installed, the store can't be opened, or
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


def store_id(database: Database) -> str:
    """The id of an open store, by which clients of several servers see that all of them have one.

    Servers of one database have the same, and a copy of it has another one. It tells nothing of the store.

    Raises:
        DatabaseError: it can't be read.
    """
    with database.transaction():
        # If two servers open a new store at once, the second one finds the tables of the first.
        database.lock_creation()
        if not database.rows("SELECT name FROM store"):
            database.run("INSERT INTO store VALUES (?)", uuid.uuid4().hex)
        name = database.rows("SELECT name FROM store")[0][0]
        return hashlib.sha256(f"{name} {database.place()}".encode()).hexdigest()[:16]


def _create_tables(database: Database) -> None:
    database.lock_creation()
    database.run(TABLES[0].format(**database.dialect))
    found = database.rows("SELECT version FROM format")
    if found and OLDEST <= found[0][0] < FORMAT:
        migrate(database, found[0][0])
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
            # Imported late, because its driver is an extra.
            from tailrace.server.postgresql import PostgreSQLDatabase  # noqa: PLC0415
        except ImportError as error:
            raise TailraceServerError(
                f"PostgreSQL's driver isn't installed. Install it: {install('postgres')}.",
                condition="TAILRACE_SERVER_DEPENDENCY_MISSING",
                parameters={"extra": "postgres"},
            ) from error
        return PostgreSQLDatabase(url)
    raise TailraceServerError(
        f"{shown_url(url)!r} is no store. Name sqlite:///FILE or postgresql://USER:PASSWORD@HOST:PORT/NAME.",
        condition="TAILRACE_SERVER_STORE_INVALID",
        parameters={"store": shown_url(url)},
    )


def read_store(given: str | None, file: Path | None) -> str:
    """Reads the store's URL from the command line, a file or the environment, or takes the default.

    Raises:
        TailraceServerError: it has a password and stands on the command line, or the file can't be read.
    """
    if given is not None:
        if secrets_of(given):
            raise TailraceServerError(
                f"--store {shown_url(given)} has its password on the command line, where all users of the "
                f"machine see it. Put the URL into a file for --store-file, or into {STORE_VARIABLE}, or the "
                "password into PGPASSWORD or ~/.pgpass.",
                condition="TAILRACE_SERVER_STORE_PASSWORD",
                parameters={"store": shown_url(given)},
            )
        return given
    if file is None:
        return os.environ.get(STORE_VARIABLE, _DEFAULT)
    try:
        lines = file.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise TailraceServerError(
            f"The store's URL can't be read from {file}: {error}. Name a text file with the URL in its first "
            "line, which the server's user may read.",
            condition="TAILRACE_SERVER_STORE_INVALID",
            parameters={"store": str(file)},
        ) from error
    return lines[0].strip()


def shown_url(url: str) -> str:
    """A URL without its secrets: the password, wherever it stands."""
    try:
        parts = urlsplit(url)
        hidden = without_secrets(url, url)
    except ValueError:
        return url.partition("://")[0] + "://..."
    # A URL without a scheme may have its secret anywhere.
    return hidden if parts.scheme else f"{hidden.partition('@')[0][:_SHOWN]}..."


def without_secrets(text: str, url: str) -> str:
    """A text, for instance a driver's error, without the secrets of a URL."""
    for secret in sorted(secrets_of(url), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def secrets_of(url: str) -> set[str]:
    """The passwords in a database's URL, as they stand there and as they are meant."""
    found: set[str] = set()
    authority = (url.partition("://")[2] or url).partition("/")[0]
    if "@" in authority:
        found.add(authority.rpartition("@")[0].partition(":")[2])
    for field in re.split(r"[?&]", url)[1:]:
        name, _, value = field.partition("=")
        if "password" in name.lower():
            found.add(value)
    return {text for raw in found for text in (raw, unquote(raw), unquote_plus(raw)) if text}
