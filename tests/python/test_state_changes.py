"""A query whose state is changed between two starts: less rows, and another number of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tailrace
from served_clicks import CLICKED, SERVED, labels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.testing import StreamTest


@pytest.mark.contract
def test_a_query_goes_on_without_a_user_and_with_more_partitions(
    spark: SparkSession, stream_test: StreamTest
) -> None:
    served, clicks = stream_test.source(SERVED), stream_test.source(CLICKED)
    query = stream_test.query(labels(served.frame, clicks.frame))
    served.add((7, "12:00"), (8, "12:01"))
    clicks.add((7, "12:02"), (8, "12:03"))
    query.run()
    query.stop()
    erased = tailrace.erase(spark, query.checkpoint, "user = 7")
    assert [(side.side, side.erased) for side in erased.sides] == [("left", 1), ("right", 1)]
    assert tailrace.rescale(spark, query.checkpoint, 5).after == 5
    query.restart()
    query.advance("12:50")
    assert query.rows("user", "size(labels)") == [(8, 1)]
