"""Runs one query in this process and writes down what it cost: `run_once.py SCRATCH`, for `runs.launch`."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tailrace
from label_queries import LABEL_QUERIES, ids
from measure import Jvm, StateSampler
from nexmark_queries import NEXMARK_QUERIES, whole
from queries import CHECKED, QUERIES, label_ids, session, stream
from runs import RunResult, RunSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_OPERATOR_TIMES = ("allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs")
_LIVE_BYTES = ("leftStoreBytes", "rightStoreBytes", "joinedStoreBytes", "amendableBytes")


def _conf(spec: RunSpec) -> dict[str, str]:
    return {
        "spark.master": spec.master,
        "spark.app.name": f"benchmark-{spec.engine}",
        "spark.driver.memory": spec.memory,
        "spark.sql.shuffle.partitions": str(spec.partitions),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "1000000",  # all of them; 100 by default
        "spark.local.dir": f"{spec.scratch}/local",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **spec.conf,
    }


def _start(spec: RunSpec, frame: DataFrame) -> StreamingQuery:
    if spec.engine in NEXMARK_QUERIES:
        checked: Callable[[DataFrame], DataFrame] = whole
    else:
        checked = ids if spec.engine in LABEL_QUERIES else CHECKED.get(spec.engine, label_ids)
    output = checked(frame) if spec.checked else frame
    writer = output.writeStream.option("checkpointLocation", spec.checkpoint or f"{spec.scratch}/checkpoint")
    writer = writer.trigger(availableNow=True)
    if spec.checked:
        return writer.format("parquet").option("path", f"{spec.scratch}/output").start()
    return writer.format("noop").start()


def _run(spec: RunSpec) -> RunResult:
    load = os.getloadavg()[0]
    spark = session(spec.engine, _conf(spec))
    jvm = Jvm.of_this_process()
    frame = _frame(spec, spark)
    for number in range(spec.warm):
        unmeasured = Path(spec.scratch) / f"warm-{number}"
        _start(replace(spec, checkpoint=str(unmeasured)), frame).awaitTermination()
        shutil.rmtree(unmeasured)
    with StateSampler(Path(spec.scratch) / "checkpoint", Path(spec.scratch) / "local") as sampler:
        cpu = jvm.cpu_seconds()
        begin = time.perf_counter()
        query = _start(spec, frame)
        query.awaitTermination()
        seconds = time.perf_counter() - begin
        cpu = jvm.cpu_seconds() - cpu
        rss = jvm.peak_rss_bytes()
    progress: list[dict[str, Any]] = [json.loads(p.json) for p in query.recentProgress]
    rows = sum(p["numInputRows"] for p in progress)
    if rows != spec.rows:
        raise RuntimeError(f"the query has read {rows} rows of {spec.rows}")
    operators = [o for p in progress for o in p["stateOperators"]]
    result = RunResult(
        engine=spec.engine,
        rows=rows,
        seconds=seconds,
        cpu_seconds=cpu,
        peak_rss_bytes=rss,
        written_bytes=sampler.checkpoint.written_bytes,
        written_files=sampler.checkpoint.written_files,
        checkpoint_peak_bytes=sampler.checkpoint.peak_bytes,
        checkpoint_final_bytes=sampler.checkpoint.live_bytes,
        local_peak_bytes=sampler.local_peak_bytes,
        live_peak_bytes=max(
            (sum(o["customMetrics"].get(m, 0) for m in _LIVE_BYTES) for o in operators), default=0
        ),
        batches=len(progress),
        batch_ms=[p["durationMs"]["triggerExecution"] for p in progress],
        operator_ms={name: sum(o[name] for o in operators) for name in _OPERATOR_TIMES},
        load=load,
        versions=_versions(spark),
    )
    spark.stop()
    return result


def _frame(spec: RunSpec, spark: SparkSession) -> DataFrame:
    if spec.engine in NEXMARK_QUERIES:
        return NEXMARK_QUERIES[spec.engine](spark, spec.data)
    left = stream(spark, f"{spec.data}/left", spec.delay, "l_")
    if spec.engine in LABEL_QUERIES:
        of_labels = sorted(Path(spec.data).glob("right-*"))
        labels = [stream(spark, str(path), spec.delay, f"r{i}_") for i, path in enumerate(of_labels)]
        return LABEL_QUERIES[spec.engine](left, labels)
    right = stream(spark, f"{spec.data}/right", spec.delay, "r_")
    return QUERIES[spec.engine](left, right, spec.window, spec.partitions)


def _versions(spark: SparkSession) -> dict[str, str]:
    def java(name: str) -> str:
        row = spark.sql(f"SELECT java_method('java.lang.System', 'getProperty', '{name}')").first()
        return str(row[0]) if row else "unknown"

    return {
        "spark": spark.version,
        "java": f"{java('java.vm.name')} {java('java.vm.version')}",
        "tailrace": tailrace.__version__,
        "jar_sha256": hashlib.sha256(tailrace.jar_path().read_bytes()).hexdigest(),
    }


def main(scratch: str) -> None:
    """Runs `scratch`/spec.json and leaves `scratch`/result.json."""
    path = Path(scratch)
    spec = RunSpec(**json.loads((path / "spec.json").read_text()))
    (path / "result.json").write_text(json.dumps(asdict(_run(spec))))


if __name__ == "__main__":
    main(sys.argv[1])
