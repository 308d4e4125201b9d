"""Examples whose streams give nothing: all of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from example_frames import SCHEMA, examples, ids
from streams import at

if TYPE_CHECKING:
    from tailrace.testing import StreamTest


def test_examples_come_out_when_all_streams_are_silent(stream_test: StreamTest) -> None:
    served, clicked, profiles = (stream_test.source(SCHEMA) for _ in range(3))
    frames = [source.frame.withWatermark("at", "1 second") for source in (served, clicked, profiles)]
    made = examples(frames[0], close_after="200 milliseconds").label(
        "click", frames[1], time="at", after="1 day"
    )
    made = made.features("profile", frames[2], time="at")
    with stream_test.query(made.stream()) as query:
        served.add((1, 7, at(10)), (2, 7, at(20)))
        clicked.add((5, 7, at(15)))
        profiles.add((9, 7, at(3)))
        deadline = time.monotonic() + 60
        while len(query.rows()) < 2:
            assert time.monotonic() < deadline
            query.run()
        rows = query.rows()
        assert ids(rows, "click") == {1: [5], 2: []}
        assert {row["profile"]["id"] for row in rows} == {9}
        # What comes for them later is late; what comes behind them waits as ever.
        served.add((3, 7, at(20)), (4, 7, at(21)))
        while len(query.rows()) < 3:
            assert time.monotonic() < deadline
            query.run()
        assert sorted(row["id"] for row in query.rows()) == [1, 2, 4]
