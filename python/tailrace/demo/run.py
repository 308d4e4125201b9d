"""The demo from its data to its page."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tailrace.demo import chart, data, example, oracle, progress, query
from tailrace.demo.summary import Summary


def run_demo(rows: int, slices: int, out: Path, driver_memory: str = "2g") -> bool:
    """Makes data, joins it as a stream, checks the result, and writes demo.png and demo.html.

    Shows a line per micro-batch while it works, and the summary and both paths at the end, on the standard
    output. Data, checkpoint and result live in a temporary directory, gone at the end.

    Args:
        rows: impressions to make, at least one.
        slices: micro-batches of data, at least one.
        out: directory of the chart and the page; made if missing.
        driver_memory: heap of Spark's JVM, as Spark reads sizes.

    Returns:
        Whether the result equals the brute-force answer.

    Raises:
        TailraceError: the session or the join was refused, or the query failed in Tailrace.
    """
    with tempfile.TemporaryDirectory(prefix="tailrace-demo-") as scratch:
        directory = Path(scratch)
        print(f"Making {rows:,} impressions and their engagements, in {slices} slices ...", flush=True)
        workload = data.generate(directory, rows, slices)
        print("Starting a local Spark ...", flush=True)
        with query.local_session(driver_memory) as spark:
            print(progress.HEADER, flush=True)
            batches: list[progress.Batch] = []
            started = time.monotonic()
            for batch in query.run(spark, workload, directory / "examples", directory / "checkpoint"):
                batches.append(batch)
                print(batch.line(), flush=True)
            seconds = time.monotonic() - started
        print("Checking against brute force ...", flush=True)
        verdict = oracle.compare(directory / "examples", oracle.expected_groups(workload, query.AFTER_US))
        one = example.sentence(directory / "examples") if verdict.equal else ""
    summary = Summary(len(workload.impressions), len(workload.engagements), batches, seconds, verdict, one)
    print(f"\n{summary.text()}\n")
    png = chart.draw(batches)
    out.mkdir(parents=True, exist_ok=True)
    for name, content in (("demo.png", png), ("demo.html", summary.page(png).encode())):
        (out / name).write_bytes(content)
        print((out / name).resolve())
    return verdict.equal
