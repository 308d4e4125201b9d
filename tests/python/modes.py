"""The two kinds of session that the same tests run in: a classic one, and one of Spark Connect.

`TAILRACE_MODE=connect pytest` runs the tests that use the session over Spark Connect. Those without a session
would do what they do in a classic run, and are left out. A test of what a client hasn't is marked:

    @pytest.mark.classic("counts Spark's jobs, which a client doesn't see")
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

CONNECT = os.environ.get("TAILRACE_MODE") == "connect"
MODE = "connect" if CONNECT else "classic"


# By these PySpark knows its process to be a client of Spark Connect, or one that has a gateway.
_MARKS = ("PYSPARK_", "SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE", "SPARK_REMOTE")


def environ_of_classic(**more: str) -> dict[str, str]:
    """The environment of a process that starts a classic session, whatever session this process has."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_MARKS)}
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1", **more}


def classic_reason(item: pytest.Item) -> str | None:
    """Why a test runs in a classic session alone; None if it runs in both."""
    mark = item.get_closest_marker("classic")
    return None if mark is None else str(mark.args[0])


def over_connect(items: Iterable[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests that a run over Spark Connect has, those of classic sessions skipped; and the others."""
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        uses_session = "spark" in getattr(item, "fixturenames", ())
        (chosen if uses_session else others).append(item)
        reason = classic_reason(item)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
    return chosen, others
