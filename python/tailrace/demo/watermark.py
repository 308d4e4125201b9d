"""Two hosts, one of which lags: windows that wait for it, and windows that don't, with the server's page."""

# The types of pyarrow are incomplete.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import tempfile
import time
import webbrowser
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from tailrace._bridge.literal_path import streamed
from tailrace.commands import terminal
from tailrace.demo.query import local_session
from tailrace.demo.told_windows import tell_windows
from tailrace.errors import TailraceServerError

if TYPE_CHECKING:
    from collections.abc import Generator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_WINDOW = 600_000_000
_HOSTS = ["web-1", "web-2"]
_SHARES = ("100%", "50%")
# The count of a window of ten minutes when both hosts have a row a minute in it, and when one has.
_BOTH, _ONE = 20, 10


def run_watermark_demo(driver_memory: str = "2g", *, stay: bool) -> bool:
    """Starts a watermark server and two queries over the logs of two hosts, and shows which windows close.

    Both queries count rows in windows of ten minutes. One wants 100 % of the hosts to have passed a window's
    end, the other 50 %. web-1 logs until 12:41, web-2 has come to 12:05; then web-2 catches up.

    Args:
        driver_memory: heap of Spark's JVM, as Spark reads sizes.
        stay: opens the server's page in a browser, and ends with Ctrl-C.

    Returns:
        Whether the windows closed when they should, with the rows that they should have.

    Raises:
        TailraceError: the session was refused, or the server didn't start.
    """
    with tempfile.TemporaryDirectory(prefix="tailrace-demo-") as scratch, _server(Path(scratch)) as url:
        print(f"The watermark server's page: {url}\nStarting a local Spark ...", flush=True)
        if stay:
            webbrowser.open(url)
        with local_session(driver_memory) as spark:
            with terminal.bar("running two queries"):
                queries = [_Windows(spark, Path(scratch), share, url) for share in _SHARES]
                _log(Path(scratch), "web-1", 0, 42)
                _log(Path(scratch), "web-2", 0, 6)
                print("\nweb-1 has logged until 12:41, and web-2 until 12:05:")
                lagging = [query.show() for query in queries]
                _log(Path(scratch), "web-2", 6, 42)
                print("\nweb-2 has caught up:")
                caught_up = [query.show() for query in queries]
            as_expected = lagging == [
                {},
                {"12:00": _ONE + 6, "12:10": _ONE, "12:20": _ONE, "12:30": _ONE},
            ] and caught_up == [{"12:00": _BOTH, "12:10": _BOTH, "12:20": _BOTH, "12:30": _BOTH}, {}]
            print("\nAs it should be." if as_expected else "\nNot as it should be.", flush=True)
            if stay:
                _stay(url)
    return as_expected


class _Windows:
    """A query that counts rows in windows, and those that have closed since the last look."""

    def __init__(self, spark: SparkSession, scratch: Path, share: str, url: str) -> None:
        self._share = share
        self._url, self._app = url, f"windows at {share}"
        self._closed: dict[int, int] = {}
        schema = "event_time timestamp, hostname string"
        (scratch / "logs").mkdir(exist_ok=True)
        logs = spark.readStream.schema(schema).parquet(streamed(scratch / "logs"))
        logs = tailrace.accurate_watermark(
            logs,
            "event_time",
            host="hostname",
            completeness=share,
            hosts=_HOSTS,
            server=url,
            app=self._app,
        )
        counts = logs.groupBy(F.window("event_time", "10 minutes")).count()
        writer = counts.writeStream.foreachBatch(self._take)
        checkpoint = str(scratch / f"checkpoint-{share.rstrip('%')}")
        self._query: StreamingQuery = writer.option("checkpointLocation", checkpoint).start()

    def _take(self, windows: DataFrame, _: int) -> None:
        start = F.unix_micros("window.start").alias("start")
        for row in windows.select(start, F.col("count").alias("rows")).collect():
            self._closed[row["start"]] = row["rows"]

    def show(self) -> dict[str, int]:
        """Waits until all logs are read; returns the windows that have closed, and their rows."""
        self._query.processAllAvailable()
        closed, self._closed = dict(sorted(self._closed.items())), {}
        # Spark's own aggregation closes these windows; `write_windows` tells the server on its own.
        tell_windows(self._url, self._app, [(start, start + _WINDOW) for start in closed])
        shown = {f"{_EPOCH + dt.timedelta(microseconds=start):%H:%M}": rows for start, rows in closed.items()}
        windows = ", ".join(f"{start} ({rows} rows)" for start, rows in shown.items()) or "none"
        print(f"  at {self._share:>4}, windows that close: {windows}", flush=True)
        return shown


def _log(scratch: Path, host: str, first: int, end: int) -> None:
    """Writes a row a minute, as one file that appears whole."""
    times = [_NOON + dt.timedelta(minutes=minute) for minute in range(first, end)]
    rows = pa.table(
        {"event_time": pa.array(times, pa.timestamp("us", "UTC")), "hostname": [host] * len(times)}
    )
    aside = scratch / f"{host}.parquet"
    pq.write_table(rows, aside)
    aside.rename(scratch / "logs" / f"{host}-{first}.parquet")


@contextmanager
def _server(scratch: Path) -> Generator[str]:
    """A server on a free port of the loopback address, until the block ends; its URL."""
    line = [sys.executable, "-m", "tailrace", "watermark-server", "--listen", "127.0.0.1:0"]
    store = f"sqlite:///{scratch / 'watermarks.db'}"
    process = subprocess.Popen([*line, "--store", store], stdout=subprocess.PIPE, text=True)
    try:
        said = process.stdout.readline() if process.stdout else ""
        if "http://" not in said:
            raise TailraceServerError(
                "The watermark server hasn't started; its reason is printed above.",
                condition="TAILRACE_SERVER_NOT_STARTED",
            )
        yield said[said.index("http://") :].strip()
    finally:
        process.terminate()
        process.wait()


def _stay(url: str) -> None:
    print(f"\n{url} stays until Ctrl-C.", flush=True)
    try:
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        print()
