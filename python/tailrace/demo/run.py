"""The demo from its data to its page."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.commands import terminal
from tailrace.demo import chart, comparison, data, example, oracle, query
from tailrace.demo.process import QueryProcess
from tailrace.demo.progress import HEADER, Batch, MicroBatch, read_batch, read_micro_batch
from tailrace.demo.summary import Summary
from tailrace.errors import TailraceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.demo.comparison import SparksJoin


def run_demo(
    rows: int, slices: int, out: Path, driver_memory: str = "2g", *, kill: bool = True, compare: bool = False
) -> bool:
    """Makes data, joins it as a stream, checks the result, and writes demo.png and demo.html.

    Shows a line per micro-batch while it works, and the summary and both paths at the end, on the standard
    output. Data, checkpoint and result live in a temporary directory, gone at the end.

    Args:
        rows: impressions to make, at least one.
        slices: micro-batches of data, at least one.
        out: directory of the chart and the page; made if missing.
        driver_memory: heap of Spark's JVM, as Spark reads sizes.
        kill: kill the query by SIGKILL in the middle of its data, and start it again.
        compare: run Spark's own join over the same data as well.

    Returns:
        Whether the result equals the brute-force answer.

    Raises:
        TailraceError: the session or the join was refused, the query failed in Tailrace, or `out` can't be
            written.
    """
    _write(out, {})
    with tempfile.TemporaryDirectory(prefix="tailrace-demo-") as scratch:
        directory = Path(scratch)
        _say(f"Making {rows:,} impressions and their engagements, in {slices} slices ...")
        workload = data.generate(directory, rows, slices)
        _say("Starting a local Spark ...")
        kill_after = slices // 2 if kill else None
        arriving = len(workload.impressions) + len(workload.engagements) + data.CLOSING_ROWS
        batches, files = _join(directory, driver_memory, kill_after, arriving)
        _say("Checking against brute force ...")
        result = oracle.read(files)
        verdict = oracle.compare(result, oracle.expected_groups(workload, query.AFTER_US))
        one = example.sentence(files) if verdict.equal else ""
        sparks = _compare(directory, driver_memory, arriving) if compare else None
    made = (len(workload.impressions), len(workload.engagements))
    summary = Summary(*made, batches, verdict, result.totals, one, kill_after, sparks)
    terminal.show_parts(["", summary.pairs(), ""])
    png = chart.draw(batches, kill_after)
    _write(out, {"demo.png": png, "demo.html": summary.page(png).encode()})
    return verdict.equal


def _write(out: Path, files: Mapping[str, bytes]) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (out / name).write_bytes(content)
            _say(str((out / name).resolve()))
    except OSError as error:
        raise TailraceError(
            f"The directory {out} can't be written: {error}. Choose another one by --out."
        ) from error


def _join(directory: Path, memory: str, kill_after: int | None, rows: int) -> tuple[list[Batch], list[str]]:
    """Runs Tailrace's join to its end, and returns its micro-batches and the result's files.

    Args:
        directory: of the streams.
        memory: heap of Spark's JVM.
        kill_after: the micro-batch after which the query is killed, while it works on the next one.
        rows: of both streams.
    """
    batches: list[Batch] = []
    _say(HEADER)
    with terminal.bar("joining") as reached:
        while True:
            with QueryProcess(directory, memory, query.Engine.TAILRACE) as process:
                for progress in process.progress():
                    batches.append(read_batch(progress))
                    _say(batches[-1].line())
                    reached(sum(batch.rows_in for batch in batches), rows)
                    if batches[-1].number == kill_after:
                        break
                else:
                    return batches, process.files
            _say("      Killed the query and its Spark (kill -9). Starting both again ...")


def _compare(directory: Path, memory: str, rows: int) -> SparksJoin:
    _say("The same by Spark's own join ...")
    with (
        terminal.bar("joining by Spark") as reached,
        QueryProcess(directory, memory, query.Engine.SPARK) as process,
    ):
        batches: list[MicroBatch] = []
        for progress in process.progress():
            batches.append(read_micro_batch(progress))
            _say(batches[-1].line())
            reached(sum(batch.rows_in for batch in batches), rows)
    return comparison.SparksJoin(batches, oracle.count(process.files))


def _say(line: str) -> None:
    print(line, flush=True)
