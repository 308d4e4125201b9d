"""What is pinned of the matrix's entries, in `tests/golden/pinned`.

    rows/OPERATOR.json         of each entry the digests of the rows that come out, by phase
    joins/ENTRY.json           `tailrace-join.json` of each join in its checkpoint
    plans/ENTRY.txt            its physical plan
    progress/OPERATOR.json     the keys of its progress: operators, their metrics, what is observed
    checkpoints/ENTRY.zip      its checkpoint at the end of the first phase, of those whose bytes differ

Rows are pinned by digests: as texts they would be megabytes. What has come out instead is in the failure.
"""

from __future__ import annotations

import difflib
import hashlib
import io
import json
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matrix.rows import FIRST, Rows
from matrix.runs import Run
from tailrace._bridge import calls

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from matrix.shape import Entry

PINNED = Path(__file__).parents[2] / "golden" / "pinned"
# Of the rows of all pins.
SEED = 0
# Those whose checkpoints are kept: one for each way in which settings and state differ.
CHECKPOINTS = (
    *("join-left", "join-before", "join-capped", "join-mark", "join-steps", "join-closing"),
    *("join-early", "join-horizons", "join-horizons_defer", "join-decided", "join-amended", "join-orphans"),
    *("join-amended_horizons", "join-hot", "join-inner_before", "join-inner_no_late_labels"),
    *("join-inner_pairs", "join-inner_hot", "join-eager", "join-eager_before", "join-then_as_of"),
    *("as_of-plain", "as_of-aged", "as_of-delayed", "as_of-aged_mark"),
    *("sync_join-plain", "sync_join-pairs", "sync_join-future_mark"),
    *("examples-one_label", "examples-two_labels", "examples-amended", "examples-orphans"),
    *("examples-since",),
    *("examples-features", "examples-sample", "examples-horizons", "examples-linear", "examples-last_touch"),
    "examples-sample_ratio",
    *("watermark-plain", "watermark-stamped_roster", "watermark-join", "replays-drop", "replays-forgetting"),
    *("recursion-fixpoint", "recursion-feedback_depth"),
)
_DIGITS = 12
_VARYING = (
    # Ids of expressions and plans, of streams, directories, and what a run is called.
    (r"#\d+L?", "#"),
    (r"plan_id=\d+", "plan_id="),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
    (r"file:/[^\s,\]]*", "FILE"),
    (r"(?<=[ \[(])/[\w./-]+/(query|out)\b", r"DIRECTORY/\1"),
    (r"\b\d{13}\b", "MILLIS"),
)


def digest(row: str) -> str:
    """A row's text, in short."""
    return hashlib.sha256(row.encode()).hexdigest()[:_DIGITS]


def digests(rows: Iterable[str]) -> list[str]:
    """Those of rows, in their own order."""
    return sorted(map(digest, rows))


def phases_of(entry: Entry) -> dict[str, list[str]]:
    """The digests of the rows of the first phase, and of the rest."""
    file = PINNED / "rows" / f"{entry.operator}.json"
    pinned: dict[str, list[str]] = json.loads(file.read_text())[entry.name]
    return pinned


def progress_of(entry: Entry) -> dict[str, Any]:
    """The keys of its progress."""
    file = PINNED / "progress" / f"{entry.operator}.json"
    pinned: dict[str, Any] = json.loads(file.read_text())[entry.name]
    return pinned


def plan_of(made: DataFrame | DataStreamWriter) -> str:
    """The physical plan of a stream, without what is another one in each run."""
    frame: Any = made if hasattr(made, "writeStream") else made._df
    execution: Any = frame._jdf.queryExecution()
    jvm: Any = frame.sparkSession._jvm
    text = str(jvm.PythonSQLUtils.explainString(execution, "simple"))
    return normal(text)


def normal(text: str) -> str:
    """A text without ids, directories and clocks."""
    for pattern, short in _VARYING:
        text = re.sub(pattern, short, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n"


def joins_of(checkpoint: Path) -> dict[str, Any]:
    """`tailrace-join.json` of each operator of a checkpoint."""
    files = sorted(checkpoint.glob("state/*/tailrace-join.json"))
    return {file.parent.name: _checked(normal(file.read_text())) for file in files}


def _checked(text: str) -> Any:  # noqa: ANN401 - it is JSON
    """The content of a file whose last line is a checksum, which pins nothing."""
    *head, body, _ = text.splitlines()
    return {"format": head, "content": json.loads(body)}


def keys_of(progress: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a query's progress, without Spark's own timings."""
    operators = {one["operatorName"]: sorted(one["customMetrics"]) for one in progress["stateOperators"]}
    observed = {name: _keys(value) for name, value in progress.get("observedMetrics", {}).items()}
    return {"operators": operators, "observed": observed}


def _keys(value: Any) -> Any:  # noqa: ANN401 - it is JSON
    if isinstance(value, dict):
        return {name: _keys(one) for name, one in sorted(value.items())}
    if isinstance(value, list):
        return [_keys(value[0])] if value else []
    return type(value).__name__


def packed(checkpoint: Path) -> bytes:
    """The files of a checkpoint, in an archive that has no times."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(file for file in checkpoint.rglob("*") if file.is_file()):
            # Spark's checksums beside them are written anew.
            if not file.name.endswith(".crc"):
                archive.writestr(zipfile.ZipInfo(str(file.relative_to(checkpoint))), file.read_bytes())
    return out.getvalue()


def unpack(entry: Entry, checkpoint: Path) -> None:
    """The kept checkpoint of an entry."""
    with zipfile.ZipFile(PINNED / "checkpoints" / f"{entry.name}.zip") as archive:
        archive.extractall(checkpoint)


def as_json(value: Any) -> str:  # noqa: ANN401 - it is JSON
    """A value as it is pinned."""
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


class EntryPins:
    """What is pinned of an entry, by one run of it.

    Attributes:
        plan: its physical plan; empty over Spark Connect.
        joins: `tailrace-join.json`, by operator.
        checkpoint: its checkpoint at the end of the first phase, packed.
        texts: the rows, by phase.
        rows: their digests.
        keys: those of its progress.
    """

    def __init__(self, spark: SparkSession, directory: Path, entry: Entry) -> None:
        with Run(spark, directory, entry, Rows(SEED)) as run:
            run.start()
            run.first()
            first = run.taken()
            run.stop()
            self.plan = "" if calls.is_connect(spark) else plan_of(run.definition())
            self.joins = joins_of(run.checkpoint)
            self.checkpoint = packed(run.checkpoint)
            run.start()
            run.rest()
            self.texts = {"first": first, "rest": run.taken()}
            told: dict[str, Any] = getattr(run.query, "progress", dict)()
        self.rows = {phase: digests(rows) for phase, rows in self.texts.items()}
        self.keys = keys_of(told) if told else {}

    def differences(self, entry: Entry) -> list[str]:
        """What isn't as it is pinned, in lines."""
        lines: list[str] = []
        for file, text in (
            (PINNED / "plans" / f"{entry.name}.txt", self.plan),
            (PINNED / "joins" / f"{entry.name}.json", as_json(self.joins) if self.joins else ""),
        ):
            lines += difference(file, text) if text else []
        wanted = phases_of(entry)
        for phase, rows in self.texts.items():
            if self.rows[phase] != wanted[phase]:
                lines.append(f"{phase}: {len(rows)} rows, {len(wanted[phase])} are pinned; not pinned are:")
                lines += [f"  {row}" for row in rows if digest(row) not in wanted[phase]][:8]
        known = as_json(progress_of(entry))
        lines += [] if as_json(self.keys) == known else unified("progress", known, as_json(self.keys))
        return lines


def difference(file: Path, found: str) -> list[str]:
    """The lines in which a text isn't the pinned one."""
    return unified(file.name, file.read_text(), found)


def unified(name: str, pinned: str, found: str) -> list[str]:
    """Those of two texts."""
    pair = (pinned.splitlines(), found.splitlines())
    told = list(difflib.unified_diff(*pair, "pinned", "found", lineterm="", n=1))
    return [f"{name} has changed:", *told[:60]] if told else []


def go_on(spark: SparkSession, directory: Path, entry: Entry) -> list[str]:
    """Starts an entry on its kept checkpoint. Returns the rows that come out from there."""
    with Run(spark, directory, entry, Rows(SEED)) as run:
        unpack(entry, run.checkpoint)
        for _ in FIRST:
            # The rows that it has read, by their numbers.
            run.feed()
            run.test.flush()
        run.start()
        run.rest()
        return run.taken()
