"""A shuffle in bounded memory."""

# The types of pyarrow are incomplete.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tailrace.reading.batches import Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa


def shuffled(batches: Iterable[pa.RecordBatch], rows: int, seed: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """The rows in another order, from a buffer of `rows` rows.

    A full buffer is permuted, half of it is emitted, and it is filled again. The order depends on the order
    of the rows and on the seed, and not on the batches that bring them, nor on numpy's version: `random_raw`
    of a bit generator never changes.

    Args:
        batches: of one schema.
        rows: the size of the buffer, at least 2.
        seed: whole numbers from 0 on.
    """
    generator = np.random.PCG64(np.random.SeedSequence(list(seed)))
    buffer = Rows()

    def permuted() -> pa.Table:
        table = buffer.take(buffer.count)
        return table.take(np.argsort(generator.random_raw(table.num_rows), kind="stable"))

    for batch in batches:
        rest = batch
        while rest.num_rows:
            room = min(rows - buffer.count, rest.num_rows)
            buffer.add(rest.slice(0, room))
            rest = rest.slice(room)
            if buffer.count == rows:
                table = permuted()
                yield from table.slice(0, rows // 2).to_batches()
                # A copy: a slice would keep the memory of the emitted half.
                buffer.add(*table.slice(rows // 2).take(np.arange(rows - rows // 2)).to_batches())
    if buffer.count:
        yield from permuted().to_batches()
