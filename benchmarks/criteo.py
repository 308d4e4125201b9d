"""`tailrace demo --criteo`: a file split into streams, joined again, and compared with its own columns."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tailrace.commands import terminal
from tailrace.demo import criteo_agreement, criteo_layout, criteo_query, criteo_sample, query


def run_criteo(file: Path | None, slices: int = 10, driver_memory: str = "2g") -> bool:
    """Splits, joins and compares, and shows what agrees and what doesn't.

    Streams, checkpoints and results live in a temporary directory, gone at the end.

    Args:
        file: in the layout of the Criteo attribution data set; None makes a small sample.
        slices: micro-batches of data, at least one.
        driver_memory: heap of Spark's JVM, as Spark reads sizes.

    Returns:
        Whether each impression and each click came out once, with shares that sum to 1.

    Raises:
        TailraceError: the file isn't in the layout, or a query failed in Tailrace.
    """
    with tempfile.TemporaryDirectory(prefix="tailrace-demo-") as scratch:
        directory = Path(scratch)
        if file is None:
            file = directory / "sample.tsv.gz"
            criteo_sample.write(file)
            _say("Making a sample in the layout of the Criteo attribution data set ...")
        _say("Splitting it into impressions, clicks and conversions ...")
        told = criteo_layout.load(file, directory, slices)
        _say("Starting a local Spark ...")
        with query.local_session(driver_memory, directory) as spark:
            _say("Joining the streams by tailrace.examples ...")
            start = time.perf_counter()
            joined = criteo_query.run(spark, directory)
            seconds = time.perf_counter() - start
    verdict = criteo_agreement.compare(told, joined)
    rows = _summary(told, verdict, seconds)
    terminal.show_parts(["", terminal.Pairs(rows, max(len(name) for name, _ in rows) + 2)])
    return verdict.right


def _summary(
    told: criteo_layout.Told, verdict: criteo_agreement.Verdict, seconds: float
) -> list[tuple[str, str]]:
    clicks = int((told["click"] == 1).sum())
    attributed = int(((told["attribution"] == 1) & told.in_stream).sum())
    of_file = f"{len(told):,} impressions, {clicks:,} clicks, {told.conversions:,} conversions"
    once = "each impression and each click came out once"
    if verdict.missing or verdict.twice:
        once = f"WRONG: {verdict.missing:,} impressions and clicks are missing, {verdict.twice:,} come twice"
    shares = "WRONG: those of a conversion don't sum to 1"
    if verdict.whole:
        shares = "those of each conversion sum to exactly 1"
    rows = [
        ("the file", of_file),
        ("joined", f"in {seconds:.1f} s, by two streaming queries"),
        ("rows", once),
        ("shares", shares),
    ]
    for one in verdict.agreements:
        counts, *reasons = one.lines()
        rows += [(one.name, counts), *(("", reason) for reason in reasons)]
    return [
        *rows,
        ("times of clicks", "those of their impressions: the layout has no others"),
        (
            "attribution",
            f"not compared: {attributed:,} lines say that the sale was credited to the ads at all",
        ),
    ]


def _say(line: str) -> None:
    print(line, flush=True)
