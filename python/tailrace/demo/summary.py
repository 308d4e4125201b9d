"""The demo's result: numbers for the terminal, and one HTML page that needs no other file."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from tailrace._version import __version__
from tailrace.commands.terminal import Pairs
from tailrace.demo.comparison import median_rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.demo.comparison import SparksJoin
    from tailrace.demo.oracle import Totals, Verdict
    from tailrace.demo.progress import Batch

_TEMPLATES = Environment(
    loader=PackageLoader("tailrace.demo"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True)
class Summary:
    """All of a run.

    Attributes:
        impressions: left rows made.
        engagements: right rows made.
        batches: the micro-batches, in order; at least one.
        verdict: comparison with the brute-force answer.
        totals: what is in the result.
        example: one row of the result, in words; empty if the result is wrong.
        killed_after: the micro-batch after which the query was killed and started again; none if it wasn't.
        sparks: Spark's own join over the same streams; none if it wasn't run.
    """

    impressions: int
    engagements: int
    batches: Sequence[Batch]
    verdict: Verdict
    totals: Totals
    example: str = ""
    killed_after: int | None = None
    sparks: SparksJoin | None = None

    @property
    def seconds(self) -> float:
        """The duration of all micro-batches, without the starts of Spark."""
        return sum(batch.seconds for batch in self.batches)

    def rows(self) -> list[tuple[str, str]]:
        """The numbers as (name, value with its unit)."""
        rows_in = sum(batch.rows_in for batch in self.batches)
        groups = self.totals.groups
        fastest = max(self.batches, key=lambda batch: batch.rate)
        unmatched = f"{(groups - self.totals.matched) / groups:.1%}" if groups else "no groups"
        return [
            ("rows in", f"{self.impressions:,} impressions, {self.engagements:,} engagements"),
            ("groups out", f"{groups:,}"),
            ("labels matched", f"{self.totals.labels:,}"),
            ("unmatched share", unmatched),
            (
                "speed",
                (
                    f"{rows_in / self.seconds:,.0f} rows/s ({self.seconds:.1f} s, {len(self.batches)} "
                    "batches, the first of each start in a cold JVM)"
                ),
            ),
            ("median batch", f"{median_rate(self.batches):,.0f} rows/s"),
            (
                "fastest batch",
                f"{fastest.rate:,.0f} rows/s ({fastest.rows_in:,} rows in {fastest.seconds:.2f} s)",
            ),
            ("state at its peak", _state(self.batches)),
            ("state at the end", _state(self.batches[-1:])),
            ("memory for rows", f"{max(b.memory_bytes for b in self.batches) / 1e6:.2f} MB at most"),
            ("late rows", f"{sum(batch.late_rows for batch in self.batches):,}"),
            ("result", self.verdict.line()),
            *([("killed", self._killed())] if self.killed_after is not None else []),
            *([("for example", self.example)] if self.example else []),
            *([("Spark's own join", self.sparks.line(median_rate(self.batches)))] if self.sparks else []),
        ]

    def _killed(self) -> str:
        after = f"by kill -9 after micro-batch {self.killed_after}, and started again"
        return f"{after}: nothing is lost, nothing is there twice" if self.verdict.equal else after

    def pairs(self) -> Pairs:
        """The numbers for the terminal."""
        rows = self.rows()
        return Pairs(rows, max(len(name) for name, _ in rows) + 2)

    def page(self, chart: bytes) -> str:
        """The numbers, the chart and the micro-batches as HTML.

        Args:
            chart: a PNG; it is embedded.
        """
        embedded = base64.b64encode(chart).decode("ascii")
        return _TEMPLATES.get_template("demo.html").render(summary=self, chart=embedded, version=__version__)


def _state(batches: Sequence[Batch]) -> str:
    """The most of each, in whichever batch it was."""
    return (
        f"{max(batch.state_rows for batch in batches):,} rows, "
        f"{max(batch.state_bytes for batch in batches) / 1e6:.2f} MB, in files of "
        f"{max(batch.file_bytes for batch in batches) / 1e6:.2f} MB"
    )
