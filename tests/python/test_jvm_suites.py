from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_jvm_suites_pass(repository: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with capfd.disabled():  # minutes of silence would look like a hang
        done = subprocess.run(
            [sys.executable, "python/build_backend/sbt.py", "test"],
            cwd=repository,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    assert done.returncode == 0, "sbt test failed; its output is above"
