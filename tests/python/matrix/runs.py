"""A query of an entry from its first row to its last, with what an action does to it in between."""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, Self

import pyarrow.parquet as pq

from matrix.builds import Build
from matrix.rows import FIRST, SCHEMAS, SECOND, Rows, Variant
from tailrace._bridge import calls
from tailrace.testing import StreamTest
from tailrace.testing.comparison import _canonical

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from matrix.shape import Entry

_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_FAULTY = "io.tailrace.testing.FaultyFileManager"
_NEVER = 2**31 - 1
_END = len(FIRST) + len(SECOND)
_START = "12:00"

Lines = list[str]


@contextmanager
def _settings(spark: SparkSession, settings: dict[str, str]) -> Generator[None]:
    before: dict[str, Any] = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


class Running(Protocol):
    """A query that a run has started, with the sink of the test kit or with one of its own."""

    def run(self) -> None: ...
    def stop(self) -> None: ...
    def rows(self) -> list[dict[str, Any]]: ...
    def changes(self) -> list[str]: ...


class _Landing:
    """A query that lands windows: its rows are those of its files, and which windows are closed."""

    def __init__(self, test: StreamTest, writer: DataStreamWriter, checkpoint: Path) -> None:
        self._test = test
        self._out = checkpoint.parent / "out"
        self._query: StreamingQuery = writer.option("checkpointLocation", str(checkpoint)).start()

    def run(self) -> None:
        self._test.flush()
        self._query.processAllAvailable()

    def stop(self) -> None:
        self._query.stop()

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for file in sorted(self._out.rglob("*.parquet")):
            place = str(file.parent.relative_to(self._out))
            if not place.startswith(("_", ".")) or place.startswith(("_late", "_untimed")):
                table = pq.ParquetFile(file).read()
                found += [{"place": place, **row} for row in table.to_pylist()]
        closed = sorted(self._out.glob("*/_SUCCESS"))
        return found + [{"closed": str(marker.parent.relative_to(self._out))} for marker in closed]

    def changes(self) -> list[str]:
        return []


class Run:
    """A query of an entry.

    Args:
        spark: the session.
        directory: of the run, new.
        entry: the entry.
        rows: what its streams get.
        variant: what it gets instead of all rows.
        shape: which columns its query reads.
        server: the address of a watermark server.
        faulty: whether steps of its checkpoint are counted, and can fail.
    """

    def __init__(
        self,
        spark: SparkSession,
        directory: Path,
        entry: Entry,
        rows: Rows,
        *,
        variant: Variant | None = None,
        shape: str = "base",
        server: str | None = None,
        faulty: bool = False,
    ) -> None:
        self.spark = spark
        self.entry = entry
        self.shape = shape
        self.server = server
        self.directory = directory
        self._faulty = faulty
        self._given = rows
        self._variant = variant or Variant()
        directory.mkdir(parents=True)
        self.test = StreamTest(spark, directory, _START)
        self._sources = {side: self.test.source(SCHEMAS[side]) for side in entry.sides}
        self._kept: Any = None
        self._query: Running | None = None
        # Of the sink: rows that were taken, and micro-batches that were fed.
        self._seen: Counter[str] = Counter()
        self.fed = 0

    @property
    def checkpoint(self) -> Path:
        return self.directory / "query"

    def definition(self) -> DataFrame | DataStreamWriter:
        """The query as it is now: its entry, its columns, its server."""
        frames = {side: source.frame for side, source in self._sources.items()}
        return Build(self.entry, frames, self.directory, self.shape, self.server).result()

    @property
    def query(self) -> Running:
        assert self._query is not None
        return self._query

    def settings(self) -> AbstractContextManager[None]:
        """The session has the settings of the entry meanwhile."""
        faulty = {_MANAGER: _FAULTY} if self._faulty else {}
        return _settings(self.spark, dict(self.entry.settings) | faulty)

    def start(self) -> None:
        """Starts it, on its checkpoint if there is one."""
        with self.settings():
            made: Any = self.definition()
            if hasattr(made, "writeStream"):
                if self._kept is None:
                    self._kept = self.test.query(made)
                else:
                    self._kept.restart(made)
                self._query = self._kept
            else:
                self._query = _Landing(self.test, made, self.checkpoint)

    def feed(self) -> None:
        """Adds the rows of the next micro-batch, or those of the end."""
        batch = self._given.end if self.fed == _END else self._given.of(self.fed, self._variant)
        for side, source in self._sources.items():
            source.add(*batch[side])
        self.fed += 1

    def until(self, number: int) -> None:
        """Feeds and runs micro-batches up to a number, without it. One that was fed and failed runs again."""
        self.query.run()
        while self.fed < number:
            self.feed()
            self.query.run()

    def first(self) -> None:
        self.until(len(FIRST))

    def rest(self) -> None:
        """Runs to the end."""
        self.until(_END + 1)

    def stop(self) -> None:
        """Stops it, if it has begun."""
        if self._query is not None:
            self._query.stop()

    def taken(self) -> Lines:
        """The rows that have come out since the last call."""
        now = Counter(map(_canonical, self.query.rows()))
        new = now - self._seen
        self._seen = now
        return sorted(new.elements())

    def raw(self) -> list[dict[str, Any]]:
        return self.query.rows()

    def files(self) -> dict[str, str]:
        """All files of the checkpoint, with a digest of each."""
        return {
            str(file.relative_to(self.checkpoint)): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(self.checkpoint.rglob("*"))
            if file.is_file()
        }

    def close(self) -> None:
        self.stop()
        self.test.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Output:
    """What came out of a whole run.

    Attributes:
        first: the rows of the first phase.
        rest: those behind it.
        steps: how many steps it took with files of its checkpoint, if they were counted.
        raw: the rows of the first phase, as values.
    """

    def __init__(self, run: Run, *, count: bool = False) -> None:
        faults = calls.hold("checkpoint_faults", run.spark) if count else None
        if faults is not None:
            calls.invoke(faults, "begin", _NEVER)
        run.start()
        run.first()
        self.first = run.taken()
        self.first_rows = run.raw()
        run.rest()
        self.rest = run.taken()
        self.rest_rows = run.raw()
        self.steps = [] if faults is None else list(calls.invoke(faults, "end"))
        changes = run.query.changes()
        assert not changes, changes

    @property
    def all(self) -> Lines:
        return sorted(self.first + self.rest)


class Baselines:
    """Uninterrupted runs, each of which runs once.

    Args:
        spark: the session.
        root: of their directories.
        seed: of their rows.
    """

    def __init__(self, spark: SparkSession, root: Path, seed: int) -> None:
        self.spark = spark
        self.seed = seed
        self.rows = Rows(seed)
        self._root = root
        self._known: dict[tuple[Any, ...], Output] = {}

    def of(self, entry: Entry, *, shape: str = "base", variant: Variant | None = None) -> Output:
        key = (entry.name, repr(entry.calls), shape, variant)
        if key not in self._known:
            # Step counts are of runs as they are; other runs need none.
            counted = shape == "base" and variant is None
            directory = self._root / f"baseline-{len(self._known)}"
            with self.new(directory, entry, shape=shape, variant=variant, faulty=counted) as run:
                self._known[key] = Output(run, count=counted)
        return self._known[key]

    def new(self, directory: Path, entry: Entry, **options: Any) -> Run:  # noqa: ANN401
        return Run(self.spark, directory, entry, self.rows, **options)


def differences(expected: Iterable[str], found: Iterable[str]) -> str:
    """What is missing and what is too much, in words; empty if nothing is."""
    right, other = Counter(expected), Counter(found)
    lines = []
    for word, rows in (("missing", right - other), ("too many", other - right)):
        lines += [f"{rows.total()} rows are {word} of {right.total()}:"] if rows else []
        lines += [f"  {row}" for row in list(rows.elements())[:8]]
    return "\n".join(lines)
