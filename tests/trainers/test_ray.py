"""Complete windows in Ray, in an environment of its own (dev/trainers.py)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest
import ray

from tailrace.reading import WindowReader, ray_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from landed_windows import LandedWindows


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    # Workers import what this process does.
    paths = os.environ["PYTHONPATH"]
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=200 * 2**20,
        _node_ip_address="127.0.0.1",
        runtime_env={"env_vars": {"PYTHONPATH": paths}},
        log_to_driver=False,
    )
    yield
    ray.shutdown()


def every(windows: LandedWindows) -> list[int]:
    return [one for hour in windows.ids for one in hour]


@pytest.mark.parametrize("parts", [1, 3])
def test_a_dataset_has_each_row_once(windows: LandedWindows, parts: int) -> None:
    reader = WindowReader(windows.path, columns=["id"], weights="weight", batch_size=4, shuffle=8)
    dataset = ray_dataset(reader, parts_per_window=parts)
    assert isinstance(dataset, ray.data.Dataset)
    rows = dataset.take_all()
    assert sorted(row["id"] for row in rows) == every(windows)
    assert {row["id"]: row["weight"] for row in rows} == {one: 1.0 + one % 2 for one in every(windows)}
    batches = list(dataset.iter_batches(batch_size=5, batch_format="numpy"))
    assert sum(len(batch["id"]) for batch in batches) == len(every(windows))


def test_an_empty_result_is_empty(windows: LandedWindows) -> None:
    assert ray_dataset(WindowReader(windows.path, where=pc.field("id") < 0)).take_all() == []


def test_the_guides_dataset_has_new_windows(
    windows: LandedWindows, defined: Callable[..., dict[str, Any]]
) -> None:
    names = defined("trainers", "ray")
    dataset, since = names["labelled"](windows.path)
    assert sorted(row["id"] for row in dataset.take_all()) == [one for one in every(windows) if one % 3 == 0]
    new = windows.land(5)
    dataset, _ = names["labelled"](windows.path, since)
    assert sorted(row["id"] for row in dataset.take_all()) == [one for one in new if one % 3 == 0]
