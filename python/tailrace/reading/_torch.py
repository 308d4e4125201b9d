"""Complete windows as a dataset of torch. Imported only where one is made: torch is no requirement."""

# torch isn't installed where types are checked, and the types of pyarrow are incomplete.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportUntypedBaseClass=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import torch
from torch.utils.data import IterableDataset, get_worker_info

from tailrace.reading import refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tailrace.reading.reader import WindowReader


class WindowDataset(IterableDataset):  # type: ignore[misc]
    """Batches of complete windows, see `tailrace.reading.torch_dataset`."""

    def __init__(self, reader: WindowReader, convert: Callable[[pa.RecordBatch], Any] | None) -> None:
        super().__init__()
        self._reader = reader
        self._convert = convert or tensors
        self._loaded: Mapping[str, Any] | None = None
        # The reader of the newest pass in this process.
        self._running: WindowReader | None = None

    def __iter__(self) -> Iterator[Any]:
        """A pass. In a worker process of a DataLoader it has that worker's part of the rows."""
        worker = get_worker_info()
        of, rank = (1, 0) if worker is None else (worker.num_workers, worker.id)
        reader = self._running = self._reader.sharded(rank, of)
        if self._loaded is not None:
            reader.load_state_dict(self._loaded)
            self._loaded = None
        return map(self._convert, reader)

    def set_epoch(self, epoch: int) -> None:
        """Sets the number of the next pass, as `WindowReader.set_epoch` does."""
        self._reader.set_epoch(epoch)

    def state_dict(self) -> Mapping[str, Any]:
        """The place after the last batch that this process was given.

        Raises:
            TailraceWatermarkError: this process reads nothing: worker processes do.
        """
        if self._loaded is not None:
            return self._loaded
        if self._running is None:
            raise refusals.unread()
        return self._running.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next pass of this process begin where a state was taken."""
        self._loaded = state


def tensors(batch: pa.RecordBatch) -> dict[str, torch.Tensor]:
    """The columns of a batch by name; numbers and booleans without nulls.

    Raises:
        TailraceWatermarkError: a column has another type, or a null.
    """
    return {name: _tensor(name, batch.column(name)) for name in batch.schema.names}


def _tensor(name: str, column: pa.Array[Any]) -> torch.Tensor:
    kind = column.type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not number or column.null_count:
        reason = f"the type {kind}" if not number else f"{column.null_count} nulls in a batch"
        raise refusals.tensor(name, reason)
    # A copy: Arrow's memory can't be written to.
    return torch.from_numpy(column.to_numpy(zero_copy_only=False).copy())
