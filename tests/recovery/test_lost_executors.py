"""Each operator on a standalone cluster over an object store (S3A), while executors and workers are lost.

Executors are killed, or stalled until the driver gives them up and then go on; workers are killed with their
executors. Speculation and dynamic allocation are on. `TAILRACE_KILLS` sets the faults of each operator, and
runs all of them. By default the label join has two: marks and hosts are on the driver.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from cluster import run_cluster
from kill_campaigns import CAMPAIGNS
from killing import IS_LONG, kill_count
from places import StorePlace

import stores

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.campaign

_FAULTS = kill_count(2)
_WORKERS = 4
_SHORT = ("join",)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stores.Store]:
    with stores.run_s3(tmp_path_factory.mktemp("s3")) as store:
        yield store


@pytest.mark.parametrize("operator", CAMPAIGNS if IS_LONG else _SHORT)
def test_output_after_lost_executors_equals_the_oracle(
    store: stores.Store, operator: str, tmp_path: Path
) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    with run_cluster(folder, _WORKERS) as cluster:
        CAMPAIGNS[operator](tmp_path, _FAULTS, StorePlace(store, cluster))
    assert cluster.struck
    print(operator, dict(Counter(cluster.struck)))
