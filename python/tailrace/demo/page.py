"""The demo's result as one HTML page that needs no other file."""

from __future__ import annotations

import base64
from html import escape
from string import Template
from typing import TYPE_CHECKING

from tailrace._version import __version__

if TYPE_CHECKING:
    from tailrace.demo.summary import Summary

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>tailrace demo</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color:
#222; } table { border-collapse: collapse; margin: 1rem 0 2rem; }
th, td { padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #ddd; text-align: left; font-weight: normal;
} .batches td, .batches th { text-align: right; font-variant-numeric: tabular-nums; }
.verdict { padding: .5rem 1rem; border-left: .4rem solid $colour; background: #f6f6f6; }
img { max-width: 100%; }
</style>
</head>
<body>
<h1>tailrace demo</h1>
<p>Impressions (what was served) joined with engagements (what users did) by
<code>tailrace.join(..., on=["user_id", "item_id"], after="30 minutes")</code>: one row per impression, with
all its labels, once, when its window closes. tailrace $version.</p>
<p class="verdict">$verdict</p>
<table>$summary</table>
<img alt="Rows in, groups out and state size over the micro-batches" src="data:image/png;base64,$chart">
<h2>Micro-batches</h2>
<p>State MB are the waiting rows and their keys before compression, files MB the files that hold them.</p>
<table class="batches">
<tr><th>batch</th><th>rows in</th><th>rows/s</th><th>groups out</th><th>labels out</th><th>late rows</th>
<th>state rows</th><th>state MB</th><th>files MB</th><th>seconds</th><th>watermark</th></tr>
$batches</table>
</body>
</html>
""")


def render(summary: Summary, chart: bytes) -> str:
    """Renders the page.

    Args:
        summary: the run.
        chart: a PNG; it is embedded.
    """
    return _PAGE.substitute(
        version=escape(__version__),
        colour="#2e7d32" if summary.verdict.equal else "#c62828",
        verdict=escape(summary.verdict.line()),
        summary="".join(f"<tr><th>{escape(n)}</th><td>{escape(v)}</td></tr>\n" for n, v in summary.rows()),
        chart=base64.b64encode(chart).decode("ascii"),
        batches="".join(
            f"<tr><td>{b.number}</td><td>{b.rows_in:,}</td><td>{b.rate:,.0f}</td><td>{b.groups_out:,}</td>"
            f"<td>{b.labels_out:,}</td><td>{b.late_rows:,}</td><td>{b.state_rows:,}</td>"
            f"<td>{b.state_bytes / 1e6:.2f}</td><td>{b.file_bytes / 1e6:.2f}</td>"
            f"<td>{b.seconds:.2f}</td><td>{escape(b.watermark)}</td></tr>\n"
            for b in summary.batches
        ),
    )
