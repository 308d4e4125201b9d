"""Late left rows where the join has changed since their right rows came."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tailrace
from streams import Row, Streams, groups

if TYPE_CHECKING:
    from tailrace.testing import StreamTest

_KEYS = range(8)


@pytest.mark.parametrize("delayed", [False, True])
def test_a_window_that_closed_before_it_grew_takes_no_late_row(
    stream_test: StreamTest, delayed: bool
) -> None:
    """One partition has evicted its right rows, which another one keeps for a release step."""
    streams = Streams(stream_test, delay="0 seconds")
    options = {"release_every": "40 seconds"}
    with streams.query(streams.join(after="30 seconds", **options)) as query:
        for second in (100, 115):
            streams.add([Row(second, 90, second)], [Row(second, 91, second)])
            streams.add(right=[Row(1000 + key, key, 84) for key in _KEYS if second == 100])
            query.run()
        query.stop()
        tailrace.rescale(stream_test.spark, query.checkpoint, 1)
        query.restart(streams.join(after="60 seconds", **options))
        if delayed:
            streams.add([Row(116, 90, 115)], [Row(116, 91, 115)])
            query.run()
        # At 115, windows of 30 seconds had closed for left rows up to 85.
        streams.add([Row(key, key, 80) for key in _KEYS])
        streams.add([Row(10 + key, key, 86) for key in _KEYS], [Row(2000 + key, key, 110) for key in _KEYS])
        query.run()
        assert query.total("lateLeftRows") == len(_KEYS)
        for second in (1000, 2000):
            streams.add([Row(900, 90, second)], [Row(900, 91, second)])
            query.run()
        found = [group for group in groups(query.rows()) if group[0] < 100]
        assert found == [(10 + key, [2000 + key]) for key in _KEYS]
