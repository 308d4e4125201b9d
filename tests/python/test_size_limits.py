"""What breaks first: each rule, its number, and the order of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tailrace.sizing import Load, Prices, size

# Nothing is near a limit here.
EASY = Load(
    left=20_000.0,
    right=10_000.0,
    left_bytes=200,
    right_bytes=200,
    after=3600.0,
    trigger=10.0,
    partitions=64,
    cores=32,
)


def test_an_easy_load_breaks_nothing() -> None:
    assert [limit.name for limit in size(EASY).limits if limit.broken] == []


@pytest.mark.parametrize(
    ("name", "change", "setting"),
    [
        ("time of a micro-batch", {"left": 2e6, "partitions": 256, "cores": 6, "after": 320.0}, "more cores"),
        ("longest task", {"left": 2e6, "partitions": 2, "cores": 2000}, "more partitions"),
        ("driver", {"partitions": 60_000, "cores": 60_000}, "fewer partitions"),
        ("landing of files", {"windows_open": 500}, "coalesce"),
        ("release of left rows", {"after": 86_400.0, "release_every": 0.0}, "release_every"),
        ("PUT requests", {"writes": 10.0}, "fewer partitions"),
        ("local disk of an executor", {"executor_disk": 1e6}, "larger disks"),
        ("heap of an executor", {"executor_memory": 1e6}, "spark.executor.memory"),
        ("heap of the driver", {"origins": 8_000_000, "driver_memory": 1e9}, "spark.driver.memory"),
        ("recovery of a lost executor", {"recovery": 1.0}, "smaller executors"),
    ],
)
def test_each_limit_breaks_first_where_it_has_to(name: str, change: dict[str, Any], setting: str) -> None:
    first = size(replace(EASY, **change)).breaks_first
    assert first.name == name
    assert first.broken
    assert first.value > first.limit
    assert setting in first.setting
    assert first.then


def test_busy_cores_break_first_where_compaction_keeps_them_from_the_tasks() -> None:
    load = replace(EASY, left=2e6, right=1e6, after=86_400.0, partitions=2000, cores=20)
    limit = next(limit for limit in size(load).limits if limit.name == "busy cores")
    assert limit.broken
    assert limit.value == size(load).busy.total
    assert limit.limit == 20


@pytest.mark.parametrize("name", ["time of a micro-batch", "longest task", "busy cores", "PUT requests"])
def test_the_number_of_events_is_the_one_at_which_it_breaks(name: str) -> None:
    def limit_at(rows: float) -> bool:
        share = rows / EASY.rows
        load = replace(EASY, left=EASY.left * share, right=EASY.right * share)
        return next(limit for limit in size(load).limits if limit.name == name).broken

    events = next(limit for limit in size(EASY).limits if limit.name == name).events
    assert events is not None
    assert not limit_at(events * 0.99)
    assert limit_at(events * 1.01)


def test_what_breaks_at_fewer_events_comes_first() -> None:
    events = [limit.events for limit in size(EASY).limits]
    known = [number for number in events if number is not None]
    assert known == sorted(known)
    assert events[: len(known)] == known
    assert len(known) < len(events)  # the driver's time doesn't depend on events


def test_what_is_broken_whatever_comes_is_named_before_all() -> None:
    first = size(replace(EASY, partitions=60_000, cores=60_000)).limits
    assert first[0].events is None
    assert first[0].broken


def test_limits_that_nobody_asks_for_are_not_named() -> None:
    names = {limit.name for limit in size(EASY).limits}
    assert names == {
        "time of a micro-batch",
        "busy cores",
        "longest task",
        "driver",
        "release of left rows",
        "PUT requests",
    }
    assert "release of left rows" not in {limit.name for limit in size(replace(EASY, eager=True)).limits}


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 1e99, "100k"])
def test_what_is_no_number(wrong: Any) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match="left has to be a number"):
        Load(left=wrong, right=1, left_bytes=1, right_bytes=1, after=1)
    with pytest.raises(ValueError, match="The price put has to be a number"):
        Load(left=1, right=1, left_bytes=1, right_bytes=1, after=1, prices=Prices(put=wrong))
