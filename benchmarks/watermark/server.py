"""Loads a watermark server at a fixed rate and measures what it takes: CPU, latency, cold start.

    python benchmarks/watermark/server.py --seconds 30 --name watermark-server

Ten clients, each a source of one application, report once a second over a kept connection, as ten queries do;
all hosts of a source move in each report. The server is a process of its own with a SQLite file, on the disk
of the temporary directory; its CPU is read from /proc. The clients run in this process. Then the cold start:
from the start of the process to the first acknowledged report, with 1,000,000 hosts in the file.
Prints the table and writes it to benchmarks/results/NAME.txt.
"""

from __future__ import annotations

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

import report
from measure import Process
from tailrace.server import protocol
from tailrace.server.ledger import Ledger
from tailrace.server.opening import open_database
from tailrace.server.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

_APP = "load"
_SOURCES = 10
_START = 1_763_700_000_000_000
_SECOND = 1_000_000
_COLD_HOSTS = 10_000
_COLD_SOURCES = 100
_MAX_CPU, _MAX_P99_MS, _MAX_COLD_SECONDS = 0.25, 20.0, 5.0


@dataclass(frozen=True)
class Server(Process):
    """A server process."""

    port: int


@dataclass(frozen=True)
class Load:
    """What one run at a fixed rate has shown."""

    hosts: int
    reports: int
    cpu: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    rss_mb: float


@contextmanager
def running(store: str) -> Iterator[Server]:
    """A server of a store's URL, until the block ends."""
    line = [sys.executable, "-m", "tailrace", "watermark-server", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([*line, "--store", store], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None  # noqa: S101  it is a pipe
        yield Server(process.pid, int(process.stdout.readline().rpartition(":")[2]))
    finally:
        process.terminate()
        process.wait()


def _names(hosts: int) -> list[str]:
    return [f"host-{n:06d}.rack-{n % 40:02d}.example.net" for n in range(hosts)]


def _body(source: int, names: list[str], step: int, *, with_roster: bool) -> bytes:
    operator = {
        "operator": f"source-{source}",
        "kind": "source",
        "completeness": "0.999",
        "roster": names if with_roster else None,
        "progress": dict.fromkeys(names, _START + step * _SECOND),
    }
    sink = {
        "operator": "sink",
        "kind": "sink",
        "upstreams": [f"source-{n}" for n in range(_SOURCES)],
        "low_watermarks": {"0": _START + step * _SECOND},
    }
    return json.dumps({"client": f"query-{source}", "operators": [operator, sink]}).encode()


def _post(connection: http.client.HTTPConnection, body: bytes) -> dict[str, object]:
    connection.request("POST", f"/v1/apps/{_APP}/reports", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer: dict[str, object] = json.loads(response.read())
    if response.status != http.client.OK:
        raise RuntimeError(f"{response.status}: {answer}")
    return answer


def _client(port: int, source: int, names: list[str], steps: int, begin: float) -> list[float]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    taken: list[float] = []
    for step in range(1, steps + 1):
        body = _body(source, names, step, with_roster=False)
        time.sleep(max(0.0, begin + step + source / _SOURCES - time.monotonic()))
        started = time.perf_counter()
        _post(connection, body)
        taken.append((time.perf_counter() - started) * 1e3)
    connection.close()
    return taken


def load(directory: Path, hosts: int, seconds: int) -> Load:
    """Ten sources of some hosts each, a report a second of each."""
    names = _names(hosts)
    with running(f"sqlite:///{directory}/load-{hosts}.db") as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        for source in range(_SOURCES):
            _post(connection, _body(source, names, 0, with_roster=True))
        taken: list[list[float]] = [[] for _ in range(_SOURCES)]
        begin = time.monotonic()

        def run(source: int) -> None:
            taken[source] = _client(server.port, source, names, seconds, begin)

        threads = [threading.Thread(target=run, args=(source,)) for source in range(_SOURCES)]
        before = server.cpu_seconds()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        cpu = (server.cpu_seconds() - before) / (time.monotonic() - begin)
        low = _post(connection, _body(0, names, seconds, with_roster=False))["global_low_watermark"]
        rss = server.peak_rss_bytes() / 2**20
    every = sorted(ms for one in taken for ms in one)
    if len(every) != _SOURCES * seconds or low != _START + seconds * _SECOND:
        raise RuntimeError(f"{len(every)} reports and the low watermark {low} aren't what was sent")
    p50, p99 = (every[int(len(every) * q)] for q in (0.5, 0.99))
    return Load(hosts * _SOURCES, len(every), cpu, p50, p99, every[-1], rss)


def cold_start(directory: Path) -> tuple[float, float]:
    """Seconds from the start of a process to its first acknowledged report, and its memory in MB then."""
    store = directory / "cold.db"
    names = _names(_COLD_HOSTS)
    database = open_database(f"sqlite:///{store}")
    ledger = Ledger(database, Store(database))
    for source in range(_COLD_SOURCES):
        body = json.loads(_body(source, names, source, with_roster=True))
        body["operators"].pop()
        ledger.report([(_APP, protocol.Report.model_validate(body))])
    database.close()
    started = time.monotonic()
    with running(f"sqlite:///{store}") as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        _post(connection, _body(0, names, _COLD_SOURCES, with_roster=False))
        return time.monotonic() - started, server.peak_rss_bytes() / 2**20


def main() -> int:
    """Measures, and says whether the bars are met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=30, help="of each load (default: %(default)s)")
    parser.add_argument("--name", default="watermark-server")
    a = parser.parse_args()
    header = report.heading(
        f"{_SOURCES} sources, a report a second of each, {a.seconds} s, SQLite in WAL mode"
    )
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        loads = [load(directory, hosts, a.seconds) for hosts in (1_000, 10_000)]
        cold, rss = cold_start(directory)
    table = ["hosts in all  of a source  reports  CPU of a core  p50 ms  p99 ms  max ms  peak RSS MB"]
    table += [
        f"{r.hosts:12,}{r.hosts // _SOURCES:13,}{r.reports:9,}{r.cpu:14.1%}"
        f"{r.p50_ms:9.1f}{r.p99_ms:8.1f}{r.max_ms:8.1f}{r.rss_mb:13.0f}"
        for r in loads
    ]
    rows = _COLD_HOSTS * _COLD_SOURCES
    met = loads[0].cpu <= _MAX_CPU and loads[0].p99_ms < _MAX_P99_MS and cold < _MAX_COLD_SECONDS
    bars = (
        f"with 10,000 hosts at most {_MAX_CPU:.0%} of a core and p99 under {_MAX_P99_MS:.0f} ms, cold start "
        f"under {_MAX_COLD_SECONDS:.0f} s"
    )
    start = f"cold start with {rows:,} hosts, to the first acknowledged report: {cold:.2f} s, {rss:.0f} MB"
    verdict = f"bars: {bars}: {'met' if met else 'NOT met'}"
    report.save(a.name, [*header, "", *table, "", start, verdict])
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
