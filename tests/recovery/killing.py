"""Runs a worker process again and again, kills it as by kill -9, then lets it end; reads its sink."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest
from places import LocalPlace

from arrivals import let_in
from tailrace.testing.kills import kill_group

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from places import Place

IS_LONG = "TAILRACE_KILLS" in os.environ
# Another one makes another campaign: other data, other moments.
SEED = int(os.environ.get("TAILRACE_SEED", "20261121"))
_LONGEST_SECONDS = 30
_LONGEST_END_SECONDS = 600
_SHARED = Path(__file__).parents[1] / "python"
LOCAL = LocalPlace()


def kill_count(by_default: int) -> int:
    """How many kills or faults a campaign has."""
    return int(os.environ.get("TAILRACE_KILLS", by_default))


def run_to_the_end(
    worker: Path,
    root: Path,
    kills: int,
    rng: random.Random,
    *,
    place: Place = LOCAL,
    after_kill: Callable[[], None] = lambda: None,
) -> None:
    """Kills `worker ROOT` at random moments after its READY, `kills` times; the last one says DONE.

    Files that are `arrivals.held` arrive before the last one's query starts.

    Its checkpoint is at `place`. After each kill, before the next start, `after_kill` looks at what is there.
    Where the place has a cluster, the process stays, and executors are lost in its place.
    """
    if place.cluster is not None:
        _lose_executors(worker, root, kills, rng, place, after_kill)
        return
    path = root / "worker.log"
    finished_early = 0
    with path.open("wb") as log, ExitStack() as stack:

        def prepare() -> subprocess.Popen[bytes]:
            process = start(worker, root, log=log, environment=place.environment(root))
            stack.callback(kill, process)
            return process

        upcoming = prepare()
        for _ in range(kills):
            # The Spark of the next one starts meanwhile: that takes longest.
            process, upcoming = upcoming, prepare()
            begin(process, path)
            _wait_for_batches(process, root, place, rng.choice((0, 0, 1, 2)))
            time.sleep(rng.uniform(0.0, 1.5))
            if process.poll() is None:
                kill(process)
            else:
                finished_early += 1
            after_kill()
        let_in(root)
        begin(upcoming, path)
        _wait_for_end(upcoming, path)
    assert finished_early < max(1, kills // 2), "all was read before the killing was done: it proves little"


def _lose_executors(
    worker: Path, root: Path, faults: int, rng: random.Random, place: Place, after_fault: Callable[[], None]
) -> None:
    assert place.cluster is not None
    path = root / "worker.log"
    finished_early = 0
    with path.open("wb") as log, ExitStack() as stack:
        process = start(worker, root, log=log, environment=place.environment(root))
        stack.callback(kill, process)
        let_in(root)
        begin(process, path)
        for _ in range(faults):
            _wait_for_batches(process, root, place, rng.choice((0, 1, 2)))
            time.sleep(rng.uniform(0.0, 1.5))
            if process.poll() is not None or not place.cluster.strike(rng):
                finished_early += 1
            after_fault()
        print(_wait_for_end(process, path)[-2])
    # A query goes on while an executor is stalled, and may come to its end.
    assert finished_early <= faults // 2, "all was read before the faults were done: it proves little"


def _wait_for_end(process: subprocess.Popen[bytes], log: Path) -> list[str]:
    """The lines that it says until it has read all."""
    try:
        output, _ = process.communicate(timeout=_LONGEST_END_SECONDS)
    except subprocess.TimeoutExpired:
        said = log.read_text()[-4000:]
        pytest.fail(f"the last worker hasn't ended after {_LONGEST_END_SECONDS} s. Its last words:\n{said}")
    assert b"DONE" in output, log.read_text()[-4000:]
    return output.decode().splitlines()


def _wait_for_batches(process: subprocess.Popen[bytes], root: Path, place: Place, batches: int) -> None:
    """Waits until so many are committed: on a machine that is slow, each one would die in its first batch."""
    target = _newest_batch(root, place) + batches
    end = time.monotonic() + _LONGEST_SECONDS
    while _newest_batch(root, place) < target and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)


def _newest_batch(root: Path, place: Place) -> int:
    names = place.names(root, "checkpoint/commits")
    return max((int(name) for name in names if name.isdigit()), default=-1)


def committed_files(root: Path) -> list[str]:
    """The files that the file sink has committed, without those of attempts that it never committed."""
    log = root / "out" / "_spark_metadata"
    batches = sorted(
        (int(p.name.removesuffix(".compact")), p) for p in log.glob("[0-9]*") if p.suffix != ".crc"
    )
    start = max((n for n, p in batches if p.suffix == ".compact"), default=-1)
    files: dict[str, None] = {}
    for n, path in batches:
        if n >= start:
            for line in path.read_text().splitlines()[1:]:
                files[json.loads(line)["path"].removeprefix("file://")] = None
    return list(files)


def start(
    worker: Path, root: Path, *more: str, log: IO[bytes], environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts `worker ROOT MORE...`, which makes the tests' Spark and waits for `begin`."""
    paths = [str(_SHARED), *filter(None, [os.environ.get("PYTHONPATH")])]
    whole = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC", **os.environ}
    whole |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": os.pathsep.join(paths), **(environment or {})}
    return subprocess.Popen(
        [sys.executable, str(worker), str(root), *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        # A group of its own: the JVM is a child of the Python process, and both die at the same moment.
        start_new_session=True,
        env=whole,
    )


def begin(process: subprocess.Popen[bytes], log: Path) -> None:
    """Lets it start its query and waits until it has: before that there is nothing to lose."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"BEGIN\n")
    process.stdin.flush()
    assert process.stdout.readline().strip() == b"READY", log.read_text()[-4000:]


def kill(process: subprocess.Popen[bytes]) -> None:
    """kill -9, of the JVM too, unless it has ended."""
    if process.poll() is None:
        kill_group(process)
