"""The interface to SQLite and PostgreSQL, with everything in which their SQL differs.

Statements are written with `?` and run in both. SQLAlchemy's Core was measured against this: it took three
times the CPU for a report of 1,000 hosts, and twice the time to load 1,000,000 rows.
"""

# The methods of a protocol have docstrings only.
# pyright: reportReturnType=false

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tailrace.errors import clause

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

Row = tuple[Any, ...]

WAIT_SECONDS = 10
"""The time that a statement waits for the lock of another server before it fails."""


class DatabaseError(Exception):
    """The database can't be reached or refuses: a transaction hasn't happened, or isn't known to have."""


class NotBegunError(DatabaseError):
    """A transaction can't begin; neither can one of another application."""


class Cursor(Protocol):
    """The result of a statement, in both drivers."""

    @property
    def rowcount(self) -> int:
        """The number of rows that it has changed."""

    def fetchall(self) -> Sequence[Row]:
        """Its rows."""


class Database(ABC):
    """A connection, used by one thread at a time. Whatever touches the database raises DatabaseError.

    Attributes:
        product: its name, for messages.
        dialect: the values for the placeholders in the tables' definitions.
        keyed_rows: a table expression with the columns `name` and `value`, of what `keyed` makes.
        greatest: the function that gives the greater of two numbers.
    """

    product: ClassVar[str]
    dialect: ClassVar[Mapping[str, str]]
    keyed_rows: ClassVar[str]
    greatest: ClassVar[str]
    _begin: ClassVar[str]
    _begin_snapshot: ClassVar[str]
    _refusal: ClassVar[type[Exception]]

    def run(self, statement: str, *values: object) -> int:
        """Runs a statement and returns how many rows it has changed."""
        try:
            return self._execute(statement, values).rowcount
        except self._refusal as error:
            raise self._refused(error) from error

    def rows(self, query: str, *values: object) -> Sequence[Row]:
        """The rows of a query."""
        try:
            return self._execute(query, values).fetchall()
        except self._refusal as error:
            raise self._refused(error) from error

    def _refused(self, error: Exception) -> DatabaseError:
        return DatabaseError(f"{self.product}: {clause(str(error))}.")

    @contextmanager
    def transaction(self) -> Generator[None]:
        """A block whose writes are durable when it ends, and haven't happened if it raises."""
        with self._block(self._begin):
            yield

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """A block whose reads all see the same moment; it writes nothing and waits for no writer."""
        with self._block(self._begin_snapshot):
            yield

    @contextmanager
    def savepoint(self) -> Generator[None]:
        """A part of a transaction that hasn't happened if it raises, while the rest of it may."""
        self.run("SAVEPOINT part")
        try:
            yield
        except BaseException:
            self.run("ROLLBACK TO SAVEPOINT part")
            self.run("RELEASE SAVEPOINT part")
            raise
        self.run("RELEASE SAVEPOINT part")

    @contextmanager
    def _block(self, begin: str) -> Generator[None]:
        try:
            self.run(begin)
        except DatabaseError as error:
            self.close()
            raise NotBegunError(str(error)) from error
        except BaseException:
            self.close()
            raise
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            # Closing rolls back, also when the connection is lost or refuses a ROLLBACK.
            self.close()
            raise

    @abstractmethod
    def _execute(self, statement: str, values: Sequence[object]) -> Cursor:
        """Runs a statement on the connection, which it opens if there is none.

        Raises:
            Exception: of the driver, a `_refusal`.
        """

    @abstractmethod
    def keyed(self, values: Mapping[str, int]) -> tuple[object, ...]:
        """The values to bind to `keyed_rows`: many rows in one statement."""

    @abstractmethod
    def lock_creation(self) -> None:
        """Makes servers that create the tables at the same moment wait for each other."""

    @abstractmethod
    def place(self) -> str:
        """An id that tells this database from a copy of it; called in a transaction."""

    @abstractmethod
    def renumber(self, table: str) -> None:
        """Makes new rows of a table get ids above those that were inserted explicitly."""

    @abstractmethod
    def tidy(self) -> None:
        """Does the work that commits have deferred; called between transactions."""

    @abstractmethod
    def close(self) -> None:
        """Gives the connection back; the next call opens another one."""
