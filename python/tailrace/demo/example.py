"""One row of the demo's result, in words."""

# The types of pyarrow are incomplete.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

_COLUMNS = ["impression_id", "user_id", "item_id", "served_at", "position", "labels"]
_LABELS = 2


def sentence(files: Sequence[str]) -> str:
    """The first impression with two labels or more, or otherwise the first one, with its labels.

    Args:
        files: paths of the result's parquet files, with one row or more.
    """
    table = pq.ParquetDataset(sorted(files)).read(_COLUMNS)
    rows = table.sort_by([("served_at", "ascending"), ("impression_id", "ascending")])
    counts = pc.list_value_length(rows["labels"]).to_numpy()
    return _text(rows.slice(int(np.argmax(counts >= _LABELS)), 1).to_pylist()[0])


def _text(row: dict[str, Any]) -> str:
    labels = [f"{label['action']} at {_time(label['engaged_at'])}" for label in row["labels"]]
    happened = " and ".join(labels) if labels else "nothing"
    return (
        f"user {row['user_id']} saw item {row['item_id']} at {_time(row['served_at'])}, at position "
        f"{row['position']}. Within 30 minutes came {happened}. That is one row with {len(labels)} "
        f"label{'' if len(labels) == 1 else 's'}"
    )


def _time(moment: datetime) -> str:
    return f"{moment:%H:%M:%S}"
