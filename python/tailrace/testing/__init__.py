"""Tools for tests of pipelines: streams of given rows, a clock that the test moves, crashes at each step.

pytest finds the fixtures on its own (`tailrace_pytest`); the rest works without them:

    def test_a_click_joins_its_impression(stream_test):
        served = stream_test.source("user int, served_at timestamp")
        clicks = stream_test.source("user int, clicked_at timestamp")
        query = stream_test.query(my_examples(served.frame, clicks.frame))

        served.add((7, "12:00"))
        clicks.add((7, "12:01"))
        query.run()
        assert query.rows() == []
        query.advance("12:40")
        assert query.rows("user", "size(labels)") == [(7, 1)]
"""

from __future__ import annotations

from tailrace.testing.clock import at
from tailrace.testing.comparison import assert_stream_equals_batch
from tailrace.testing.crashes import crash_at_every_step
from tailrace.testing.query import StreamQuery
from tailrace.testing.streams import Source, StreamTest

__all__ = [
    "Source",
    "StreamQuery",
    "StreamTest",
    "assert_stream_equals_batch",
    "at",
    "crash_at_every_step",
]
