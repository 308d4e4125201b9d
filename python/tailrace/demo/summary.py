"""The demo's result: numbers for the terminal, and one HTML page that needs no other file."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from tailrace._version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.demo.oracle import Verdict
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
        seconds: time from the query's start to its end.
        verdict: comparison with the brute-force answer.
        example: one row of the result, in words; empty if the result is wrong.
    """

    impressions: int
    engagements: int
    batches: Sequence[Batch]
    seconds: float
    verdict: Verdict
    example: str = ""

    def rows(self) -> list[tuple[str, str]]:
        """The numbers as (name, value with its unit)."""
        rows_in = sum(batch.rows_in for batch in self.batches)
        groups = sum(batch.groups_out for batch in self.batches)
        matched = sum(batch.groups_matched for batch in self.batches)
        fastest = max(self.batches, key=lambda batch: batch.rate)
        unmatched = f"{(groups - matched) / groups:.1%}" if groups else "no groups"
        return [
            ("rows in", f"{self.impressions:,} impressions, {self.engagements:,} engagements"),
            ("groups out", f"{groups:,}"),
            ("labels matched", f"{sum(batch.labels_out for batch in self.batches):,}"),
            ("unmatched share", unmatched),
            (
                "speed",
                f"{rows_in / self.seconds:,.0f} rows/s ({self.seconds:.1f} s, {len(self.batches)} batches)",
            ),
            (
                "fastest batch",
                f"{fastest.rate:,.0f} rows/s ({fastest.rows_in:,} rows in {fastest.seconds:.2f} s)",
            ),
            ("state at its peak", _state(max(self.batches, key=lambda batch: batch.state_bytes))),
            ("state at the end", _state(self.batches[-1])),
            ("memory for rows", f"{max(b.memory_bytes for b in self.batches) / 1e6:.2f} MB at most"),
            ("late rows", f"{sum(batch.late_rows for batch in self.batches):,}"),
            ("result", self.verdict.line()),
            *([("for example", self.example)] if self.example else []),
        ]

    def text(self) -> str:
        """The numbers as aligned lines."""
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)

    def page(self, chart: bytes) -> str:
        """The numbers, the chart and the micro-batches as HTML.

        Args:
            chart: a PNG; it is embedded.
        """
        embedded = base64.b64encode(chart).decode("ascii")
        return _TEMPLATES.get_template("demo.html").render(summary=self, chart=embedded, version=__version__)


def _state(batch: Batch) -> str:
    return (
        f"{batch.state_rows:,} rows of {batch.state_bytes / 1e6:.2f} MB, in files of "
        f"{batch.file_bytes / 1e6:.2f} MB"
    )
