"""Compares the label join over Spark Connect with the same join in a classic session.

    python benchmarks/connect.py --work /tmp/bench

The data are those of the feature-label workload. One JVM runs the classic session, another is a Spark Connect
server, both with the same settings. They take turns: each round runs the join once in both, and a floor that
reads and shuffles the same rows by Spark alone. Every second round begins with the other session. The first
rounds aren't counted: the JVMs are cold. Prints the table and writes it to benchmarks/results/connect.txt.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pyspark.sql import SparkSession

import report
from measure import Jvm, Process
from queries import QUERIES, stream
from rounds import Cost, compared, run, table
from session import local
from workload import Streams, Workload, prepare

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "python"))

from connect_server import ConnectServer

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import DataFrame

_BAR = 0.98
_MODES = ("classic", "connect")
_ENGINES = ("tailrace", "floor-two-shuffles")
_SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "4g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.numRecentProgressUpdates": "1000000",
}


class _Client:
    """A process that runs a query when it is told to.

    Args:
        address: of a Spark Connect server; "classic" for a session of its own.
        server: the server's process; 0: none.
        data: the workload's folder.
        work: for checkpoints.
    """

    def __init__(self, address: str, server: int, data: Streams, work: Path) -> None:
        self._rows = data.rows
        command = [
            sys.executable,
            __file__,
            "--client",
            address,
            "--work",
            str(work),
            "--data",
            str(data.path),
            "--server",
            str(server),
        ]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def run(self, engine: str) -> Cost:
        """Runs it once."""
        assert self._process.stdin is not None  # noqa: S101  both are pipes
        assert self._process.stdout is not None  # noqa: S101
        self._process.stdin.write(f"{engine}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the client has ended")
        found = Cost(*json.loads(line))
        if found.rows != self._rows:
            raise RuntimeError(f"the query has read {found.rows} rows of {self._rows}")
        return found


def _serve(address: str, data: str, work: str, server: int) -> None:
    """What a client does. The server's process has a number; 0: the JVM is this process's."""
    if address == "classic":
        spark = local("4g", _SETTINGS)
    else:
        spark = SparkSession.builder.remote(address).getOrCreate()
    jvm = Process(server) if server else Jvm.of_this_process()

    def made(engine: str) -> DataFrame:
        left, right = (
            stream(spark, f"{data}/{side}", "2 minutes", f"{side[0]}_") for side in ("left", "right")
        )
        return QUERIES[engine](left, right, "30 minutes", 2)

    for number, line in enumerate(sys.stdin):
        checkpoint = f"{work}/{address.rpartition(':')[2]}-{number}"
        print(json.dumps(run(partial(made, line.strip()), checkpoint, jvm)), flush=True)
    spark.stop()


def _measure(data: Streams, work: Path, rounds: int, cold: int) -> dict[tuple[str, str], list[Cost]]:
    costs: dict[tuple[str, str], list[Cost]] = {(e, mode): [] for e in _ENGINES for mode in _MODES}
    server = ConnectServer(work / "server.log", _SETTINGS)
    try:
        with ExitStack() as stack:
            clients = {
                "classic": stack.enter_context(_Client("classic", 0, data, work)),
                "connect": stack.enter_context(_Client(server.address, server.pid, data, work)),
            }
            for i in range(cold + rounds):
                for engine, mode in list(costs)[:: 1 if i % 2 == 0 else -1]:
                    cost = clients[mode].run(engine)
                    took = f"{cost.seconds:.2f} s, CPU {cost.cpu:.2f} s"
                    print(f"round {i + 1}, {engine}, {mode}: {took}", flush=True)
                    if i >= cold:
                        costs[engine, mode].append(cost)
    finally:
        server.stop()
    return costs


def _lines(costs: dict[tuple[str, str], list[Cost]], parameters: str) -> tuple[list[str], float]:
    lines = [
        *report.heading(parameters),
        "",
        *table({f"{engine:18} {mode}": of for (engine, mode), of in costs.items()}),
        "",
        f"{'over Connect, as a multiple of classic, median of rounds':58} {'rate':>6} {'by CPU':>7}",
    ]
    rates = {}
    for engine in _ENGINES:
        rates[engine], cpu = compared(costs[engine, "connect"], costs[engine, "classic"])
        bar = f"   bar {_BAR}" if engine == _ENGINES[0] else ""
        lines.append(f"{engine:58} {rates[engine]:6.3f} {cpu:7.3f}{bar}")
    return lines, rates[_ENGINES[0]]


def main() -> int:
    """Runs the command line. Returns the exit code: 1 below the bar."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, help="keeps the data for the next call")
    parser.add_argument("--left", type=int, default=2_600_000)
    parser.add_argument("--slices", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cold", type=int, default=2, help="rounds that aren't counted")
    parser.add_argument("--client", help=argparse.SUPPRESS)
    parser.add_argument("--data", help=argparse.SUPPRESS)
    parser.add_argument("--server", type=int, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.client:
        _serve(a.client, a.data, str(a.work), a.server)
        return 0
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-", dir=a.work) as folder:
        work = Path(folder).resolve()
        data = prepare(Workload(left=a.left, slices=a.slices), a.work or work)
        costs = _measure(data, work, a.rounds, a.cold)
    shown = {"left": a.left, "slices": a.slices, "rounds": a.rounds, "cold": a.cold}
    lines, ratio = _lines(costs, str(shown))
    report.save("connect", lines)
    return 0 if ratio >= _BAR else 1


if __name__ == "__main__":
    sys.exit(main())
