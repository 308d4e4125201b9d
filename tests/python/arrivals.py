"""How a test puts a file into a folder that a query streams from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

_BEGIN = 1_600_000_000


def arrive(folder: Path, number: int, table: pa.Table) -> None:
    """Writes the folder's file of that number, which is read after those of lower ones."""
    # Spark lists a folder and takes what it finds: a file appears whole or not at all.
    hidden = folder / f".{number:06d}.tmp"
    pq.write_table(table, hidden)
    # It reads them in the order of their times.
    os.utime(hidden, (_BEGIN + number, _BEGIN + number))
    hidden.rename(folder / f"{number:06d}.parquet")
