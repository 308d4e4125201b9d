"""What a run costs, seen from outside Spark: the JVM in /proc, the state in its files."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

_UTIME, _STIME = 11, 12  # in /proc/PID/stat, counted from the field after the name
_PPID = 1


@dataclass(frozen=True)
class Process:
    """A running process."""

    pid: int

    def cpu_seconds(self) -> float:
        """User and system time of all its threads since it started."""
        fields = _stat(self.pid)
        return (int(fields[_UTIME]) + int(fields[_STIME])) / os.sysconf("SC_CLK_TCK")

    def peak_rss_bytes(self) -> int:
        """The most memory that it has had resident (VmHWM)."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024


@dataclass(frozen=True)
class Jvm(Process):
    """A running JVM."""

    @classmethod
    def of_this_process(cls) -> Jvm:
        """The JVM that pyspark has started from this process."""
        children = [pid for pid in _processes() if _stat(pid)[_PPID] == str(os.getpid())]
        jvms = [pid for pid in children if Path(f"/proc/{pid}/comm").read_text() == "java\n"]
        if len(jvms) != 1:
            raise RuntimeError(f"expected one JVM below this process, found {len(jvms)}")
        return cls(jvms[0])

    def cpu_of_threads(self, without: tuple[str, ...]) -> float:
        """User and system time of its living threads, but those whose names begin with one of `without`.

        Linux knows the first 15 characters of a name.
        """
        total = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            try:
                name, fields = (task / "comm").read_text(), _fields((task / "stat").read_text())
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended since it was listed
            if not name.startswith(without):
                total += int(fields[_UTIME]) + int(fields[_STIME])
        return total / os.sysconf("SC_CLK_TCK")


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _stat(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ["", ""]  # it has ended since it was listed: nobody's child
    return _fields(text)


def _fields(text: str) -> list[str]:
    return text.rpartition(")")[2].split()


class FileTally:
    """The files of a checkpoint's state, which never change once they are there: each is looked at once.

    Attributes:
        written_bytes: of all files ever seen, deleted ones too.
        written_files: their number.
        live_bytes: of the files that were there at the last look.
        peak_bytes: the most that this has been.
    """

    def __init__(self, root: Path) -> None:
        self.written_bytes = 0
        self.written_files = 0
        self.live_bytes = 0
        self.peak_bytes = 0
        self._root = root
        self._sizes: dict[str, int] = {}

    def look(self) -> None:
        """Takes in what has changed."""
        there: dict[str, int] = {}
        for entry in _files(self._root):
            # Hidden: Hadoop's checksum files, and files that are still being written.
            if entry.name.startswith("."):
                continue
            size = self._sizes.get(entry.path)
            if size is None:
                try:
                    size = entry.stat().st_size
                except FileNotFoundError:
                    continue
                self.written_bytes += size
                self.written_files += 1
            there[entry.path] = size
        self._sizes = there
        self.live_bytes = sum(there.values())
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)


def bytes_below(root: Path, directory_prefixes: tuple[str, ...]) -> int:
    """Bytes of all files in directories of `root`, at any depth, whose name has one of the prefixes."""
    total = 0
    for entry in _files(root):
        inside = Path(entry.path).relative_to(root).parts[:-1]
        if any(part.startswith(directory_prefixes) for part in inside):
            try:
                total += entry.stat().st_size
            except FileNotFoundError:
                continue
    return total


def _files(root: Path) -> Iterator[os.DirEntry[str]]:
    try:
        entries = list(os.scandir(root))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path))
        else:
            yield entry


class Sampler:
    """Takes samples from a thread of this process, as long as the context goes on."""

    def __init__(self, seconds: float = 0.1) -> None:
        """Takes one each so many seconds."""
        self._seconds = seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            self._sample()

    def _sample(self) -> None:
        raise NotImplementedError


class CpuClock(Sampler):
    """The CPU time of a process, looked at again and again, so that it is known for each moment later."""

    def __init__(self, process: Jvm) -> None:
        super().__init__(0.02)
        self._process = process
        self._at: list[float] = []
        self._cpu: list[float] = []

    def at(self, moments: Sequence[float]) -> list[float]:
        """The CPU seconds until each of the moments, which are seconds since 1970."""
        return [float(cpu) for cpu in np.interp(moments, self._at, self._cpu)]

    def _sample(self) -> None:
        self._at.append(time.time())
        self._cpu.append(self._process.cpu_seconds())


class StateSampler(Sampler):
    """Looks at a query's state whenever a micro-batch has been committed, from a thread of this process.

    Used as a context around the query; its numbers are complete when the context has ended.

    Attributes:
        checkpoint: the files below the checkpoint's state directory.
        local_peak_bytes: the most that the state took on the executor's local disk at such a moment.
    """

    # How Spark's RocksDB provider and Tailrace's name the directories of their stores.
    _LOCAL = ("StateStoreId(", "tailrace-")

    def __init__(self, checkpoint: Path, local: Path) -> None:
        super().__init__()
        self.checkpoint = FileTally(checkpoint / "state")
        self.local_peak_bytes = 0
        self._commits = checkpoint / "commits"
        self._local = local
        self._seen = 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._look()

    def _sample(self) -> None:
        commits = sum(not entry.name.startswith(".") for entry in _files(self._commits))
        if commits != self._seen:
            self._seen = commits
            self._look()

    def _look(self) -> None:
        self.checkpoint.look()
        self.local_peak_bytes = max(self.local_peak_bytes, bytes_below(self._local, self._LOCAL))
