"""kill -9 of each operator's campaign with the checkpoint in an object store (S3A on S3Proxy), or in HDFS.

`write_windows` lands its windows there too. `TAILRACE_KILLS` sets the kills of each, and runs all of them. By
default some are killed once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kill_campaigns import CAMPAIGNS
from killing import IS_LONG, kill_count
from places import StorePlace

import stores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from places import Place

    from stores import Store

pytestmark = pytest.mark.campaign

_KILLS = kill_count(1)

_SHORT_OVER_S3A = ("join", "write_windows")
_SHORT_OVER_HDFS = ("sync_join",)


def _over(short: tuple[str, ...]) -> pytest.MarkDecorator:
    chosen = CAMPAIGNS if IS_LONG else {name: CAMPAIGNS[name] for name in short}
    return pytest.mark.parametrize("campaign", chosen.values(), ids=chosen)


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with stores.run_s3(tmp_path_factory.mktemp("s3")) as store:
        yield store


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with stores.run_hdfs(tmp_path_factory.mktemp("hdfs")) as store:
        yield store


@_over(_SHORT_OVER_S3A)
def test_over_s3a(s3: Store, campaign: Callable[[Path, int, Place], None], tmp_path: Path) -> None:
    campaign(tmp_path, _KILLS, StorePlace(s3))


@_over(_SHORT_OVER_HDFS)
def test_over_hdfs(hdfs: Store, campaign: Callable[[Path, int, Place], None], tmp_path: Path) -> None:
    campaign(tmp_path, _KILLS, StorePlace(hdfs))
