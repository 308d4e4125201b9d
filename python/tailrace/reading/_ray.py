"""Complete windows as a dataset of Ray. Imported only where one is made: Ray is no requirement."""

# Ray isn't installed where types are checked, and the types of pyarrow are incomplete.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import ray.data

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.reading.folders import CompleteWindow
    from tailrace.reading.reader import WindowReader


def dataset(reader: WindowReader, windows: Sequence[CompleteWindow], parts: int) -> ray.data.Dataset:
    """A task of Ray for each part of each window."""
    units = [{"window": at, "part": part} for at in range(len(windows)) for part in range(parts)]
    readers = [reader.sharded(part, parts) for part in range(parts)]
    read = partial(_read, readers, list(windows))
    items = ray.data.from_items(units, override_num_blocks=len(units))
    return items.map_batches(read, batch_size=1, batch_format="pyarrow")


def _read(
    readers: Sequence[WindowReader], windows: Sequence[CompleteWindow], units: pa.Table
) -> Iterator[pa.Table]:
    for unit in units.to_pylist():
        for batch in readers[unit["part"]].of_window(windows[unit["window"]]):
            yield pa.Table.from_batches([batch])
