"""Complete windows in torch and torchdata, in an environment of their own (dev/trainers.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader

from tailrace import TailraceWatermarkError
from tailrace.reading import WindowReader, torch_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from landed_windows import LandedWindows


def reader(windows: LandedWindows, **options: Any) -> WindowReader:  # noqa: ANN401 - as they are there
    return WindowReader(windows.path, columns=["id", "label"], weights="weight", batch_size=3, **options)


def ids(batches: Iterable[dict[str, torch.Tensor]]) -> list[int]:
    return [int(one) for batch in batches for one in batch["id"]]


def every(windows: LandedWindows) -> list[int]:
    return [one for hour in windows.ids for one in hour]


def test_batches_are_tensors(windows: LandedWindows) -> None:
    dataset = torch_dataset(reader(windows))
    assert isinstance(dataset, IterableDataset)
    batch = next(iter(DataLoader(dataset, batch_size=None)))
    assert {name: one.dtype for name, one in batch.items()} == {
        "id": torch.int64,
        "label": torch.bool,
        "weight": torch.float64,
    }
    assert batch["weight"].tolist() == [1.0, 2.0, 1.0]
    # Their memory is theirs.
    batch["id"] += 1


@pytest.mark.parametrize(("workers", "context"), [(0, ""), (1, "fork"), (3, "fork"), (2, "spawn")])
def test_worker_processes_have_each_row_once(windows: LandedWindows, workers: int, context: str) -> None:
    options = {"multiprocessing_context": context} if workers else {}
    found = []
    for rank in range(2):
        dataset = torch_dataset(reader(windows, rank=rank, world_size=2, shuffle=8))
        found += ids(DataLoader(dataset, batch_size=None, num_workers=workers, **options))
    assert sorted(found) == every(windows)


def stateful(windows: LandedWindows, workers: int) -> StatefulDataLoader[Any]:
    dataset = torch_dataset(reader(windows, shuffle=8))
    return StatefulDataLoader(dataset, batch_size=None, num_workers=workers)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("left", [0, 1, 4, 7])
def test_a_stateful_loader_resumes(windows: LandedWindows, workers: int, left: int) -> None:
    whole = list(stateful(windows, workers))
    first = stateful(windows, workers)
    running = iter(first)
    taken = [next(running) for _ in range(len(whole) - left)]
    state = first.state_dict()
    # Another hour that is complete when the job resumes.
    new = windows.land(5)
    second = stateful(windows, workers)
    second.load_state_dict(state)
    found = ids(second)
    assert sorted(ids(taken) + found) == every(windows)
    assert sorted(found[-5:]) == new
    # As the guide says: torchdata begins anew after the end of a pass.
    third = stateful(windows, workers)
    third.load_state_dict(second.state_dict())
    assert sorted(ids(third)) == every(windows)


def test_the_state_of_a_dataset_in_this_process(windows: LandedWindows) -> None:
    dataset = torch_dataset(reader(windows))
    running = iter(DataLoader(dataset, batch_size=None))
    taken = [next(running) for _ in range(4)]
    other = torch_dataset(reader(windows))
    other.load_state_dict(dataset.state_dict())
    assert ids(taken) + ids(DataLoader(other, batch_size=None)) == every(windows)
    # Each further pass is whole.
    assert ids(other) == every(windows)


def test_a_dataset_whose_rows_other_processes_read_knows_no_state(windows: LandedWindows) -> None:
    dataset = torch_dataset(reader(windows))
    next(iter(DataLoader(dataset, batch_size=None, num_workers=1)))
    with pytest.raises(TailraceWatermarkError, match="StatefulDataLoader") as refusal:
        dataset.state_dict()
    assert refusal.value.condition == "TAILRACE_WINDOWS_UNREAD"


def test_an_epoch_has_another_order_in_workers_too(windows: LandedWindows) -> None:
    dataset = torch_dataset(reader(windows, shuffle=100))
    orders = []
    for epoch in (0, 1, 0):
        dataset.set_epoch(epoch)
        orders.append(ids(DataLoader(dataset, batch_size=None, num_workers=1)))
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[1]) == every(windows)


def test_columns_that_no_tensor_can_have(windows: LandedWindows) -> None:
    with pytest.raises(TailraceWatermarkError, match="`convert`") as refusal:
        next(iter(torch_dataset(WindowReader(windows.path, columns=["name"]))))
    assert (refusal.value.condition, refusal.value.parameters["column"]) == (
        "TAILRACE_WINDOWS_TENSOR",
        "name",
    )
    names = torch_dataset(
        WindowReader(windows.path, columns=["name"], where=pc.field("id") < 2),
        convert=lambda batch: batch["name"].to_pylist(),
    )
    assert list(names) == [["n0", "n1"]]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_guides_training_resumes(
    windows: LandedWindows, tmp_path: Path, defined: Callable[..., dict[str, Any]], workers: int
) -> None:
    names = defined("trainers", "torch")
    torch.manual_seed(1)
    checkpoint = tmp_path / "checkpoint.pt"
    first = names["train"](windows.path, checkpoint, batches=2, workers=workers)
    assert 0 < len(first) < len(every(windows))
    assert sorted(first + names["train"](windows.path, checkpoint, workers=workers)) == every(windows)
    bias = torch.load(checkpoint)["model"]["bias"]
    assert torch.isfinite(bias).all()
