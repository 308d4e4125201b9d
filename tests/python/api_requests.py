"""A report with a source, a sink and a window, and the routes that take reports and decisions."""

from __future__ import annotations

from watermark_servers import T, report, sink, source

REPORTS = "/v1/apps/clicks/reports"
OVERRIDES = "/v1/apps/clicks/overrides"
WINDOW = {
    "operator": "sink",
    "start": T - 60,
    "end": T,
    "expected": 2,
    "passed": 1,
    "missing": [{"host": "h2", "progress": None}],
    "late_rows": 12,
}
FULL = report(
    source({"h1": T}, roster=["h1", "h2"], completeness="0.5", input_low_watermark=T + 5),
    sink({"0": T - 1}),
    windows=[WINDOW],
)
