"""Training examples against brute force, as streams and as batch DataFrames."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from example_cases import EVENT, IMPRESSION, random_case, streamed, values
from tailrace.testing import StreamTest

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def _check(spark: SparkSession, folder: Path, seed: int, *, horizons: bool = False) -> None:
    case = random_case(seed, horizons=horizons)
    with StreamTest(spark, folder, "12:00") as test:
        rows = streamed(case, test, random.Random(seed))
    impressions = spark.createDataFrame(list(map(values, case.lefts)), IMPRESSION)
    frames = {
        name: spark.createDataFrame(list(map(values, rows)), EVENT) for name, rows in case.events.items()
    }
    batch = [row.asDict(recursive=True) for row in case.define(impressions, frames).batch().collect()]
    expected = case.expected()
    for label, found in (("batch", case.found(batch)), ("stream", case.found(rows))):
        for left in case.lefts:
            assert found[left.id] == expected[left.id], (seed, label, left, case.labels)
        assert len(found) == len(expected), (seed, label)


@pytest.mark.parametrize("seed", [1])
def test_labels_of_random_streams_are_those_of_brute_force(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    _check(spark, tmp_path, seed)


@pytest.mark.long
def test_labels_of_many_random_streams(spark: SparkSession, tmp_path: Path) -> None:
    for seed in range(100, 100 + int(os.environ.get("SEEDS", "3"))):
        _check(spark, tmp_path / str(seed), seed)


@pytest.mark.parametrize("seed", [6])
def test_versions_of_random_streams_are_those_of_brute_force(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    _check(spark, tmp_path, seed, horizons=True)


@pytest.mark.long
def test_versions_of_many_random_streams(spark: SparkSession, tmp_path: Path) -> None:
    for seed in range(100, 100 + int(os.environ.get("SEEDS", "3"))):
        _check(spark, tmp_path / str(seed), seed, horizons=True)
