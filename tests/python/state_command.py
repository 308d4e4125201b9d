"""`tailrace state` as a process of its own, which a test kills."""

from __future__ import annotations

import subprocess
import sys


def start(*command: str) -> subprocess.Popen[bytes]:
    """Starts it in a process group of its own, which `tailrace.testing.kills.kill_group` kills."""
    return subprocess.Popen(
        [sys.executable, "-m", "tailrace", "state", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
