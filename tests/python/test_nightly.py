"""`dev/nightly.py`: steps that fail, that are repeated, and that a kill cuts short."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

# Passes, or fails as pytest does, by what its folder says; and notes its seed.
_STEP = """
import os, pathlib, sys
with open("seeds.txt", "a") as seeds:
    seeds.write(os.environ["TAILRACE_SEED"] + chr(10))
if pathlib.Path("fails").exists():
    print("FAILED tests/a.py::test_b - no")
    sys.exit(1)
"""


@pytest.fixture
def nightly(load_script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:  # noqa: ANN401
    module = load_script("dev/nightly.py")
    monkeypatch.setattr(module, "REPOSITORY", tmp_path)
    return module


def _go(nightly: Any, tmp_path: Path, *arguments: str, steps: tuple[str, ...] = ("one", "two")) -> int:  # noqa: ANN401
    made = [nightly.Step(name, ["python", "-c", _STEP]) for name in steps]
    return int(nightly.main(arguments, runs=tmp_path / "runs", steps=made))


def _seeds(tmp_path: Path) -> list[str]:
    return (tmp_path / "seeds.txt").read_text().split()


def _report(tmp_path: Path) -> str:
    return max((tmp_path / "runs").glob("*/report.md")).read_text()


def test_a_failed_step_is_repeated_with_its_seed(nightly: Any, tmp_path: Path) -> None:  # noqa: ANN401
    (tmp_path / "fails").touch()
    assert _go(nightly, tmp_path, "--only", "one") == 1
    (seed,) = _seeds(tmp_path)
    assert f"| one | failed | {seed} |" in _report(tmp_path)
    assert f"TAILRACE_SEED={seed} .venv/bin/python -c" in _report(tmp_path)
    assert "- `FAILED tests/a.py::test_b - no`" in _report(tmp_path)
    assert "| two | waits |" in _report(tmp_path)
    (tmp_path / "fails").unlink()
    assert _go(nightly, tmp_path, "--resume") == 0
    assert _seeds(tmp_path)[:2] == [seed, seed]
    assert f"| one | passed | {seed} |" in _report(tmp_path)
    assert "FAILED" not in _report(tmp_path)
    assert _go(nightly, tmp_path, "--resume") == 0
    assert len(_seeds(tmp_path)) == 3, "steps that have passed run again"


def test_a_new_run_has_other_seeds(nightly: Any, tmp_path: Path) -> None:  # noqa: ANN401
    names = tuple(map(str, range(8)))
    _go(nightly, tmp_path, steps=names)
    assert len(set(_seeds(tmp_path))) > 1


def test_a_step_that_a_kill_has_cut_short_has_not_passed(tmp_path: Path, repository: Path) -> None:
    sleeps = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
    script = f"""
import pathlib, sys
sys.path.insert(0, {str(repository / "dev")!r})
import nightly
nightly.REPOSITORY = pathlib.Path.cwd()
nightly.signal.signal(nightly.signal.SIGTERM, lambda *_: sys.exit(143))
step = nightly.Step("sleeps", ["python", "-c", {sleeps!r}])
nightly.main([], runs=pathlib.Path("runs"), steps=[step])
"""
    process = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path)
    pid = tmp_path / "pid"
    wait_for(lambda: pid.exists() and pid.read_text() != "", "the step runs", 30)
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    (state,) = (tmp_path / "runs").glob("*/state.json")
    assert json.loads(state.read_text())["sleeps"]["status"] == "runs"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_the_time_is_up(nightly: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: ANN401
    assert _go(nightly, tmp_path, "--hours", "0") == 1
    assert "--resume continues" in capsys.readouterr().out
    assert not (tmp_path / "seeds.txt").exists()


def test_two_runs_at_once_are_refused(nightly: Any, tmp_path: Path) -> None:  # noqa: ANN401
    with nightly._alone(tmp_path / "runs"), pytest.raises(SystemExit, match="Another run"):
        _go(nightly, tmp_path)


def test_nothing_to_resume_and_no_step_are_said(nightly: Any, tmp_path: Path) -> None:  # noqa: ANN401
    with pytest.raises(SystemExit, match="no run to resume"):
        _go(nightly, tmp_path, "--resume")
    with pytest.raises(SystemExit, match="names no step"):
        _go(nightly, tmp_path, "--only", "three")


def test_what_its_steps_name_exists(nightly: Any, repository: Path) -> None:  # noqa: ANN401
    names = [step.name for step in nightly.STEPS]
    assert len(set(names)) == len(names)
    paths = [word for step in nightly.STEPS for word in step.command if word.endswith(".py")]
    assert [path for path in paths if not (repository / path).is_file()] == []
    recovery = {
        str(file.relative_to(repository)) for file in (repository / "tests/recovery").glob("test_kill*.py")
    }
    assert recovery - set(paths) == {"tests/recovery/test_killing.py"}
