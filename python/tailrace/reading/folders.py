"""The windows in a folder of `write_windows`: which of them are complete, and their files."""

# The types of pyarrow are incomplete.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import fs

from tailrace._bridge import arguments
from tailrace.reading import refusals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MARKER = "_SUCCESS"
_LATE = "_late"
_DIRECTORY = re.compile(r"(?P<into>[^_.=][^=]*)=(?P<name>\d{8}T\d{6}(\.\d{6})?Z)")
_FORMATS = (1, 2)
# As OpenWindows.MostEmpty in the JVM.
_MOST_EMPTY = 1000


@dataclass(frozen=True)
class CompleteWindow:
    """A window whose rows have all landed: none is added to its directory any longer.

    Attributes:
        name: the start as `write_windows` names it, for instance "20260101T120000Z".
        start: the first time in the window.
        end: the first time after it.
        rows: how many rows it had when it closed.
        path: its directory.
        report: the completeness report, with the keys of `_SUCCESS`: `expected` and `passed` hosts, `missing`
            and others.
    """

    name: str
    start: datetime
    end: datetime
    rows: int
    path: str
    report: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class WindowFile:
    """A file of rows.

    Attributes:
        path: in the file system.
        inside: the path below the directory of windows, with those that `partitionBy` has made.
        size: in bytes.
        late: its rows arrived after the window had closed.
    """

    path: str
    inside: str
    size: int
    late: bool = False


class WindowFolder:
    """A folder that `write_windows` writes.

    Args:
        path: a local path, or a URI such as "s3://bucket/clicks".
        filesystem: of pyarrow, if `path` is a path in it.
    """

    def __init__(self, path: str | os.PathLike[str], filesystem: fs.FileSystem | None = None) -> None:
        # Spark writes URIs of local files with one slash.
        self.filesystem: fs.FileSystem
        self.path: str
        text = re.sub(r"\Afile:/(?!/)", "file:///", os.fspath(path))
        if filesystem is not None:
            arguments.kind(filesystem, fs.FileSystem, "filesystem")
            self.filesystem, self.path = filesystem, filesystem.normalize_path(text)
        elif re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", text):
            try:
                self.filesystem, self.path = fs.FileSystem.from_uri(text)
            except pa.ArrowInvalid as error:
                allowed = f"a local path, or a URI that pyarrow knows ({error})"
                raise arguments.refused(refusals.CALL, "path", text, allowed) from error
        else:
            self.filesystem, self.path = fs.LocalFileSystem(), os.path.abspath(text)  # noqa: PTH100 - also on S3
        if isinstance(self.filesystem, fs.SubTreeFileSystem):
            # Its own paths have no slash in front, and its root has no name.
            self.path = self.path.strip("/")
        self.path = self.path.rstrip("/")

    def directories(self) -> list[tuple[datetime, str]]:
        """The starts of all windows, complete or not, in order of time, and the names of their directories.

        Raises:
            TailraceWatermarkError: there is no such folder, it is one of the windows itself, or it has
                directories of two kinds of windows.
        """
        try:
            found = self.filesystem.get_file_info(fs.FileSelector(self.path))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise refusals.not_found(self.path) from error
        matches = [
            match
            for info in found
            if info.type == fs.FileType.Directory
            and (match := _DIRECTORY.fullmatch(info.base_name))
            and is_time(match["name"])
        ]
        if not matches and _DIRECTORY.fullmatch(self.path.rpartition("/")[2]):
            raise refusals.window_itself(self.path)
        kinds = sorted({match["into"] for match in matches})
        if len(kinds) > 1:
            raise refusals.mixed(self.path, ", ".join(kinds))
        # Names sort as times do only if no window begins within a second.
        return sorted((time_of(match["name"]), match[0]) for match in matches)

    def complete(
        self,
        after: datetime | None = None,
        *,
        last: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[CompleteWindow]:
        """The complete windows that begin after a time, in order of time, up to the first open one.

        `write_windows` marks windows in order of time, and those without rows, too. A reader that skipped an
        open one, or one that was deleted, would miss its rows.

        Args:
            after: windows that begin later.
            last: the start of the window that was read last, which the first one follows.
            until: those that begin then or later may be missing.

        Raises:
            TailraceWatermarkError: a complete window follows one that isn't complete, or one whose directory
                is missing, or one was deleted after it was listed; and as `directories`.
        """
        succession = Succession(last, until)
        for window in self._listed(after):
            begin = succession.gap_before(window)
            if begin is not None:
                # A window without rows gets its directory when it closes, which may be after the look.
                for start, directory in self.directories():
                    if begin <= start < window.start and (other := self._window(directory)) is not None:
                        succession.take(other)
                        yield other
                begin = succession.gap_before(window)
            if begin is not None:
                raise refusals.missing(self.path, name_of(begin), window.name)
            succession.take(window)
            yield window

    def _listed(self, after: datetime | None) -> Iterator[CompleteWindow]:
        """The complete windows of the directories that are there now, up to the first open one."""
        left = [one for one in self.directories() if after is None or one[0] > after]
        for at, (_, directory) in enumerate(left):
            window = self._window(directory)
            if window is None:
                later = [name for _, name in left[at + 1 :] if self._is_marked(name)]
                # It may have been marked after the look at it, and before the look at the later ones.
                window = self._window(directory) if later else None
                if window is None and not self._is_there(directory):
                    raise refusals.changed(self._at(directory))
                if later and window is None:
                    raise refusals.out_of_order(self.path, directory, later[0])
            if window is None:
                return
            yield window

    def end_of(self, start: datetime) -> datetime | None:
        """The end of the complete window that begins then; None if it isn't there any more."""
        windows = (self._window(directory) for begin, directory in self.directories() if begin == start)
        return next((window.end for window in windows if window is not None), None)

    def files(self, window: CompleteWindow, *, late: bool = False) -> list[WindowFile]:
        """The files with rows of a window, in order of their paths; with `late`, then those of its late rows.

        Raises:
            TailraceWatermarkError: the window's directory is gone.
        """
        try:
            found = self._below(window.path)
        except FileNotFoundError as error:
            raise refusals.changed(window.path) from error
        if late:
            found += self._below(self._at(_LATE, window.path.rpartition("/")[2]), late=True)
        return found

    def late_file(self, inside: str, size: int) -> WindowFile:
        """A file of late rows that a state names, in this folder."""
        return WindowFile(self._at(_LATE, inside), inside, size, late=True)

    def _at(self, *names: str) -> str:
        is_root = not self.path and isinstance(self.filesystem, fs.SubTreeFileSystem)
        return "/".join(names if is_root else (self.path, *names))

    def _below(self, directory: str, *, late: bool = False) -> list[WindowFile]:
        selector = fs.FileSelector(directory, allow_not_found=late, recursive=True)
        above = len(directory) - len(directory.rpartition("/")[2])
        files = (
            WindowFile(info.path, info.path[above:], info.size, late)
            for info in self.filesystem.get_file_info(selector)
            if info.type == fs.FileType.File
        )
        rows = (file for file in files if not any(_is_hidden(part) for part in file.inside.split("/")))
        return sorted(rows, key=lambda file: file.path)

    def _is_there(self, directory: str) -> bool:
        info = self.filesystem.get_file_info(self._at(directory))
        return bool(info.type == fs.FileType.Directory)

    def _is_marked(self, directory: str) -> bool:
        info = self.filesystem.get_file_info(self._at(directory, MARKER))
        return bool(info.type == fs.FileType.File)

    def _window(self, directory: str) -> CompleteWindow | None:
        path = self._at(directory)
        try:
            with self.filesystem.open_input_stream(f"{path}/{MARKER}") as file:
                text = file.read()
        except FileNotFoundError:
            return None
        try:
            return _complete(directory.partition("=")[2], path, json.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise refusals.report(f"{path}/{MARKER}", repr(error)) from error


def _complete(name: str, path: str, report: Mapping[str, Any]) -> CompleteWindow:
    if report["format"] not in _FORMATS:
        raise ValueError(f"format {report['format']}")
    end = datetime.fromisoformat(report["window_end"])
    if end.tzinfo is None:
        raise ValueError(f"window_end {end} has no time zone")
    return CompleteWindow(name, time_of(name), end, int(report["rows"]), path, report)


def _is_hidden(name: str) -> bool:
    """True for what readers of tables skip, at any depth. A partition of a column `_mark` isn't hidden."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


class Succession:
    """Windows that follow each other.

    If more than 1,000 windows without rows close at a time, `write_windows` marks none of them. Windows that
    close together have one low watermark.

        12:00  13:00  15:00     closed by 13:10, 14:02, 16:01: the window of 14:00 is missing
        12:00  13:00  15:00     13:00 and 15:00 closed by a low watermark two months later: not marked

    Args:
        last: the start of a window before the first one; None: none is known.
        until: windows that begin then or later may be missing; None: none may.
    """

    def __init__(self, last: datetime | None, until: datetime | None) -> None:
        self._last, self._until = last, until
        self._low: datetime | None = None
        self._closing: datetime | None = None

    def gap_before(self, window: CompleteWindow) -> datetime | None:
        """The start of the first window that is missing before a window; None if it follows the last one."""
        width = window.end - window.start
        expected = window.start if self._last is None else self._last + width
        if window.start <= expected or (self._until is not None and self._until <= expected):
            return None
        low = _low_watermark(window)
        begin = self._closing if low == self._low and self._closing is not None else expected
        return None if low is None or (low - begin) // width > _MOST_EMPTY else expected

    def take(self, window: CompleteWindow) -> None:
        """The window is the last one from here on."""
        low = _low_watermark(window)
        if low != self._low or self._closing is None:
            width = window.end - window.start
            self._closing = window.start if self._last is None else self._last + width
        self._last, self._low = window.start, low


def _low_watermark(window: CompleteWindow) -> datetime | None:
    """The one that has closed a window."""
    try:
        return datetime.fromisoformat(window.report["low_watermark"])
    except (KeyError, TypeError, ValueError):
        return None


def is_time(name: str) -> bool:
    """True unless it is a date that there isn't."""
    try:
        time_of(name)
    except ValueError:
        return False
    return True


def time_of(name: str) -> datetime:
    """The start of the window with this name."""
    form = "%Y%m%dT%H%M%S.%fZ" if "." in name else "%Y%m%dT%H%M%SZ"
    return datetime.strptime(name, form).replace(tzinfo=UTC)


def name_of(start: datetime) -> str:
    """The name of the window with this start."""
    return f"{start:%Y%m%dT%H%M%S}" + (f".{start:%f}Z" if start.microsecond else "Z")
