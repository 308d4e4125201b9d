"""An application with `MetricsListener`: a label join with a late row, a watermark by hosts, a failure.

    python monitored_application.py DIRECTORY

It prints the port of its UI when all queries have run, and ends when its standard input does.
"""

from __future__ import annotations

import sys
import time
import urllib.request
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import tailrace
from tailrace.testing import StreamTest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

NAME = 'ex"am\\ples'
_SETTINGS = {
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "OFF",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.streamingQueryListeners": "io.tailrace.monitor.MetricsListener",
}


def metrics(port: str, path: str = "/metrics/tailrace/prometheus") -> tuple[str, str]:
    """The content type and the text of a page of the application's UI."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as page:
        return page.headers["Content-Type"], page.read().decode()


def _examples(served: DataFrame, clicks: DataFrame) -> DataFrame:
    return tailrace.join(
        served.withWatermark("served_at", "10 minutes"),
        clicks.withWatermark("clicked_at", "10 minutes"),
        on="user",
        left_time="served_at",
        right_time="clicked_at",
        after="30 minutes",
        release_every="batch",
    )


def _run(test: StreamTest, directory: str) -> None:
    served = test.source("user int, served_at timestamp")
    clicks = test.source("user int, clicked_at timestamp")
    logs = test.source("host string, t timestamp")

    def start(frame: DataFrame, name: str) -> StreamingQuery:
        writer = frame.writeStream.queryName(name).format("noop")
        return writer.option("checkpointLocation", f"{directory}/{len(name)}").start()

    examples = start(_examples(served.frame, clicks.frame), NAME)
    hosts = tailrace.accurate_watermark(logs.frame, "t", host="host", hosts=["a", "b"])
    progress = start(hosts, "hosts")
    served.add((7, "12:00"), (8, "12:05"), (9, "13:00"))
    clicks.add((7, "12:10"), (7, "13:00"))
    logs.add(("a", "12:00"), ("b", "12:30"), ("b", "12:40"))
    test.flush()
    examples.processAllAvailable()
    progress.processAllAvailable()
    # The first one is late.
    served.add((1, "12:01"), (2, "13:01"))
    test.flush()
    examples.processAllAvailable()
    broken = start(served.frame.select(f.raise_error(f.lit("broken"))), "broken")
    try:
        broken.processAllAvailable()
    except StreamingQueryException:
        examples.stop()
    else:
        raise AssertionError("it hasn't failed")


def _told(port: str) -> bool:
    """Whether the listener has heard of the two queries that have ended: it hears of all else before."""
    lines = metrics(port)[1].splitlines()
    return sum(line.startswith("tailrace_query_active{") and line.endswith(" 0") for line in lines) == 2


def main() -> None:
    history = {"spark.tailrace.monitor.history": f"{sys.argv[1]}/history"}
    builder = SparkSession.builder.master("local[2]").config(map={**_SETTINGS, **history})
    spark = tailrace.configure(builder).getOrCreate()
    port = (spark.sparkContext.uiWebUrl or "").rsplit(":", 1)[1]
    with StreamTest(spark, sys.argv[1]) as test:
        _run(test, sys.argv[1])
        deadline = time.monotonic() + 60
        while not _told(port):
            if time.monotonic() > deadline:
                raise TimeoutError(metrics(port)[1])
            time.sleep(0.1)
        print(port, flush=True)
        sys.stdin.read()
    spark.stop()


if __name__ == "__main__":
    main()
