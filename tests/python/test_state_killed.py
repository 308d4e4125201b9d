"""`tailrace state erase`, `export` and `import` as processes that are killed at any moment."""

from __future__ import annotations

import os
import random
import shutil
import time
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

import state_command
import tailrace
from streams import Row, Streams, groups
from tailrace.errors import TailraceStateError
from tailrace.testing.kills import kill_group

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tailrace.testing import StreamTest

pytestmark = pytest.mark.campaign

LEFT = [Row(i, i % 4, i, "a person" if i % 4 == 1 else "") for i in range(200)]
RIGHT = [Row(1000 + i, i % 4, i + 1) for i in range(200)]
END = ([Row(9000, 9, 1000)], [Row(9001, 9, 1000)])

_KILLS = int(os.environ.get("TAILRACE_KILLS", "1"))
_SEED = int(os.environ.get("TAILRACE_SEED", "20261126"))


class Killed:
    """A stopped query, copies of its checkpoint, and commands that are killed."""

    def __init__(self, spark: SparkSession, test: StreamTest) -> None:
        self.spark, self.root = spark, test.directory
        self.rng = random.Random(_SEED)
        self.streams = Streams(test)
        self.result = self.streams.join(after="500 seconds")
        with self.streams.query(self.result, "whole") as query:
            self.streams.add(LEFT, RIGHT)
            query.run()
        self.checkpoint = query.checkpoint
        self.streams.add(*END)

    def copy(self, name: str) -> Path:
        return shutil.copytree(self.checkpoint, self.root / name)

    def kill(self, command: list[str], begun: Callable[[], bool]) -> None:
        """Runs a command, and kills it some time after it has begun to write."""
        process = state_command.start(*command)
        end = time.monotonic() + 60
        while process.poll() is None and not begun() and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(self.rng.uniform(0, 1.5) ** 2)
        kill_group(process)

    def rest(self, name: str) -> list[tuple[int, list[int]]]:
        """What comes out of the query when it goes on from a checkpoint."""
        with self.streams.query(self.result, name) as query:
            query.run()
            return groups(query.rows())

    def expected(self, *, erased: bool) -> list[tuple[int, list[int]]]:
        keys = {0, 2, 3} if erased else {0, 1, 2, 3}
        return [
            (left.id, [right.id for right in RIGHT if right.key == left.key and right.second >= left.second])
            for left in LEFT
            if left.key in keys
        ]


@pytest.fixture
def killed(spark: SparkSession, stream_test: StreamTest) -> Killed:
    return Killed(spark, stream_test)


def _files(directory: Path) -> dict[str, bytes]:
    return {str(f.relative_to(directory)): f.read_bytes() for f in directory.rglob("*") if f.is_file()}


def test_an_erasure_that_is_killed(killed: Killed) -> None:
    for kill in range(_KILLS):
        copy = killed.copy(f"erased-{kill}")
        command = ["erase", str(copy), "--where", "key = 1"]
        killed.kill(command, (copy / "tailrace-rescale").exists)
        if kill % 2 == 0:
            tailrace.erase(killed.spark, copy, "key = 1")
            assert all(b"a person" not in content for content in _files(copy).values())
            assert killed.rest(copy.name) == killed.expected(erased=True)
        else:
            assert killed.rest(copy.name) in [killed.expected(erased=erased) for erased in (False, True)]


def test_an_export_that_is_killed(killed: Killed) -> None:
    before = _files(killed.checkpoint)
    for kill in range(_KILLS):
        export = killed.root / f"export-{kill}"
        killed.kill(["export", str(killed.checkpoint), "--to", str(export)], export.exists)
        assert _files(killed.checkpoint) == before
        if not (export / "_tailrace_export.json").exists():
            with pytest.raises(TailraceStateError, match="TAILRACE_STATE_EXCHANGE_NO_EXPORT"):
                tailrace.import_state(killed.spark, killed.root / "new", export=export)
            shutil.rmtree(export, ignore_errors=True)
            tailrace.export_state(killed.spark, killed.checkpoint, export)
        done = tailrace.import_state(killed.spark, killed.root / "new", export=export, dry_run=True)
        assert (done.left, done.right) == (200, 200)


def test_an_import_that_is_killed(killed: Killed) -> None:
    export = killed.root / "export"
    tailrace.export_state(killed.spark, killed.checkpoint, export)
    for kill in range(_KILLS):
        new = killed.root / f"import-{kill}"
        command = ["import", str(new), "--from", str(export)]
        killed.kill(command, lambda: any(killed.root.glob(f"{new.name}-import-*")))  # noqa: B023 - called here
        is_whole = False
        if (new / "metadata").exists():
            try:
                rows = killed.rest(new.name)
            except PySparkException:
                assert b"isn't complete" in (new / "metadata").read_bytes()
            else:
                assert rows == killed.expected(erased=False)
                is_whole = True
        if not is_whole:
            tailrace.import_state(killed.spark, new, export=export)
            assert killed.rest(new.name) == killed.expected(erased=False)
            assert not any(killed.root.glob(f"{new.name}-import-*"))
