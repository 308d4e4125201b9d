"""Spark's standalone master and its workers, each in a process of its own, with faults of their executors.

with run_cluster(directory, workers=4) as cluster:
    ...configure(builder.config(map=cluster.settings))...
    cluster.strike(rng)
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from tailrace._installation.java import find_java
from tailrace.testing.kills import kill_group

if TYPE_CHECKING:
    import random
    from collections.abc import Generator, Mapping

_QUICK = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_START_SECONDS = 90
_DEPLOY = "org.apache.spark.deploy"
# The driver gives up an executor that is silent for so long.
_SILENCE_SECONDS = 5
_STALL_SECONDS = 8
# A lost one is replaced at once.
_EXECUTOR_SECONDS = 10

_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # Several attempts at one task, and executors that come and go.
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
    "spark.executor.heartbeatInterval": "1s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": f"{_SILENCE_SECONDS}s",
    "spark.network.timeoutInterval": "1s",
    # The campaign kills more of them than a cluster loses in a day.
    "spark.executor.maxNumFailures": "1000000",
    "spark.task.maxFailures": "100",
    "spark.stage.maxConsecutiveAttempts": "100",
    "spark.sql.shuffle.partitions": "4",
    # Partitions move all the time: their state comes when it is read, and hardly any of it stays.
    "spark.tailrace.state.backgroundLoadBytes": "0",
    "spark.tailrace.state.localRunBytes": "100k",
}


class Cluster:
    """A master and workers with one core each.

    Attributes:
        settings: what a Spark session needs to run on it.
        struck: the faults so far, by name.
    """

    def __init__(self, directory: Path) -> None:
        self.settings: Mapping[str, str] = {}
        self.struck: list[str] = []
        self._directory = directory
        self._log = directory / "master.log"
        self._url = ""
        self._processes: list[subprocess.Popen[bytes]] = []
        self._started = 0

    def start(self, workers: int) -> None:
        """Returns when all of them have registered."""
        self._start("master.Master", "--port", "0", "--webui-port", "0", log=self._log)
        self._url = self._wait_for(r"Starting Spark master at (spark://\S+)")[0]
        self.settings = {
            **_SETTINGS,
            "spark.master": self._url,
            # All workers are on one machine: each takes what the others' executors have left.
            "spark.tailrace.state.localDirectory": str(self._directory / "disk"),
        }
        for _ in range(workers):
            self._start_worker()
        self._wait_for("Registering worker", workers)

    def _start(self, role: str, *arguments: str, log: Path) -> None:
        jars = Path(pyspark.__file__).parent / "jars" / "*"
        line = [str(find_java(os.environ).path), *_QUICK, "-cp", str(jars), f"{_DEPLOY}.{role}"]
        whole = {
            **os.environ,
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        with log.open("wb") as out:
            self._processes.append(
                subprocess.Popen(
                    [*line, "--host", "127.0.0.1", *arguments],
                    stdout=out,
                    stderr=out,
                    # A group of its own: a worker's executors are its children, and all are lost at once.
                    start_new_session=True,
                    cwd=self._directory,
                    env=whole,
                )
            )

    def _start_worker(self) -> None:
        self._started += 1
        folder = self._directory / f"worker-{self._started}"
        folder.mkdir()
        limits = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(folder))
        self._start("worker.Worker", *limits, self._url, log=folder / "log")

    def _wait_for(self, line: str, count: int = 1) -> list[str]:
        """What the master's log has of a line, as soon as that is so many."""
        end = time.monotonic() + _START_SECONDS
        while len(found := re.findall(line, self._log.read_text())) < count:
            if time.monotonic() > end or any(process.poll() is not None for process in self._processes):
                raise RuntimeError(f"the cluster hasn't started: {self._log.read_text()[-3000:]}")
            time.sleep(0.1)
        return found

    def _executors(self) -> list[int]:
        """The processes that run tasks now."""
        groups = {process.pid for process in self._processes}
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    command = (entry / "cmdline").read_bytes()
                    if b"CoarseGrainedExecutorBackend" in command and os.getpgid(int(entry.name)) in groups:
                        found.append(int(entry.name))
                except (FileNotFoundError, ProcessLookupError):
                    continue  # It has ended meanwhile.
        return sorted(found)

    def strike(self, rng: random.Random) -> bool:
        """Kills an executor, loses a worker with its executors, or stalls one until it is given up.

        Returns:
            False if there was no executor: the query is about to end.
        """
        before = len(self.struck)
        executor = self._any_executor(rng)
        if executor is not None:
            fault = rng.choice((self._kill, self._lose_worker, self._stall))
            with suppress(ProcessLookupError):  # It may end by itself, or its worker may have killed it.
                fault(executor)
        return len(self.struck) > before

    def _any_executor(self, rng: random.Random) -> int | None:
        end = time.monotonic() + _EXECUTOR_SECONDS
        while not (executors := self._executors()) and time.monotonic() < end:
            time.sleep(0.1)
        return rng.choice(executors) if executors else None

    def _kill(self, executor: int) -> None:
        os.kill(executor, signal.SIGKILL)
        self.struck.append("an executor killed")

    def _lose_worker(self, executor: int) -> None:
        group = os.getpgid(executor)
        lost = next(process for process in self._processes if process.pid == group)
        kill_group(lost)
        self._processes.remove(lost)
        self.struck.append("a worker lost")
        self._start_worker()

    def _stall(self, executor: int) -> None:
        """It goes on when others do its work: what it writes then must not count."""
        os.kill(executor, signal.SIGSTOP)
        self.struck.append("an executor stalled")
        time.sleep(_STALL_SECONDS)
        os.kill(executor, signal.SIGCONT)

    def end(self) -> None:
        """Ends all its processes."""
        for process in self._processes:
            if process.poll() is None:
                kill_group(process)


@contextmanager
def run_cluster(directory: Path, workers: int) -> Generator[Cluster]:
    """Runs one until the block ends."""
    cluster = Cluster(directory)
    try:
        cluster.start(workers)
        yield cluster
    finally:
        cluster.end()
