"""Complete windows for trainers: one reader, and what makes a dataset of torch or of Ray of it.

    reader = tailrace.reading.WindowReader("/data/clicks", columns=["position", "clicked"])
    for batch in reader: ...                                   # pyarrow.RecordBatch
    for frame in reader.pandas(): ...                          # pandas.DataFrame
    loader = DataLoader(tailrace.reading.torch_dataset(reader), batch_size=None)
    dataset = tailrace.reading.ray_dataset(reader)

It needs neither a Spark session nor a JVM, and numpy beside pyarrow: the extra `reading`. Neither torch nor
Ray is imported before its function is called.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tailrace._bridge import arguments
from tailrace.reading import refusals
from tailrace.reading.folders import CompleteWindow
from tailrace.reading.reader import WindowReader

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    import pyarrow as pa
    from ray.data import Dataset
    from torch.utils.data import IterableDataset

__all__ = ["CompleteWindow", "WindowReader", "ray_dataset", "torch_dataset"]


def torch_dataset(
    reader: WindowReader, *, convert: Callable[[pa.RecordBatch], Any] | None = None
) -> IterableDataset[Any]:
    """Complete windows as an `IterableDataset` of torch, whose items are batches.

        dataset = tailrace.reading.torch_dataset(reader)
        loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=4)

    `batch_size=None` is needed: the reader makes the batches. Each worker process has another part of the
    rows of this reader's `rank`, in order of the windows. For several GPUs give the reader the process's rank
    and `world_size`.

    The dataset has `set_epoch`, `state_dict` and `load_state_dict`, as `WindowReader` has. Without worker
    processes take the state of the dataset. With them, take that of
    `torchdata.stateful_dataloader.StatefulDataLoader`, which asks the workers; resume with as many.

    Args:
        reader: with all options of what is read.
        convert: makes an item of a `pyarrow.RecordBatch`. None: a dict with a tensor for each column, all of
            them numbers or booleans without nulls; weights are in it, too.

    Returns:
        The dataset. It reads nothing before it is iterated over.

    Raises:
        TailraceError: torch isn't installed.
    """
    arguments.kind(reader, WindowReader, "reader")
    return _adapter("torch").WindowDataset(reader, convert)


def ray_dataset(reader: WindowReader, *, parts_per_window: int = 1) -> Dataset:
    """Complete windows as a `ray.data.Dataset`, with a task of Ray for each part of each window.

        dataset = tailrace.reading.ray_dataset(reader, parts_per_window=8)

    It has the windows that are complete now. Ray streams blocks in any order, unless
    `ray.data.ExecutionOptions.preserve_order` is set. There is no state: keep the `start` of the last of
    `reader.windows()`, and give the next reader a `since` after it.

    Args:
        reader: with all options of what is read, but not `follow`.
        parts_per_window: how many tasks read a window.

    Returns:
        The dataset. It reads rows when it is consumed.

    Raises:
        TailraceWatermarkError: no window is complete, or an option doesn't fit.
        TailraceError: Ray isn't installed.
    """
    arguments.kind(reader, WindowReader, "reader")
    call = "tailrace.reading.ray_dataset"
    if arguments.count(parts_per_window, "parts_per_window") < 1:
        raise arguments.refused(call, "parts_per_window", str(parts_per_window), "1 or more")
    if reader.follows:
        raise arguments.refused(call, "follow", "True", "False: a Dataset of Ray has an end")
    windows = reader.windows()
    if not windows:
        raise refusals.none_complete(reader.path)
    return _adapter("ray").dataset(reader, windows, parts_per_window)


def _adapter(library: str) -> ModuleType:
    try:
        return importlib.import_module(f"tailrace.reading._{library}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != library:
            raise
        raise refusals.package(library, "Install it with pip, as its own documentation says.") from error
