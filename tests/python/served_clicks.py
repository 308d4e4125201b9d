"""The join of the test kit's own tests: clicks of users, 30 minutes after something was served to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tailrace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SERVED = "user int, served_at timestamp"
CLICKED = "user int, clicked_at timestamp"


def labels(served: DataFrame, clicks: DataFrame, delay: str = "10 minutes") -> DataFrame:
    return tailrace.join(
        served.withWatermark("served_at", delay),
        clicks.withWatermark("clicked_at", delay),
        on="user",
        left_time="served_at",
        right_time="clicked_at",
        after="30 minutes",
        release_every="batch",
    )
