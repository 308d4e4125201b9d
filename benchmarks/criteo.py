"""Splits a file of the Criteo attribution data set into streams, joins them again, and compares.

    python benchmarks/criteo.py FILE        tab-separated, as it is published, compressed or not
    python benchmarks/criteo.py             a small sample in its layout, made on the spot

Each line of the data set has an impression and what became of it. `criteo_layout` makes of it what a site
would have, `criteo_query` joins it by two definitions, and `criteo_agreement` compares the results with the
file's own columns.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import criteo_agreement
import criteo_layout
import criteo_query
import criteo_sample
import session
from tailrace.commands import terminal


def run(file: Path | None, slices: int, memory: str) -> bool:
    """Splits, joins and compares, and shows what agrees and what doesn't.

    Streams, checkpoints and results live in a temporary directory, gone at the end.

    Args:
        file: in the layout of the Criteo attribution data set; None makes a small sample.
        slices: micro-batches of data, at least one.
        memory: heap of Spark's JVM, as Spark reads sizes.

    Returns:
        Whether each impression and each click came out once, with shares that sum to 1.

    Raises:
        LayoutError: the file isn't in the layout.
    """
    with tempfile.TemporaryDirectory(prefix="tailrace-criteo-") as scratch:
        directory = Path(scratch)
        if file is None:
            file = directory / "sample.tsv.gz"
            criteo_sample.write(file)
            _say("Making a sample in the layout of the Criteo attribution data set ...")
        _say("Splitting it into impressions, clicks and conversions ...")
        told = criteo_layout.load(file, directory, slices)
        _say("Starting a local Spark ...")
        spark = session.local(memory)
        _say("Joining the streams by tailrace.examples ...")
        start = time.perf_counter()
        joined = criteo_query.run(spark, directory)
        seconds = time.perf_counter() - start
        spark.stop()
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
    once = "each impression and each click was emitted once"
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


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE")
    parser.add_argument("--slices", type=int, default=10, help="micro-batches of data (default: %(default)s)")
    parser.add_argument("--memory", default="2g", help="heap of Spark's JVM (default: %(default)s)")
    asked = parser.parse_args()
    try:
        return 0 if run(asked.file, asked.slices, asked.memory) else 1
    except criteo_layout.LayoutError as error:
        print(f"criteo.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
