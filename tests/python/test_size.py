"""The arithmetic of `tailrace size`: what follows from a load, and how it changes with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tailrace.sizing import Load, Prices, constants, size
from tailrace.sizing.state import release, state

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.sizing import Size

# As large as makes 100 bytes in the state.
ROW = (100 - constants.ROW_OVERHEAD.value) / constants.ROW_GROWTH.value
SMALL = Load(
    left=2000.0,
    right=1000.0,
    left_bytes=ROW,
    right_bytes=ROW,
    after=3600.0,
    delay=60.0,
    trigger=20.0,
    partitions=10,
    cores=4,
    release_every=40.0,
)
LARGE = Load(
    left=3.3e6, right=1.7e6, left_bytes=200, right_bytes=200, after=86_400, partitions=2000, cores=200
)


def test_rows_wait_for_window_delay_trigger_and_half_of_a_step() -> None:
    found = size(SMALL).state
    seconds = 3600 + 60 + 20 + 20
    assert found.left_rows == 2000 * seconds
    assert found.right_rows == 1000 * seconds
    assert found.bytes == pytest.approx(3000 * seconds * 100)
    assert found.partition_bytes == pytest.approx(found.bytes / 10)


def test_a_right_row_waits_for_what_is_before_too_and_with_eager_matching_for_that_alone() -> None:
    lazy = state(replace(SMALL, before=600.0), 10)
    assert lazy.right_rows == 1000 * (3600 + 600 + 100)
    eager = state(replace(SMALL, before=600.0, eager=True, matches=0.25), 10)
    assert eager.right_rows == 1000 * (600 + 100)
    assert eager.matched_rows == 2000 * 0.25 * (3600 + 100)
    assert eager.left_rows == lazy.left_rows


def test_rows_are_written_again_each_time_a_window_has_32_times_more_micro_batches() -> None:
    def rewrites(window: float) -> int:
        return state(replace(SMALL, after=window), 10).rewrites

    assert [rewrites(batches * 20.0) for batches in (31, 33, 1023, 1025)] == [0, 1, 1, 2]
    once, twice = (state(replace(SMALL, after=batches * 20.0), 10) for batches in (31, 33))
    assert (once.written_bytes, twice.written_bytes) == pytest.approx((3000 * 100, 2 * 3000 * 100))


def test_a_file_is_on_disk_until_its_last_row_has_gone() -> None:
    found = state(replace(SMALL, after=31 * 20.0), 10)
    assert found.local_bytes - found.bytes == pytest.approx(3000 * 100 * 20)
    merged = state(replace(SMALL, after=33 * 20.0), 10)
    assert merged.local_bytes - merged.bytes == pytest.approx(3000 * 100 * 20 * 32)
    kept = 100 * 20 * found.written_bytes
    assert found.checkpoint_bytes - found.local_bytes == pytest.approx(kept)


@pytest.mark.parametrize(
    ("window", "step", "measured"),
    # ADR 14: pages and microseconds of a left row, the middle of what was measured.
    [
        (86_400.0, 0.0, (22.65, 362.0)),
        (86_400.0, 1350.0, (0.5, 5.8)),
        (1800.0, 0.0, (1.55, 12.0)),
        (1800.0, 30.0, (0.4, 5.6)),
    ],
)
def test_a_release_reads_what_was_measured(window: float, step: float, measured: tuple[float, float]) -> None:
    # 2,083 left and 1,041 right rows a micro-batch of ten seconds, in one partition.
    load = replace(LARGE, left=208.3, right=104.1, after=window, delay=0.0, release_every=step)
    found = release(load, 1, state(load, 1).runs)
    micros = (constants.RELEASED_ROW.value + found.row_seconds) * 1e6
    assert (found.pages, micros) == pytest.approx(measured, rel=0.25)


def test_cores_are_the_cpu_of_the_rows_of_a_second() -> None:
    busy = size(SMALL).busy
    of_a_row = constants.SHUFFLED_ROW.value + ROW * constants.SHUFFLED_BYTE.value
    assert busy.scan_and_shuffle == pytest.approx(3000 * of_a_row)
    assert busy.compaction == pytest.approx(
        3000 * constants.REWRITTEN_ROW.value
    )  # 180 micro-batches a window
    assert busy.tasks == pytest.approx((10 * constants.TASK_PARTITION.value + constants.SCAN.value) / 20)
    parts = (busy.scan_and_shuffle, busy.join, busy.release, busy.compaction, busy.tasks)
    assert busy.total == pytest.approx(sum(parts))


def test_a_micro_batch_is_the_driver_and_the_greater_of_shared_work_and_longest_task() -> None:
    takes = size(SMALL).batch
    busy = size(SMALL).busy
    task = constants.TASK_PARTITION.value + 0.03
    driver = constants.BATCH.value + 10 * constants.DRIVER_PARTITION.value + 2 * 0.03
    assert takes.driver == pytest.approx(driver)
    assert takes.spread == pytest.approx(driver + busy.rows * 20 / (4 - busy.compaction) + 3 * task)
    assert takes.seconds == max(takes.spread, driver + takes.longest_task)
    assert takes.release.rows == 200 * 40
    one_partition = size(replace(SMALL, partitions=1)).batch
    assert one_partition.seconds == pytest.approx(one_partition.driver + one_partition.longest_task)


def test_the_driver_waits_for_its_own_files() -> None:
    def more(load: Load) -> float:
        return size(load).batch.driver - size(SMALL).batch.driver

    assert more(replace(SMALL, origins=800_000)) == pytest.approx(0.03 + 0.261)
    merged = 10 * 10_000 * constants.TASK_HOST.value
    assert more(replace(SMALL, hosts=10_000)) == pytest.approx(0.03 + merged)
    # 2,000 files at 30 ms a call, as it was measured.
    assert more(replace(SMALL, windows_open=200)) == pytest.approx(1.127)


def test_requests_are_a_put_a_partition_those_of_compaction_and_the_drivers() -> None:
    few = replace(SMALL, after=20.0 * 20)
    parts = state(few, 10).written_bytes * 20 / constants.PART_BYTES.value
    assert size(few).needs.puts * 20 == pytest.approx(10 * constants.PUTS.value + 2 + parts)
    assert size(replace(few, origins=1, hosts=1)).needs.puts * 20 == pytest.approx(
        10 * constants.PUTS.value + 4 + parts
    )
    parts = state(SMALL, 10).written_bytes * 20 / constants.PART_BYTES.value
    assert size(SMALL).needs.puts * 20 == pytest.approx(10 * (constants.PUTS.value + 1 / 32) + 2 + parts)


def test_a_lost_executors_partitions_are_read_by_the_free_cores_of_the_others() -> None:
    load = replace(SMALL, partitions=64, cores=16, executor_cores=4, download=4e6)
    one = state(load, 64).local_bytes / 64 / 1e6 + 0.03
    # Of 64 partitions on four executors 16 are lost, and twelve cores are left: two rounds.
    assert size(load).needs.recovery == pytest.approx(2 * one)


def test_a_row_comes_out_after_delay_step_and_micro_batches() -> None:
    sized = size(SMALL)
    assert sized.needs.row_latency == pytest.approx(60 + 20 + 30 + sized.batch.seconds)
    assert sized.needs.row_latency_most == pytest.approx(60 + 40 + 40 + sized.batch.seconds)


def test_a_tasks_memory_is_bounded_by_its_buffer() -> None:
    few = size(SMALL).needs.task_memory
    pages = state(SMALL, 10).runs * constants.PAGE_BYTES.value
    assert few == pytest.approx(300 * 100 * 20 + 200 * 100 * 40 + pages)
    many = size(replace(SMALL, left=2e6, right=1e6)).needs.task_memory
    assert many == pytest.approx(2 * constants.BUFFER.value + pages)


def test_costs_are_of_the_prices_that_are_given() -> None:
    assert size(SMALL).needs.cost is None
    sized = size(replace(SMALL, prices=Prices(put=0.005, gb_month=0.03, core_hour=0.1)))
    costs = sized.needs.costs
    assert costs["PUT requests"] == pytest.approx(sized.needs.puts * 86_400 / 1000 * 0.005)
    assert costs["storage"] == pytest.approx(sized.state.checkpoint_bytes / 1e9 * 0.03 / 30)
    assert costs["cores"] == pytest.approx(4 * 24 * 0.1)
    assert sized.needs.cost == pytest.approx(sum(costs.values()))
    assert "GET requests" not in costs


@pytest.mark.parametrize(
    ("number", "field", "factor"),
    [
        (lambda s: s.state.bytes, "left", 2.0),
        (lambda s: s.state.bytes, "right_bytes", 2.0),
        (lambda s: s.state.bytes, "after", 2.0),
        (lambda s: s.state.bytes, "delay", 2.0),
        (lambda s: s.busy.total, "right", 2.0),
        (lambda s: s.busy.total, "left_bytes", 2.0),
        (lambda s: s.busy.total, "trigger", 0.5),
        (lambda s: s.batch.seconds, "left", 4.0),
        (lambda s: s.batch.seconds, "cores", 0.1),
        (lambda s: s.batch.driver, "partitions", 2.0),
        (lambda s: s.batch.driver, "latency", 2.0),
        (lambda s: s.needs.puts, "partitions", 2.0),
        (lambda s: s.needs.puts, "trigger", 0.5),
        (lambda s: s.needs.recovery, "after", 4.0),
        (lambda s: s.needs.recovery, "download", 0.5),
        (lambda s: s.needs.row_latency, "delay", 2.0),
    ],
)
def test_more_of_a_load_takes_more(number: Callable[[Size], float], field: str, factor: float) -> None:
    value = getattr(LARGE, field) * factor
    change: dict[str, Any] = {field: int(value) if field in {"partitions", "cores"} else value}
    more = replace(LARGE, **change)
    assert number(size(more)) > number(size(LARGE))


def test_suggestions_keep_within_the_trigger_where_that_can_be() -> None:
    for rate in (1e3, 1e5, 1e6):
        sized = size(Load(left=rate, right=rate / 2, left_bytes=200, right_bytes=200, after=3600))
        assert sized.partitions >= sized.cores - 3
        assert sized.batch.seconds < 10
        assert not any(limit.broken for limit in sized.limits)
        assert sized.load.partitions == sized.partitions
    assert size(SMALL).partitions == 10
    assert size(SMALL).cores == 4


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"left": 0.0}, "left has to be above 0, and is 0."),
        ({"trigger": -1.0}, "trigger has to be above 0"),
        ({"delay": -1.0}, "delay has to be 0 or more"),
        ({"partitions": 0}, "partitions has to be above 0"),
        ({"executor_disk": 0.0}, "executor_disk has to be above 0"),
        ({"after": 0.0}, "the join has no window"),
        ({"release_every": 7200.0}, "release_every is longer than the window"),
        ({"prices": Prices(put=-1.0)}, "The price put has to be 0 or more"),
    ],
)
def test_a_load_that_makes_no_sense_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        replace(SMALL, **change)
