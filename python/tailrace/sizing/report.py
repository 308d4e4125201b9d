"""The output of `tailrace size`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tailrace.commands.terminal import Pairs
from tailrace.sizing import constants
from tailrace.sizing.quantities import show_bytes, show_count, show_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.sizing.load import Load
    from tailrace.sizing.sized import Size

_DAY = 86_400
_NAME = 18


def as_json(sized: Size) -> str:
    """One JSON object; numbers in rows, bytes and seconds."""
    found: dict[str, Any] = asdict(sized)
    found["state"]["rows"] = sized.state.rows
    found["busy"]["total"] = sized.busy.total
    found["needs"]["cost"] = sized.needs.cost
    found["breaks_first"] = sized.breaks_first.name
    for entry, limit in zip(found["limits"], sized.limits, strict=True):
        entry["broken"] = limit.broken
    return json.dumps(found, indent=2)


def as_pairs(sized: Size, asked: Load) -> Pairs:
    """For people.

    Args:
        sized: the result.
        asked: the load as it was given: missing values were suggested.
    """
    return Pairs(list(_lines(sized, asked)), _NAME)


def constants_text() -> str:
    """The table of constants, each with its source."""
    lines: list[str] = []
    for name, constant in constants.table():
        lines.append(f"{name:<18}{constant.value:<12.4g} {constant.unit:<9} {constant.means}")
        lines.append(f"{'':<41}{constant.source}")
    return "\n".join(lines)


def _lines(sized: Size, asked: Load) -> Iterator[tuple[str, str]]:
    yield from _query(sized, asked)
    yield "", ""
    yield from _state(sized)
    yield "", ""
    yield from _work(sized)
    yield "", ""
    yield from _needs(sized)
    yield "", ""
    first = sized.breaks_first
    yield "breaks first", f"{first}"
    yield "", f"then {first.then}"
    yield "", f"change: {first.setting}"
    for limit in sized.limits[1:]:
        yield ("broken too" if limit.broken else "after that"), str(limit)


def _query(sized: Size, asked: Load) -> Iterator[tuple[str, str]]:
    load = sized.load
    yield (
        "rows",
        (
            f"{show_count(load.left)}/s left of {show_bytes(load.left_bytes)}, "
            f"{show_count(load.right)}/s right of {show_bytes(load.right_bytes)}"
        ),
    )
    steps = f"each {show_seconds(load.step)}" if load.step else "with each micro-batch"
    yield (
        "join",
        (
            f"window {show_seconds(load.window)}, delay {show_seconds(load.delay)}, trigger "
            f"{show_seconds(load.trigger)}, {'eager' if load.eager else 'lazy'}, rows leave {steps}"
        ),
    )
    yield "partitions", f"{sized.partitions:,}{'' if asked.partitions else ', suggested'}"
    yield (
        "cores",
        (
            f"{sized.cores:,}{'' if asked.cores else ', suggested'}: {sized.needs.executors:,} executors of "
            f"{load.executor_cores}"
        ),
    )


def _state(sized: Size) -> Iterator[tuple[str, str]]:
    waits, partitions = sized.state, sized.partitions
    yield (
        "state",
        (
            f"{show_count(waits.rows)} rows, {show_bytes(waits.bytes)}; a partition "
            f"{show_count(waits.rows / partitions)} rows, {show_bytes(waits.partition_bytes)}, "
            f"{waits.runs:.0f} files"
        ),
    )
    yield (
        "local disk",
        f"{show_bytes(waits.local_bytes)} in all, {show_bytes(sized.needs.executor_disk)} an executor",
    )
    yield (
        "object store",
        (
            f"{show_bytes(waits.checkpoint_bytes)}; {show_bytes(waits.written_bytes)}/s are written, each "
            f"row {1 + waits.rewrites} times"
        ),
    )


def _work(sized: Size) -> Iterator[tuple[str, str]]:
    busy, takes = sized.busy, sized.batch
    yield "busy cores", f"{_cores(busy.total)}, without reading the source and writing the sink"
    for name, cores in (
        ("scan, shuffle", busy.scan_and_shuffle),
        ("join", busy.join),
        ("release", busy.release),
        ("compaction", busy.compaction),
        ("tasks, commits", busy.tasks),
    ):
        yield f"  {name}", _cores(cores)
    yield (
        "micro-batch",
        (
            f"{show_seconds(takes.seconds)} of {show_seconds(sized.load.trigger)}: the driver "
            f"{show_seconds(takes.driver)}, the longest task {show_seconds(takes.longest_task)}, which "
            f"releases {show_count(takes.release.rows)} rows and reads {takes.release.pages:.2g} pages "
            "for each"
        ),
    )


def _needs(sized: Size) -> Iterator[tuple[str, str]]:
    needs = sized.needs
    yield (
        "requests",
        (
            f"PUT {show_count(needs.puts)}/s, {show_count(needs.puts * _DAY)} a day, up to "
            f"{show_count(needs.burst)}/s in a micro-batch; GET 0; as many objects are deleted"
        ),
    )
    yield (
        "memory",
        (
            f"{show_bytes(needs.task_memory)} a task; {show_bytes(needs.executor_heap)} of heap an executor "
            f"for them, {show_bytes(needs.executor_native)} beside it; in the driver "
            f"{show_bytes(needs.driver_memory)}"
        ),
    )
    yield (
        "latency",
        (
            f"a row is emitted {show_seconds(needs.row_latency)} after the end of its window, at most "
            f"{show_seconds(needs.row_latency_most)}"
        ),
    )
    yield (
        "recovery",
        (
            f"all is back {show_seconds(needs.recovery)} after an executor is known to be lost, "
            f"{show_count(needs.recovery_gets)} GETs"
        ),
    )
    if needs.cost is not None:
        parts = ", ".join(f"{name} {cost:,.2f}" for name, cost in needs.costs.items())
        yield "cost a day", f"{needs.cost:,.2f}: {parts}"


def _cores(cores: float) -> str:
    return f"{cores:,.1f}"
