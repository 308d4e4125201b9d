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
    folder.mkdir(parents=True, exist_ok=True)
    # Spark lists a folder and takes what it finds: a file appears whole or not at all.
    hidden = folder / f".{number:06d}.tmp"
    pq.write_table(table, hidden)
    # It reads them in the order of their times.
    os.utime(hidden, (_BEGIN + number, _BEGIN + number))
    hidden.rename(folder / f"{number:06d}.parquet")


def held(root: Path) -> Path:
    """Where a file is, by side, that only arrives at `let_in`.

    It moves the watermark past all rows before it. They come out in the micro-batch after that of the file,
    which has no data. Spark begins with none such after a restart: a process that is killed between the two
    would leave them in the state.
    """
    return root / "held"


def let_in(root: Path) -> None:
    """Lets the files arrive that are held back."""
    for path in sorted(held(root).glob("*/*.parquet")):
        path.rename(root / path.parent.name / path.name)
