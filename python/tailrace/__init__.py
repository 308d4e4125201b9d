"""Tailrace: event-time joins for Spark Structured Streaming that emit each row once, complete.

`configure` readies a session, `join` joins two streams in it, `examples` makes training examples with several
labels, `as_of` adds the newest row of another stream, `filter_replays` reads an at-least-once topic once,
`accurate_watermark` waits for the hosts that lag, `write_windows` lands windows that tell when they are
complete, `write_table` writes Delta and Iceberg tables, `recursively` feeds results back, `sync_join` joins
topics within seconds, `backfill` reads history before the live streams, `rescale` changes the number of a
checkpoint's state partitions, `erase` takes rows out of it, `export_state` and `import_state` make tables of
it and it of tables, `label_maturity` says how long labels take, `preflight` what a join would hold,
`reconcile` whether landed rows are those of the batch answer, and every refusal is a `TailraceError`.
On the command line, `tailrace doctor` says what an installation lacks and `tailrace demo` shows it at work.
"""

from tailrace._installation.jar import jar_path
from tailrace._version import __version__
from tailrace.as_of import as_of
from tailrace.attribution import Attribution, first_touch, last_touch, linear, position, time_decay
from tailrace.backfill import Backfill, backfill
from tailrace.erasing import erase
from tailrace.errors import (
    TailraceError,
    TailraceJoinError,
    TailraceMemoryError,
    TailraceRecursionError,
    TailraceReplayError,
    TailraceServerError,
    TailraceSessionError,
    TailraceStateError,
    TailraceTableError,
    TailraceVersionError,
    TailraceWatermarkError,
)
from tailrace.examples import Examples, examples
from tailrace.exchanging import export_state, import_state
from tailrace.join import join
from tailrace.maturity import label_maturity, merge_maturity
from tailrace.options import Reason
from tailrace.preflight import Preflight, preflight
from tailrace.reconcile import Reconciliation, reconcile
from tailrace.recursion import recursively
from tailrace.replay import (
    filter_replays,
    merge_stream_metadata,
    parse_stream_metadata,
    producer_id,
    source_partition,
    stream_metadata,
)
from tailrace.rescaling import rescale
from tailrace.session import configure
from tailrace.sync import sync_join
from tailrace.tables import write_table
from tailrace.watermark import accurate_watermark, stamp_watermark, stamped_watermark
from tailrace.windows import window_report, write_windows

__all__ = [
    "Attribution",
    "Backfill",
    "Examples",
    "Preflight",
    "Reason",
    "Reconciliation",
    "TailraceError",
    "TailraceJoinError",
    "TailraceMemoryError",
    "TailraceRecursionError",
    "TailraceReplayError",
    "TailraceServerError",
    "TailraceSessionError",
    "TailraceStateError",
    "TailraceTableError",
    "TailraceVersionError",
    "TailraceWatermarkError",
    "__version__",
    "accurate_watermark",
    "as_of",
    "backfill",
    "configure",
    "erase",
    "examples",
    "export_state",
    "filter_replays",
    "first_touch",
    "import_state",
    "jar_path",
    "join",
    "label_maturity",
    "last_touch",
    "linear",
    "merge_maturity",
    "merge_stream_metadata",
    "parse_stream_metadata",
    "position",
    "preflight",
    "producer_id",
    "reconcile",
    "recursively",
    "rescale",
    "source_partition",
    "stamp_watermark",
    "stamped_watermark",
    "stream_metadata",
    "sync_join",
    "time_decay",
    "window_report",
    "write_table",
    "write_windows",
]
