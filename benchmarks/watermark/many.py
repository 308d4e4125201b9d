"""Loads one watermark server with 50 queries that have 1,000,000 hosts in all.

    python benchmarks/watermark/many.py --seconds 40 --name watermark-many

Each query is a client of its own with 20,000 hosts, and a report's body as `ServerClient` sends it. All start
with a roster; then they report at a fixed rate, evenly spread, over kept connections. Three shapes:

    applications    each query has an application of its own
    sources         one application, each query is another source of it
    one source      one application with one source, of which each query reads a part

and two loads of each query: `all`, a report every 20 seconds with all its hosts, which is 50,000 hosts a
second of all queries, and `tenth`, a report every ten seconds with a tenth of them. The server is a process
of its own, the store is a SQLite file or a PostgreSQL that the program starts; clients and PostgreSQL run
beside it on the same cores. CPU and memory are those of the server's process, from /proc. Prints the table
and writes it to benchmarks/results/NAME.txt.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests/python"))

from server import Server, running

import report
from watermark_servers import postgres_binaries, run_postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_QUERIES = 50
_START = 1_763_700_000_000_000
_SECOND = 1_000_000
_TIME = b"@time@"
_SHAPES: dict[str, Callable[[int], tuple[str, str]]] = {
    "applications": lambda query: (f"app-{query}", "source"),
    "sources": lambda query: ("app", f"source-{query}"),
    "one source": lambda _: ("app", "source"),
}
_STORES = ("SQLite", "PostgreSQL")
_LOADS = {"all": (20.0, 1), "tenth": (10.0, 10)}
"""Seconds between two reports of a query, and the number of reports that have each host once."""

_HEAD = (
    "store       shape         load   reports/s  CPU of a core  CPU ms/report   p50 ms   p99 ms   max ms"
    "  first reports s  peak RSS MB"
)


@dataclass(frozen=True)
class Found:
    """What one run has shown. Milliseconds are of one report."""

    reports: int
    seconds: float
    cpu_seconds: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    first_seconds: float
    rss_mb: float


class Query:
    """A client with hosts of its own."""

    def __init__(self, port: int, number: int, shape: str, hosts: int, parts: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        self._app, self._operator = _SHAPES[shape](number)
        self._number = number
        self._names = [f"host-{number * hosts + n:07d}.rack-{n % 40:02d}.example.net" for n in range(hosts)]
        self._bodies = [self._body(self._names[part::parts]) for part in range(parts)]
        self.taken: list[float] = []

    def begin(self) -> None:
        """The first report: the roster, and the progress of all hosts."""
        self._send(self._body(self._names, roster=self._names), 0)
        # The others begin now, which may take longer than a server keeps a connection.
        self._connection.close()

    def run(self, begin: float, every: float, reports: int) -> None:
        """Reports at a fixed rate, however long each takes."""
        for step in range(reports):
            time.sleep(max(0.0, begin + (step + self._number / _QUERIES) * every - time.monotonic()))
            started = time.perf_counter()
            self._send(self._bodies[step % len(self._bodies)], step + 1)
            self.taken.append((time.perf_counter() - started) * 1e3)

    def _body(self, names: list[str], roster: list[str] | None = None) -> bytes:
        source = {
            "operator": self._operator,
            "kind": "source",
            "completeness": "0.999",
            "roster_version": "1",
            "reads": [f"file:/logs/{self._number}"],
            "progress": dict.fromkeys(names, "@time@"),
        }
        low = {"0": "@time@"}
        operators = [
            {**source, "roster": roster} if roster else source,
            {
                "operator": f"sink-{self._number}",
                "kind": "sink",
                "upstreams": [self._operator],
                "low_watermarks": low,
            },
        ]
        body = {"client": f"query-{self._number}", "run": "1", "operators": operators}
        return json.dumps(body).encode().replace(b'"' + _TIME + b'"', _TIME)

    def _send(self, body: bytes, step: int) -> None:
        body = body.replace(_TIME, str(_START + step * _SECOND).encode())
        path = f"/v1/apps/{self._app}/reports"
        self._connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        answer = response.read()
        if response.status != http.client.OK:
            raise RuntimeError(f"{response.status}: {answer[:300]!r}")


def load(server: Server, shape: str, kind: str, hosts: int, seconds: int) -> Found:
    """50 queries at a fixed rate."""
    every, parts = _LOADS[kind]
    queries = [Query(server.port, n, shape, hosts // _QUERIES, parts) for n in range(_QUERIES)]
    started = time.monotonic()
    for query in queries:
        query.begin()
    first = time.monotonic() - started
    reports = round(seconds / every)
    begin = time.monotonic() + 1
    threads = [threading.Thread(target=query.run, args=(begin, every, reports)) for query in queries]
    before = server.cpu_seconds()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent, cpu = time.monotonic() - begin, server.cpu_seconds() - before
    taken = sorted(ms for query in queries for ms in query.taken)
    if len(taken) != _QUERIES * reports:
        raise RuntimeError(f"{len(taken)} reports were taken, not {_QUERIES * reports}")
    p50, p99 = (taken[int(len(taken) * q)] for q in (0.5, 0.99))
    return Found(len(taken), spent, cpu, p50, p99, taken[-1], first, server.peak_rss_bytes() / 2**20)


@contextmanager
def stores(kind: str) -> Iterator[str]:
    """The URL of an empty store until the block ends."""
    if kind == "SQLite":
        with tempfile.TemporaryDirectory() as directory:
            yield f"sqlite:///{directory}/many.db"
        return
    binaries = postgres_binaries()
    if binaries is None:
        raise SystemExit("no PostgreSQL here")
    with run_postgres(binaries) as url:
        yield url


def main() -> None:
    """Measures all shapes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=40, help="of each load (default: %(default)s)")
    parser.add_argument("--hosts", type=int, default=1_000_000, help="in all (default: %(default)s)")
    every = ",".join(f"{s}/{n}/{k}" for s in _STORES for n in _SHAPES for k in _LOADS)
    parser.add_argument("--runs", default=every, help="STORE/SHAPE/LOAD, ... (default: all)")
    parser.add_argument("--name", default="watermark-many")
    a = parser.parse_args()
    lines = [
        *report.heading(f"{_QUERIES} queries, {a.hosts:,} hosts in all, {a.seconds} s of each load"),
        "",
        _HEAD,
    ]
    for run in a.runs.split(","):
        store, shape, kind = run.split("/")
        with stores(store) as url, running(url) as server:
            f = load(server, shape, kind, a.hosts, a.seconds)
        lines.append(
            f"{store:<12}{shape:<14}{kind:<7}{f.reports / f.seconds:9.1f}"
            f"{f.cpu_seconds / f.seconds:15.0%}{f.cpu_seconds / f.reports * 1e3:15.1f}"
            f"{f.p50_ms:9.0f}{f.p99_ms:9.0f}{f.max_ms:9.0f}{f.first_seconds:17.1f}{f.rss_mb:13.0f}"
        )
        print(lines[-1], flush=True)
    report.save(a.name, lines)


if __name__ == "__main__":
    main()
