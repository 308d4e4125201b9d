"""A function of `foreachBatch` whose rows a test reads. Over Spark Connect it runs in another process."""

from __future__ import annotations

import pickle
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

Rows = list[dict[str, Any]]


class KeptBatches:
    """Keeps the rows of each batch in a file.

    Args:
        folder: of these files alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        rows = [row.asDict() for row in frame.collect()]
        (self._folder / f"{time.time_ns()}").write_bytes(pickle.dumps((batch, rows)))

    def batches(self) -> list[tuple[int, Rows]]:
        """The batches since the last call, in the order in which they came."""
        taken: list[tuple[int, Rows]] = []
        for file in sorted(self._folder.iterdir()):
            taken.append(pickle.loads(file.read_bytes()))  # noqa: S301  our own bytes
            file.unlink()
        return taken

    def rows(self) -> Rows:
        """The rows of these batches."""
        return [row for _, rows in self.batches() for row in rows]
