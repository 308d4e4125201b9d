"""What a campaign tells `join_worker.py`: options of `tailrace.join`, and settings of the session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

WORKER = Path(__file__).with_name("join_worker.py")
# The test reads in Spark's logs which files each micro-batch has read.
KEEPS_LOGS = {"spark.sql.streaming.minBatchesToRetain": "10000"}


def configure(root: Path, settings: dict[str, str], **options: object) -> None:
    (root / "join.json").write_text(json.dumps([settings, options]))


def configured(root: Path) -> tuple[dict[str, str], dict[str, Any]]:
    settings, options = json.loads((root / "join.json").read_text())
    return settings, options
