"""What `tailrace.rescale` refuses before it looks at any state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from tailrace.errors import TailraceStateError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.parametrize("checkpoint", ["s3a://bucket/checkpoint", "nowhere://bucket/checkpoint"])
def test_a_file_system_that_is_not_there(spark: SparkSession, checkpoint: str) -> None:
    with pytest.raises(TailraceStateError, match="TAILRACE_STATE_UNREADABLE"):
        tailrace.rescale(spark, checkpoint, 3)


@pytest.mark.parametrize("partitions", [0, -3, 100_001])
def test_a_number_that_cannot_be(spark: SparkSession, tmp_path: Path, partitions: int) -> None:
    with pytest.raises(tailrace.TailraceError, match="whole number from 1"):
        tailrace.rescale(spark, tmp_path, partitions)


def test_a_number_of_another_type(spark: SparkSession, tmp_path: Path) -> None:
    wrong: Any = "7"
    with pytest.raises(TypeError, match="partitions"):
        tailrace.rescale(spark, tmp_path, wrong)


def test_no_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TailraceStateError, match="TAILRACE_CHECKPOINT_NOT_FOUND"):
        tailrace.rescale(spark, tmp_path, 3)
