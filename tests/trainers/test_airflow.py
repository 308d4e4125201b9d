"""The guide's DAG in Airflow, in an environment of its own (dev/trainers.py)."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pages
from landed_windows import LandedWindows

if TYPE_CHECKING:
    from pathlib import Path

# The scheduler of a run in one process. The next hour lands while the sensor waits for it.
_RUN = """
if __name__ == "__main__":
    import logging, sys, threading
    from pathlib import Path
    import pendulum
    from airflow.models import TaskInstance
    from landed_windows import LandedWindows

    start = pendulum.datetime(2026, 1, 1, 12, tz="UTC")
    run = dag.test(logical_date=start, run_conf={})
    states = {one.task_id: one.state for one in run.get_task_instances()}
    print("STATES", sorted(states.items()), flush=True)
    print("ROWS", run.get_task_instance("train").xcom_pull(task_ids="train"), flush=True)
"""


def _script(repository: Path, folder: Path) -> str:
    blocks = [
        pages.example(repository, "docs/guides/schedule.md", name) for name in ("success-file", "airflow")
    ]
    return "\n".join(blocks).replace('"/data/clicks"', repr(str(folder))) + textwrap.dedent(_RUN)


def test_the_guides_dag_reads_the_window_that_it_has_waited_for(repository: Path, tmp_path: Path) -> None:
    windows = LandedWindows(tmp_path / "clicks")
    windows.land(4, 3)
    windows.land(2)
    script = tmp_path / "dags" / "train_on_clicks.py"
    script.parent.mkdir()
    script.write_text(_script(repository, windows.path))
    environ = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(script.parent),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "PYTHONPATH": os.pathsep.join([os.environ["PYTHONPATH"], str(repository / "tests" / "python")]),
    }
    airflow = [sys.executable, "-m", "airflow"]
    for command in (
        [*airflow, "db", "migrate"],
        [*airflow, "dags", "reserialize"],
        [sys.executable, str(script)],
    ):
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=400)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    assert "STATES [('train', 'success'), ('wait_for_the_hour', 'success')]" in done.stdout, done.stdout[
        -3000:
    ]
    assert "ROWS 7" in done.stdout
