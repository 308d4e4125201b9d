"""What the campaigns' own piece says of a worker that is none."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import killing
import pytest

if TYPE_CHECKING:
    from pathlib import Path


def test_a_worker_that_hangs_at_its_end_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(killing, "_LONGEST_END_SECONDS", 0.2)
    log = tmp_path / "worker.log"
    log.write_text("waiting for Godot")
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    # `communicate` closes its input, which would end it.
    held, worker.stdin = worker.stdin, None
    try:
        with pytest.raises(pytest.fail.Exception, match=r"(?s)hasn't ended after 0.2 s.*waiting for Godot"):
            killing._wait_for_end(worker, log)
    finally:
        killing.kill(worker)
        assert held is not None
        held.close()
