"""The reader of complete windows, with its position."""

# The types of pyarrow are incomplete.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tailrace._bridge import arguments
from tailrace._installation.extras import install
from tailrace.reading import refusals
from tailrace.reading.batches import rebatched, without_first
from tailrace.reading.folders import WindowFolder, time_of
from tailrace.reading.positions import Position, loaded, saved
from tailrace.reading.refusals import CALL
from tailrace.reading.rows import Selection, Share, WindowRows

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    import pandas as pd  # type: ignore[import-untyped]
    from pyarrow import fs

    from tailrace.reading.folders import CompleteWindow


# The precision of event times.
_TICK = timedelta(microseconds=1)
_FIRST = datetime(1, 1, 2, tzinfo=UTC)
_ZONED = "such as datetime(2026, 1, 1, 12, tzinfo=UTC)"
# A day.
_LONGEST_WAIT = 86_400


class WindowReader:
    """Reads the complete windows of `write_windows`, in order of time, in batches of Arrow.

        reader = tailrace.reading.WindowReader("/data/clicks", columns=["position", "clicked"])
        for batch in reader:
            train(batch)
            state = reader.state_dict()

    An `iter()` of it is a pass. It begins with the first window, or where `load_state_dict` says, and ends
    when no further window is complete. Each row is emitted once in a pass, and over passes that resume. A
    batch has rows of one window, so the last one of each window may be shorter. Rows are shuffled within
    their window.

    The state is that of the newest pass. Between two windows any option may change. A
    state within a window is refused if another option would change which of its rows follow.

    Rows that arrived after their window had closed, and amendments, are in `_late`. `late` emits them, too.

    Args:
        path: the folder: a local path, or a URI that pyarrow knows, such as "s3://bucket/clicks".
        columns: the columns to read; None: all, with those of `partitionBy`, which are text here. The column
            of windows (`into`) is read if it is named.
        where: a condition on any columns, for instance `pyarrow.compute.field("country") == "NZ"`. Row groups
            whose statistics exclude it aren't read.
        weights: a column with weights, as `Examples.sample` writes it. It is emitted as double, also if
            `columns` leaves it out, and a weight that isn't a positive number is an error.
        batch_size: rows of a batch.
        shuffle: rows of the buffer that shuffles them; 0: rows are in the order of the files. About two
            buffers are in memory.
        seed: of the shuffle, 0 or more. The same seed, epoch and worker give the same order.
        rank: of this worker, 0 or more.
        world_size: how many workers there are. Each has another part of each window. Before `where`, the
            parts differ by at most one row.
        since: only windows that begin at this time or later.
        until: only windows that begin before this time.
        follow: waits for further windows. A pass ends by `stop` or `until`.
        poll_seconds: with `follow`, how long it waits before it looks again.
        stop: with `follow`, is called before each window and each wait; the pass ends if it returns true.
        late: also emits the late rows of each window that are there when a pass opens it, behind the others.
            For one worker: two could see different files.
        filesystem: of pyarrow, if `path` is a path in it.

    Raises:
        TailraceWatermarkError: an option is invalid. A pass raises it if the folder has no complete window, a
            window between two complete ones is missing, a column is unknown, files differ in columns or types
            or were deleted, or a weight isn't positive.
        TypeError: an argument has a wrong Python type.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        weights: str | None = None,
        batch_size: int = 1024,
        shuffle: int = 0,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        since: datetime | None = None,
        until: datetime | None = None,
        follow: bool = False,
        poll_seconds: float = 10.0,
        stop: Callable[[], bool] | None = None,
        late: bool = False,
        filesystem: fs.FileSystem | None = None,
    ) -> None:
        arguments.path(path, "path")
        arguments.flags(follow=follow, late=late)
        arguments.counts(rank=rank)
        _at_least(1, batch_size=batch_size, world_size=world_size)
        _at_least(0, shuffle=shuffle, seed=seed)
        named = None if columns is None else arguments.names(columns, "columns")
        if named is not None and (not named or len(set(named)) < len(named)):
            raise arguments.refused(CALL, "columns", str(named), "a list of different columns")
        if not 0 <= rank < world_size:
            allowed = f"from 0 to {world_size - 1}, below `world_size`"
            raise arguments.refused(CALL, "rank", str(rank), allowed)
        _waits(poll_seconds, stop)
        if where is not None:
            arguments.kind(where, pc.Expression, "where", 'such as pyarrow.compute.field("country") == "NZ"')
        if weights is not None:
            arguments.text(weights, "weights")
        _with_zone(since=since, until=until)
        if late and world_size > 1:
            raise refusals.late_of_many("world_size")
        if shuffle > 1 and find_spec("numpy") is None:
            raise refusals.package("numpy", f"`shuffle` needs it. Install it: {install('reading')}.")
        self._folder = WindowFolder(path, filesystem)
        self._selection = Selection(named, where, weights)
        self._batch_size = batch_size
        # A buffer of one row changes nothing.
        self._shuffle = shuffle if shuffle > 1 else 0
        self._seed = seed
        self._share = Share(rank, world_size)
        self._since, self._until = since, until
        self._follow, self._poll_seconds, self._stop = follow, poll_seconds, stop
        self._late = late
        # The numbers of the newest pass and of the next one.
        self._epoch = self._next_epoch = 0
        self._schema: pa.Schema | None = None
        self._position = Position()
        self._resumes = False
        # Numbers the passes: an older one leaves the position alone.
        self._passes = 0

    def __repr__(self) -> str:
        part = f", rank={self._share.rank}, world_size={self._share.of}" if self._share.of > 1 else ""
        return f"WindowReader({self.path!r}{part})"

    @property
    def path(self) -> str:
        """The folder, in its file system."""
        return self._folder.path

    @property
    def follows(self) -> bool:
        """True if it waits for further windows."""
        return self._follow

    @property
    def resumes(self) -> bool:
        """True if a state was loaded, and no pass has begun since."""
        return self._resumes

    def sharded(self, rank: int, of: int) -> WindowReader:
        """A reader of a part of this reader's rows, from the first window on.

        Args:
            rank: of the part, 0 to `of` - 1.
            of: how many parts there are.

        Raises:
            TailraceWatermarkError: there is no part of this number, or a reader of late rows is divided.
        """
        _at_least(1, of=of)
        _at_least(0, rank=rank)
        if rank >= of:
            raise arguments.refused(CALL, "rank", str(rank), f"less than {of}, the number of parts")
        if self._late and of > 1:
            raise refusals.late_of_many("of")
        other = copy.copy(self)
        other._share = Share(self._share.rank * of + rank, self._share.of * of)  # noqa: SLF001  its own kind
        other._position, other._resumes = Position(), False  # noqa: SLF001
        return other

    def windows(self) -> list[CompleteWindow]:
        """The complete windows between `since` and `until`, in order of time.

        Raises:
            TailraceWatermarkError: there is no such folder, or its windows aren't marked in order.
        """
        found = self._folder.complete(self._first_after(None), until=self._until)
        return [window for window in found if not self._is_over(window.start)]

    def set_epoch(self, epoch: int) -> None:
        """Sets the number of the next pass, 0 at first, which changes the order of a shuffle.

        Raises:
            TailraceWatermarkError: the next pass resumes within a window, in the order of another number.
        """
        _at_least(0, epoch=epoch)
        if self._resumes and self._position.window is not None and epoch != self._next_epoch:
            raise refusals.state(f"it is within a window, in epoch {self._next_epoch} and not {epoch}")
        self._next_epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """The place after the last emitted batch, in values of JSON."""
        return saved(self._position, self._epoch, self._order())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next pass begin where a state was taken.

        Raises:
            TailraceWatermarkError: it is no state of a reader; or it is within a window, and options that
                change the order of its rows have changed.
            TypeError: it is no mapping, such as the text of one.
        """
        if not isinstance(state, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"`state` must be a dict of `state_dict()`, not {type(state).__name__}.")
        self._position, self._epoch = loaded(state, self._order())
        self._next_epoch = self._epoch
        self._resumes = True
        self._passes += 1

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """A pass over the complete windows."""
        if not self._resumes:
            self._position = Position()
        self._resumes = False
        self._epoch = self._next_epoch
        self._passes += 1
        return self._pass(self._passes, self._position, self._epoch)

    def pandas(self) -> Iterator[pd.DataFrame]:
        """A pass with each batch as a DataFrame of pandas."""
        return (batch.to_pandas() for batch in self)

    def of_window(self, window: CompleteWindow) -> Iterator[pa.RecordBatch]:
        """The rows of one window in batches, outside of any pass and without a state.

        Args:
            window: one of `windows()`.
        """
        rows = WindowRows(self._folder, window, late=self._late)
        return rebatched(self._rows(window, rows, self._next_epoch), self._batch_size)

    def _pass(self, number: int, begin: Position, epoch: int) -> Iterator[pa.RecordBatch]:
        for window in self._windows(begin):
            rows, position = self._opened(window, begin)
            left = without_first(self._rows(window, rows, epoch), position.rows)
            emitted = position.rows
            for batch, is_last in _with_last(rebatched(left, self._batch_size)):
                emitted += batch.num_rows
                # Before the batch is given: a state that is taken then has it.
                within = replace(position, window=window.name, rows=emitted)
                self._moved(number, Position(window.name) if is_last else within)
                yield batch
            begin = Position(window.name)
            self._moved(number, begin)

    def _moved(self, number: int, position: Position) -> None:
        """The new position of a pass. That of the newest pass is the reader's."""
        if number == self._passes:
            self._position = position

    def _rows(self, window: CompleteWindow, rows: WindowRows, epoch: int) -> Iterator[pa.RecordBatch]:
        """This worker's rows of a window, in their order, in batches of any length."""
        schema = self._schema = self._schema or rows.schema(self._selection)
        if schema is None:
            return iter(())
        batches = rows.batches(self._selection, schema, self._share)
        if not self._shuffle:
            return batches
        start = int(window.start.timestamp() * 1_000_000)
        seed = [self._seed, epoch, self._share.rank, self._share.of, start & (2**63 - 1)]
        return _shuffled(batches, self._shuffle, seed, window.path)

    def _opened(self, window: CompleteWindow, before: Position) -> tuple[WindowRows, Position]:
        """A window, and what was emitted of it. The files that were there then are to be there now."""
        if before.window == window.name:
            files = self._folder.files(window) + [self._folder.late_file(*file) for file in before.late]
            rows = WindowRows(self._folder, window, files=files)
            if rows.digest() != before.digest:
                raise refusals.changed(window.path)
            if not self._late and before.rows > window.rows:
                more = f"it has {before.rows} rows of the window {window.name}, which has {window.rows}"
                raise refusals.state(more)
            return rows, before
        rows = WindowRows(self._folder, window, late=self._late)
        late = tuple((file.inside, file.size) for file in rows.files if file.late)
        return rows, Position(before.after, window.name, 0, rows.digest(), late)

    def _windows(self, begin: Position) -> Iterator[CompleteWindow]:
        """The windows of a pass, from a position on."""
        begun, after = begin.window, begin.after
        last = None if after is None else time_of(after)
        ends = self._follow and self._until is not None
        end = self._folder.end_of(last) if ends and last is not None else None
        while True:
            first = self._first_after(last)
            for window in self._folder.complete(
                first, last=last if first == last else None, until=self._until
            ):
                if begun is not None and window.name != begun:
                    break
                if self._is_over(window.start) or self._is_stopped():
                    return
                begun, last, end = None, window.start, window.end
                yield window
            if begun is not None:
                if self._since is not None and time_of(begun) < self._since:
                    raise refusals.state(f"it is within the window {begun}, and `since` is later")
                gone = f"the window {begun}, which it is within, is no longer in {self.path}"
                raise refusals.state(gone)
            if not self._follow:
                if last is None and next(self._folder.complete(), None) is None:
                    raise refusals.none_complete(self.path)
                return
            if self._is_stopped() or (end is not None and self._is_over(end)):
                return
            time.sleep(self._poll_seconds)

    def _first_after(self, last: datetime | None) -> datetime | None:
        """Windows that begin later than this follow a window."""
        # No window of write_windows begins in the first year or the last one.
        since = None if self._since is None else max(self._since, _FIRST) - _TICK
        return max((one for one in (last, since) if one is not None), default=None)

    def _is_over(self, start: datetime) -> bool:
        """True if a window that begins then is behind the last one of a pass."""
        return self._until is not None and start >= self._until

    def _is_stopped(self) -> bool:
        return self._follow and self._stop is not None and self._stop()

    def _order(self) -> dict[str, Any]:
        """The options that decide which rows of a window are emitted in which order."""
        return {
            "shuffle": self._shuffle,
            "seed": self._seed if self._shuffle else None,
            "rank": self._share.rank,
            "world_size": self._share.of,
            "where": self._selection.condition(),
            "late": self._late,
        }


def _shuffled(
    batches: Iterator[pa.RecordBatch], rows: int, seed: Sequence[int], window: str
) -> Iterator[pa.RecordBatch]:
    # numpy is of an extra.
    from tailrace.reading.shuffling import shuffled  # noqa: PLC0415

    try:
        yield from shuffled(batches, rows, seed)
    except pa.ArrowInvalid as error:
        raise refusals.too_large(window, str(error)) from error


def _with_last(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Each batch, and whether it is the last one."""
    held = next(batches, None)
    while held is not None:
        following = next(batches, None)
        yield held, following is None
        held = following


def _at_least(least: int, **values: int) -> None:
    for name, value in values.items():
        if arguments.count(value, name) < least:
            raise arguments.refused(CALL, name, str(value), f"{least} or more")


def _waits(poll_seconds: float, stop: Callable[[], bool] | None) -> None:
    if not 0 <= arguments.seconds(poll_seconds, "poll_seconds") <= _LONGEST_WAIT:
        allowed = f"from 0 to {_LONGEST_WAIT} seconds"
        raise arguments.refused(CALL, "poll_seconds", str(poll_seconds), allowed)
    if stop is not None and not callable(stop):
        raise TypeError(f"`stop` must be a function, not {type(stop).__name__}.")


def _with_zone(**values: datetime | None) -> None:
    for name, value in values.items():
        if value is not None:
            arguments.kind(value, datetime, name, _ZONED)
            if value.tzinfo is None:
                raise arguments.refused(CALL, name, str(value), f"a datetime with a time zone, {_ZONED}")
