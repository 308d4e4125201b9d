"""A SQLite file as the store."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tailrace.server.database import WAIT_SECONDS, Cursor, Database

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# From this size of the log on (64 MB) a commit copies it into the file, and its client waits.
_LOG_PAGES = 16_384


class SQLiteDatabase(Database):
    """A file in WAL mode. A commit is synced to the disk: it survives a loss of power too.

    Args:
        path: of the file, which is created if it isn't there.
    """

    product = "SQLite"
    dialect: ClassVar[Mapping[str, str]] = {
        "identity": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "clustered": " WITHOUT ROWID",
    }
    # Without "WHERE true" SQLite takes ON CONFLICT for a join's condition.
    keyed_rows = "(SELECT key AS name, value FROM json_each(?)) AS given WHERE true"
    greatest = "max"
    # IMMEDIATE: servers that share the file wait for each other at the start of a transaction, not in it.
    _begin = "BEGIN IMMEDIATE"
    _begin_snapshot = "BEGIN"
    _refusal = sqlite3.Error

    def __init__(self, path: str) -> None:
        self._path = path
        self._open: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    def keyed(self, values: Mapping[str, int]) -> tuple[object, ...]:
        """See Database."""
        return (json.dumps(values),)

    def lock_creation(self) -> None:
        """See Database: a transaction has the whole file to itself."""

    def place(self) -> str:
        """See Database: a copy is another inode. The device isn't taken, whose number a reboot may change."""
        return str(self._file and self._file[1])

    def renumber(self, table: str) -> None:
        """See Database: the next number is one above the greatest anyway."""

    def tidy(self) -> None:
        """See Database: copies the log into the file, which a commit would do at the cost of its client."""
        self.rows("PRAGMA wal_checkpoint(PASSIVE)")

    def close(self) -> None:
        """See Database."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _execute(self, statement: str, values: Sequence[object]) -> Cursor:
        if self._open is None:
            if self._file is not None:
                self._check_file()  # or connecting would make another one
            self._open = sqlite3.connect(
                self._path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._check_file()
            self._open.execute("PRAGMA journal_mode=WAL")
            self._open.execute("PRAGMA synchronous=FULL")
            self._open.execute(f"PRAGMA wal_autocheckpoint={_LOG_PAGES}")
        if statement in {self._begin, self._begin_snapshot}:
            self._check_file()
        return self._open.execute(statement, values)

    def _check_file(self) -> None:
        """Refuses a file that was deleted or replaced: what is written to it would be lost."""
        try:
            found = Path(self._path).stat()
        except OSError as error:
            raise sqlite3.OperationalError(f"{self._path} isn't there any more: {error.strerror}") from error
        number = (found.st_dev, found.st_ino)
        self._file = self._file or number
        if self._file != number:
            raise sqlite3.OperationalError(
                f"{self._path} is another file than the one that this server has opened: start it again"
            )
