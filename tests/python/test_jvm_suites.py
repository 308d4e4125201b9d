from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyspark
import pytest

from tailrace._installation.versions import series

if TYPE_CHECKING:
    from collections.abc import Callable

    from jvm_suites import JvmSuites


# The project of sbt for the Spark that these tests run on.
_PROJECT = {"4.2": "jvm"}.get(
    series(pyspark.__version__), f"jvm{series(pyspark.__version__).replace('.', '')}"
)

# The state store on the other Sparks, and what only Spark 4.3 has: compiling for each takes minutes, which
# pass beside other campaigns.
_OTHERS = "; set ThisBuild / onlyStoreTests := true" + "".join(
    f"; {project}/testOnly *OwnStore* *UpkeepSuite *.JoinFormatSuite *.NamedSourcesSuite"
    for project in ("jvm41", "jvm", "jvm43")
    if project != _PROJECT
)

# Campaigns that guard bytes and commits: damage, faults, other cuts of batches, zombies. CI runs no others.
_GUARDS = " ".join(
    f"*.{suite}Suite"
    for suite in (
        "DamageCampaign",
        "DamagedCheckpoint",
        "EndOfBatchFaults",
        "FileManager",
        "GoldenCheckpoints",
        "LandingFaults",
        "ReplayMarks",
        "StoreFaults",
        "StreamFaults",
        "SyncBatching",
        "ThreeBatchings",
        "ZombieSchedules",
    )
)

_RUN_GUARDS = f"{_PROJECT}/testOnly {_GUARDS} -- -n campaign"
# CI's run of all tests has them follow in the same sbt, which would take a minute to start once more.
_ALL = "; ".join([f"{_PROJECT}/test", *([_RUN_GUARDS] if os.environ.get("TAILRACE_GUARDS") else [])])


@pytest.mark.parametrize(
    "command",
    [
        _ALL,
        pytest.param(f"{_PROJECT}/testOnly -- -n slow", marks=pytest.mark.slow, id="slow"),
        pytest.param(f"{_PROJECT}/testOnly -- -n campaign{_OTHERS}", marks=pytest.mark.campaign),
        pytest.param(_RUN_GUARDS, marks=pytest.mark.guard, id="guards"),
        pytest.param(f"{_PROJECT}/testOnly -- -n long", marks=pytest.mark.long),
    ],
)
def test_the_jvm_suites_pass(
    command: str, jvm_suites: Callable[[str], JvmSuites], capfd: pytest.CaptureFixture[str]
) -> None:
    suites = jvm_suites(command)
    with capfd.disabled():  # minutes of silence would look like a hang
        for text in suites.output():
            print(text, end="", flush=True)
    assert suites.exit_code == 0, f"sbt '{command}' failed; its output is above\n{suites.failures()}"
