"""The settings of a query's state: when it matches rows, and whether the state is durable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

from streams import Row, Streams, groups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from tailrace.testing import StreamQuery, StreamTest

    Configure = Callable[[str, str], None]

DURABILITY = "spark.tailrace.state.durability"
STRATEGY = "spark.tailrace.join.strategy"
PARTITIONS = 2  # of the session's shuffles
END = ([Row(900, 9, 1000)], [Row(900, 9, 1000)])


@pytest.fixture
def streams(stream_test: StreamTest) -> Streams:
    streams = Streams(stream_test)
    streams.add([Row(1, 1, 100), Row(2, 2, 100)], [Row(11, 1, 110), Row(12, 2, 111)])
    return streams


@pytest.fixture
def configure(spark: SparkSession) -> Iterator[Configure]:
    """Sets a setting for the queries that the test starts after it. The setting is unset after the test."""
    keys = set()

    def configure(key: str, value: str) -> None:
        keys.add(key)
        spark.conf.set(key, value)

    yield configure
    for key in keys:
        spark.conf.unset(key)


def state_files(query: StreamQuery) -> list[str]:
    return [f.name for kind in ("*.run", "*.manifest") for f in (query.checkpoint / "state").rglob(kind)]


def test_without_durability_a_restart_begins_with_empty_stores_and_says_so(
    streams: Streams, configure: Configure
) -> None:
    configure(DURABILITY, "none")
    with streams.query(streams.join()) as query:
        query.run()
        assert query.total("lostVersions") == 0
        assert state_files(query) == []
        query.restart()
        # Keys 1 and 2 are lost; what comes after the restart is matched, and comes out, as ever.
        streams.add(*END)
        query.run()
        lost = query.total("lostVersions")
        assert lost > 0
        assert lost % PARTITIONS == 0
        assert groups(query.rows()) == []
        streams.add([Row(901, 9, 2000)], [Row(902, 9, 1020), Row(903, 9, 2000)])
        query.run()
        assert groups(query.rows()) == [(900, [900, 902])]
        assert query.total("lostVersions") == lost
        assert state_files(query) == []


def test_without_durability_a_query_that_never_stops_loses_nothing(
    streams: Streams, configure: Configure
) -> None:
    configure(DURABILITY, "none")
    with streams.query(streams.join()) as query:
        query.run()
        streams.add(*END)
        query.run()
        assert groups(query.rows()) == [(1, [11]), (2, [12])]
        assert query.total("lostVersions") == 0


def test_durable_state_is_read_without_durability(streams: Streams, configure: Configure) -> None:
    with streams.query(streams.join()) as query:
        query.run()
        configure(DURABILITY, "none")
        streams.add(*END)
        query.restart()
        query.run()
        assert groups(query.rows()) == [(1, [11]), (2, [12])]
        assert query.total("lostVersions") == 0


@pytest.mark.contract
@pytest.mark.parametrize(
    ("key", "value"),
    [
        (DURABILITY, "partial"),
        (STRATEGY, "clever"),
        ("spark.tailrace.state.compactionRuns", "1"),
        ("spark.tailrace.state.compactionRuns", "many"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_start(
    streams: Streams, configure: Configure, key: str, value: str
) -> None:
    configure(key, value)
    writer = streams.join().writeStream.format("noop")
    with pytest.raises(AnalysisException) as caught:
        writer.start()
    assert caught.value.getCondition() == "TAILRACE_CONF_INVALID"
    assert key in str(caught.value)
    assert value in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"before": "5 seconds"}, {"max_matches": 1}])
def test_both_strategies_give_the_same_groups(
    streams: Streams, configure: Configure, options: dict[str, str | int]
) -> None:
    queries = {}
    for strategy in ("lazy", "eager"):
        configure(STRATEGY, strategy)
        queries[strategy] = streams.query(streams.join(**options), strategy)
    batches: list[tuple[list[Row], list[Row]]] = [
        ([], []),  # what the streams begin with
        ([Row(3, 1, 112), Row(4, 5, 113)], [Row(13, 1, 109), Row(14, 2, 115), Row(15, 3, 116)]),
        ([Row(5, 1, 120)], [Row(16, 1, 121), Row(17, 5, 143), Row(18, 5, 144)]),
        END,
    ]
    with queries["lazy"] as lazily, queries["eager"] as eagerly:
        for left, right in batches:
            streams.add(left, right)
            lazily.run()
            eagerly.run()
            assert groups(eagerly.rows()) == groups(lazily.rows())
        assert [left for left, _ in groups(lazily.rows())] == [1, 2, 3, 4, 5]
        assert any(labels for _, labels in groups(lazily.rows()))
        found = lazily.total("matchedAtExpiry")
        assert found > 0
        assert lazily.total("matchedOnArrival") == lazily.total("joinedStoreBytes") == 0
        assert eagerly.total("matchedAtExpiry") == 0
        # END's two rows have found each other; their window is still open.
        assert eagerly.total("matchedOnArrival") == found + 1
        assert eagerly.total("joinedStoreBytes") > 0


@pytest.mark.parametrize(("was", "becomes"), [("lazy", "eager"), ("eager", "lazy"), ("auto", "eager")])
def test_a_restart_with_another_strategy_is_refused_by_name(
    streams: Streams, configure: Configure, was: str, becomes: str
) -> None:
    configure(STRATEGY, was)
    with streams.query(streams.join()) as query:
        query.run()
        streams.add(*END)
        configure(STRATEGY, becomes)
        query.restart()
        with pytest.raises(StreamingQueryException) as caught:
            query.run()
        assert "TAILRACE_CHECKPOINT_INCOMPATIBLE" in str(caught.value)
        assert f"`{STRATEGY}`" in str(caught.value)


def test_a_strategy_survives_a_restart(streams: Streams, configure: Configure) -> None:
    configure(STRATEGY, "eager")
    with streams.query(streams.join()) as query:
        query.run()
        streams.add(*END)
        query.restart()
        query.run()
        assert groups(query.rows()) == [(1, [11]), (2, [12])]
