"""The guide's sensor in Dagster, in an environment of its own (dev/trainers.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

from landed_windows import LandedWindows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_the_guides_sensor_requests_a_run_for_each_complete_window(
    defined: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    windows = LandedWindows(tmp_path / "clicks")
    windows.directory(0).mkdir()
    names = defined("schedule", "dagster", windows.path)
    sensor, job = names["complete_windows"], names["train_on_clicks"]
    with dg.DagsterInstance.ephemeral() as instance:
        cursor = None

        def tick() -> list[int]:
            nonlocal cursor
            context = dg.build_sensor_context(instance=instance, cursor=cursor)
            data = sensor.evaluate_tick(context)
            cursor = data.cursor
            rows = []
            for request in data.run_requests or []:
                done = job.execute_in_process(instance=instance, tags=request.tags)
                assert done.success
                rows.append(done.output_for_node("train"))
            return rows

        assert tick() == []
        windows.land(4, 3)
        windows.land(2)
        assert tick() == [7, 2]
        assert tick() == []
        windows.land(5)
        assert tick() == [5]
