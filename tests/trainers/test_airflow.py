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

# The scheduler in one process. A run at the end of an hour has that hour's data interval.
_RUN = """
if __name__ == "__main__":
    run = dag.test(logical_date=datetime(2026, 1, 1, 13, tz="UTC"))
    print("STATES", sorted((one.task_id, str(one.state)) for one in run.get_task_instances()))
    print("ROWS", run.get_task_instance("train").xcom_pull(task_ids="train"))
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
    for arguments in (["-m", "airflow", "db", "migrate"], [str(script)]):
        command = [sys.executable, *arguments]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    assert "STATES [('train', 'success'), ('wait_for_the_hour', 'success')]" in done.stdout, done.stdout[
        -3000:
    ]
    assert "ROWS 7" in done.stdout
