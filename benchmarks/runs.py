"""One run of one query: what it is given, what it gives back, how it is started in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOG_TAIL = 4000
_GRACE_SECONDS = 60


@dataclass(frozen=True)
class RunSpec:
    """What a run is given.

    Attributes:
        engine: a key of `queries.QUERIES`.
        data: what `workload.prepare` made.
        rows: how many rows that is, to check that the query has read them all.
        window: the join's window, as Spark reads durations.
        delay: the watermark's delay on both sides, likewise.
        master: Spark's.
        partitions: of the shuffle.
        memory: the JVM's heap, as Spark reads sizes.
        conf: further settings of the session.
        scratch: an empty directory for checkpoint, local state and output.
        checked: write the output to `scratch`/output as parquet, for the oracle, instead of to the noop sink.
        checkpoint: where the query's checkpoint is; empty for `scratch`/checkpoint.
        warm: how often the whole query runs before in the same JVM, on other checkpoints.
    """

    engine: str
    data: str
    rows: int
    window: str
    delay: str
    master: str
    partitions: int
    memory: str
    conf: dict[str, str]
    scratch: str
    checked: bool = False
    checkpoint: str = ""
    warm: int = 0


@dataclass(frozen=True)
class RunResult:
    """What a run gives back; `benchmarks/README.md` defines each number.

    Attributes:
        engine: as in the spec.
        rows: that the query has read, both sides.
        seconds: from the query's start to its end.
        cpu_seconds: of the JVM in that time.
        peak_rss_bytes: of the JVM.
        written_bytes: of files that appeared in the checkpoint's state directory.
        written_files: their number.
        checkpoint_peak_bytes: the most that the state directory held after a micro-batch.
        checkpoint_final_bytes: what it held in the end.
        local_peak_bytes: the most that the state took on local disk after a micro-batch.
        live_peak_bytes: the most that the operator itself says it keeps, before compression; Tailrace only.
        batches: micro-batches, those without data too.
        batch_ms: what each of them took.
        operator_ms: the stateful operators' own times, summed over batches and partitions.
        load: the machine's load average of one minute before the run.
        versions: of Spark, Java, Tailrace and its jar.
    """

    engine: str
    rows: int
    seconds: float
    cpu_seconds: float
    peak_rss_bytes: int
    written_bytes: int
    written_files: int
    checkpoint_peak_bytes: int
    checkpoint_final_bytes: int
    local_peak_bytes: int
    live_peak_bytes: int
    batches: int
    batch_ms: list[int]
    operator_ms: dict[str, int]
    load: float
    versions: dict[str, str]


def launch(spec: RunSpec, timeout: float, more: Mapping[str, str] | None = None) -> RunResult:
    """Runs a spec in a fresh Python process with a fresh JVM.

    Args:
        spec: what to run.
        timeout: in seconds.
        more: environment variables.

    Raises:
        RuntimeError: the run failed or took too long; with the end of what it printed.
    """
    scratch = Path(spec.scratch)
    scratch.mkdir(parents=True)
    (scratch / "spec.json").write_text(json.dumps(asdict(spec)))
    # Each of these would change a run behind the settings that the report names.
    hidden = {"PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_LOCAL_DIRS"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden} | dict(more or {})
    os.sync()  # what the run before has left to be written is not this one's to pay for
    with (scratch / "log.txt").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("run_once.py")), spec.scratch],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            code: int | str = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = f"none, stopped after {timeout:.0f} s"
        finally:
            _end(process)
    if code != 0:
        tail = (scratch / "log.txt").read_text()[-_LOG_TAIL:]
        raise RuntimeError(f"{spec.engine} failed (exit code {code}):\n{tail}")
    return RunResult(**json.loads((scratch / "result.json").read_text()))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Waits until nothing of a run is left: the JVM outlives its Python process, and cleans up."""
    deadline = time.monotonic() + (_GRACE_SECONDS if process.poll() is not None else 0)
    try:
        while time.monotonic() < deadline:
            os.killpg(process.pid, 0)
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()
