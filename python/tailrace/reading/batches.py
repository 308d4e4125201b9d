"""Batches of equal length."""

# The types of pyarrow are incomplete.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def rebatched(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of `rows` rows each. The last one may have fewer.

    A column has at most 2 GiB of text or bytes in a batch: rows with more are in several.
    """
    buffer = Rows()
    for batch in batches:
        buffer.add(batch)
        while buffer.count >= rows:
            yield from buffer.take(rows).combine_chunks().to_batches()
    if buffer.count:
        yield from buffer.take(buffer.count).combine_chunks().to_batches()


def without_first(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """All rows but the first `rows`."""
    for batch in batches:
        skipped = min(rows, batch.num_rows)
        rows -= skipped
        if skipped < batch.num_rows:
            yield batch.slice(skipped)


class Rows:
    """Rows in order."""

    def __init__(self) -> None:
        self.count: int = 0
        self._batches: list[pa.RecordBatch] = []

    def add(self, *batches: pa.RecordBatch) -> None:
        """Adds rows behind the others."""
        for batch in batches:
            if batch.num_rows:
                self._batches.append(batch)
                self.count += batch.num_rows

    def take(self, rows: int) -> pa.Table:
        """Removes the first `rows` rows; there are at least that many."""
        taken: list[pa.RecordBatch] = []
        self.count -= rows
        at = 0
        while rows:
            batch = self._batches[at]
            part = min(rows, batch.num_rows)
            taken.append(batch.slice(0, part))
            rows -= part
            if part < batch.num_rows:
                self._batches[at] = batch.slice(part)
            else:
                at += 1
        del self._batches[:at]
        return pa.Table.from_batches(taken)
