"""Features of `as_of` in Feast, in an environment of its own (dev/trainers.py)."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pandas as pd  # type: ignore[import-untyped]
import pytest
from feast import FeatureStore, RepoConfig

import local_spark
import tailrace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = local_spark.start("1g", local_spark.INTERPRETED)
    yield session
    session.stop()


def test_the_offline_and_the_online_store_have_what_as_of_has(
    spark: SparkSession, defined: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    def rows(columns: str, *values: tuple[object, ...]) -> DataFrame:
        at = "timestamp'2026-01-01 12:00:00Z' + make_dt_interval(0, 0, 0, second) AS at"
        frame = spark.createDataFrame(list(values), f"user_id long, {columns}, second int")
        return frame.selectExpr("* EXCEPT (second)", at)

    impressions = rows("item string", (7, "a", 10), (7, "b", 30), (8, "c", 40))
    profiles = rows("visits long", (7, 1, 5), (7, 2, 30), (7, 3, 31), (8, 9, 31))
    examples = tailrace.as_of(
        impressions, profiles, on="user_id", left_time="at", right_time="at", into="profile"
    ).selectExpr("user_id", "item", "at", "profile.visits")
    examples.coalesce(1).write.parquet(str(tmp_path / "examples"))
    config = RepoConfig(
        project="clicks",
        provider="local",
        registry=str(tmp_path / "registry.db"),
        online_store={"type": "sqlite", "path": str(tmp_path / "online.db")},
        entity_key_serialization_version=3,
    )
    store = FeatureStore(config=config)
    names = defined("trainers", "feast")
    names["define"](store, str(tmp_path / "examples"))
    entities = pd.DataFrame(
        [(row.user_id, row.item, pd.Timestamp(row.at).tz_localize("UTC")) for row in impressions.collect()],
        columns=["user_id", "item", "event_timestamp"],
    )
    found = store.get_historical_features(entity_df=entities, features=["profile:visits"]).to_df()
    expected = {row.item: row.visits for row in examples.collect()}
    assert dict(zip(found["item"], found["visits"], strict=True)) == expected == {"a": 1, "b": 2, "c": 9}
    store.materialize(pd.Timestamp("2026-01-01", tz="UTC"), pd.Timestamp("2026-01-02", tz="UTC"))
    online = store.get_online_features(
        features=["profile:visits"], entity_rows=[{"user_id": 7}, {"user_id": 8}]
    )
    assert online.to_dict()["visits"] == [2, 9]
