"""The constants of a sizing, each with the measurement or the decision that it comes from.

Times are of the machines of `benchmarks/results`: a core of an AMD EPYC or an Intel Xeon of a cloud.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Constant:
    """A number, its meaning, and the file that it comes from.

    Attributes:
        value: in `unit`.
        unit: of the value.
        means: its meaning.
        source: a path of the repository.
    """

    value: float
    unit: str
    means: str
    source: str


_PARTITIONS = "benchmarks/results/partitions.txt"
_SHAPES = "benchmarks/results/partitions-other-shapes.txt"
_SLICES = "benchmarks/results/feature-label-2600000-200-slices-30-minutes.txt"
_STRATEGIES = "benchmarks/results/strategies-2600000-20-slices-30-minutes.txt"
_FAN_IN_8 = "benchmarks/results/fan-in-8-2600000-200-slices.txt"
_DRIVER = "benchmarks/results/driver-fan-in.txt"
_README = "README.md"
_RELEASE = "jvm/docs/adr/014-release-steps.md"
_ONE_FILE = "jvm/docs/adr/016-manifest-and-run-in-one-file.md"
_RECOVERY = "benchmarks/results/recovery.txt"
_PUT = "jvm/docs/adr/013-one-put-a-file.md"

# Time of a micro-batch.
BATCH = Constant(0.098, "s", "a micro-batch of a scan and a shuffle to two partitions", _SLICES)
DRIVER_PARTITION = Constant(
    0.27e-3, "s", "a task in the driver, and without work: its scheduling", _PARTITIONS
)
SCAN = Constant(0.0347, "s", "CPU of a micro-batch's tasks without rows and partitions", _PARTITIONS)
TASK_PARTITION = Constant(5.68e-3, "s", "CPU of a partition and micro-batch without rows", _PARTITIONS)
SHUFFLED_ROW = Constant(0.0, "s", "CPU of a row in scan and shuffle, beside its bytes", _PARTITIONS)
SHUFFLED_BYTE = Constant(4.83e-9, "s", "CPU of a byte of a row in scan and shuffle", _SHAPES)
JOINED_ROW = Constant(0.12e-6, "s", "CPU of a row in the label join, beside its bytes", _PARTITIONS)
JOINED_BYTE = Constant(10.4e-9, "s", "CPU of a byte of a row in the label join", _SHAPES)
EAGER_MATCH = Constant(2.0e-6, "s", "CPU of a match that is found on arrival and written", _STRATEGIES)

# Releasing left rows, and compaction.
PAGE_IN_ORDER = Constant(6e-6, "s", "CPU of a page of right rows, where a release reads all pages", _RELEASE)
PAGE_SOUGHT = Constant(16e-6, "s", "CPU of a page that is sought, where it reads few of them", _RELEASE)
RELEASED_ROW = Constant(3e-6, "s", "CPU of a left row that is released, without pages", _RELEASE)
PAGE_BYTES = Constant(
    0.85 * 16_384,
    "bytes",
    "rows in a page of 16 KiB, as far as it is filled",
    _RELEASE,
)
PROBES = Constant(0.7, "", "pages that a left row asks for, of one in each section", _RELEASE)
FAN_IN = Constant(32, "runs", "that a compaction merges into one", "jvm/docs/adr/005-compaction.md")
REWRITTEN_ROW = Constant(1.2e-6, "s", "CPU of a row that a compaction writes again", _FAN_IN_8)

# State.
ROW_OVERHEAD = Constant(10.4, "bytes", "of a row in the state, beside its own", _PARTITIONS)
ROW_GROWTH = Constant(
    1.056, "", "bytes in the state for a byte of a row, whose values don't compress", _PARTITIONS
)
EAGER_LEFT = Constant(23, "bytes", "of a left row's key in the index of eager matching", _STRATEGIES)
RETAINED = Constant(100, "batches", "whose files stay: Spark's minBatchesToRetain", "benchmarks/README.md")

# Requests.
PUTS = Constant(1, "requests", "a partition and micro-batch", _ONE_FILE)
INLINE = Constant(8 * 2**20, "bytes", "of a micro-batch's rows that are in a version's one file", _ONE_FILE)
PART_BYTES = Constant(64 * 2**20, "bytes", "of a part of a larger PUT: S3A's default", _PUT)
DRIVER_PUTS = Constant(2, "requests", "of Spark a micro-batch: offsets and commits", _PUT)

# Recovery.
STREAMS = Constant(64, "streams", "by which an executor reads its partitions", _RECOVERY)
STREAM = Constant(70e6, "bytes/s", "of a stream of an object store", _RECOVERY)

# Memory of a task.
BUFFER = Constant(64 * 2**20, "bytes", "spark.tailrace.state.batchBufferBytes, by default", _README)
CACHE = Constant(
    128 * 2**20, "bytes", "spark.tailrace.state.blockCacheBytes, of an executor, by default", _README
)
MEMORY_FRACTION = Constant(0.6, "", "of the heap that Spark gives to tasks: spark.memory.fraction", _README)

# The driver.
ORIGIN = Constant(0.261 / 800_000, "s", "of the driver for an origin that a micro-batch has seen", _DRIVER)
ORIGIN_BYTES = Constant(126.4e6 / 800_000, "bytes", "of the driver for an origin: two tables", _DRIVER)
TASK_HOST = Constant(0.056 / 50e6, "s", "of the driver for a host and a task that has read of it", _DRIVER)
HOST_BYTES = Constant(480, "bytes", "of the driver for a host", _README)
LANDED_AT_ONCE = Constant(128, "files", "that land side by side", _DRIVER)
LANDING_CALLS = Constant(2 * 1.127 / 0.96, "calls", "one after the other for a file that lands", _DRIVER)


def table() -> list[tuple[str, Constant]]:
    """All constants, by name, in their order here."""
    return [(name, value) for name, value in globals().items() if isinstance(value, Constant)]
